"""Tuning as a user does it: the command, on Ray, with a model that judges by its instructions."""

import hashlib
import json
import random
import re
import shlex
import threading

import pyarrow.parquet as pq
import pytest
import yaml

from tests.crash import COMMAND, bare_environment, kill_tree, start
from tests.fakes.scripted import Scripted
from tests.jobs import run_job
from tests.json_documents import valid
from tests.provider_calls import completion
from tests.test_report import page_of
from zelo_ray import cli, load_run, tune
from zelo_ray.commands.report import write_report
from zelo_ray.commands.tune.halves import FIRST, half_of
from zelo_ray.commands.tune.report import TUNE_REPORT
from zelo_ray.engine.ledger import read_rows
from zelo_ray.errors import InputError
from zelo_ray.reports.document import CommandResult, make_document

QUERIES, DOCUMENTS = 24, 4
MAGIC = "Count the facts that a document gives."
LAZY = "Look at the length of a document."

QUESTION = re.compile(r"Question \d+\?")


def tokens_of(texts):
    return sum(map(len, texts)) // 5


def reply(asked):
    """A grade by the truth where the instructions say the magic words, and by chance without."""
    system, user = (message["content"] for message in asked["messages"])
    used = {"prompt_tokens": tokens_of((system, user)), "completion_tokens": 7}
    truth = int(re.search(r"\[\[grade=(\d)\]\]", user)[1])
    text = user.rpartition("[document ")[2].partition("]\n")[2]  # without the code of its markers
    text = text.partition("[end of document")[0]
    chance = hashlib.sha256((system[-40:] + text).encode()).digest()[0] % 4
    grade = truth if MAGIC in system else chance
    said = {"facets_covered": [], "facets_missing": [], "rationale": "Seen.", "grade": grade}
    return completion(content=json.dumps(said), usage=used)


class Model:
    """A server that judges, and keeps what it was asked."""

    def __init__(self):
        self.server = Scripted(self.answer)
        self.after, self.event = None, threading.Event()

    def answer(self, asked):
        if self.after is not None and len(self.server.bodies) >= self.after:
            self.event.set()
        return reply(asked)

    @property
    def prompts(self):
        return [[message["content"] for message in body["messages"]] for body in self.server.bodies]


@pytest.fixture
def model():
    model = Model()
    with model.server:
        yield model


@pytest.fixture
def folder(tmp_path, model):
    """Pools whose documents tell their grade, people's grades of most, and a config file."""
    rng, lines = random.Random(4), []
    with (tmp_path / "qrels.txt").open("w") as qrels:
        for q in range(QUERIES + 2):
            grades = [rng.randrange(4) for _ in range(DOCUMENTS)]
            documents = [
                {"id": f"d{n}", "content": f"Text {q} {n} [[grade={grade}]]"}
                for n, grade in enumerate(grades)
            ]
            query = {"id": f"q{q}", "query": f"Question {q}?"}
            lines.append(json.dumps({"query": query, "documents": documents}))
            if q < QUERIES:
                qrels.writelines(f"q{q} 0 d{n} {grade}\n" for n, grade in enumerate(grades))
    (tmp_path / "pools.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "lazy.txt").write_text(LAZY)
    (tmp_path / "facts.txt").write_text(MAGIC)
    judge = f"openai:m@{model.server.url}/v1"
    config = {
        "inputs": [str(tmp_path / "pools.jsonl")],
        "human": str(tmp_path / "qrels.txt"),
        "protocol": "graded",
        "judges": [judge],
        "prices": {judge: {"input": 2.0, "output": 8.0}},
        "limits": {judge: {"rpm": 1e6}},
        "judge_options": {judge: {"max_output_tokens": 300}},
        "try_instructions": [str(tmp_path / "lazy.txt")],
        "out": str(tmp_path / "out"),
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


@pytest.fixture
def run(folder):
    """Runs the command on Ray: its status and what it printed."""

    def ran(*words):
        own = ("--config", str(folder / "config.yaml"))
        status, printed = run_job(bare_environment(), "tune", *own, *words)
        assert "Traceback" not in printed, printed
        return status, printed

    return ran


def rows_of(folder, name):
    return pq.read_table(folder / "out" / f"{name}.parquet").to_pylist()


def test_the_truly_better_wording_is_chosen_and_shown_to_be_better(folder, run, model):
    better = ("--try-instructions", str(folder / "lazy.txt"), str(folder / "facts.txt"))
    status, printed = run(*better, "--max-usd", "5")
    assert status == 0, printed
    assert "Chosen is instructions facts" in printed
    assert "It is better: " in printed
    record = json.loads((folder / "out/tune.json").read_text())
    assert (record["chosen"], record["queries"]) == ("instructions facts", QUERIES)
    assert record["halves"]["first"]["queries"] + record["halves"]["second"]["queries"] == QUERIES
    figures = {(row["candidate"], row["half"]): row for row in rows_of(folder, "candidates")}
    assert len(figures) == 6
    best = figures["instructions facts", "second"]
    assert (best["concordance"], best["kappa"]) == (1.0, 1.0)
    assert best["calls"] == DOCUMENTS * record["halves"]["second"]["queries"]
    asked = [texts for texts in model.prompts if MAGIC in texts[0]]
    of_half = [texts for texts in asked if half_of(QUESTION.search(texts[1])[0]) != FIRST]
    tokens_in, tokens_out = sum(map(tokens_of, of_half)), 7 * len(of_half)
    assert best["tokens"] == tokens_in + tokens_out
    assert best["dollars"] == pytest.approx((tokens_in * 2 + tokens_out * 8) / 1e6)
    gains = {(row["candidate"], row["half"]): row for row in rows_of(folder, "differences")}
    tested = [place for place, row in gains.items() if row["p"] == row["p"]]
    assert tested == [("instructions facts", "second")]
    assert gains["instructions facts", "second"]["p"] < 0.05
    calls = 3 * DOCUMENTS * QUERIES
    assert len(model.server.bodies) == calls
    assert record["paid"]["calls"] == calls
    assert record["together"]["calls"] == calls

    halves = {f"q{q}": half_of(f"Question {q}?") for q in range(QUERIES + 2)}
    reading = rows_of(folder, "worth_reading")
    changed = rows_of(folder, "changed")
    assert {halves[row["query_id"]] for row in [*reading, *changed]} == {FIRST}
    assert {row["rank"] for row in reading} == set(range(1, 11))

    assert record["texts"]["instructions facts"] == MAGIC

    # The same again asks nothing; the next step is a command that goes on with the chosen one.
    status, again = run(*better, "--max-usd", "5")
    assert status == 0
    assert len(model.server.bodies) == calls
    assert json.loads((folder / "out/tune.json").read_text())["chosen"] == "instructions facts"
    last = again.splitlines()[-1]
    words = shlex.split(last.removeprefix("Next step: "))[1:]
    status, said = run_job(bare_environment(), *words)
    assert status == 0, said
    assert f"about {QUERIES + 2} queries" in said
    told = re.search(r"([\d,]+) of ([\d,]+) requests", said)
    assert told[1] == str(2 * DOCUMENTS), "two queries have no labels, and only these are left"
    assert words[1] == str(folder / "pools.jsonl")
    loaded = load_run(folder / "out")
    assert loaded.chosen == "instructions facts"
    assert len(loaded.candidates) == 6
    result = CommandResult(report=TUNE_REPORT.read(str(folder / "out")))
    assert valid(json.dumps(make_document("tune", "", result)), 0)["sections"]


def test_equal_candidates_are_not_called_better_and_needs_are_told(folder, run, model):
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["candidates"] = {
        f"words {n}": {"instructions": f"Look at it {n} times."} for n in range(3)
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    status, printed = run("--second-half", "chosen", "--seed", "3")
    words = " ".join(printed.split())
    assert status == 0
    record = json.loads((folder / "out/tune.json").read_text())
    figures = [row for row in rows_of(folder, "candidates") if row["half"] == "second"]
    assert {row["candidate"] for row in figures} == {"as it is", record["chosen"]}
    first, second = (record["halves"][half]["queries"] for half in ("first", "second"))
    assert len(model.server.bodies) == DOCUMENTS * (5 * first + len(figures) * second)
    assert "It is better" not in words
    if record["chosen"] == "as it is":
        assert "Nothing was tested" in words
    else:
        assert "It is not significantly better" in words or "It is worse" in words


def test_a_cap_holds_for_all_of_it_and_more_money_goes_on(folder, run, model):
    status, printed = run("--max-usd", "0.03")
    assert status == 3
    assert "the budget of $0.0300 is used up" in " ".join(printed.split())
    paid = sum(row.dollars for row in read_rows(str(folder / "out")))
    assert 0.015 < paid <= 0.03
    figures = {(row["candidate"], row["half"]): row for row in rows_of(folder, "candidates")}
    assert figures["instructions lazy", "second"]["judged"] == 0
    before = len(model.server.bodies)
    status, printed = run("--max-usd", "5")
    assert status == 0, printed
    assert before < len(model.server.bodies) == 2 * DOCUMENTS * QUERIES


def test_a_killed_run_pays_for_nothing_twice(folder, run, model):
    first = sum(half_of(f"Question {q}?") == FIRST for q in range(QUERIES))
    model.after = 2 * DOCUMENTS * first + 3
    words = ("tune", "--config", str(folder / "config.yaml"))
    process = start([*COMMAND, *words], bare_environment())
    while not model.event.wait(1):
        assert process.poll() is None, "it ended before"
    kill_tree(process)
    kept = {row.key for row in read_rows(str(folder / "out"))}
    asked = len(model.server.bodies)
    model.after = None
    status, printed = run()
    assert status == 0, printed
    rows = list(read_rows(str(folder / "out")))
    calls = 2 * DOCUMENTS * QUERIES
    assert len(rows) == len({row.key for row in rows}) == calls, "nothing is paid for twice"
    assert len(model.server.bodies) == asked + calls - len(kept)


def test_an_estimate_asks_and_writes_nothing(folder, capsys, model):
    own = ("--config", str(folder / "config.yaml"), "--dry-run")
    assert cli.main(["tune", *own]) == 0
    said = capsys.readouterr()
    assert "instructions lazy" in said.out
    assert f"{DOCUMENTS * QUERIES} of {DOCUMENTS * QUERIES} requests" in said.out
    assert "paid once, but counted for each" in said.out
    assert not model.server.bodies
    assert not (folder / "out").exists()


def test_an_estimate_has_the_second_half_of_those_that_surely_judge_it(folder, capsys):
    own = ("--config", str(folder / "config.yaml"), "--dry-run", "--second-half", "chosen")
    assert cli.main(["tune", *own]) == 0
    said = capsys.readouterr()
    first = DOCUMENTS * sum(half_of(f"Question {q}?") == FIRST for q in range(QUERIES))
    as_it_is, _, lazy = said.out.partition("instructions lazy")
    assert f"{DOCUMENTS * QUERIES} of {DOCUMENTS * QUERIES} requests" in as_it_is
    assert f"{first} of {first} requests" in lazy
    assert "the chosen candidate would judge the second half, too" in said.err


def test_few_queries_are_told_of(folder, capsys):
    labels = (folder / "qrels.txt").read_text().splitlines()
    (folder / "qrels.txt").write_text("\n".join(labels[:DOCUMENTS]) + "\n")
    assert cli.main(["tune", "--config", str(folder / "config.yaml"), "--dry-run"]) == 1
    assert "people labelled 1 query of the input, and it takes two" in capsys.readouterr().err
    with pytest.raises(InputError, match="people labelled 1 query"):
        tune(config=folder / "config.yaml", dry_run=True, progress=None)


def test_the_page_is_written_again_without_the_candidates(folder, run, model):
    status, _ = run()
    assert status == 0
    (folder / "out/report.html").unlink()
    write_report(str(folder / "out"))
    words = page_of(folder / "out").words()
    assert "Most worth reading" in words
    assert LAZY in words
