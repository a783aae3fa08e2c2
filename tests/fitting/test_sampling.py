from collections import Counter
from random import Random

import numpy as np
import pytest

from zelo_ray.fitting.pairs import count_pairs, ring_pairs


def ids(documents):
    """Names whose alphabetical order is not their order."""
    return [f"d{documents - i}" for i in range(documents)]


def plan(doc_ids, cycles, query_id="q", seed=0):
    return [(pair.a, pair.b) for pair in ring_pairs(seed, query_id, doc_ids, cycles)]


def reached(documents, pairs):
    """The documents that a chain of pairs links with the first one."""
    seen, fresh = set(), {ids(documents)[0]}
    while fresh:
        seen |= fresh
        fresh = {doc for pair in pairs if set(pair) & fresh for doc in pair} - seen
    return seen


def test_every_design_is_connected_without_repeats_and_nearly_regular():
    for documents in range(2, 41):
        for cycles in range(1, 21):
            pairs = plan(ids(documents), cycles)
            battles = Counter(doc for pair in pairs for doc in pair)
            assert len({frozenset(pair) for pair in pairs}) == len(pairs)
            assert all(a < b for a, b in pairs)
            assert len(pairs) == count_pairs(documents, cycles)
            assert min(battles.values()) >= min(cycles + 1, documents - 1)
            assert reached(documents, pairs) == set(ids(documents))


@pytest.mark.parametrize(("documents", "cycles"), [(50, 4), (12, 4), (7, 4)])
def test_the_order_of_a_pool_means_nothing_and_seed_and_query_decide(documents, cycles):
    named = ids(documents)
    pairs = ring_pairs(1, "q", named, cycles)
    assert pairs == ring_pairs(1, "q", Random(0).sample(named, documents), cycles)
    if documents > 9:
        assert set(plan(named, cycles, seed=1)) != set(plan(named, cycles, seed=2))
        assert set(plan(named, cycles)) != set(plan(named, cycles, query_id="r"))
    assert [pair.turn for pair in pairs] != [p.turn for p in ring_pairs(1, "r", named, cycles)]


@pytest.mark.parametrize(("documents", "cycles"), [(10, 4), (25, 2), (25, 4), (100, 4)])
def test_a_new_document_costs_its_own_battles_and_one_that_goes_a_pair_a_ring(documents, cycles):
    named, new, bridges = ids(documents), [], []
    for number in range(60):
        before = set(plan(named, cycles, f"q{number}"))
        new.append(len(set(plan([*named, "new"], cycles, f"q{number}")) - before))
        bridges.append(len(set(plan(named[1:], cycles, f"q{number}")) - before))
    assert np.mean(new) < 1.1 * 2 * cycles
    assert np.mean(bridges) < 1.15 * cycles


def test_judges_take_turns_around_each_document():
    """Of the pairs that follow a document on the rings, each goes to the next judge."""
    shares = []
    for number in range(20):
        votes = Counter[tuple[str, int]]()
        for pair in ring_pairs(0, f"q{number}", ids(25), 3):
            votes.update([(pair.a, pair.turn % 3), (pair.b, pair.turn % 3)])
        shares += [votes[doc_id, judge] for doc_id in ids(25) for judge in range(3)]
    assert min(shares) >= 1
    assert np.std(shares) < 1.05  # 1.15 if each pair drew its judge on its own
