from collections import Counter
from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zelo_ray.fitting.pairs import count_pairs, sample_pairs


def ids(documents):
    """Names whose alphabetical order is not their order."""
    return [f"d{documents - i}" for i in range(documents)]


def draw(documents, cycles, seed=0):
    return sample_pairs(ids(documents), cycles, Random(seed))


def adjacency(documents, cycles, seed):
    matrix = np.zeros((documents, documents))
    for i, j in sample_pairs(range(documents), cycles, Random(seed)):
        matrix[i, j] = matrix[j, i] = 1
    return matrix


def reached(documents, pairs):
    """The documents that a chain of pairs links with the first one."""
    seen, fresh = set(), {ids(documents)[0]}
    while fresh:
        seen |= fresh
        fresh = {doc for pair in pairs if set(pair) & fresh for doc in pair} - seen
    return seen


def test_every_design_is_regular_connected_and_without_repeats():
    for documents in range(2, 41):
        for cycles in range(1, 21):
            pairs = draw(documents, cycles)
            battles = Counter(doc for pair in pairs for doc in pair)
            assert len({frozenset(pair) for pair in pairs}) == len(pairs)
            assert all(len(set(pair)) == 2 for pair in pairs)
            assert len(pairs) == count_pairs(documents, cycles)
            assert set(battles.values()) == {min(2 * cycles, documents - 1)}
            assert reached(documents, pairs) == set(ids(documents))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 300), st.integers(0, 200), st.integers())
def test_the_count_is_known_before_the_draw(documents, cycles, seed):
    pairs = draw(documents, cycles, seed)
    assert len(set(pairs)) == len(pairs) == count_pairs(documents, cycles)


@pytest.mark.parametrize("cycles", [1, 4])
def test_few_documents_meet_each_other_once(cycles):
    """No document meets itself, and no pair is asked eight times."""
    for documents in range(4 if cycles == 1 else 10):
        assert draw(documents, cycles) == list(combinations(ids(documents), 2))


def test_a_pair_names_first_the_document_that_stands_first():
    for documents, cycles in [(6, 9), (50, 4), (12, 4)]:
        order = ids(documents)
        assert all(order.index(a) < order.index(b) for a, b in draw(documents, cycles))


@pytest.mark.parametrize(("documents", "cycles"), [(50, 4), (12, 4)])
def test_the_seed_alone_decides(documents, cycles):
    assert draw(documents, cycles, seed=1) == draw(documents, cycles, seed=1)
    assert draw(documents, cycles, seed=1) != draw(documents, cycles, seed=2)
    names = {name: i for i, name in enumerate(ids(documents))}
    drawn = [(names[a], names[b]) for a, b in draw(documents, cycles)]
    assert drawn == sample_pairs(range(documents), cycles, Random(0))


@pytest.mark.parametrize(("documents", "cycles"), [(9, 2), (12, 4)])
def test_every_pair_is_equally_likely(documents, cycles):
    """A pair is drawn with probability 2 c / (K - 1): by repaired cycles, and by zigzags."""
    draws = 4000
    times = Counter(pair for seed in range(draws) for pair in draw(documents, cycles, seed))
    chance = 2 * cycles / (documents - 1)
    error = (draws * chance * (1 - chance)) ** 0.5
    for pair in combinations(ids(documents), 2):
        assert abs(times[pair] - draws * chance) < 4.5 * error


@pytest.mark.parametrize("cycles", [2, 4, 120])
def test_a_large_design_spreads_like_a_random_graph(cycles):
    """Friedman 2008: the second eigenvalue of a random graph of degree d is near 2 sqrt(d - 1).

    Neighbours on a ring would come near d itself; the last design is one of zigzags.
    """
    degree = 2 * cycles
    eigenvalues = np.linalg.eigvalsh(adjacency(400, cycles, seed=0))
    assert eigenvalues[-1] == pytest.approx(degree)
    assert eigenvalues[-2] < 1.05 * 2 * (degree - 1) ** 0.5


def test_the_densest_repaired_design_and_the_next_are_sound():
    """Where half of the pairs are asked, repair hands over to zigzags."""
    for documents in (98, 99, 100):
        for cycles in ((documents + 2) // 4, (documents + 2) // 4 + 1):
            degrees = adjacency(documents, cycles, seed=3).sum(axis=0)
            assert set(degrees) == {2 * cycles}
