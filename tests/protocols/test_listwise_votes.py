"""Listwise votes: groups, orders as votes, and the Plackett-Luce fit with its errors."""

import json
import math
import re
from collections import Counter
from dataclasses import asdict
from itertools import combinations

import choix
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers.builders import in_order, options_of, play, pool_of
from zelo_ray.commands.annotate.warnings import warn_of_asking
from zelo_ray.engine.build_results import build_results_from_steps
from zelo_ray.engine.write_results import write_results
from zelo_ray.files.pools import Line
from zelo_ray.fitting.orders import fit_orders, score_orders
from zelo_ray.fitting.pairs import draw_groups
from zelo_ray.fitting.scores import score_votes
from zelo_ray.protocols import load_protocol
from zelo_ray.providers import build_panel
from zelo_ray.records import Vote

PROTOCOL = load_protocol("listwise-votes")
PANEL = build_panel(("openai:a@http://localhost/v1", "openai:b@http://localhost/v1"), {}, {})
POOL, IDS = pool_of(range(20)), [f"d{place:02}" for place in range(60)]
SIZES = (st.integers(2, 60), st.integers(3, 12), st.integers(2, 5), st.integers(0, 99))


def job(**fields):
    return options_of(protocol="listwise-votes", **fields)


def pools_of(count, documents):
    return [pool_of(range(documents), f"q{n}", f"question {n}?") for n in range(count)]


def votes_of(orders, query_id="q"):
    """Votes of orders of documents, the best first, each with its own key or that given."""
    keyed = enumerate(orders) if isinstance(orders, list) else orders.items()
    return [
        Vote(query_id, a, b, "j", 1 - 2.0 * (order.index(a) < order.index(b)), False, "", f"{key}")
        for key, order in keyed
        for a, b in combinations(sorted(order), 2)
    ]


# Groups


@given(*SIZES)
def test_each_round_has_every_document_once_and_all_are_linked(n, size, rounds, seed):
    ids = IDS[:n]
    drawn = draw_groups(seed, "q", ids, size, rounds)
    assert len(drawn) == (1 if n <= size else rounds)
    for groups in drawn:
        assert sorted(doc_id for group in groups for doc_id in group) == ids
        sizes = [*map(len, groups)]
        assert 2 <= min(sizes) <= max(sizes) <= min(size, min(sizes) + 1)
    linked, rest = {ids[0]}, [set(group) for groups in drawn for group in groups]
    for _ in ids:
        linked = linked.union(*(group for group in rest if group & linked))
    assert linked == set(ids)
    assert draw_groups(seed, "q", ids[::-1], size, rounds) == drawn


@given(*SIZES)
@example(4, 3, 3, 0)  # two groups of two in a round: every third time they must be drawn again
@example(4, 3, 3, 1)
@example(4, 3, 3, 2)
@example(4, 3, 3, 3)
def test_more_looks_ask_nothing_anew(n, size, rounds, seed):
    more = draw_groups(seed, "q", IDS[:n], size, rounds + 1)
    assert more[:rounds] == draw_groups(seed, "q", IDS[:n], size, rounds)


# What is asked, and what becomes of it


def test_a_pool_asks_what_it_counts():
    for votes, documents in (("all", 2), ("one", 3), ("all", 8), ("one", 9), ("all", 20)):
        pool, options = pool_of(range(documents)), job(votes=votes)
        requests = next(PROTOCOL.rounds(pool, PANEL, options))
        asked = {judge.name: sum(r.judge == judge for r in requests) for judge in PANEL}
        assert asked == PROTOCOL.count(pool, PANEL, options)
        shown = Counter(d.id for request in requests for d in request.documents)
        rounds = 1 if documents <= 8 else 3
        assert set(shown.values()) == {rounds * (2 if votes == "all" else 1)}
    for seed in range(20):  # a group that is drawn twice is two requests
        requests = next(PROTOCOL.rounds(pool_of(), PANEL[:1], job(group=3, looks=5, seed=seed)))
        assert len({request.key for request in requests}) == len(requests) == 10


def test_an_order_is_a_vote_on_each_of_its_pairs():
    options = job()
    step, (requests,) = play(PROTOCOL, options, POOL, PANEL[:1], in_order)
    by_key = Counter(vote.key for vote in step.judgments)
    assert by_key == {r.key: math.comb(len(r.documents), 2) for r in requests}
    shown = {r.key: [d.id for d in r.documents] for r in requests}
    for vote in step.judgments:
        assert vote.preference == math.copysign(1, int(vote.doc_id_b[1:]) - int(vote.doc_id_a[1:]))
        order = shown[vote.key]
        assert vote.swapped == (order.index(vote.doc_id_a) > order.index(vote.doc_id_b))
    assert {vote.swapped for vote in step.judgments} == {True, False}
    (fit,) = PROTOCOL.fit([step.judgments], options)
    assert [score.doc_id for score in fit.scores][:3] == ["d19", "d18", "d17"]
    assert {score.comparisons for score in fit.scores} == {3}, "calls, and not pairs"


def test_what_is_no_order_is_a_failure_of_its_documents():
    for order in ([1, 2], [1, 2, 2], [0, 1, 2], [1, 2, 3, 4], [], [1.0, 2, 3]):
        said = json.dumps({"order": order})
        step, _ = play(PROTOCOL, job(), pool_of(range(3)), PANEL[:1], lambda _, said=said: said)
        assert not step.judgments
        (failure,) = step.failures
        assert (failure.status, sorted(failure.doc_ids)) == ("invalid", ["d0", "d1", "d2"])


def test_half_of_the_orders_missing_is_half_of_the_answers(tmp_path):
    """An order is 28 rows of votes, and a lost one is a single failure."""
    options, pools = job(), pools_of(8, 16)

    def half(request):
        return in_order(request) if int(request.key[:8], 16) % 2 else "no order"

    steps = [play(PROTOCOL, options, pool, PANEL, half)[0] for pool in pools]
    lines = [Line("in.jsonl", 1, b"{}", pool) for pool in pools]
    blocks = [
        build_results_from_steps(lines[at], steps[at], options) for at in (slice(5), slice(5, 8))
    ]
    summary = write_results(blocks, options.model_copy(update={"out": str(tmp_path)}))
    asked = PROTOCOL.count(pools[0], PANEL, options)
    for judge, answers in summary.answers_by_judge.items():
        assert answers == summary.judgments_by_judge[judge]["votes"] / 28
        assert answers + summary.failures_by_judge[judge]["invalid"] == 8 * asked[judge]
    warned = [one for one in warn_of_asking(asdict(summary)) if one.code == "missing"]
    shares = [int(re.match(r"\d+", one.text)[0]) for one in warned]
    assert len(shares) == 2
    assert all(30 < share < 70 for share in shares)


# The fit


def test_scores_are_those_of_choix():
    rng = np.random.default_rng(3)
    orders = [rng.permutation(9)[: rng.integers(2, 6)].tolist() for _ in range(40)]
    distinct = [*{frozenset(order): tuple(order) for order in orders}.values()]
    wanted = choix.opt_rankings(9, distinct, alpha=2.0**-2 / 2, tol=1e-10)
    found = np.array(fit_orders(distinct, 9, 2.0))
    assert found[0] == pytest.approx(wanted - wanted.mean(), abs=1e-5)
    # one that two judges gave alike is one vote
    assert np.array(fit_orders([distinct[0], *distinct], 9, 2.0)) == pytest.approx(found)


@given(st.permutations(votes_of([("a", "b", "c", "d"), ("d", "e", "a"), ("c", "e", "b", "a")])))
def test_the_order_of_votes_changes_no_bit_of_a_score(shuffled):
    votes = sorted(shuffled, key=repr)
    assert score_orders([votes]) == score_orders([shuffled])
    assert score_orders([votes, []])[0] == score_orders([[], votes])[1]


def test_errors_hold_the_truth_where_pairs_as_battles_would_not():
    rng, inside = np.random.default_rng(1), {score_orders: [], score_votes: []}
    for query in range(40):
        truth = dict(zip(IDS, rng.normal(0, 1.6, 40), strict=False))
        centre, orders = np.mean([*truth.values()]), []
        for group in (g for groups in draw_groups(0, f"q{query}", [*truth], 10, 3) for g in groups):
            felt = {d: truth[d] + rng.gumbel() for d in group}
            orders.append(tuple(sorted(group, key=lambda d: -felt[d])))
        for way, held in inside.items():
            for score in way([votes_of(orders, f"q{query}")])[0].scores:
                off = score.score - truth[score.doc_id] + centre
                held.append(abs(off) <= 1.96 * score.std_error)
    assert 0.93 <= np.mean(inside[score_orders]) <= 0.97
    assert np.mean(inside[score_votes]) < 0.9
