"""``pools``: candidates from a live index, which answers on loopback."""

import json
import os
from base64 import b64encode
from pathlib import Path

import pytest

from tests.builders import parsed
from tests.search_server import NAMES, SearchServer
from zelo_ray.commands.pools import make_pools
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.pools import LineLimits, read_lines

DOCUMENTS = {
    "d1": {"title": "Ticks", "text": "remove a tick with tweezers", "lang": "en"},
    "d2": {"text": "the clock goes tick"},
    "d3": {"title": "remove stains", "text": "remove stains with soap"},
    "d4": {"text": ["how to remove a tick", "and what then"]},
    "q3": {"text": "boil an egg"},
    "d5": {"text": "an egg"},
    "d6": {"text": "   "},
}


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A server with an index, and queries in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("zelo_ray.commands.pools.search_index._WAIT", 0.001)
    Path("queries.tsv").write_text("q1\tremove a tick\nq2\tunheard-of\nq3\tboil an egg\n")
    with SearchServer(DOCUMENTS) as server:
        yield server


def run(index, more="", environ=None, name=NAMES):
    words = f"opensearch {index.url} --queries queries.tsv --index {name} --out p.jsonl {more}"
    return make_pools(parsed("pools", *words.split()), environ or {})


def read(path="p.jsonl"):
    lines = [*read_lines(path, LineLimits())]
    assert not [line.reason for line in lines if line.reason]
    return {line.pool.query_id: line.pool.documents for line in lines}


def test_the_first_documents_of_each_query_become_its_pool(index):
    said = run(index, "--k 4").splitlines()
    assert said[0] == "2 pools with 5 documents: p.jsonl"
    assert said[1] == "first stages: opensearch 6"
    assert "found nothing for 1 query, such as q2" in said
    assert any(line.startswith("left out the query itself from the candidates") for line in said)
    pools = read()
    assert [d.id for d in pools["q1"]] == ["d1", "d4", "d2", "d3"]
    assert pools["q1"][0].content == "Ticks\nremove a tick with tweezers"
    assert pools["q1"][0].metadata == {"title": "Ticks", "ranks": {"opensearch": 1}}
    assert pools["q1"][1].content == "how to remove a tick\nand what then"
    assert pools["q1"][3].content == "remove stains with soap", "which begins with its title"
    assert [d.id for d in pools["q3"]] == ["d5"], "q3 is the query itself"
    assert all(body["size"] == 4 for what, body in index.requests if what == "_search")


def test_an_index_that_finds_something_for_every_query_is_not_said_to_lack_any(index):
    Path("queries.tsv").write_text("q1\thow to remove a tick\n")
    said = run(index, "--k 4")
    assert said.startswith("1 pool with 4 documents: p.jsonl")
    assert "found nothing" not in said


def test_first_stages_are_united_and_each_document_says_where_it_came_from(index):
    Path("title.json").write_text(json.dumps({"query": {"match": {"title": "{{query}}"}}}))
    Path("text.json").write_text(json.dumps({"query": {"match": {"text": "{{query}}"}}}))
    Path("dense.run").write_text(
        "q1 Q0 d2 1 .9 dense\nq1 Q0 d5 2 .8 dense\nq1 Q0 gone 3 .1 dense\n"
    )
    said = run(index, "--bodies title.json text.json --runs dense.run --k 10")
    assert "first stages: title 1, text 6, dense 3" in said
    assert "documents that the corpus lacks: 1" in said
    ranks = {d.id: d.metadata["ranks"] for d in read()["q1"]}
    assert ranks["d3"] == {"title": 1, "text": 4}
    assert ranks["d5"] == {"dense": 2}
    assert next(d for d in read()["q1"] if d.id == "d5").content == "an egg", "by _mget"


def test_a_search_of_one_s_own_names_the_place_of_the_query(index):
    Path("odd.json").write_text('{"query": {"match_all": {}}}')
    with pytest.raises(InputError, match=r"has no \{\{query\}\} where the text"):
        run(index, "--bodies odd.json")


def test_a_busy_server_is_asked_again(index):
    index.faults = [429, 503, 502]
    assert run(index).startswith("2 pools")
    index.faults = [429] * 40
    with pytest.raises(InputError, match=r"docs: answers 429: rejected execution of search"):
        run(index)


@pytest.mark.parametrize(
    ("variables", "header"),
    [
        ({"SEARCH_API_KEY": "secret-key"}, "ApiKey secret-key"),
        (
            {"SEARCH_USERNAME": "me", "SEARCH_PASSWORD": "secret"},
            f"Basic {b64encode(b'me:secret').decode()}",
        ),
    ],
)
def test_who_asks_is_in_the_environment_and_in_no_message(index, variables, header):
    index.authorization = header
    assert "secret" not in run(index, environ=variables)
    index.authorization = "another"
    with pytest.raises(InputError, match=r"refuses the user \(401\); set SEARCH_API_KEY") as caught:
        run(index, environ=variables)
    assert "secret" not in str(caught.value)


def test_a_key_may_stand_in_a_file(index, monkeypatch):
    index.authorization = "ApiKey secret-key"
    monkeypatch.delenv("PYTHON_DOTENV_DISABLED", raising=False)
    monkeypatch.setattr("os.environ", {**os.environ})
    Path(".env").write_text("SEARCH_API_KEY=secret-key\n")
    assert run(index, environ=os.environ).startswith("2 pools")


def test_what_cannot_be_searched_says_why(index):
    with pytest.raises(InputError, match=r"nowhere: answers 404: no such index \[nowhere\]"):
        run(index, name="nowhere")
    url, index.url = index.url, "http://127.0.0.1:9"
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:9: cannot be searched"):
        run(index)
    for bad in ("ftp://host", "localhost:9200", "http://me:secret@host"):
        index.url = bad
        with pytest.raises(OptionError) as caught:
            run(index)
        assert "secret" not in str(caught.value)
    index.url = url
    Path("queries.tsv").write_text("q2\tunheard-of\n")
    with pytest.raises(InputError, match="finds no document for any of the queries"):
        run(index)


def test_fields_are_read_by_name_and_path(index):
    index.documents = {"d": {"body": {"main": "a tick"}, "note": "remove it"}}
    run(index, "--field body.main note")
    assert read()["q1"][0].content == "a tick\nremove it"
