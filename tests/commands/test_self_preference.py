"""Judges of an arm's own family: who is, labels without them, and what they alone support."""

import json
import random
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.commands.test_bakeoff import options_of, results_of, scores_of, truth_of
from tests.helpers.contests import run_of
from tests.helpers.hills import rows_of_tournaments
from zelo_ray import bakeoff
from zelo_ray.commands.bakeoff.families import Guard, find_families
from zelo_ray.commands.bakeoff.gate import decide_gates
from zelo_ray.commands.bakeoff.measure import measure
from zelo_ray.engine.refit import InseparableError, find_truth_run
from zelo_ray.errors import OptionError
from zelo_ray.evaluation.measures import Truth
from zelo_ray.evaluation.significance import Significance, significance_of, swap_rankers
from zelo_ray.families import families_of
from zelo_ray.files.judgments import read_qrels
from zelo_ray.files.storage import write_json
from zelo_ray.files.tables import table_of
from zelo_ray.protocols import Evidence, load_protocol
from zelo_ray.records import Contest, Grade, Vote, Winner

GPT, CLAUDE, GEMINI = "openai:gpt-6-luna", "anthropic:claude-haiku-5-5", "gemini:gemini-3.8-flash"
GPT_4 = "openai:gpt-4o"
QUERIES, DOCUMENTS = [f"q{n:02}" for n in range(20)], "abcdef"
NONE_LEFT = "no judge of the truth would be left, so this cannot be checked"
NAMES = {
    "gpt": "openai:gpt-6-luna openai:o3-mini openai:ft:gpt-4o-mini:org::id",
    "qwen": "openai:Qwen/Qwen3-32B@http://gpt.host/v1",
    "in-house": "openai:in-house@http://host/v1 gemini:in-house@http://host/v1",
    "claude": "listwise:anthropic:claude-haiku-5-5",
    "gemini": "gemini:gemini-3.8-flash",
    "deepseek llama": "openai:deepseek-r1-distill-llama-70b@http://host/v1",
    "llama": "llama3-8b_4prompts_graded",
    "t5": "flan-t5-large_4prompts castorini/monot5-base",
    "cohere": "cohere:rerank-v4.0-pro",
    "zerank qwen": "zeroentropy:zerank-2",
    "bge gemini": "cross-encoder:/gpt/models/bge-reranker-v2-gemma/",
    "lexical": "offline:bm25 bm25 likelihood bm25base_p",
    "myclass": "my_module:MyClass",
} | {name: name for name in ("original", "p_bert", "egypt-run")}


def test_a_name_tells_its_families():
    for families, names in NAMES.items():
        for name in names.split():
            assert families_of(name) == {*families.split()}, name


def related(families):
    """By ranker, the judges of its families."""
    return {name: set(own) for name in families.rankers if (own := families.judges_like(name))}


def test_what_is_declared_counts_and_a_stranger_is_refused():
    arms = {"mine": "my_module:Mine", "bm25": "bm25"}
    plain = find_families([GPT, CLAUDE], arms, {})
    assert not related(plain)
    assert plain.judges == {CLAUDE: {"claude"}, GPT: {"gpt"}}
    told = find_families([GPT, CLAUDE], arms, {"mine": ["gpt", "Claude"], CLAUDE: ["other"]})
    assert related(told) == {"mine": {GPT}}
    assert told.shared("mine") == {"gpt"}
    of_qrels = [
        related(find_families([], arms, {"mine": ["gpt"], **truth}))
        for truth in ({}, {"truth": ["gpt"]})
    ]
    assert of_qrels == [{}, {"mine": {"truth"}}], "qrels claim nothing of themselves"
    for name in ("mime", "truth"):
        with pytest.raises(OptionError):
            find_families([GPT], arms, {name: ["gpt"]})
    told = options_of(families={"a": "gpt", "b": ["x", "y"]}).families
    assert told == {"a": ("gpt",), "b": ("x", "y")}


# Labels without some judges


def votes_of(judge, order, rng):
    """A judge's votes on all pairs: the earlier of two in its order, with some noise."""
    for query_id, (a, b) in ((q, pair) for q in QUERIES for pair in combinations(DOCUMENTS, 2)):
        apart = order.index(a) - order.index(b) + rng.gauss(0, 1)
        yield Vote(query_id, a, b, judge, max(-1.0, min(1.0, apart)), False, "", "key")


def grades_of(judge, order, rng):
    """A judge's grades: the higher the earlier in its order, with some noise."""
    for query_id, doc in ((q, doc) for q in QUERIES for doc in DOCUMENTS):
        grade = round(3 - 0.6 * order.index(doc) + rng.gauss(0, 0.3))
        yield Grade(query_id, doc, judge, min(3, max(0, grade)), (), (), "", "key")


GIVE = {"zelo": (votes_of,), "graded": (grades_of,), "zelo and grades": (votes_of, grades_of)}


def write_truth(out, way, judges):
    """What `annotate` leaves, by the protocol itself; ``judges``: by name, the order each sees."""
    out.mkdir(exist_ok=True)
    protocol, *more = way.split(" and ")
    own, rng = load_protocol(protocol), random.Random(0)
    fields = {"calls_per_document": 5} if more else {}
    options = own.options(inputs=("in.jsonl",), out=str(out), protocol=protocol, **fields)
    kinds = [
        [one for judge, order in judges.items() for one in give(judge, order, rng)]
        for give in GIVE[way]
    ]
    tables = {}
    for rows in kinds:
        (name,) = (name for name, kind in own.judgments.items() if kind.record is type(rows[0]))
        tables[name] = table_of(rows, type(rows[0]))
        pq.write_table(tables[name], out / f"{name}.parquet")
    pools = [[one for rows in kinds for one in rows if one.query_id == query] for query in QUERIES]
    learned = own.learn(pools, Evidence(judges), options) if own.learns(options) else None
    scores = [score for fit in own.fit(pools, options, learned) for score in fit.scores]
    pq.write_table(table_of(scores, own.scores_of(options).record), out / "scores.parquet")
    record = {"kind": "annotate", "finished": True, "options": options.model_dump(mode="json")}
    write_json(str(out), "run.json", record)
    return str(out)


def as_rows(table):
    """Rows in one order, to compare them bit for bit, NaN included."""
    return repr(table.sort_by([("query_id", "ascending"), ("doc_id", "ascending")]).to_pylist())


THREE = {GPT: "abcdef", CLAUDE: "fedcba", GEMINI: "fedcab"}


@pytest.mark.parametrize("way", GIVE)
def test_labels_without_a_judge_are_those_of_the_others(tmp_path, way):
    out, other = write_truth(tmp_path / "three", way, THREE), tmp_path / "two"
    truth, run = read_qrels(out), find_truth_run(f"{out}/scores.parquet")
    assert run.judges == tuple(sorted(THREE))
    assert as_rows(run.labels_without((), truth)) == as_rows(truth)
    rest = as_rows(run.labels_without([GPT], truth))
    write_truth(other, way, {name: THREE[name] for name in (CLAUDE, GEMINI)})
    for path in {*other.glob("*.parquet")} - {other / "scores.parquet"}:
        whole = pq.read_table(f"{out}/{path.name}")
        pq.write_table(whole.filter(pc.not_equal(whole["judge"], GPT)), path)
    assert rest == as_rows(find_truth_run(str(other)).labels_without((), truth)) != as_rows(truth)
    with pytest.raises(InseparableError, match="no judge"):
        run.labels_without(THREE, truth)


def test_what_cannot_be_told_apart_is_refused(tmp_path):
    out = write_truth(tmp_path, "zelo", THREE)
    truth, record = read_qrels(out), json.loads((tmp_path / "run.json").read_text())
    record["panel"] = [{"judge": GPT}, {"judge": CLAUDE}]
    record["options"]["protocol"] = "best-of"
    write_json(out, "run.json", record)
    run = find_truth_run(out)
    assert run.judges == (CLAUDE, GPT), "its contests are not there: those that were asked"
    with pytest.raises(InseparableError, match="no such file"):
        run.labels_without([GPT], truth)
    assert find_truth_run(str(tmp_path / "nowhere")) is None
    write_json(out, "run.json", {"kind": "bakeoff"})
    assert find_truth_run(out) is None


def test_tournaments_are_told_apart(tmp_path):
    contests, winners, _ = rows_of_tournaments()
    for name, rows, record in (("contests", contests, Contest), ("winners", winners, Winner)):
        pq.write_table(table_of(rows, record), tmp_path / f"{name}.parquet")
    options = {"protocol": "best-of", "inputs": ["in.jsonl"], "out": "out"}
    write_json(str(tmp_path), "run.json", {"kind": "annotate", "options": options})
    truth = pa.table({"query_id": ["q0"] * 3, "doc_id": list("abc")})
    run = find_truth_run(str(tmp_path))
    assert run.judges == ("j1", "j2")
    labels = run.labels_without(["j1"], truth).to_pylist()
    assert max(labels, key=lambda row: row["relevance"])["doc_id"] == "a"


# What only they support


@pytest.fixture
def contest_of(tmp_path):
    """A contest of arms named by their order under the labels of judges, guarded."""

    def contested(judges, protocol="graded", change=lambda run: run, baseline=None, **arms):
        out = write_truth(tmp_path, protocol, judges)
        run = change(find_truth_run(out))
        return guarded(Truth(read_qrels(out)), arms, run.judges, run, baseline=baseline)

    return contested


def guarded(truth, arms, judges=(), run=None, families=None, baseline=None):
    """What was measured, the guard, and each comparison and decision as the guard leaves it."""
    orders = {name: dict.fromkeys(QUERIES, order) for name, order in arms.items()}
    runs = {name: run_of(scores_of(each)) for name, each in orders.items()}
    options = options_of(measures=("nDCG@3",), baseline=baseline)
    measured = measure(truth, runs, options)
    found = find_families(judges, {name: name for name in arms}, families or {})
    guard = Guard(measured, found, run, options)
    comparisons = {(c.run_a, c.run_b): guard.check(c) for c in measured.comparisons}
    gates = decide_gates(measured, None, options) if baseline else []
    return measured, guard, comparisons, {row.run: guard.check_gate(row) for row in gates}


ONLY = Significance.ONLY_BY_OWN_FAMILY


@pytest.mark.parametrize("protocol", ["zelo", "graded"])
def test_what_only_kin_support_is_not_sure(contest_of, protocol):
    judges = {GPT: "abcdef", GPT_4: "abcdfe", CLAUDE: "fedcba"}
    arms = {"gpt-5": "abcdef", "bm25": "fedcba", "worst": "cfbdae"}
    measured, guard, found, _ = contest_of(judges, protocol, **arms)
    gpt, unrelated = found["gpt-5", "bm25"], found["bm25", "worst"]
    assert gpt.difference > 0
    assert gpt.p_holm < 0.05
    assert gpt.family == "gpt"
    assert [significance_of(each) for each in (gpt, swap_rankers(gpt))] == [ONLY, ONLY]
    [same] = [c for c in measured.comparisons if (c.run_a, c.run_b) == ("bm25", "worst")]
    assert unrelated == same
    assert guard.not_refitted() == {}


def test_what_others_support_as_well_stays_sure(contest_of):
    judges = {GPT: "abcdef", CLAUDE: "abcdfe", GEMINI: "bacdef"}
    _, _, found, _ = contest_of(judges, **{"gpt-5": "abcdef", "bm25": "fedcba"})
    assert significance_of(found["gpt-5", "bm25"]) is Significance.ABOVE


def test_without_another_family_nothing_about_kin_is_sure(contest_of):
    """Nor does the gate say more: no number of queries would help."""
    arms = {"gpt-5": "abcdef", "bm25": "fedcba", "other": "abcfde"}
    judges = {GPT: "abcdef", GPT_4: "abcdef"}
    _, guard, found, gates = contest_of(judges, baseline="bm25", **arms)
    assert significance_of(found["gpt-5", "bm25"]) is ONLY
    assert significance_of(found["bm25", "other"]) is Significance.BELOW
    assert guard.not_refitted() == {"gpt": NONE_LEFT}
    assert (gates["gpt-5"].verdict, gates["gpt-5"].enough) == ("own family only", 0)
    assert gates["other"].verdict == "better"


def test_qrels_claim_nothing_unless_they_are_declared(tmp_path):
    arms, declared = {"mine": "abcd", "other": "dcba"}, {"truth": ["gpt"], "mine": ["gpt"]}
    orders = {name: dict.fromkeys(QUERIES, order) for name, order in arms.items()}
    for families, sure in (({}, Significance.ABOVE), (declared, ONLY)):
        _, _, found, _ = guarded(truth_of(queries=QUERIES), arms, families=families)
        assert significance_of(found["mine", "other"]) is sure
        truth = {query: {"a": 3, "b": 2, "c": 1, "d": 0} for query in QUERIES}
        results = results_of(tmp_path / sure.name, orders, truth, families=families)
        assert bool(results.report.banner) == bool(families)
        found = {warn.code for warn in results.report.warnings}
        assert ("own_family" in found) == bool(families)


def test_report_page_and_table_say_so(tmp_path):
    judges = {GPT: "abcdef", GPT_4: "abcdef", CLAUDE: "fedcba"}
    truth, out = write_truth(tmp_path / "truth", "graded", judges), tmp_path / "contest"
    runs = {"openai:gpt-5": "abcdef", "bm25": "fedcba", "\x1b[2J<b>": "cfbdae"}
    runs = {name: scores_of(dict.fromkeys(QUERIES, order)) for name, order in runs.items()}
    results = bakeoff(truth=truth, runs=runs, out=str(out), label_draws=20, progress=None)
    assert all(name in results.report.banner for name in ("openai:gpt-5", GPT_4, GPT))
    assert CLAUDE not in results.report.banner
    assert results.report.banner in " ".join(results.to_text().split())
    assert "\x1b" not in results.to_text()
    assert "gpt" in {row["family"] for row in results.comparisons}
    html = Path(results.write_report()).read_text()
    assert html.index("Self-preference") < html.index("<h1")
    [row] = [row for row in results.leaderboard if row["judges"]]
    assert (row["run"], row["families"], row["judges"]) == ("openai:gpt-5", ["gpt"], [GPT_4, GPT])
    assert results.record["truth"]["judges"] == sorted(judges)
