"""``--json`` on every command: one document of the schema's form, and nothing else on stdout."""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from unittest.mock import patch

import pytest

from tests import compare
from tests.helpers.crash import ROOT, bare_environment
from tests.helpers.json_documents import parsed_strictly, printed, valid
from zelo_ray import cli
from zelo_ray.commands import COMMANDS
from zelo_ray.engine.batch.parts import BatchPart, Parts

ASKING = {
    "judged": "annotate pools.jsonl --judges offline --out judged --pilot 2",
    "graded": "annotate pools.jsonl --judges offline --protocol graded --out graded",
    "probed": "probe pools.jsonl --judges offline:bm25 --probes length --out probed",
}
_OF_PEOPLE = "--human people.qrels --judges openai:gpt-6-luna --out o --dry-run"
ELSE = (
    "fit games.csv --out ratings.csv",
    "bakeoff --truth graded --pools pools.jsonl --runs a.run b.run --out contest",
    "agree graded --human people.qrels --out agreement",
    "agree graded later",
    "label --run judged --labels 5 --out labels --csv sheet.csv",
    "prompt pools.jsonl --judges openai:gpt-6-luna",
    "explain graded --query tick-removal --doc tick-removal-01",
    "report judged",
    "doctor --judges offline:bm25",
    "convert qrels graded --grades --out graded.qrels",
    "batches batched",
    "sample data",
    "watch judged --once",
    "annotate pools.jsonl --judges openai:gpt-6-luna --out o --dry-run",
    f"compare pools.jsonl {_OF_PEOPLE} --try protocol=graded",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the commands name."""
    folder = tmp_path_factory.mktemp("json")
    compare.write_inputs(folder)
    pools = [json.loads(line) for line in (folder / "pools.jsonl").read_text().splitlines()]
    for name, step in (("a", 1), ("b", -1)):
        rows = (
            f"{pool['query']['id']} Q0 {document['id']} {rank} {9 - rank} {name}\n"
            for pool in pools
            for rank, document in enumerate(pool["documents"][::step], 1)
        )
        (folder / f"{name}.run").write_text("".join(rows))
    with contextlib.chdir(folder):
        Parts("batched").keep(BatchPart("a", "openai:gpt-6-luna", "V", ["k"], 1, 1, 0.0, 0.0))
    return folder


@pytest.fixture(scope="module")
def documents(folder):
    """What the commands print that ask judges: documents by name, with the events."""
    documents = {}
    for name, command in ASKING.items():
        words = [*shlex.split(command), "--json", "--progress", "json"]
        with (
            patch.dict(os.environ, bare_environment(), clear=True),
            contextlib.chdir(folder),
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            status = cli.main(words)
        assert status in (0, 3, 4), err.getvalue()
        events = [parsed_strictly(line) for line in err.getvalue().splitlines()]
        documents[name] = valid(out.getvalue(), status) | {"events": events}
    shutil.copytree(folder / "graded", folder / "later")
    return documents


def test_what_asks_judges_prints_one_document_and_events(documents, folder):
    for name, document in documents.items():
        assert document["command"] == ASKING[name].split()[0]
        assert document["record"]
        assert all((folder / file).exists() for file in [*document["files"], document["page"]])
        follow = document["next_command"] or ""
        assert follow.startswith("zelo-ray ") == (name != "probed"), "length moved nobody"
        assert "--json" not in follow
        assert {event["event"] for event in document["events"]} <= {"message", "progress"}
    last = [event for event in documents["graded"]["events"] if event["event"] == "progress"][-1]
    assert last["done"] == last["needed"] > 0
    assert last["done"] == sum(judge["done"] for judge in last["judges"].values())
    assert documents["judged"]["sections"][-1]["name"] == "annotate", "what is left"
    text = (folder / "judged" / "run.json").read_text()
    assert documents["judged"]["record"] == json.loads(text)
    assert '"json"' not in text, "the form of the output is no option of a run"


@pytest.mark.parametrize("words", ELSE, ids=lambda words: words.split()[0])
def test_every_other_command_prints_one_document(documents, folder, capsys, monkeypatch, words):
    monkeypatch.chdir(folder)
    document = printed(capsys, *words.split())
    assert document["command"] == words.split()[0]
    assert document["error"] is None
    assert document["sections"] or document["result"], "it says something"
    assert all(Path(file).exists() for file in document["files"])


def test_every_command_is_tried():
    assert {words.split()[0] for words in [*ASKING.values(), *ELSE]} == {*COMMANDS}


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
        texts = (parsed_strictly(line)["text"] for line in served.stderr)
        address = re.search(r"http://\S+", next(t for t in texts if "http://127.0.0.1:" in t))[0]
        with urllib.request.urlopen(address) as page:  # it listens, so that it can be stopped
            assert page.status == 200
        served.send_signal(signal.SIGINT)
        document = valid(served.stdout.read(), served.wait())
    assert (document["result"]["judged"], document["result"]["sample"]) == (0, 5)
