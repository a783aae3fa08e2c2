"""Clouds that resell models: the names and variables of docs/models.md work, with real SDKs."""

import json
import re
from collections import Counter

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.fakes import clouds
from tests.fakes.clouds import KEY
from tests.helpers.builders import ask, pool_of
from zelo_ray.errors import PanelError
from zelo_ray.options import AnnotateOptions
from zelo_ray.providers import Settings, build_panel, connect, panel_of
from zelo_ray.records import Document, Pool


@pytest.fixture
def cloud():
    with clouds.Clouds() as served:
        yield served


@pytest.fixture
def azure(cloud, monkeypatch):
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", cloud.url)
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "not to be sent")
    return cloud


def marked(*marks):
    """A pool of two documents for each mark, which its second document has."""
    return [
        Pool(f"q{n}", "how do I?", (Document("a", "A [[worth=2]]"), Document("b", f"B {mark}")))
        for n, mark in enumerate(marks)
    ]


def statuses(asker):
    return Counter(row.status for row in asker.books)


def why_stopped(asker):
    """The sentence for which the only judge is asked nothing more, after no answer."""
    assert statuses(asker)["ok"] == 0
    (disabled,) = asker.disabled.values()
    return disabled.message


def by_url(judge, variable, **options):
    """What a run needs for a server at a URL: its key's variable, and its options."""
    names = {"judges": (judge,), "api_key_env": {judge: variable}}
    return names | ({"judge_options": {judge: options}} if options else {})


@pytest.mark.parametrize(
    "path", ["", "/", "/openai/v1/", "/openai/deployments/d/chat?api-version=1"]
)
def test_azure_is_asked_by_its_v1_api(azure, tmp_path, monkeypatch, path):
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", azure.url + path)
    environ = {"AZURE_OPENAI_API_KEY": KEY}
    asker = ask([pool_of()], tmp_path, environ, judges=(f"azure:{clouds.DEPLOYMENT}",))
    assert statuses(asker) == {"ok": 6}
    assert {path for path, *_ in azure.asked} == {"/openai/v1/chat/completions"}
    assert {body["model"] for *_, body in azure.asked} == {clouds.DEPLOYMENT}
    assert {row.dollars for row in asker.books} == {None}


def test_what_azure_filters_is_a_failure_and_no_judgment(azure, tmp_path):
    pools = marked("[[violent]]", "[[cut]]", "[[unchecked]]", "[[worth=1]]")
    environ = {"AZURE_OPENAI_API_KEY": KEY}
    asker = ask(pools, tmp_path, environ, judges=(f"azure:{clouds.DEPLOYMENT}",))
    assert not asker.stopped
    assert statuses(asker) == {"filtered": 2, "ok": 2}
    reasons = {row.reason for row in asker.books if row.status == "filtered"}
    assert any("content management policy" in reason for reason in reasons)
    assert any("finish_reason: content_filter" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("deployment", "key", "says"),
    [
        ("other", KEY, "no such model or address.*DeploymentNotFound"),
        (clouds.DEPLOYMENT, "wrong", "set AZURE_OPENAI_API_KEY to a valid one"),
    ],
)
def test_what_azure_refuses_stops_the_judge_in_one_line(azure, tmp_path, deployment, key, says):
    name = f"azure:{deployment}"
    asker = ask([pool_of()], tmp_path, {"AZURE_OPENAI_API_KEY": key}, judges=(name,))
    assert re.search(says, why_stopped(asker))


def test_azure_without_a_deployment_or_an_address_is_told_before_any_call(monkeypatch):
    with pytest.raises(PanelError, match=r"^azure: name a model: azure:MODEL$"):
        build_panel(("azure",), {}, {})
    (judge,) = build_panel(("azure:d",), {}, {})
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    with pytest.raises(PanelError, match="set AZURE_OPENAI_ENDPOINT to https://RESOURCE"):
        connect(judge, Settings(KEY))
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com/")
    connect(judge, Settings(KEY))


def test_a_deployment_has_the_price_that_the_user_gives(azure):
    fields = {"inputs": "in", "out": "out", "judges": ("azure:d",), "max_usd": 1}
    with pytest.raises(PanelError, match="needs prices, and that of azure:d is unknown"):
        panel_of(AnnotateOptions(**fields), {"AZURE_OPENAI_API_KEY": KEY})
    prices = {"azure:d": {"input": 1, "output": 2}}
    panel_of(AnnotateOptions(**fields, prices=prices), {"AZURE_OPENAI_API_KEY": KEY})


def test_bedrock_is_a_server_at_a_url(cloud, tmp_path):
    judge = f"openai:{clouds.BEDROCK_MODEL}@{cloud.url}/bedrock/openai/v1"
    environ = {"AWS_BEARER_TOKEN_BEDROCK": KEY}
    refused = ask([pool_of()], tmp_path / "1", environ, **by_url(judge, *environ))
    assert statuses(refused) == {"failed": 6}
    assert "response_format" in refused.books[0].reason
    options = by_url(judge, *environ, response_format="none")
    asker = ask([pool_of()], tmp_path / "2", environ, **options)
    assert statuses(asker) == {"ok": 6}
    wrong = ask([pool_of()], tmp_path / "3", dict.fromkeys(environ, "wrong"), **options)
    assert "the key may not do this" in why_stopped(wrong)


@pytest.fixture
def vertex(cloud, tmp_path, monkeypatch):
    """A project on Vertex AI, and the file of a service account whose tokens it takes."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    account = {
        "type": "service_account",
        "client_email": "judge@p.iam.gserviceaccount.com",
        "token_uri": f"{cloud.url}/token",
        "private_key": pem.decode(),
    }
    file = tmp_path / "account.json"
    file.write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    monkeypatch.setenv("GOOGLE_VERTEX_BASE_URL", cloud.url)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setenv("GOOGLE_API_KEY", "not to be sent")
    return cloud


def test_gemini_on_vertex_is_asked_with_credentials_that_are_renewed(vertex, tmp_path):
    asker = ask([pool_of()], tmp_path, {}, judges=("vertex",))
    assert statuses(asker) == {"ok": 6}
    (token, *calls) = [path for path, *_ in vertex.asked]
    assert token == "/token"
    model = "publishers/google/models/gemini-3.1-flash-lite"
    assert {*calls} == {f"/v1beta1/projects/p/locations/global/{model}:generateContent"}
    assert all(row.dollars for row in asker.books)


def test_what_vertex_lacks_is_told_in_one_line(vertex, tmp_path, monkeypatch):
    account = tmp_path / "account.json"
    account.write_text(account.read_text().replace("/token", "/no-token"))
    asker = ask([pool_of()], tmp_path, {}, judges=("vertex",))
    assert "set GOOGLE_APPLICATION_CREDENTIALS or the application" in why_stopped(asker)
    with pytest.raises(PanelError, match=r"^vertex:m: takes no URL; .* GOOGLE_VERTEX_BASE_URL$"):
        build_panel(("vertex:m@http://h/v1",), {}, {})
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
    fields = {"inputs": "in", "out": "out", "judges": ("vertex",)}
    with pytest.raises(PanelError, match=r"^vertex: no project; set GOOGLE_CLOUD_PROJECT$"):
        panel_of(AnnotateOptions(**fields), {})


def test_openrouter_is_a_server_at_a_url(cloud, tmp_path):
    judge = f"openai:{clouds.ROUTED}@{cloud.url}/api/v1"
    body = {"reasoning": {"effort": "low"}, "provider": {"require_parameters": True}}
    options = by_url(judge, "OPENROUTER_API_KEY", extra_body=body)
    environ = {"OPENROUTER_API_KEY": KEY}
    asker = ask(marked("[[worth=1]]", "[[flagged]]"), tmp_path / "1", environ, **options)
    assert {path for path, *_ in cloud.asked} == {"/api/v1/chat/completions"}
    for *_, sent in cloud.asked:
        assert sent["provider"] == body["provider"]
        assert sent["reasoning"] == body["reasoning"]
    assert statuses(asker) == {"ok": 1, "filtered": 1}
    assert [row.dollars for row in asker.books if row.status == "ok"] == [clouds.COST]
    prices = {judge: {"input": 1e6, "output": 0}}
    own = ask(marked("[[worth=1]]"), tmp_path / "3", environ, prices=prices, **options)
    assert [row.dollars for row in own.books] == [100.0]
    unpaid = ask(marked("[[unpaid]]"), tmp_path / "2", environ, **options)
    assert "quota or spending limit is used up" in why_stopped(unpaid)
