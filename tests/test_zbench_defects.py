"""What went wrong in zbench, the program that this one follows, does not go wrong here.

One test for each situation that broke it, driven through this program's own code.
"""

import json
import random
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.builders import (
    THREE,
    Shelf,
    ask,
    judge_of,
    line_of,
    missing,
    options_of,
    pool_of,
    results_of,
    verdict,
)
from tests.fakes import Fault
from zelo_ray.engine.ledger import Ledger, read_rows
from zelo_ray.fitting.bradley_terry import bradley_terry, score_votes
from zelo_ray.fitting.pairs import ring_pairs
from zelo_ray.formats.pools import LineLimits, parse_line
from zelo_ray.protocols import advance, zelo
from zelo_ray.reasons import UnscoredReason
from zelo_ray.records import Document, Failure, Pool, Vote

JUDGE = (judge_of("openai:one"),)


def judged(pool, text, options=None):
    """A pool's judgments and failures if every reply is the same text."""
    options, shelf = options or options_of(), Shelf()
    for request in missing(pool, JUDGE, options):
        shelf.put(request, text)
    step = advance(zelo.rounds(pool, JUDGE, options), shelf)
    return [*step.judgments, *step.failures]


def scores(votes):
    (fit,) = score_votes([votes])
    return {score.doc_id: score.score for score in fit.scores}


def test_1_a_failed_call_is_no_vote_for_document_a(tmp_path):
    """Every call failed, and it said that all had gone well and wrote scores."""
    summary = results_of(tmp_path, [pool_of()], lambda _: "failed")
    assert (summary.scored, summary.judgments, summary.failures) == (0, 0, 12)
    assert {q: why.code for q, why in summary.unscored.items()} == {
        "q1": UnscoredReason.LOW_COVERAGE
    }
    assert not summary.complete


@pytest.mark.parametrize("said", [0.0, -0.0])
def test_2_a_tie_is_half_a_win_for_each_in_either_order(said):
    """A tie went to the document that came first."""
    votes = judged(pool_of(range(6)), verdict(said))
    assert {vote.swapped for vote in votes} == {True, False}
    assert set(scores(votes).values()) == {0.0}


@pytest.mark.parametrize("provider", THREE)
def test_3_a_call_that_is_repeated_still_has_its_system_prompt(fakes, environ, tmp_path, provider):
    """After one 429 the judge got the documents without the task."""
    fakes.faults = [Fault("429", times=1, retry_after=0.01)]
    name = f"{provider.upper()}_API_KEY"
    ask([pool_of((0, 1))], tmp_path, {name: environ[name]})
    first, second = fakes.journal
    assert (first["outcome"], second["outcome"]) == ("429", "ok")
    assert "You compare two documents by their relevance" in second["body"]
    assert second["body"] == first["body"]


@pytest.mark.parametrize(("said", "winner"), [("-1", "first"), ("1", "second"), ("-1.0", "first")])
def test_4_an_integer_is_a_number(said, winner):
    """A swapped -1 became a vote for A."""
    for vote in judged(pool_of(range(6)), f'{{"reasoning": "", "preference": {said}}}'):
        first, second = (vote.doc_id_a, vote.doc_id_b)[:: -1 if vote.swapped else 1]
        chosen = vote.doc_id_b if vote.preference > 0 else vote.doc_id_a
        assert chosen == {"first": first, "second": second}[winner]


@pytest.mark.parametrize("said", ["57", "{0.85}", "+1", "1.", "<score>0.5</score>"])
def test_4_what_is_no_number_in_range_is_no_vote(said):
    for found in judged(pool_of(), f'{{"reasoning": "", "preference": {said}}}'):
        assert isinstance(found, Failure)
        assert found.status == "invalid"


@pytest.mark.parametrize("provider", THREE)
def test_5_the_range_is_checked_for_judges_with_a_schema_too(fakes, environ, tmp_path, provider):
    """Structured answers had no range check, and were never asked for again."""
    fakes.faults = [Fault("out_of_range", times=1)]
    name = f"{provider.upper()}_API_KEY"
    asker = ask([pool_of((0, 1))], tmp_path, {name: environ[name]})
    assert [row.status for row in asker.books] == ["invalid", "ok"]


def test_6_documents_past_the_limit_are_not_put_into_the_middle(tmp_path):
    """They got a score of about 0, above judged documents below average."""
    results_of(tmp_path, [pool_of(range(6))], document_limit=3)
    line = json.loads((tmp_path / "annotated.jsonl").read_bytes())
    assert [d["id"] for d in line["documents"] if "score" in d] == ["d0", "d1", "d2"]
    assert pq.read_table(tmp_path / "scores.parquet").num_rows == 3


def test_7_the_score_of_an_undefeated_document_is_not_the_stopping_rule():
    """4.8, 8.0, 11.2 or 14.4, as the tolerance was 1e-2, 1e-4, 1e-6 or 1e-8."""
    wins = np.triu(np.ones((4, 4)), 1)[np.newaxis]
    loose, tight = (bradley_terry(wins, tol=tol)[0] for tol in (1e-2, 1e-10))
    assert loose == pytest.approx(tight, abs=1e-3)
    assert tight[0, 0] < 10


def test_7_the_same_verdict_three_times_over_is_no_stronger():
    """Three times the same verdicts made 9.6 of 8.0."""
    votes = judged(pool_of(range(4)), verdict(-1))
    again = [
        Vote(v.query_id, v.doc_id_a, v.doc_id_b, judge, v.preference, v.swapped, "", v.key)
        for v in votes
        for judge in ("one", "two", "three")
    ]
    assert scores(again) == pytest.approx(scores(votes))


def test_14_how_much_better_a_document_is_stays_known(tmp_path):
    """Only the sign was kept. The fit goes by the sign here too, but the size is not thrown away:
    it is in the table of votes, as the judge said it.
    """
    results_of(tmp_path, [pool_of((0, 1, 4))])
    sizes = Counter(
        abs(v["preference"]) for v in pq.read_table(tmp_path / "votes.parquet").to_pylist()
    )
    assert sizes == {0.1: 2, 0.3: 2, 0.4: 2}


def test_15_duplicate_document_ids_do_not_collapse():
    pool = pool_of()
    raw = json.loads(line_of(pool))
    raw["documents"][3]["id"] = "d0"
    line = parse_line("f", 1, json.dumps(raw).encode(), LineLimits())
    assert line.pool is None
    assert "'d0' appears twice" in line.reason


def test_15_ids_that_read_alike_when_joined_are_told_apart():
    """Pairs were named by ids joined with a dash, and 26 of 40 names were distinct."""
    ids = ("a", "b", "a-b", "b-a", "a-b-a", "-")
    pool = Pool("q", "query", tuple(Document(i, f"text of {n}") for n, i in enumerate(ids)))
    votes = judged(pool, verdict(0.5))
    assert len({vote.key for vote in votes}) == len(votes) == 15
    assert len({(vote.doc_id_a, vote.doc_id_b) for vote in votes}) == 15


@pytest.mark.parametrize(
    "fault", ["refusal", "drop", "500", "529", "too_long", "bad_request", "truncated", "not_json"]
)
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_16_one_bad_call_costs_itself_and_no_other(fakes, environ, tmp_path, fault, provider):
    """One refusal in 300 calls: 300 paid, none saved."""
    fakes.faults = [Fault(fault, total=1)]
    name = f"{provider.upper()}_API_KEY"
    asker = ask([pool_of(range(5))], tmp_path, {name: environ[name]}, attempts=1)
    assert asker.stopped == ""
    panel, options = asker.job
    step = advance(zelo.rounds(pool_of(range(5)), panel, options), Ledger(str(tmp_path)))
    assert (len(step.judgments), len(step.failures)) == (9, 1)


def test_16_a_run_that_is_stopped_has_kept_what_came_before(fakes, environ, tmp_path):
    """A model that is retired, an account that is used up: all that had been paid was lost."""
    fakes.faults = [Fault("unpaid", rate=0.1)]
    limits = {"openai:gpt-6-luna": {"concurrency": 2}}
    name = {"OPENAI_API_KEY": fakes.key}
    pools = [pool_of(range(9), query_id=f"q{i}", query=f"question {i}") for i in range(3)]
    asker = ask(pools, tmp_path, name, limits=limits)
    assert "spending limit" in asker.stopped
    paid = fakes.outcomes["ok"]
    assert len(asker.books) == paid > 0
    fakes.faults = []
    ask(pools, tmp_path, name, run_id="again")
    assert fakes.outcomes["ok"] == len(list(read_rows(str(tmp_path)))) == 3 * 36


def test_17_a_second_run_asks_the_same_whatever_the_global_generator_says():
    """The shuffle had no seed, and swaps followed the timing of tasks."""
    asked = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)
        pools = [pool_of(range(12), query_id=f"q{i}") for i in range(3)]
        random.shuffle(pools)
        asked.append({p.query_id: [r.key for r in missing(p, JUDGE, options_of())] for p in pools})
    assert asked[0] == asked[1]


@pytest.mark.parametrize("documents", [2, 3, 5, 10, 25, 50])
def test_18_no_pair_is_paid_for_twice(documents):
    """Of two documents 88% of the battles were repeats, of ten 28%."""
    for seed in range(20):
        pairs = [pair[:2] for pair in ring_pairs(seed, "q", range(documents), 4)]
        assert len({frozenset(pair) for pair in pairs}) == len(pairs)


@pytest.mark.parametrize(("documents", "calls"), [(0, 0), (1, 0), (2, 1), (3, 3)])
def test_19_a_document_does_not_meet_itself(documents, calls):
    """One document cost twelve calls, and two the same pair eight times over."""
    assert len(missing(pool_of(range(documents)), JUDGE, options_of())) == calls


def test_22_texts_are_not_stored_with_every_battle(fakes, environ, tmp_path):
    """2.0 MB of input became 34.5 MB of output."""
    marker = "a text of some length " * 200
    documents = tuple(Document(f"d{i}", f"{i} [[worth={i}]] {marker}") for i in range(12))
    pool = Pool("q1", "query", documents)
    ask([pool], tmp_path, {"OPENAI_API_KEY": environ["OPENAI_API_KEY"]})
    replies = b"".join(path.read_bytes() for path in (tmp_path / "replies").glob("*.jsonl"))
    assert b"some length" not in replies
    assert len(replies) < len(line_of(pool))
    results_of(tmp_path / "results", [pool])
    for name in ("votes", "scores", "failures"):
        table = pq.read_table(tmp_path / "results" / f"{name}.parquet")
        assert "some length" not in json.dumps(table.to_pylist())


def test_22_calls_in_flight_are_bounded_however_many_pairs_there_are(fakes, environ, tmp_path):
    fakes.latency = 0.01
    limits = {"openai:gpt-6-luna": {"concurrency": 5}}
    pools = [pool_of(range(9), query_id=f"q{i}", query=f"question {i}") for i in range(4)]
    ask(pools, tmp_path, {"OPENAI_API_KEY": fakes.key}, limits=limits)
    assert fakes.peak_in_flight == 5
    assert len(fakes.journal) == 4 * 36
