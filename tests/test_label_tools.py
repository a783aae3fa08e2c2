"""Files of `label` for Label Studio and Argilla that go out, and answers that come back.

Files of Argilla are read and written by its own client, against a server on loopback that knows the
user. Label Studio's SDK pins other versions of what is used here, so that it is not in the extra
``dev``: where it is installed (2.1.2 was), its schema checks the files, and its converter makes the
JSON-MIN export; everywhere the shapes are checked that it accepted and made.
"""

import json
import threading
import uuid
import xml.etree.ElementTree as ET
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests import crash
from tests.labelling import sample_at
from zelo_ray import cli
from zelo_ray.commands.label.label_studio import make_interface
from zelo_ray.commands.label.rubric import name_choices
from zelo_ray.formats.judgments.answers import answers_in
from zelo_ray.formats.judgments.label_units import DOCUMENT
from zelo_ray.formats.judgments.labels import read_labels
from zelo_ray.options.label import LabelOptions

TEXT = '<b>$5 & "x"</b>\nüber \u2028'
ANN, BOB = "ann@example.org", "bob@example.org"
IDS = {ANN: str(uuid.UUID(int=1)), BOB: str(uuid.UUID(int=2))}


@pytest.fixture
def out(tmp_path):
    return sample_at(tmp_path / "labels", 4, text=TEXT)


def label(capsys, out, *words):
    """Run the command; its exit status, and what was said."""
    status = cli.main(["label", "--out", str(out), *map(str, words)])
    return status, "".join(capsys.readouterr())


def written(capsys, out, tool, file):
    status, told = label(capsys, out, f"--{tool}", file)
    assert status == 0, told
    return json.loads(file.read_text()), told


def read(capsys, out, file, content, *words):
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return label(capsys, out, "--read", file, *words)


def current(out):
    """By document and person, the grade and the note."""
    return {
        (pair[1], who): (answer.value, answer.note)
        for pair, by in answers_in(str(out)).items()
        for who, answer in by.items()
    }


def choice(word, name="answer"):
    value = {"choices": [word]} if name == "answer" else {"text": [word]}
    kind = "choices" if name == "answer" else "textarea"
    return {"id": "x", "from_name": name, "to_name": "document", "type": kind, "value": value}


def annotation(word, who, at="2026-03-01T10:00:00.000000Z", note="", **more):
    results = [choice(word)] + ([choice(note, "note")] if note else [])
    fixed = {"id": 7, "was_cancelled": False, "ground_truth": False, "lead_time": 1.5}
    times = {"created_at": at, "updated_at": at}
    return {**fixed, **times, "completed_by": who, "result": results, **more}


def exported(tasks, *annotations):
    """Tasks as Label Studio exports them, with these lists of annotations, and without any."""
    given = [*annotations, *([[]] * (len(tasks) - len(annotations)))]
    return [
        {"id": n, **task, "annotations": [*every], "predictions": [], "drafts": []}
        for n, (task, every) in enumerate(zip(tasks, given, strict=True), 1)
    ]


def person(who):
    return {"id": 1, "email": who, "first_name": "", "last_name": ""}


ANSWERS = (
    [annotation("3", person(ANN), note="It says how."), annotation("u", person(BOB))],
    [annotation("Cannot say", person(ANN))],
    [annotation("0", person(ANN), was_cancelled=True)],
    [
        annotation("1", person(ANN), "2026-03-02T10:00:00.000000Z"),
        annotation("2", person(ANN), "2026-03-03T10:00:00.000000Z"),
        annotation("0", person(ANN), "2026-03-01T10:00:00.000000Z"),
    ],
)
EXPECTED = {
    ("doc-0", ANN): (3.0, "It says how."),
    ("doc-0", BOB): (None, ""),
    ("doc-1", ANN): (None, ""),
    ("doc-3", ANN): (2.0, ""),
}


def test_tasks_of_label_studio_go_out_and_answers_come_back(tmp_path, capsys, out):
    tasks, told = written(capsys, out, "label-studio", tmp_path / "tasks.json")
    assert [[*task] for task in tasks] == [["data"]] * 4
    assert [[*task["data"]] for task in tasks] == [["key", "query", "document"]] * 4
    assert tasks[1]["data"]["document"] == f"text 1 {TEXT}"
    assert "doc-" not in json.dumps(tasks)
    assert f"paste {tmp_path / 'tasks.xml'} into" in told
    assert f"zelo-ray label --out {out} --read EXPORT." in told
    export = exported(tasks, *ANSWERS)
    status, told = read(capsys, out, tmp_path / "export.json", export)
    assert (status, "Read 4 answers" in told and "4 of them new" in told) == (0, True), told
    assert current(out) == EXPECTED
    assert read_labels(str(out)).cannot_say == 1
    _, told = read(capsys, out, tmp_path / "export.json", export)
    assert "Read 4 answers" in told
    assert "0 of them new" in told
    rest, _ = written(capsys, out, "label-studio", tmp_path / "rest.json")
    assert [task["data"]["document"] for task in rest] == [f"text 2 {TEXT}"]


def test_the_interface_of_label_studio_names_choices_keys_and_their_meaning(tmp_path, capsys, out):
    written(capsys, out, "label-studio", tmp_path / "tasks.json")
    view = ET.parse(tmp_path / "tasks.xml").getroot()
    assert [(each.get("name"), each.get("value")) for each in view.findall("Text")] == [
        ("query", "$query"),
        ("document", "$document"),
    ]
    told = [
        (each.get("alias"), each.get("hotkey"), each.get("value")) for each in view.iter("Choice")
    ]
    assert told == [
        ("0", "0", "0: irrelevant"),
        ("1", "1", "1: marginal"),
        ("2", "2", "2: relevant"),
        ("3", "3", "3: highly relevant"),
        ("u", "9", "Cannot say"),  # by u Label Studio unselects a region
    ]
    (note,) = view.findall("TextArea")
    assert (note.get("name"), note.get("required")) == ("note", "false")
    assert "Does this text answer the query?" in view.findall("Header")[2].get("value")


def test_words_of_a_rubric_are_text_in_the_interface():
    rubric = '0: costs < $5 & "more"\n1: \x07fine'
    view = ET.fromstring(make_interface(DOCUMENT, name_choices(DOCUMENT, rubric), rubric))
    values = [each.get("value") for each in view.iter() if each.get("value")]
    assert '0: costs < \uff045 & "more"' in values
    assert "1: fine" in values
    assert [value for value in values if "$" in value] == ["$query", "$document"]


def min_export(export):
    """The JSON-MIN of an export, one object an annotation that was not cancelled."""
    return [
        {
            "id": task["id"],
            **task["data"],
            **{result["from_name"]: _only(result["value"]) for result in each["result"]},
            "annotator": each["completed_by"]["email"],
            "annotation_id": each["id"],
            **{name: each[name] for name in ("created_at", "updated_at", "lead_time")},
        }
        for task in export
        for each in task["annotations"]
        if not each["was_cancelled"]
    ]


def _only(value):
    ((each,),) = value.values()
    return each


def test_json_min_of_label_studio_comes_back_too(tmp_path, capsys, out):
    tasks, _ = written(capsys, out, "label-studio", tmp_path / "tasks.json")
    rows = min_export(exported(tasks, *ANSWERS))
    status, told = read(capsys, out, tmp_path / "export.json", rows)
    assert (status, "Read 4 answers" in told) == (0, True), told
    assert current(out) == EXPECTED


@pytest.mark.filterwarnings("ignore")
def test_label_studios_own_schema_takes_the_files_and_its_converter_makes_what_is_read(
    tmp_path, capsys, out
):
    sdk = pytest.importorskip("label_studio_sdk.label_interface")
    converter = pytest.importorskip("label_studio_sdk.converter")
    tasks, _ = written(capsys, out, "label-studio", tmp_path / "tasks.json")
    config = (tmp_path / "tasks.xml").read_text()
    interface = sdk.LabelInterface(config)
    interface.validate()
    export = exported(tasks, *ANSWERS)
    for task in tasks:
        assert interface.validate_task(task)
    for each in (each for task in export for each in task["annotations"]):
        word = each["result"][0]["value"]["choices"]
        assert interface.validate_annotation(each) == (word != ["Cannot say"])  # that has an alias
    assert interface.validate_annotation(interface.generate_sample_annotation())
    assert not interface.validate_annotation(annotation("4", 1))
    (tmp_path / "export.json").write_text(json.dumps(export))
    maker = converter.Converter(config, str(tmp_path), download_resources=False)
    maker.convert_to_json_min(str(tmp_path / "export.json"), str(tmp_path / "min"), is_dir=False)
    made = json.loads((tmp_path / "min" / "result.json").read_text())
    by_id = {(row["key"], row["annotator"], row["updated_at"]): row for row in made}
    for row in min_export(export):
        assert by_id[row["key"], row["annotator"], row["updated_at"]] == row
    status, told = label(capsys, out, "--read", tmp_path / "min" / "result.json")
    assert (status, "Read 4 answers" in told) == (0, True), told
    assert current(out) == EXPECTED


def test_people_of_label_studio_are_known_by_email_by_id_or_by_the_option(tmp_path, capsys, out):
    tasks, _ = written(capsys, out, "label-studio", tmp_path / "tasks.json")
    answers = [annotation("1", {"id": 12}), annotation("1", 13), annotation("2", None)]
    status, told = read(capsys, out, tmp_path / "in.json", exported(tasks, answers))
    assert status == 1
    assert "in.json: task 1: nobody is named; give --person" in told
    assert not current(out)
    words = ("--person", "cid")
    assert read(capsys, out, tmp_path / "in.json", exported(tasks, answers), *words)[0] == 0
    assert {who for _, who in current(out)} == {"12", "13", "cid"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"result": [choice("good")]}, "task 2: 'good' is none of the choices (0, 1, 2, 3, u)"),
        ({"result": [choice("1"), choice("2")]}, "task 2: has 2 choices in one annotation"),
        ({"key": "kwrong"}, "task 2: no document of this sample has the key 'kwrong'"),
        ({"key": None}, "task 2: has no key; was it written by --label-studio?"),
    ],
)
def test_a_refused_answer_is_named_and_nothing_is_taken(tmp_path, capsys, out, change, says):
    tasks, _ = written(capsys, out, "label-studio", tmp_path / "tasks.json")
    export = exported(tasks, *([annotation("1", 1)] for _ in tasks))
    if "key" in change:
        export[1]["data"] |= change
    else:
        export[1]["annotations"][0] |= change
    status, told = read(capsys, out, tmp_path / "in.json", export)
    assert status == 1
    assert f"in.json: {says}" in told
    assert not current(out)


def test_annotations_without_a_choice_are_no_answers(tmp_path, capsys, out):
    tasks, _ = written(capsys, out, "label-studio", tmp_path / "tasks.json")
    empty = [annotation("1", 1, result=[]), annotation("1", 1, result=[choice("x", "note")])]
    status, told = read(capsys, out, tmp_path / "in.json", exported(tasks, empty))
    assert (status, "Read 0 answers" in told) == (0, True)


@pytest.fixture
def argilla():
    """The client of Argilla, before a server that knows its user."""

    class Server(BaseHTTPRequestHandler):
        def do_GET(self):
            user = {"id": IDS[ANN], "username": "ann", "first_name": "Ann", "role": "owner"}
            body = json.dumps(user).encode()
            self.send_response(200 if self.path.endswith("/me") else 404)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    client = pytest.importorskip("argilla")
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        api = client.Argilla(api_url=f"http://127.0.0.1:{server.server_port}", api_key="k")
        try:
            yield client
        finally:
            api.http_client.close()
            server.shutdown()
            thread.join()


def answer(client, record, who, word, note="", status="submitted"):
    for name, value in (("answer", word), ("note", note)):
        if value:
            response = client.Response(name, value, user_id=uuid.UUID(IDS[who]), status=status)
            record.responses.add(response)


def answered(client, path, *, flat):
    """What people answered on the records of a file, as the client exports it."""
    from argilla.records._io import GenericIO, JsonIO

    records = JsonIO._records_from_json(path)
    answer(client, records[0], ANN, "3", "It says how.")
    answer(client, records[0], BOB, "u")
    answer(client, records[1], ANN, "u")
    if flat:  # which tells what was not submitted
        answer(client, records[2], ANN, "1", status="draft")
        answer(client, records[2], BOB, "1", "why", status="discarded")
    answer(client, records[3], ANN, "2")
    return GenericIO.to_list(records, flatten=flat)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["flat", "nested", "lines"])
def test_records_of_argilla_go_out_and_answers_come_back(tmp_path, capsys, out, argilla, form):
    _, told = written(capsys, out, "argilla", tmp_path / "records.json")
    assert f"Settings.from_json('{tmp_path / 'records-settings.json'}')" in told
    settings = argilla.Settings.from_json(tmp_path / "records-settings.json")
    settings.validate()
    assert [field.name for field in settings.fields] == ["query", "document"]
    grade, note = settings.questions
    assert grade.labels == ["0", "1", "2", "3", "u"]
    assert (grade.required, note.required) == (True, False)
    assert "Does this text answer the query?" in settings.guidelines
    export = answered(argilla, tmp_path / "records.json", flat=form != "nested")
    assert export[1].get("document", export[1].get("fields", {}).get("document")) == (
        f"text 1 {TEXT}"
    )
    text = "\n".join(map(json.dumps, export)) if form == "lines" else json.dumps(export)
    status, told = read(capsys, out, tmp_path / "export.json", text)
    assert (status, "Read 4 answers" in told and "4 of them new" in told) == (0, True), told
    assert current(out) == {(doc, IDS[who]): said for (doc, who), said in EXPECTED.items()}
    _, told = read(capsys, out, tmp_path / "export.json", text)
    assert "0 of them new" in told
    assert len(written(capsys, out, "argilla", tmp_path / "rest.json")[0]) == 1


@pytest.mark.filterwarnings("ignore")
def test_records_that_nobody_answered_are_read(tmp_path, capsys, out, argilla):
    from argilla.records._io import GenericIO, JsonIO

    written(capsys, out, "argilla", tmp_path / "records.json")
    records = JsonIO._records_from_json(tmp_path / "records.json")
    for flat in (True, False):
        export = GenericIO.to_list(records, flatten=flat)
        status, told = read(capsys, out, tmp_path / "in.json", export)
        assert (status, "Read 0 answers" in told) == (0, True), told


def test_a_refused_answer_of_argilla_is_named_and_nothing_is_taken(tmp_path, capsys, out):
    records, _ = written(capsys, out, "argilla", tmp_path / "records.json")
    good = {"answer": [{"value": "1", "user_id": IDS[ANN]}]}
    for bad, says in (
        ({"value": "4", "user_id": IDS[ANN]}, "'4' is none of the choices (0, 1, 2, 3, u)"),
        ({"value": "1", "user_id": "None"}, "nobody is named; give --person"),
    ):
        given = [good, {"answer": [bad]}, {}, {}]
        export = [row | {"responses": each} for row, each in zip(records, given, strict=True)]
        status, told = read(capsys, out, tmp_path / "in.json", export)
        assert status == 1
        assert f"in.json: record {records[1]['id']}: {says}" in told
        assert not current(out)
    assert read(capsys, out, tmp_path / "in.json", export, "--person", "cid")[0] == 0
    assert {who for _, who in current(out)} == {IDS[ANN], "cid"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[{"text": "x"}]', "is JSON, but no export of Label Studio or Argilla"),
        ('{"text": "x"}\n{"text": "y"}\n', "is JSON, but no export of Label Studio or Argilla"),
        ('[{"id": 1', "is not valid JSON"),
        ('{"id": 1}\n{"id"', "is not valid JSON"),
        ("[1, 2]", "is not a list of JSON objects"),
    ],
)
def test_json_of_something_else_is_refused(tmp_path, capsys, out, text, says):
    status, told = read(capsys, out, tmp_path / "in.json", text)
    assert status == 1
    assert f"in.json: {says}" in told


def test_an_empty_export_has_no_answers(tmp_path, capsys, out):
    status, told = read(capsys, out, tmp_path / "in.json", "[]")
    assert (status, "Read 0 answers" in told) == (0, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"argilla": "a", "read": "b"}, r"use either argilla \(write a file\) or read"),
        ({"csv": "a", "label_studio": "b"}, "use either csv or label_studio, not both"),
    ],
)
def test_one_file_is_written_or_read_at_a_time(tmp_path, words, says):
    with pytest.raises(ValueError, match=says):
        LabelOptions(out=str(tmp_path), **words)


def test_the_command_writes_and_reads_in_processes_of_their_own(tmp_path, out):
    tasks = tmp_path / "tasks.json"
    command = [*crash.COMMAND, "label", "--out", str(out)]
    environ = crash.bare_environment()
    status, told = crash.completed([*command, "--label-studio", str(tasks)], environ)
    assert (status, f"Wrote 4 documents to {tasks}. In Label Studio" in told) == (0, True), told
    export = exported(json.loads(tasks.read_text()), [annotation("2", person(ANN))])
    (tmp_path / "export.json").write_text(json.dumps(export))
    status, told = crash.completed([*command, "--read", str(tmp_path / "export.json")], environ)
    assert (status, "Read 1 answer from" in told) == (0, True), told
    assert current(out) == {("doc-0", ANN): (2.0, "")}
