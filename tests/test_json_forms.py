"""The form of documents and events: what has a number keeps it, and what is no JSON is made so."""

import io
import json
import math
import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from tests.crash import ROOT
from tests.json_documents import SCHEMA, parsed_strictly, printed, valid
from tests.runs_by_hand import RUNS
from zelo_ray import cli
from zelo_ray.cli.output import PROGRESS_FORMS, without_output_flags
from zelo_ray.commands.report import RECORDS, REPORTS
from zelo_ray.engine.tally import LastProblem, Tally
from zelo_ray.errors import ExitStatus
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.reports.document import CommandResult, make_document, plain_value
from zelo_ray.reports.parts import PageLink, Report, ReportTable, Section, TextCell
from zelo_ray.reports.progress.events import MessageStream, ProgressEvents
from zelo_ray.reports.progress.figures import ProgressMeter, progress_figures
from zelo_ray.reports.wording import format_estimate, format_number


def test_no_document_has_a_field_that_the_schema_lacks():
    """All objects are closed, but for records, rows, and what a user or a provider names."""

    def open_objects(schema, path):
        if isinstance(schema, dict):
            if "properties" in schema and "type" in schema and schema.get("additionalProperties"):
                yield path
            for name, part in schema.items():
                yield from open_objects(part, f"{path}/{name}")
        elif isinstance(schema, list):
            for part in schema:
                yield from open_objects(part, path)

    assert [*open_objects(SCHEMA, "")] == ["/$defs/reply"]


@pytest.mark.parametrize("name", RUNS)
def test_reports_of_every_kind_have_the_form(tmp_path, name):
    RUNS[name](tmp_path)
    record = next(tmp_path / each for each in RECORDS if (tmp_path / each).exists())
    kind = json.loads(record.read_text())["kind"]
    report = REPORTS[kind].read(str(tmp_path))
    names = {"compare": "compare-labels", "protocols": "compare-protocols"}
    made = make_document(names.get(kind, kind), "", CommandResult(report=report))
    shown = valid(json.dumps(made, allow_nan=False), 0)
    assert len(shown["sections"]) == len([part for part in report.sections if part])


def test_a_cell_knows_its_number_its_interval_and_its_link():
    figure = {"value": 0.5, "low": 0.25, "high": 0.75}
    cells = (
        ("12", {"text": "12"}),
        (format_estimate(0.5, 0.25, 0.75), {"text": "0.500 [0.250, 0.750]", **figure}),
        (format_number(math.nan), {"text": "\N{EN DASH}", "value": None}),
        ("1,234", {"text": "1,234", "value": 1234}),
        ("$1,234.50", {"text": "$1,234.50", "value": 1234.5}),
        ("12.5%", {"text": "12.5%", "value": 0.125}),
        ("12 of 15", {"text": "12 of 15"}),
        (PageLink("run", "run/report.html"), {"text": "run", "address": "run/report.html"}),
        (TextCell("7"), {"text": "7"}),
    )
    columns = [f"c{n}" for n in range(len(cells))]
    row = [cell for cell, _ in cells]
    table = ReportTable(columns, [row], numbers=frozenset(columns[1:]), total=9)
    report = Report("T", [("judged", "1,234")], [], [None, Section("s", "S", [table])])
    made = make_document("agree", "", CommandResult(report=report))
    assert made["tiles"] == [{"name": "judged", "text": "1,234", "value": 1234}]
    (part,) = made["sections"][0]["parts"]
    assert part["total"] == 9
    assert part["rows"] == [[told for _, told in cells]]


@dataclass
class Held:
    values: tuple
    names: frozenset


def test_what_is_no_json_becomes_json():
    value = {
        1: math.inf,
        "nan": np.float32("nan"),
        "row": np.array([[1.5, -math.inf]]),
        "table": pa.table({"x": [1, None]}),
        "status": ExitStatus.WORSE,
        "held": Held((1, Tally), frozenset({"a"})),
        "name": "q\udcff\x1b[2J",
        "problem": LastProblem(1.0, "r"),
    }
    plain = plain_value(value)
    text = json.dumps(plain, allow_nan=False, ensure_ascii=False)
    text.encode()
    assert parsed_strictly(text) == plain
    assert plain["1"] is None
    assert plain["nan"] is None
    assert plain["row"] == [[1.5, None]]
    assert plain["table"] == [{"x": 1}, {"x": None}]
    assert plain["status"] == 4
    assert plain["held"] == {"values": [1, str(Tally)], "names": ["a"]}
    assert plain["name"] == "q\\udcff\x1b[2J"
    assert plain["problem"] == {"at": 1.0, "reason": "r"}


ERRORS = (
    ("explain nowhere", 1, "explain", "nothing_to_explain"),
    ("annotate", 2, "annotate", "option"),
    ("annotate p.jsonl --outt o", 2, "annotate", "option"),
    ("nonsense", 2, "", "option"),
    ("report nowhere --progress maybe", 2, "report", "option"),
    ("report nowhere --json", 2, "report", "option"),
)


def test_an_error_is_a_document_and_a_line_for_people(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words, status, command, code in ERRORS:
        document = printed(capsys, *words.split())
        assert (document["status"], document["command"]) == (status, command)
        assert document["complete"] is False
        assert document["error"]["code"] == code
        assert document["next_command"] is None
        assert document["stderr"] == f"zelo-ray: {document['error']['message']}\n"


def test_a_bug_an_interrupt_and_a_full_disk_are_documents_too(capsys, monkeypatch):
    for error, code, following in (
        (RuntimeError("broken"), "bug", None),
        (KeyboardInterrupt(), "interrupted", "zelo-ray report 'no where'"),
        (OSError(28, "full", "x"), "disk_full", "zelo-ray report 'no where'"),
    ):

        def fail(*_, error=error):
            raise error

        monkeypatch.setitem(cli.RUN_COMMAND, "report", fail)
        document = printed(capsys, "report", "no where")
        assert (document["status"], document["error"]["code"]) == (1, code)
        assert document["next_command"] == following
        assert ("Traceback" in document["stderr"]) == (code == "bug")


def test_a_document_has_no_chatter_and_no_password(capsys, monkeypatch):
    def talk(*_):
        print("a library talks")
        step = "zelo-ray annotate http://ann:secret@host:9200"
        return CommandResult(figures={"page": "p"}, next_command=step)

    monkeypatch.setitem(cli.RUN_COMMAND, "report", talk)
    document = printed(capsys, "report", "nowhere")
    assert document["result"] == {"page": "p"}
    assert document["next_command"].endswith("http://…@host:9200")
    assert document["stderr"].startswith("a library talks\n")


def test_the_flags_of_the_output_are_not_repeated():
    words = ["annotate", "a", "--out", "o"]
    flags = ["--json", "--progress", "json", "--progress=none"]
    assert without_output_flags([*words[:2], *flags, *words[2:]]) == words


def test_each_line_of_the_standard_error_is_an_event(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["explain", "nowhere", "--progress", "json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    (event,) = map(parsed_strictly, err.splitlines())
    assert event["event"] == "message"


TALLIES = {
    "a": Tally(known=2, answered=5, dollars=0.5, input_tokens=100, statuses={"ok": 4, "failed": 1}),
    "b": Tally(
        answered=1,
        retries=2,
        trouble=LastProblem(1000.0, "no answer"),
        disabled=Disabled(StopReason.FATAL, "a wrong key"),
    ),
}


def test_progress_is_an_event_with_all_figures_and_the_last_is_never_missing():
    target = io.StringIO()
    with ProgressEvents(MessageStream(target)) as watch:
        watch.say("2 queries\x1b")
        watch.budget(5.0, 1.5)
        watch.show(TALLIES, {"a": 10, "b": 10})
        TALLIES["a"].answered = 7
        watch.show(TALLIES, {"a": 10, "b": 10})
        watch.show({}, {})
    message, first, last = map(parsed_strictly, target.getvalue().splitlines())
    assert message == {"event": "message", "text": "2 queries\x1b"}
    assert (first["done"], last["done"]) == (8, 10)
    assert last["needed"] == 20
    assert last["failures"] == 1
    assert (last["max_usd"], last["dollars_before"], last["dollars"]) == (5.0, 1.5, 0.5)
    problem = {"judge": "b", "reason": "no answer", "at": "1970-01-01T00:16:40+00:00"}
    assert last["last_problem"] == problem
    assert last["stopped"] == {"b": "a wrong key"}
    assert last["judges"]["b"]["time_left"] == "stopped"
    assert last["seconds_left"] is None, "of a there are too few answers for a rate"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", last["at"])


def test_lines_become_messages_however_they_are_written():
    target = io.StringIO()
    stream = MessageStream(target)
    print("a", "b", file=stream)
    stream.write("half")
    stream.write(" a line\n\n  \nlast")
    stream.finish()
    texts = [parsed_strictly(line)["text"] for line in target.getvalue().splitlines()]
    assert texts == ["a b", "half a line", "last"]


def test_no_progress_leaves_messages(capsys):
    with cli.Output(["annotate", "--progress", "none"], cli.PURPOSES).watch as watch:
        watch.say("2 queries")
        watch.budget(1.0, 0.0)
        watch.show(TALLIES, {"a": 10})
    assert capsys.readouterr() == ("", "2 queries\n")


def test_the_page_describes_every_exit_status_field_and_form_of_progress():
    page = (ROOT / "docs" / "json.md").read_text()
    rows = re.findall(r"^\| (\d) \| `(\w+)` \| \S.* \|$", page, re.M)
    statuses = [(str(status.value), status.name.lower()) for status in ExitStatus]
    assert rows == statuses
    table = page.partition("| field | holds |")[2].partition("\n\n")[0]
    fields = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row[:60])}
    assert {*SCHEMA["required"]} - fields == {"program"}
    assert all(f"| `{form}` |" in page for form in PROGRESS_FORMS)
    figures = json.loads(re.search(r'^{"event": "progress".*?}}}$', page, re.M | re.S)[0])
    shown = progress_figures(ProgressMeter().measure(TALLIES, {"a": 10}, 0.0))
    assert [*figures] == ["event", *shown]


def test_exit_statuses_are_all_in_the_schema():
    assert SCHEMA["properties"]["status"]["enum"] == [*map(int, ExitStatus)]
    names = [status.name.lower() for status in ExitStatus]
    assert SCHEMA["properties"]["status_name"]["enum"] == names
    assert {*SCHEMA["properties"]["command"]["enum"]} == {"", *cli.PURPOSES}
