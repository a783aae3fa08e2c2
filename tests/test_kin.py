"""Judges that are kin of an arm: who is, labels without them, and what they alone support."""

import json
import random
from dataclasses import replace
from itertools import combinations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.hills import rows_of_tournaments
from tests.test_bakeoff import all_like, entry_of, options_of, report_of, truth_of
from zelo_ray import bakeoff
from zelo_ray.commands.bakeoff import measure
from zelo_ray.commands.bakeoff.files import build_record
from zelo_ray.commands.bakeoff.model_families import find_family_overlap
from zelo_ray.commands.bakeoff.report.gate import gate_lines
from zelo_ray.commands.bakeoff.self_preference import guard_against_self_preference
from zelo_ray.commands.bakeoff.significance import Significance, significance_of, swap_rankers
from zelo_ray.commands.bakeoff.truth_without_judges import InseparableError, find_truth_run
from zelo_ray.commands.report import write_report
from zelo_ray.errors import OptionError
from zelo_ray.evaluation.measures import Truth
from zelo_ray.families import families_of
from zelo_ray.formats.judgments.qrels import read_qrels
from zelo_ray.formats.results import write_json
from zelo_ray.formats.tables import table_of
from zelo_ray.protocols import load_protocol
from zelo_ray.records import Contest, Grade, Vote, Winner

GPT, CLAUDE, GEMINI = "openai:gpt-6-luna", "anthropic:claude-haiku-5-5", "gemini:gemini-3.8-flash"
QUERIES, DOCUMENTS = [f"q{n:02}" for n in range(20)], "abcdef"

NONE_LEFT = "no judge of the truth would be left, so this cannot be checked"


@pytest.mark.parametrize(
    ("name", "families"),
    [
        ("openai:gpt-6-luna", {"gpt"}),
        ("openai:o3-mini", {"gpt"}),
        ("openai:ft:gpt-4o-mini:org::id", {"gpt"}),
        ("openai:Qwen/Qwen3-32B@http://gpt.host/v1", {"qwen"}),
        ("openai:in-house@http://host/v1", {"in-house"}),
        ("gemini:in-house@http://host/v1", {"in-house"}),
        ("listwise:anthropic:claude-haiku-5-5", {"claude"}),
        ("gemini:gemini-3.8-flash", {"gemini"}),
        ("openai:deepseek-r1-distill-llama-70b@http://host/v1", {"deepseek", "llama"}),
        ("llama3-8b_4prompts_graded", {"llama"}),
        ("flan-t5-large_4prompts", {"t5"}),
        ("castorini/monot5-base", {"t5"}),
        ("cohere:rerank-v4.0-pro", {"cohere"}),
        ("zeroentropy:zerank-2", {"zerank", "qwen"}),
        ("cross-encoder:/gpt/models/bge-reranker-v2-gemma/", {"bge", "gemini"}),
        ("offline:bm25", {"lexical"}),
        ("bm25", {"lexical"}),
        ("likelihood", {"lexical"}),
        ("bm25base_p", {"lexical"}),
        ("original", {"original"}),
        ("my_module:MyClass", {"myclass"}),
        ("p_bert", {"p_bert"}),
        ("egypt-run", {"egypt-run"}),
    ],
)
def test_a_name_tells_its_families(name, families):
    assert families_of(name) == families


def test_what_is_declared_counts_and_a_stranger_is_named():
    arms = {"mine": "my_module:Mine", "bm25": "bm25"}
    plain = find_family_overlap([GPT, CLAUDE], arms, {})
    assert not plain.judges_by_ranker
    assert {name: set(judges) for name, judges in plain.judges_by_family.items()} == {
        "claude": {CLAUDE},
        "gpt": {GPT},
    }
    told = find_family_overlap([GPT, CLAUDE], arms, {"mine": ["gpt", "Claude"], CLAUDE: ["other"]})
    assert told.judges_by_ranker == {"mine": {GPT}}
    assert told.shared_families("mine") == {"gpt"}
    assert not find_family_overlap([], arms, {"mine": ["gpt"]}).judges_by_ranker, (
        "qrels claim nothing"
    )
    qrels = find_family_overlap([], arms, {"mine": ["gpt"], "truth": ["gpt"]})
    assert qrels.judges_by_ranker == {"mine": {"truth"}}
    with pytest.raises(OptionError, match=r"mime: .*did you mean 'mine'"):
        find_family_overlap([GPT], arms, {"mime": ["gpt"]})
    with pytest.raises(OptionError, match=rf"the truth names its judges: {GPT}"):
        find_family_overlap([GPT], arms, {"truth": ["gpt"]})
    assert options_of(families={"a": "gpt", "b": ["x", "y"]}).families == {
        "a": ("gpt",),
        "b": ("x", "y"),
    }


def votes_of(judge, order, rng, queries=QUERIES):
    """A judge's votes on all pairs: the earlier of two in its order, with some noise."""
    for query_id, (a, b) in ((q, pair) for q in queries for pair in combinations(DOCUMENTS, 2)):
        apart = order.index(a) - order.index(b) + rng.gauss(0, 1)
        yield Vote(query_id, a, b, judge, max(-1.0, min(1.0, apart)), False, "", "key")


def grades_of(judge, order, rng, queries=QUERIES):
    """A judge's grades: the higher the earlier in its order, with some noise."""
    for query_id, doc in ((q, doc) for q in queries for doc in DOCUMENTS):
        grade = round(3 - 0.6 * order.index(doc) + rng.gauss(0, 0.3))
        yield Grade(query_id, doc, judge, min(3, max(0, grade)), (), (), "", "key")


GIVE = {"zelo": votes_of, "graded": grades_of}


def write_truth(out, protocol, judges, seed=0):
    """What `annotate` leaves: judgments, scores by the protocol itself, and the record.

    Args:
        judges: by name, the order that each sees.
    """
    out.mkdir(exist_ok=True)
    own, rng = load_protocol(protocol), random.Random(seed)
    options = own.options(inputs=("in.jsonl",), out=str(out), protocol=protocol)
    given = [one for judge, order in judges.items() for one in GIVE[protocol](judge, order, rng)]
    (table,) = own.judgments
    pq.write_table(table_of(given, own.judgments[table].record), out / f"{table}.parquet")
    pools = [[one for one in given if one.query_id == query_id] for query_id in QUERIES]
    learned = None
    if wanted := own.learned_from(options):
        learned = own.learn(
            {name: pq.read_table(out / f"{name}.parquet") for name in wanted}, options
        )
    scores = [score for fit in own.fit(pools, options, learned) for score in fit.scores]
    pq.write_table(table_of(scores, own.score.record), out / "scores.parquet")
    record = {"kind": "annotate", "finished": True, "options": options.model_dump(mode="json")}
    write_json(str(out), "run.json", record)
    return str(out)


def as_rows(table):
    return table.sort_by([("query_id", "ascending"), ("doc_id", "ascending")]).to_pylist()


THREE = {GPT: "abcdef", CLAUDE: "fedcba", GEMINI: "fedcab"}


@pytest.mark.parametrize("protocol", ["zelo", "graded"])
def test_labels_without_a_judge_are_those_that_the_others_alone_give(tmp_path, protocol):
    out = write_truth(tmp_path / "three", protocol, THREE)
    truth, run = read_qrels(out), find_truth_run(f"{out}/scores.parquet")
    assert run.judges == tuple(sorted(THREE))
    assert repr(as_rows(run.labels_without((), truth))) == repr(as_rows(truth)), "bit for bit"
    rest = run.labels_without([GPT], truth)
    (name,) = load_protocol(protocol).judgments
    whole = pq.read_table(tmp_path / "three" / f"{name}.parquet")
    other = tmp_path / "two"
    write_truth(other, protocol, {CLAUDE: THREE[CLAUDE], GEMINI: THREE[GEMINI]})
    pq.write_table(whole.filter(pc.not_equal(whole["judge"], GPT)), other / f"{name}.parquet")
    alone = find_truth_run(str(other)).labels_without((), truth)
    assert repr(as_rows(rest)) == repr(as_rows(alone))
    assert as_rows(rest) != as_rows(truth)
    with pytest.raises(InseparableError, match="no judge"):
        run.labels_without(THREE, truth)


def test_labels_that_cannot_be_told_apart_say_why(tmp_path):
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


def contest_under(truth, judges=(), annotated_run=None, families=None, baseline=None, **arms):
    """A contest of arms named by their order, guarded; and its leading comparisons by arms."""
    entries = [entry_of(name, dict.fromkeys(QUERIES, order)) for name, order in arms.items()]
    options = options_of(measures=("nDCG@3",), resamples=500, baseline=baseline)
    outcome = measure(truth, entries, options, {})
    who = {name: name.replace("_", ":", 1) for name in arms}
    guard_against_self_preference(
        outcome, find_family_overlap(judges, who, families or {}), annotated_run, options
    )
    return outcome, {(c.run_a, c.run_b): c for c in outcome.comparisons}


@pytest.mark.parametrize("protocol", ["zelo", "graded"])
def test_what_only_kin_support_is_not_sure(tmp_path, protocol):
    judges = {GPT: "abcdef", "openai:gpt-4o": "abcdfe", CLAUDE: "fedcba"}
    out = write_truth(tmp_path, protocol, judges)
    run, truth = find_truth_run(out), Truth(read_qrels(out))
    arms = {"listwise_openai:gpt-5": "abcdef", "bm25": "fedcba", "worst": "cfbdae"}
    outcome, found = contest_under(truth, run.judges, run, **arms)
    gpt = found["listwise_openai:gpt-5", "bm25"]
    assert gpt.difference > 0
    assert gpt.p_holm < 0.05
    assert (gpt.kin, significance_of(gpt), significance_of(swap_rankers(gpt))) == (
        "gpt",
        Significance.ONLY_BY_OWN_FAMILY,
        Significance.ONLY_BY_OWN_FAMILY,
    )
    unrelated = found["bm25", "worst"]
    assert unrelated.kin == ""
    plain = measure(truth, outcome.rankers, options_of(measures=("nDCG@3",)), {}).comparisons
    assert significance_of(unrelated) == significance_of(
        next(c for c in plain if c.run_b == "worst" and c.run_a == "bm25")
    )
    assert outcome.self_preference.not_refitted == {}


def test_what_others_support_as_well_stays_sure(tmp_path):
    judges = {GPT: "abcdef", CLAUDE: "abcdfe", GEMINI: "bacdef"}
    out = write_truth(tmp_path, "graded", judges)
    run, truth = find_truth_run(out), Truth(read_qrels(out))
    _, found = contest_under(truth, run.judges, run, **{"openai:gpt-5": "abcdef", "bm25": "fedcba"})
    assert significance_of(found["openai:gpt-5", "bm25"]) is Significance.ABOVE


def test_without_another_family_nothing_about_kin_is_sure(tmp_path):
    out = write_truth(tmp_path, "graded", {GPT: "abcdef", "openai:gpt-4o": "abcdef"})
    run, truth = find_truth_run(out), Truth(read_qrels(out))
    arms = {"openai:gpt-5": "abcdef", "bm25": "fedcba", "other": "abcfde"}
    outcome, found = contest_under(truth, run.judges, run, **arms)
    assert significance_of(found["openai:gpt-5", "bm25"]) is Significance.ONLY_BY_OWN_FAMILY
    assert significance_of(found["bm25", "other"]) is Significance.BELOW
    assert outcome.self_preference.not_refitted == {
        "gpt": "no judge of the truth would be left, so this cannot be checked"
    }


def test_where_only_kin_say_so_the_gate_is_open_and_no_number_of_queries_helps(tmp_path):
    out = write_truth(tmp_path, "graded", {GPT: "abcdef", "openai:gpt-4o": "abcdef"})
    run, truth = find_truth_run(out), Truth(read_qrels(out))
    arms = {"openai:gpt-5": "abcdef", "bm25": "fedcba"}
    outcome, _ = contest_under(truth, run.judges, run, baseline="bm25", **arms)
    (line,) = gate_lines(outcome.gate)
    assert line.startswith("GATE open: ")
    assert "only judges of its own model family" in line
    assert "(gpt): openai:gpt-5 against bm25 (nDCG@3 +" in line
    assert "queries show it" not in line
    assert (outcome.gate[0].verdict, outcome.gate[0].enough) == ("only kin", 0)


def test_a_protocol_that_cannot_do_without_a_judge_does_not_end_the_contest(tmp_path):
    def needs_both(*given):
        raise ValueError("two judges are needed")

    out = write_truth(tmp_path, "zelo", {GPT: "abcdef", CLAUDE: "fedcba"})
    run = find_truth_run(out)
    run = replace(run, protocol=replace(run.protocol, fit=needs_both))
    arms = {"openai:gpt-5": "abcdef", "bm25": "fedcba"}
    outcome, _ = contest_under(Truth(read_qrels(out)), run.judges, run, **arms)
    why = "ValueError: two judges are needed"
    assert outcome.self_preference.not_refitted == {"gpt": why, "claude": why}


def test_qrels_claim_nothing_unless_they_are_declared(tmp_path):
    arms = {"mine": "abcd", "other": "dcba"}
    outcome, found = contest_under(truth_of(queries=QUERIES), **arms)
    assert significance_of(found["mine", "other"]) is Significance.ABOVE
    assert report_of(outcome, tmp_path).banner == ""
    declared = {"truth": ["gpt"], "mine": ["gpt"]}
    outcome, found = contest_under(truth_of(queries=QUERIES), families=declared, **arms)
    assert significance_of(found["mine", "other"]) is Significance.ONLY_BY_OWN_FAMILY
    report = report_of(outcome, tmp_path)
    assert report.banner.endswith(
        "mine (gpt) is judged by unnamed judges. "
        "Without gpt: no judge of the truth would be left, so this cannot be checked."
    )
    assert report.table("differences").rows[0][2] == "only by judges of gpt"


@pytest.fixture(scope="module")
def contest(tmp_path_factory):
    """A contest of run files alone, by the public function: it takes no Ray."""
    out = tmp_path_factory.mktemp("kin")
    judges = {GPT: "abcdef", "openai:gpt-4o": "abcdef", CLAUDE: "fedcba"}
    truth = write_truth(out / "truth", "graded", judges)
    runs = {"openai:gpt-5": "abcdef", "bm25": "fedcba", "\x1b[2J<b>": "cfbdae"}
    frames = {
        name: pa.Table.from_pylist(
            [
                {"query_id": q, "doc_id": doc, "score": -float(n)}
                for q in QUERIES
                for n, doc in enumerate(order)
            ]
        )
        for name, order in runs.items()
    }
    found = bakeoff(
        truth=truth, runs=frames, out=str(out / "c"), resamples=500, progress=None, label_draws=20
    )
    write_report(str(out / "c"))
    return out / "c", found


def test_the_report_says_so_on_top(contest):
    _, results = contest
    report = results.report
    assert report.banner.endswith(f"openai:gpt-5 (gpt) is judged by openai:gpt-4o, {GPT}.")
    assert results.to_text().startswith("Self-preference: ")
    assert "\x1b" not in results.to_text()
    assert "only by judges of gpt" in [row[2] for row in report.table("differences").rows]


def test_the_page_says_so_on_top(contest):
    out, _ = contest
    html = (out / "report.html").read_text()
    assert html.index("Self-preference: judges of the truth") < html.index("<h1")


def test_the_record_names_the_arms_that_have_kin(contest):
    out, _ = contest
    summary = json.loads((out / "run.json").read_text())["summary"]["kin"]
    assert summary["rankers"] == {
        "openai:gpt-5": {"families": ["gpt"], "judges": ["openai:gpt-4o", GPT]}
    }
    assert summary["judges"][CLAUDE] == ["claude"]


def test_a_contest_that_was_never_guarded_has_a_record():
    outcome = measure(truth_of(), [entry_of("one", all_like("abcd"))], options_of(), {})
    assert build_record(outcome, [], {})["summary"]["kin"] is None


@pytest.mark.parametrize(("order", "told"), [("input", ""), ("zelo", "do not judge independently")])
def test_tournaments_can_be_told_apart_where_each_judge_has_its_own(tmp_path, order, told):
    contests, winners, _ = rows_of_tournaments()
    for name, rows, record in (("contests", contests, Contest), ("winners", winners, Winner)):
        pq.write_table(table_of(rows, record), tmp_path / f"{name}.parquet")
    options = {"protocol": "best-of", "inputs": ["in.jsonl"], "out": "out", "order": order}
    write_json(str(tmp_path), "run.json", {"kind": "annotate", "options": options})
    truth = pa.table({"query_id": ["q0"] * 3, "doc_id": list("abc")})
    run = find_truth_run(str(tmp_path))
    if told:
        with pytest.raises(InseparableError, match=told):
            run.labels_without(["j1"], truth)
    else:
        assert run.judges == ("j1", "j2")
        (first, *_) = sorted(
            run.labels_without(["j1"], truth).to_pylist(), key=lambda row: -row["relevance"]
        )
        assert first["doc_id"] == "a"
