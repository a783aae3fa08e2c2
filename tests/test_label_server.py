"""The server of the page where people judge: who is refused, and what is answered."""

import http.client
import json

import pytest

from tests.labelling import sample_at, serving


def ask(server, path, asked=None, **headers):
    """A request as the page makes it, but for some headers: the status, and what was said."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    sent = {"Host": f"127.0.0.1:{server.server_port}", "X-Token": server.token}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    body = None if asked is None else json.dumps(asked)
    connection.request("GET" if asked is None else "POST", path, body, sent)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    return answer.status, json.loads(said) if answer.headers["Content-Type"].endswith("json") else (
        said.decode(),
        answer.headers,
    )


@pytest.fixture
def server(tmp_path):
    with serving(sample_at(tmp_path, 3)) as server:
        yield server


def test_the_page_is_one_file_that_may_run_its_own_script_alone(server):
    status, (page, headers) = ask(server, f"/?key={server.token}")
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["Cache-Control"] == "no-store"
    assert not any(word in page for word in ("http://", "https://", "src=", "@import", "url("))
    assert not any(word in page for word in ("doc-", "text 0", "query 0"))
    assert ask(server, "/label.json")[0] == 404


def test_who_does_not_know_the_key_gets_no_page_and_no_token(server, tmp_path):
    for path in ("/", "/?key=", "/?key=guess", "/?key=%C3%BC"):
        status, (page, _) = ask(server, path)
        assert (status, server.token in page) == (403, False)
    assert server.url.endswith(f"/?key={server.token}")
    assert (tmp_path / ".key").stat().st_mode & 0o777 == 0o600


def test_the_next_server_of_a_directory_has_its_address_and_another_one_has_not(tmp_path):
    urls = []
    for name in ("labels", "labels", "others"):
        with serving(sample_at(tmp_path / name, 1)) as server:
            urls.append(server.token)
    assert urls[0] == urls[1] != urls[2]


def test_answers_are_kept_and_the_next_document_comes_with_them(server, tmp_path):
    status, told = ask(server, "/take", {"person": "  Ann  B "})
    assert status == 200
    assert {*told["item"]} == {"key", "query", "texts"}
    key = told["item"]["key"]
    status, told = ask(server, "/answer", {"person": "Ann B", "key": key, "value": 3})
    assert (status, told["progress"]["yours"], told["previous"]) == (200, 1, key)
    line = json.loads((tmp_path / "answers.jsonl").read_bytes())
    assert (line["person"], line["doc_id"], line["grade"]) == ("Ann B", "doc-0", 3.0)
    assert ask(server, "/undo", {"person": "Ann B", "key": key})[1]["before"] == 3.0
    assert ask(server, "/progress", {"person": "Ann B"})[1]["progress"]["done"] == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example:80"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"X_Token": "guess"}, 403),
        ({"X_Token": "ü"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content_Length": "99999999"}, 413),
        ({"Content_Length": "-1"}, 413),
    ],
)
def test_other_pages_and_hosts_are_refused(server, tmp_path, headers, status):
    key = server.desk.items[0].key
    asked = {"person": "Ann", "key": key, "value": 1}
    assert ask(server, "/answer", asked, **headers)[0] == status
    assert (tmp_path / "answers.jsonl").read_bytes() == b""
    if "Host" in headers:
        assert ask(server, "/", **headers)[0] == 421


@pytest.mark.parametrize(
    "change",
    [
        {"value": 4},
        {"value": -1},
        {"value": 1.5},
        {"value": "2"},
        {"value": True},
        {"key": "kwrong"},
        {"key": None},
        {"person": ""},
        {"person": " "},
        {"person": "x" * 61},
        {"person": "a\x1b[2J"},
        {"person": None},
    ],
)
def test_what_makes_no_sense_is_refused_and_not_kept(server, tmp_path, change):
    asked = {"person": "Ann", "key": server.desk.items[0].key, "value": 1, **change}
    status, told = ask(server, "/answer", asked)
    assert (status, bool(told["error"])) == (400, True)
    assert (tmp_path / "answers.jsonl").read_bytes() == b""


def test_what_the_disk_does_not_take_is_not_said_to_be_kept(server, tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    asked = {"person": "Ann", "key": server.desk.items[0].key, "value": 1}
    monkeypatch.setattr("zelo_ray.commands.label.store.os.fsync", full)
    status, told = ask(server, "/answer", asked)
    assert (status, told["error"]) == (507, "not saved: No space left on device")
    assert (tmp_path / "answers.jsonl").read_bytes() == b""
    monkeypatch.undo()
    assert ask(server, "/answer", asked)[1]["progress"]["done"] == 1
    assert len((tmp_path / "answers.jsonl").read_bytes().splitlines()) == 1
