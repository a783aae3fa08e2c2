"""Inputs that models may have read, as their names and forms tell, are noted by three commands."""

import json
from pathlib import Path

import pytest

from tests.builders import write_lines
from tests.crash import bare_environment
from tests.files.test_collections import CORPUS, QRELS, QUERIES
from tests.jobs import run_job
from zelo_ray import agree
from zelo_ray.files.inputs import note_public

GRADES = [
    {"query_id": "q1", "doc_id": doc_id, "judge": judge, "grade": grade}
    for judge in ("a", "b")
    for doc_id, grade in (("d1", 2), ("d2", 0))
]


@pytest.fixture
def beir(tmp_path):
    (tmp_path / "beir" / "qrels").mkdir(parents=True)
    write_lines(tmp_path / "beir" / "corpus.jsonl", CORPUS)
    write_lines(tmp_path / "beir" / "queries.jsonl", QUERIES)
    (tmp_path / "beir" / "qrels" / "test.tsv").write_text(QRELS)
    return str(tmp_path / "beir")


def test_names_and_forms_tell_and_nothing_else_does(beir, tmp_path):
    rows = write_lines(
        tmp_path / "rows.jsonl", [{"query": "q?", "positive": ["yes"], "negative": ["no"]}]
    )
    own = write_lines(
        tmp_path / "own.jsonl", [{"query": "q?", "documents": [{"id": "d", "content": "text"}]}]
    )
    for place in ("ir_datasets:beir/nfcorpus/test", "hf://datasets/x/y.jsonl", beir, str(rows)):
        assert note_public([place])
    for place in (str(own), str(tmp_path / "none"), str(tmp_path)):
        assert not note_public([place])
    (note,) = note_public([beir, str(own), beir])
    assert note.startswith(f"{beir} ")


def test_agree_notes_it(beir):
    (note,) = (
        line for line in agree(GRADES, human=beir).report.record["notes"] if "public" in line
    )
    assert note.startswith(f"{beir} ")
    assert not any("public" in line for line in agree(GRADES).report.record["notes"])


def test_annotate_and_probe_note_it(beir, tmp_path):
    judges = ("--judges", "offline:bm25")
    run_job(bare_environment(), "annotate", beir, *judges, "--out", str(tmp_path / "judged"))
    record = json.loads(Path(tmp_path / "judged" / "run.json").read_text())
    assert any(line.startswith(f"{beir} is named") for line in record["summary"]["notes"])
    _, said = run_job(bare_environment(), "probe", beir, *judges, "--out", str(tmp_path / "probed"))
    record = json.loads(Path(tmp_path / "probed" / "probe.json").read_text())
    assert any(line.startswith(f"{beir} is named") for line in record["notes"]), said
