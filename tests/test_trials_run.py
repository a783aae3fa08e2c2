"""Protocols compared as a user does it: the command, out of one ledger."""

import json
import random
import re
import shlex
import sys

import pyarrow.parquet as pq
import pytest
import yaml

from tests.crash import bare_environment, completed
from tests.jobs import run_job
from tests.test_report import page_of
from zelo_ray import cli
from zelo_ray.commands import load as load_command
from zelo_ray.commands.compare_protocols.costs import pools_in
from zelo_ray.commands.compare_protocols.job import plan_protocols
from zelo_ray.commands.compare_protocols.labelled_items import collect_items
from zelo_ray.engine.ledger import read_rows

JUDGE = "simulated:judge"
QUERIES = 20


@pytest.fixture
def folder(tmp_path):
    """Pools of two answers, what three people say of them, and some lines of another kind."""
    rng = random.Random(4)
    pools, said = [], []
    for q in range(QUERIES + 2):
        worths = [rng.gauss(0, 1.5) for _ in "ab"]
        documents = [
            {"id": name, "content": f"Answer {name} to {q}.", "metadata": {"grade": worth}}
            for name, worth in zip("ab", worths, strict=True)
        ]
        pools.append({"query": {"id": f"q{q}", "query": f"Question {q}?"}, "documents": documents})
        for person in range(3):
            apart = worths[1] - worths[0] + rng.gauss(0, 0.5)
            word = 0 if abs(apart) < 0.2 else 1 if apart > 0 else -1
            pair = {"query_id": f"q{q}", "doc_id_a": "a", "doc_id_b": "b"}
            said.append({**pair, "preference": word, "judge": f"person {person}"})
    labelled = [each for each in said if each["query_id"] not in ("q3", "q5")]
    alone = {"query_id": "elsewhere", "doc_id_a": "a", "doc_id_b": "b", "preference": 1}
    lines = {"pools": pools, "human": [*labelled, {**alone, "judge": "person 0"}]}
    for name, rows in lines.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {
        "inputs": [str(tmp_path / "pools.jsonl")],
        "human": str(tmp_path / "human.jsonl"),
        "judges": [JUDGE],
        "judge_options": {JUDGE: {"noise": 0.5}},
        "prices": {JUDGE: {"input": 2.0, "output": 8.0}},
        "out": str(tmp_path / "out"),
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


DOOMED = """
import os
import ray
from zelo_ray.errors import RayUnavailable
from zelo_ray.ray.session import ray_session
from zelo_ray.options import AnnotateOptions

@ray.remote(num_cpus=0)
class Doomed:
    def die(self):
        os.kill(os.getpid(), 9)

try:
    with ray_session(AnnotateOptions(inputs=("in",), out="out")):
        ray.get(Doomed.remote().die.remote())
except RayUnavailable as trouble:
    print(trouble)
"""


@pytest.mark.ray
def test_an_actor_that_dies_is_told_of_in_a_line():
    _, said = completed([sys.executable, "-c", DOOMED], bare_environment())
    assert said.startswith("a process of Ray died or was killed")
    assert "memory" in said


@pytest.fixture
def compare(folder):
    """Runs the command; its status, what it printed, its table, and the ledger's dollars."""

    def compared(*words):
        config = ("--config", str(folder / "config.yaml"))
        status, printed = run_job(bare_environment(), "compare-protocols", *config, *words)
        assert status in (0, 3), printed
        dollars = [row.dollars for row in read_rows(str(folder / "out"))]
        return status, printed, table(folder, "trials"), dollars

    return compared


def table(folder, name):
    return pq.read_table(folder / "out" / f"{name}.parquet").to_pylist()


def test_protocols_share_a_ledger_each_has_its_budget_and_nothing_is_asked_twice(
    folder, compare, capsys
):
    """One with too little money, twice; then three with enough; and once more the same."""
    out, budget = folder / "out", 0.31
    short = ("--protocols", "samre", "--max-usd", str(budget))
    enough = ("--protocols", "zelo", "baseline-strong", "samre", "--max-usd", "5")
    for _ in range(2):
        status, said, [trial], paid = compare(*short)
        assert status == 3
        assert "the budget of $0.3100 is used up" in said
        assert 0 < trial["judged"] < trial["items"] == QUERIES
        assert 0.8 * budget < trial["dollars"] <= budget
        assert sum(paid) == pytest.approx(trial["dollars"])
    first, second = compare(*enough), compare(*enough)
    assert first[0] == second[0]
    assert first[2:] == second[2:]
    status, said, rows, paid = second
    assert status == 0
    assert "1 of 21 pairs" in said
    trials = {row["protocol"]: row for row in rows}
    assert {*trials} == {"zelo", "baseline-strong", "samre"}
    assert all(trial["judged"] == trial["items"] == QUERIES for trial in rows)
    assert trials["zelo"]["calls"] == trials["baseline-strong"]["calls"] == QUERIES
    rounds = [row["rounds"] for row in pq.read_table(out / "samre/verdicts.parquet").to_pylist()]
    assert trials["samre"]["calls"] == 4 * sum(rounds)
    assert sum(trial["calls"] for trial in rows) == len(paid)
    assert sum(trial["dollars"] for trial in rows) == pytest.approx(sum(paid))
    costs = table(folder, "costs")
    assert len(costs) == 3 * QUERIES
    assert not {"q3", "q5"} & {row["query_id"] for row in costs}, "nobody labelled them"
    right = sum(row["correct"] for row in costs if row["protocol"] == "zelo")
    assert right == trials["zelo"]["correct"]
    assert len(page_of(out).chart("protocols", 0)[0][1]["data"]) == 3
    judging = yaml.safe_load((folder / "config.yaml").read_text())
    own = {name: judging[name] for name in ("judge_options", "prices")}
    (folder / "own.yaml").write_text(yaml.safe_dump(own))
    then = said.splitlines()[-1].replace("THE-FILE-OF-THAT-RUN.yaml", str(folder / "own.yaml"))
    assert cli.main(shlex.split(then)[3:]) == 0
    told = re.search(r"([\d,]+) of ([\d,]+) requests about 22", capsys.readouterr().out)
    left, planned = (int(number.replace(",", "")) for number in told.groups())
    assert 0 < left < planned / 4, "two queries were not compared, and only these are left"


def test_an_estimate_for_each_protocol_asks_nothing_and_writes_nothing(folder, capsys):
    words = ("--dry-run", "--protocols", "zelo", "graded")
    status = cli.main(["compare-protocols", "--config", str(folder / "config.yaml"), *words])
    said = capsys.readouterr()
    assert status == 0
    assert [line for line in said.out.splitlines() if line in ("zelo", "graded")]
    assert f"{QUERIES} of {QUERIES} requests about {QUERIES} queries" in said.out
    assert f"{2 * QUERIES} of {2 * QUERIES} requests about {QUERIES} queries" in said.out
    assert not (folder / "out").exists()


def test_the_query_of_the_worked_examples_measures_no_protocol(folder, capsys):
    rng = random.Random(5)
    with (folder / "pools.jsonl").open("a") as pools, (folder / "labels.txt").open("w") as labels:
        for query in ("graded", "too"):
            texts = [{"id": f"d{n}", "content": f"Text {rng.random()}."} for n in range(4)]
            row = {"query": {"id": query, "query": "What?"}, "documents": texts}
            pools.write(json.dumps(row) + "\n")
            labels.writelines(f"{query} 0 d{n} {n}\n" for n in range(4))
    labels, own = str(folder / "labels.txt"), ("--config", str(folder / "config.yaml"))
    texts = {grade: {"document": f"Text {grade}.", "reason": ""} for grade in range(4)}
    examples = str(folder / "examples.yaml")
    (folder / "examples.yaml").write_text(
        yaml.safe_dump({"query_id": "graded", "query": "What?", "grades": texts})
    )
    config = yaml.safe_load((folder / "config.yaml").read_text())
    options = load_command(
        "compare-protocols",
        {**config, "human": labels, "protocols": ["graded", "zelo"], "anchors": examples},
    )
    told = Told()
    with plan_protocols(options, told) as each:
        pools = (*pools_in(each["graded"].inputs[0]),)
    assert {pool.query_id for pool in pools} == {"too"}
    assert told.lines[0].startswith("6 pairs of the query")
    assert told.lines[0].endswith("worked examples left out")
    assert len(told.lines) == 1
    words = ("--dry-run", "--human", labels, "--anchors", examples, "--protocols")
    assert cli.main(["compare-protocols", *own, *words, "baseline-weak", "graded"]) == 0
    said = capsys.readouterr()
    assert "6 pairs of the query" in said.err
    assert said.out.count("requests about 1 query") == 2
    assert cli.main(["compare-protocols", *own, *words, "baseline-weak"]) == 0
    assert "about 2 queries" in capsys.readouterr().out, "it shows no examples"
    assert not (folder / "out").exists()
    assert collect_items(options, options.out, told, options.protocols).left_out


class Told:
    """A watch that keeps the lines."""

    def __init__(self):
        self.lines = []
        self.say = self.lines.append


def test_people_who_have_no_word_on_the_input_are_told_of(folder, capsys):
    row = {"query_id": "alone", "doc_id_a": "a", "doc_id_b": "b", "preference": 1}
    (folder / "other.jsonl").write_text(json.dumps(row))
    words = ("--human", str(folder / "other.jsonl"), "--dry-run")
    assert cli.main(["compare-protocols", "--config", str(folder / "config.yaml"), *words]) == 1
    said = capsys.readouterr().err
    assert "none of the 1 query with labels" in said
    assert "has 'alone', the input has 'q0'" in said
    row = {"query_id": "q0", "doc_id_a": "a", "doc_id_b": "z", "preference": 1}
    (folder / "other.jsonl").write_text(json.dumps(row))
    assert cli.main(["compare-protocols", "--config", str(folder / "config.yaml"), *words]) == 1
    said = capsys.readouterr().err
    assert "of the 1 query with labels 1" in said
    assert "(such as 'q0') are in the input, but" in said
