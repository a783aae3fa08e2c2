"""The server of the page where people judge: who is refused, and what is answered."""

import http.client
import json
from urllib.parse import urlsplit

import pytest

from tests.helpers.labelling import sample_at, serving
from zelo_ray.command_options import LabelOptions
from zelo_ray.commands.label.run import run
from zelo_ray.report.watches import SilentWatch


class Page:
    """Requests as the page makes them, but for some headers."""

    def __init__(self, queue, url):
        self.queue, self.url = queue, url
        self.host, self.token = urlsplit(url).netloc, url.partition("?key=")[2]

    def ask(self, path, asked=None, **headers):
        """The status, and what was said: JSON, or the page with its headers."""
        connection = http.client.HTTPConnection(self.host, timeout=20)
        sent = {"Host": self.host, "X-Token": self.token}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        body = None if asked is None else json.dumps(asked)
        connection.request("GET" if asked is None else "POST", path, body, sent)
        answer = connection.getresponse()
        said = answer.read().decode()
        connection.close()
        is_json = answer.headers["Content-Type"].startswith("application/json")
        return answer.status, json.loads(said) if is_json else (said, answer.headers)


@pytest.fixture
def page(tmp_path):
    with serving(sample_at(tmp_path, 3)) as (queue, url):
        yield Page(queue, url)


def test_who_does_not_know_the_key_gets_no_page_and_no_token(page, tmp_path):
    for path in ("/", "/?key=", "/?key=guess", "/?key=%C3%BC", "/?key=%FF", "/label.json"):
        status, told = page.ask(path)
        assert (status, page.token in str(told)) == (403, False)
    assert (tmp_path / ".key").stat().st_mode & 0o777 == 0o600


def test_answers_are_kept_and_the_next_document_comes_with_them(page, tmp_path):
    status, told = page.ask("/take", {"person": "  Ann  B "})
    assert status == 200
    assert {*told["item"]} == {"key", "query", "texts"}
    key = told["item"]["key"]
    status, told = page.ask("/answer", {"person": "Ann B", "key": key, "value": 3})
    assert (status, told["progress"]["yours"], told["previous"]) == (200, 1, key)
    line = json.loads((tmp_path / "answers.jsonl").read_bytes())
    assert (line["person"], line["doc_id"], line["grade"]) == ("Ann B", "doc-0", 3.0)
    assert page.ask("/undo", {"person": "Ann B", "key": key})[1]["before"] == 3.0
    assert page.ask("/progress", {"person": "Ann B"})[1]["progress"]["done"] == 0


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
        ({"Content_Length": "-1"}, 400),
    ],
)
def test_other_pages_and_hosts_are_refused(page, tmp_path, headers, status):
    asked = {"person": "Ann", "key": page.queue.tasks[0].key, "value": 1}
    assert page.ask("/answer", asked, **headers)[0] == status
    assert (tmp_path / "answers.jsonl").read_bytes() == b""
    if "Host" in headers:
        assert page.ask(f"/?key={page.token}", **headers)[0] == 421


def test_what_the_disk_does_not_take_is_not_said_to_be_kept(page, tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    asked = {"person": "Ann", "key": page.queue.tasks[0].key, "value": 1}
    monkeypatch.setattr("zelo_ray.commands.label.queue.os.fsync", full)
    status, told = page.ask("/answer", asked)
    assert (status, told["error"]) == (507, "not saved: No space left on device")
    assert (tmp_path / "answers.jsonl").read_bytes() == b""
    monkeypatch.undo()
    assert page.ask("/answer", asked)[1]["progress"]["done"] == 1
    assert len((tmp_path / "answers.jsonl").read_bytes().splitlines()) == 1


def test_the_page_is_one_file_that_may_run_its_own_script_alone(page):
    status, (text, headers) = page.ask(f"/?key={page.token}")
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["Cache-Control"] == "no-store"
    assert not any(word in text for word in ("http://", "https://", "src=", "@import", "url("))
    assert not any(word in text for word in ("doc-", "text 0", "query 0"))
    assert page.ask(f"/label.json?key={page.token}")[0] == 404


def test_a_page_that_is_stopped_at_once_tells_its_figures(tmp_path):
    class Stopping(SilentWatch):
        def say(self, line):
            if "http://" in line:
                raise KeyboardInterrupt

    options = LabelOptions(out=str(sample_at(tmp_path / "labels", 3)), no_browser=True)
    assert run(options, Stopping()).record["sample"] == 3
