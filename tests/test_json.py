"""``--json`` on every command: one document of the schema's form, and nothing else on stdout."""

import contextlib
import json
import math
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests import compare
from tests.crash import ROOT, bare_environment
from tests.json_documents import parsed_strictly, printed, valid
from zelo_ray import cli
from zelo_ray.engine.batch.parts import BatchPart, Parts

pytestmark = pytest.mark.ray

RUN = """
from contextlib import chdir, redirect_stderr, redirect_stdout
from zelo_ray import cli
with open({out!r}, "w") as out, open({err!r}, "w") as err:
    with chdir({folder!r}), redirect_stdout(out), redirect_stderr(err):
        status = cli.main({words})
print(int(status))
"""
ON_RAY = {
    "judged": "annotate pools.jsonl --judges offline --out judged",
    "pilot": "annotate pools.jsonl --judges offline --out pilot --pilot 2",
    "graded": "annotate pools.jsonl --judges offline --protocol graded --out graded",
    "probed": "probe pools.jsonl --judges offline:bm25 --probes length --out probed",
    "tuned": "tune pools.jsonl --human people.qrels --judges offline:bm25 "
    "--try-judges offline:chargram --out tuned",
    "compared": "compare-protocols pools.jsonl --human people.qrels --judges offline:bm25 "
    "--protocols zelo graded --out compared",
}
ELSE = {
    "fit": "fit games.csv --out ratings.csv",
    "bakeoff": "bakeoff --truth graded --pools pools.jsonl --runs runs/a.run runs/b.run "
    "--out contest",
    "agree": "agree graded --human people.qrels",
    "agree, with files": "agree graded --human people.qrels --out agreement",
    "compare-labels": "compare-labels --old people.qrels --new graded",
    "drift": "drift graded later",
    "label": "label --run judged --labels 5 --out labels --csv sheet.csv",
    "prompt": "prompt pools.jsonl --judges openai:gpt-6-luna",
    "prompt --body": "prompt pools.jsonl --judges openai:gpt-6-luna --body",
    "explain": "explain judged",
    "explain --query": "explain judged --query tick-removal",
    "explain --doc": "explain graded --query tick-removal --doc tick-removal-01",
    "report": "report judged",
    "report of several": "report judged graded --index all.html",
    "doctor": "doctor --no-ray --judges offline:bm25 --out doctored",
    "convert": "convert qrels graded --grades --out graded.qrels",
    "convert train": "convert train judged --out train.jsonl",
    "convert pool": "convert pool scidocs --out scidocs.jsonl",
    "batches": "batches batched",
    "sample": "sample data",
    "watch --once": "watch judged --once",
    "annotate --dry-run": "annotate pools.jsonl --judges openai:gpt-6-luna --out o --dry-run",
    "probe --dry-run": "probe pools.jsonl --judges openai:gpt-6-luna --out o --dry-run",
    "tune --dry-run": "tune pools.jsonl --human people.qrels --judges openai:gpt-6-luna "
    "--try-protocols graded --out o --dry-run",
    "compare-protocols --dry-run": "compare-protocols pools.jsonl --human people.qrels "
    "--judges openai:gpt-6-luna openai:nameless --protocols zelo graded --out o --dry-run",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the commands name."""
    folder = tmp_path_factory.mktemp("json")
    compare.write_inputs(folder)
    (folder / "runs").mkdir()
    (folder / "scidocs/qrels").mkdir(parents=True)
    pools = [json.loads(line) for line in (folder / "pools.jsonl").read_text().splitlines()]
    texts = {document["id"]: document["content"] for p in pools for document in p["documents"]}
    for name, step in (("a", 1), ("b", -1)):
        rows = (
            f"{pool['query']['id']} Q0 {document['id']} {rank} {9 - rank} {name}\n"
            for pool in pools
            for rank, document in enumerate(pool["documents"][::step], 1)
        )
        (folder / f"runs/{name}.run").write_text("".join(rows))
    of_beir = {
        "corpus.jsonl": [{"_id": name, "text": text} for name, text in texts.items()],
        "queries.jsonl": [{"_id": p["query"]["id"], "text": p["query"]["query"]} for p in pools],
    }
    for name, lines in of_beir.items():
        (folder / f"scidocs/{name}").write_text("".join(json.dumps(x) + "\n" for x in lines))
    qrels = (folder / "people.qrels").read_text().splitlines()
    judged = [
        "query-id\tcorpus-id\tscore",
        *("\t".join(x.split()[::2] + x.split()[3:]) for x in qrels),
    ]
    (folder / "scidocs/qrels/test.tsv").write_text("\n".join(judged) + "\n")
    with contextlib.chdir(folder):
        Parts("batched").keep(BatchPart("a", "openai:gpt-6-luna", "V", ["k"], 1, 1, 0.0, 0.0))
    return folder


@pytest.fixture(scope="module")
def documents(one_ray, folder):
    """What the commands print that ask judges, on one Ray: documents by name, with the events."""
    documents = {}
    for name, command in ON_RAY.items():
        out, err = folder / f"{name}.json", folder / f"{name}.events"
        words = [*shlex.split(command), "--json", "--progress", "json"]
        places = {"folder": str(folder), "out": str(out), "err": str(err)}
        program = RUN.format(words=words, **places)
        _, said = one_ray.run(bare_environment(), "-c", program)
        status = int(said)
        assert status in (0, 3, 4), err.read_text()
        events = [parsed_strictly(line) for line in err.read_text().splitlines()]
        documents[name] = valid(out.read_text(), status) | {"events": events}
    shutil.copytree(folder / "graded", folder / "later")
    return documents


@pytest.mark.parametrize("name", ON_RAY)
def test_what_asks_judges_prints_one_document(documents, folder, name):
    document = documents[name]
    assert document["command"] == ON_RAY[name].split()[0]
    assert document["record"]
    assert document["title"]
    assert document["sections"]
    assert Path(document["page"]).name == "report.html"
    assert all((folder / file).exists() for file in [*document["files"], document["page"]])
    assert document["next_command"].startswith("zelo-ray ")
    assert "--json" not in document["next_command"]


@pytest.mark.parametrize("name", ON_RAY)
def test_each_line_of_the_standard_error_is_an_event(documents, name):
    events = documents[name]["events"]
    assert {event["event"] for event in events} <= {"message", "progress"}
    if name in ("judged", "graded"):
        last = [event for event in events if event["event"] == "progress"][-1]
        assert last["done"] == last["needed"] > 0
        assert len(last["judges"]) == 3
        assert last["done"] == sum(judge["done"] for judge in last["judges"].values())


@pytest.mark.parametrize("name", ELSE)
def test_every_other_command_prints_one_document(documents, folder, capsys, monkeypatch, name):
    monkeypatch.chdir(folder)
    document = printed(capsys, *shlex.split(ELSE[name]))
    assert document["command"] == ELSE[name].split()[0]
    assert document["error"] is None
    assert document["sections"] or document["result"], "it says something"
    assert all(Path(file).exists() for file in document["files"])


def test_every_command_is_tried():
    tried = {command.split()[0] for command in [*ON_RAY.values(), *ELSE.values()]}
    assert tried == {*cli.PURPOSES}


def test_the_form_of_the_output_is_no_option_of_a_run(documents, folder):
    text = (folder / "judged" / "run.json").read_text()
    assert '"json"' not in text
    assert '"progress"' not in text
    assert documents["judged"]["record"] == json.loads(text)


def test_figures_are_numbers(documents, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    scores = pq.read_table("graded/scores.parquet").to_pylist()
    explained = printed(capsys, "explain", "graded", "--query", "tick-removal")["result"]
    of_query = [row for row in scores if row["query_id"] == "tick-removal"]
    assert [row["score"] for row in explained["scores"]] == pytest.approx(
        [row["score"] for row in sorted(of_query, key=lambda row: row["rank"])]
    )
    contest = printed(capsys, *shlex.split(ELSE["bakeoff"]))
    tables = [p for s in contest["sections"] for p in s["parts"] if p["form"] == "table"]
    cells = [cell for table in tables for row in table["rows"] for cell in row]
    assert any(cell["low"] <= cell["value"] <= cell["high"] for cell in cells if "low" in cell)
    for table in tables:
        assert table["total"] >= len(table["rows"])
        assert {len(row) for row in table["rows"]} <= {len(table["columns"])}


def test_a_pilot_and_an_estimate_tell_what_is_left(documents, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    pilot = documents["pilot"]
    assert pilot["result"]["requests_left"] > 0
    assert pilot["result"]["dollars"] == {"low": 0, "expected": 0, "high": 0}
    estimate = printed(capsys, *shlex.split(ELSE["annotate --dry-run"]))["result"]
    (job,) = estimate["estimates"]
    assert 0 < job["dollars"]["low"] <= job["dollars"]["expected"] <= job["dollars"]["high"]
    assert job["sufficient_max_usd"] == pytest.approx(job["dollars"]["high"])
    both = printed(capsys, *shlex.split(ELSE["compare-protocols --dry-run"]))
    assert [each["name"] for each in both["result"]["estimates"]] == ["zelo", "graded"]


def test_a_page_for_people_prints_its_document_when_it_is_stopped(documents, folder):
    command = "label --run judged --labels 5 --out served --no-browser --json --progress json"
    served = subprocess.Popen(
        [sys.executable, "-m", "zelo_ray", *command.split()],
        cwd=folder,
        env=bare_environment() | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with served:
        texts = []
        for line in served.stderr:
            texts.append(parsed_strictly(line)["text"])
            if "http://127.0.0.1:" in line:
                break
        address = re.search(r"http://\S+", texts[-1])[0]
        with urllib.request.urlopen(address) as page:  # it listens, so that it can be stopped
            assert page.status == 200
        served.send_signal(signal.SIGINT)
        document = valid(served.stdout.read(), served.wait())
    assert document["result"] == {
        "unit": "document",
        "judged": 0,
        "sample": 5,
        "drawn_from": document["result"]["drawn_from"],
        "cannot_say": 0,
        "out_of_turn": 0,
        "for_a_second_person": 0,
        "answers": {},
    }
    assert math.isfinite(document["result"]["drawn_from"])
