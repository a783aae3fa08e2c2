"""The form of documents and events: what has a number keeps it, and what is no JSON is made so."""

import io
import json
import math
import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tests.helpers.json_documents import parsed_strictly, printed
from zelo_ray import cli
from zelo_ray.engine.tally import LastProblem, Tally
from zelo_ray.errors import ExitStatus
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.report.document import plain_value, report_fields
from zelo_ray.report.model import Cell, Link, Report, Section, Table
from zelo_ray.report.watches import MessageStream, ProgressEvents


def test_a_cell_knows_its_number_its_interval_and_its_link():
    cells = (
        ("12", {"text": "12"}),
        (
            Cell(0.5, ".3f", 0.25, 0.75),
            {"text": "0.500 [0.250, 0.750]", "value": 0.5, "low": 0.25, "high": 0.75},
        ),
        (Cell(math.nan), {"text": "\N{EN DASH}", "value": None}),
        (1234, {"text": "1,234", "value": 1234}),
        (Cell(0.125, ".1%"), {"text": "12.5%", "value": 0.125}),
        (Link("run", "run/report.html"), {"text": "run", "address": "run/report.html"}),
        (None, {"text": ""}),
    )
    shown = Table([f"c{n}" for n in range(len(cells))], [[cell for cell, _ in cells]], total=9)
    made = plain_value(
        report_fields(Report("T", {"judged": 1234}, [], [Section("s", "S", [shown])]))
    )
    assert made["tiles"] == [{"name": "judged", "text": "1,234", "value": 1234}]
    (part,) = made["sections"][0]["parts"]
    assert (part["total"], part["rows"]) == (9, [[expected for _, expected in cells]])


@dataclass
class Held:
    values: tuple
    names: frozenset


def test_what_is_no_json_becomes_json():
    values = (
        (math.inf, None),
        (np.float32("nan"), None),
        (np.array([[1.5, -math.inf]]), [[1.5, None]]),
        (pa.table({"x": [1, None]}), [{"x": 1}, {"x": None}]),
        (ExitStatus.WORSE, 4),
        (Held((1, Tally), frozenset({"a"})), {"values": [1, str(Tally)], "names": ["a"]}),
        ("q\udcff\x1b[2J", "q\\udcff\x1b[2J"),
        (LastProblem(1.0, "r"), {"at": 1.0, "reason": "r"}),
        ({1: 2}, {"1": 2}),
    )
    plain = plain_value([value for value, _ in values])
    text = json.dumps(plain, allow_nan=False, ensure_ascii=False)
    assert parsed_strictly(text.encode().decode()) == [expected for _, expected in values]


def test_an_error_is_a_document_and_a_line_for_people(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words, status, command, code in (
        ("explain nowhere", 1, "explain", "not_found"),
        ("annotate", 2, "annotate", "option"),
        ("annotate p.jsonl --outt o", 2, "annotate", "option"),
        ("nonsense", 2, "", "option"),
        ("report nowhere --progress maybe", 2, "report", "option"),
    ):
        found = printed(capsys, *words.split())
        assert (found["status"], found["command"], found["complete"]) == (status, command, False)
        assert (found["error"]["code"], found["next_command"]) == (code, None)
        assert found["stderr"] == f"zelo-ray: {found['error']['message']}\n"


# Events


def tallies(answered=5):
    trouble, disabled = LastProblem(1000.0, "no answer"), Disabled(StopReason.FATAL, "a wrong key")
    statuses = {"ok": answered - 1, "failed": 1}
    return {
        "a": Tally(known=2, answered=answered, dollars=0.5, input_tokens=100, statuses=statuses),
        "b": Tally(answered=1, retries=2, trouble=trouble, disabled=disabled),
    }


def test_progress_is_an_event_with_all_figures_and_the_last_is_never_missing():
    target = io.StringIO()
    with ProgressEvents(MessageStream(target)) as watch:
        watch.say("2 queries\x1b")
        watch.budget(5.0, 1.5)
        watch.show(tallies(), {"a": 10, "b": 10})
        watch.show(tallies(7), {"a": 10, "b": 10})
        watch.show({}, {})
    message, first, last = map(parsed_strictly, target.getvalue().splitlines())
    assert message == {"event": "message", "text": "2 queries\x1b"}
    assert (first["done"], last["done"], last["needed"], last["failures"]) == (8, 10, 20, 1)
    assert (last["max_usd"], last["dollars_before"], last["dollars"]) == (5.0, 1.5, 0.5)
    problem = {"judge": "b", "reason": "no answer", "at": "1970-01-01T00:16:40+00:00"}
    assert last["last_problem"] == problem
    assert last["stopped"] == {"b": "a wrong key"}
    assert last["judges"]["b"]["time_left"] == "stopped"
    assert last["seconds_left"] is None, "of a there are too few answers for a rate"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", last["at"])


def test_no_progress_leaves_messages(capsys):
    with cli.Output(["annotate", "--progress", "none"]).watch() as watch:
        watch.say("2 queries")
        watch.budget(1.0, 0.0)
        watch.show(tallies(), {"a": 10})
    assert capsys.readouterr() == ("", "2 queries\n")


def test_each_line_of_the_standard_error_is_an_event(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["explain", "nowhere", "--progress", "json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert [parsed_strictly(line)["event"] for line in err.splitlines()] == ["message"]
