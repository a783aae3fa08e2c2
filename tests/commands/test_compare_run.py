"""Ways of judging compared as a user does it: the command, its caps, its resume, its next step."""

import hashlib
import json
import random
import re
import shlex

import pytest
import yaml

from tests.fakes.scripted import Scripted
from tests.helpers.builders import rows_of
from tests.helpers.crash import bare_environment
from tests.helpers.jobs import run_job
from tests.helpers.provider_calls import completion
from zelo_ray import cli, load_run
from zelo_ray.commands.compare.items import CHOICE, TEST, half_of
from zelo_ray.engine.ledger import read_rows

QUERIES, DOCUMENTS = 24, 4
FIRST = sum(half_of(f"Question {q}?") == CHOICE for q in range(QUERIES))
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


@pytest.fixture
def model():
    """A server that judges, and keeps what it was asked."""
    with Scripted(reply) as server:
        yield server


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
    judge = f"openai:m@{model.url}/v1"
    config = {
        "inputs": [str(tmp_path / "pools.jsonl")],
        "human": str(tmp_path / "qrels.txt"),
        "protocol": "graded",
        "judges": [judge],
        "prices": {judge: {"input": 2.0, "output": 8.0}},
        "limits": {judge: {"rpm": 1e6}},
        "judge_options": {judge: {"max_output_tokens": 300}},
        "try": [f"instructions={tmp_path / 'lazy.txt'}"],
        "halves": True,
        "out": str(tmp_path / "out"),
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


@pytest.fixture
def run(folder):
    """Runs the command: its status and what it printed."""

    def ran(*words):
        own = ("--config", str(folder / "config.yaml"))
        status, printed = run_job(bare_environment(), "compare", *own, *words)
        assert "Traceback" not in printed, printed
        return status, printed

    return ran


def figures_of(folder):
    rows = rows_of(folder / "out", "figures")
    return {(row["of"], row["against"], row["what"], row["scale"]): row for row in rows}


def test_the_truly_better_wording_is_chosen_and_shown_to_be_better(folder, run, model):
    facts = "instructions facts"
    better = ("--try", *(f"instructions={folder / name}.txt" for name in ("lazy", "facts")))
    status, printed = run(*better, "--max-usd", "5")
    assert status == 0, printed
    found = load_run(folder / "out")
    assert found.chosen == facts
    parts = found.record["parts"]
    assert sum(part["queries"] for part in parts.values()) == QUERIES
    figures = figures_of(folder)
    best = {what: figures[facts, "", what, TEST]["value"] for what in ("concordance", "calls")}
    assert best == {"concordance": 1.0, "calls": DOCUMENTS * parts[TEST]["queries"]}
    assert ("instructions lazy", "", "concordance", TEST) not in figures, "it was not chosen"
    prompts = [[each["content"] for each in body["messages"]] for body in model.bodies]
    asked = [texts for texts in prompts if MAGIC in texts[0]]
    of_half = [texts for texts in asked if half_of(QUESTION.search(texts[1])[0]) == TEST]
    tokens_in, tokens_out = sum(map(tokens_of, of_half)), 7 * len(of_half)
    assert figures[facts, "", "tokens", TEST]["value"] == tokens_in + tokens_out
    dollars = figures[facts, "", "dollars", TEST]["value"]
    assert dollars == pytest.approx((tokens_in * 2 + tokens_out * 8) / 1e6)
    tested = [place for place, row in figures.items() if row["p"] == row["p"]]
    assert tested == [(facts, "graded", "difference", TEST)], "one test, whatever was tried"
    assert figures[tested[0]]["p"] < 0.05
    assert found.tested["p"] == figures[tested[0]]["p"]
    calls = DOCUMENTS * (3 * FIRST + 2 * (QUERIES - FIRST))
    assert len(model.bodies) == calls == found.record["cost"]["calls"]

    halves = {f"q{q}": half_of(f"Question {q}?") for q in range(QUERIES + 2)}
    [part] = found.report.section("misjudged").parts
    assert {halves[row[0]] for row in part.rows} == {CHOICE}, "the others stay unseen"
    items = rows_of(folder / "out", "items")
    assert all(row["half"] == halves[row["query_id"]] for row in items)
    assert all(row[facts] == row["human"] for row in items if row["half"] == TEST)

    # The same again asks nothing; the next step is a command that goes on with the chosen one.
    status, again = run(*better, "--max-usd", "5")
    assert status == 0
    assert len(model.bodies) == calls
    assert load_run(folder / "out").chosen == facts
    words = shlex.split(again.splitlines()[-1].removeprefix("Next step: "))[1:]
    status, said = run_job(bare_environment(), *words)
    assert status == 0, said
    assert f"{QUERIES + 2} queries" in said
    assert f"requests left {2 * DOCUMENTS} " in said, "two queries have no labels: these are left"
    assert cli.main(["report", str(folder / "out")]) == 0


def test_without_halves_every_two_are_compared_on_all(folder, run, model):
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config |= {"halves": False, "candidates": {"twice": {"repeats": 2}}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    status, printed = run()
    assert status == 0, printed
    figures = figures_of(folder)
    ways = {"graded", "instructions lazy", "twice"}
    pairs = [{of, against} for of, against, what, _ in figures if what == "difference"]
    assert sorted(map(sorted, pairs)) == sorted(map(sorted, [ways - {way} for way in ways]))
    assert all(row["p"] <= 1 for row in figures.values() if row["what"] == "difference")
    calls = {way: figures[way, "", "calls", "all"]["value"] for way in ways}
    every = QUERIES * DOCUMENTS
    assert calls == {"graded": every, "instructions lazy": every, "twice": 2 * every}
    ledger = load_run(folder / "out").record["cost"]["calls"]
    assert ledger == len(model.bodies) < sum(calls.values()), "a reply is paid for once"
    assert ways < {*rows_of(folder / "out", "items")[0]}


def test_a_cap_holds_for_all_of_it_and_more_money_goes_on(folder, run, model):
    status, printed = run("--max-usd", "0.03")
    assert status == 3
    assert "the budget of $0.0300 is used up" in " ".join(printed.split())
    paid = sum(row.dollars for row in read_rows(str(folder / "out")))
    assert 0.015 < paid <= 0.03
    assert any(warn.code == "missing" for warn in load_run(folder / "out").report.warnings)
    before = len(model.bodies)
    status, printed = run("--max-usd", "5")
    assert status == 0, printed
    assert before < len(model.bodies) <= 2 * DOCUMENTS * QUERIES


def test_an_estimate_asks_and_writes_nothing(folder, capsys, model):
    own = ("--config", str(folder / "config.yaml"), "--dry-run", "--json")
    assert cli.main(["compare", *own]) == 0
    estimates = json.loads(capsys.readouterr().out)["result"]["estimates"]
    left = {row["name"]: row["forecasts"][0]["left"] for row in estimates}
    assert left == {"graded": DOCUMENTS * QUERIES, "instructions lazy": DOCUMENTS * FIRST}, (
        "the second half is judged by the options as given, and by one that is not known yet"
    )
    assert not model.bodies
    assert not (folder / "out").exists()


def test_the_query_of_worked_examples_counts_only_where_no_way_shows_them(folder, capsys):
    texts = {grade: {"document": f"Text {grade}.", "reason": ""} for grade in range(4)}
    shown = {"query_id": "q0", "query": "What?", "grades": texts}
    (folder / "examples.yaml").write_text(yaml.safe_dump(shown))
    own = ("--config", str(folder / "config.yaml"), "--anchors", str(folder / "examples.yaml"))
    plain = ("--try", "protocol=baseline-weak", "--dry-run", "--json")
    config = yaml.safe_load((folder / "config.yaml").read_text()) | {"halves": False}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    for protocol, queries in (("graded", QUERIES - 1), ("zelo", QUERIES)):
        assert cli.main(["compare", *own, "--protocol", protocol, *plain]) == 0
        estimates = json.loads(capsys.readouterr().out)["result"]["estimates"]
        assert {row["pools"] for row in estimates} == {queries}
