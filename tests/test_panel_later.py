"""Later rounds: which pairs promise most, and what an order is expected to miss."""

import numpy as np
import pytest

from zelo_ray.fitting.panel import choose_pairs, expected_loss


def spread(documents, variance=0.5):
    return variance * (np.eye(documents) - 1 / documents)


def chosen(mean, covariance=None, asked=(), **changes):
    options = {"count": 5, "most_per_document": 3, "seed": 1} | changes
    covariance = spread(len(mean)) if covariance is None else covariance
    return choose_pairs(np.array(mean), covariance, asked, **options)


def test_pairs_at_the_top_that_are_close_come_first():
    mean = [3.0, 2.9, 0.0, -0.1, -4.0, -4.1]
    assert chosen(mean, count=1) == [(0, 1)]
    assert chosen(mean[::-1], count=1) == [(4, 5)]


def test_a_pair_that_is_sure_or_far_apart_promises_nothing():
    sure = spread(3, 1e-12)
    assert chosen([1.0, 0.9, 0.8], sure, fill=False) == []
    assert chosen([90.0, 0.0, -90.0], fill=False) == []


def test_nothing_below_the_depth_is_asked_unless_it_fills():
    mean = np.linspace(4, -4, 12)
    top = chosen(mean, spread(12, 0.2), count=40, most_per_document=11, depth=2, fill=False)
    assert top
    assert all(i < 2 for i, _ in top)
    more = chosen(mean, spread(12, 0.2), count=40, most_per_document=11, depth=2)
    assert len(more) == 40
    assert more[: len(top)] == top


def test_no_document_gets_more_than_its_share():
    rng = np.random.default_rng(0)
    pairs = chosen(rng.normal(size=20), count=100, most_per_document=3)
    counts = np.bincount(np.ravel(pairs), minlength=20)
    assert counts.max() == 3
    assert len(set(pairs)) == len(pairs)


def test_what_was_asked_is_not_asked_again():
    mean = [3.0, 2.9, 2.8, 0.0]
    every = chosen(mean, count=9)
    met = np.zeros((4, 4), dtype=bool)
    for i, j in every[:3]:
        met[j, i] = True
    assert not set(chosen(mean, asked=met, count=9)) & set(every[:3])
    turned = {(j, i) for i, j in every[:3]}
    assert chosen(mean, asked=turned, count=9) == chosen(mean, asked=met, count=9)


def test_the_same_seed_chooses_the_same_pairs():
    rng = np.random.default_rng(3)
    mean = rng.normal(size=15)
    one, same, other = (chosen(mean, seed=seed, count=8) for seed in ("q1", "q1", "q2"))
    assert one == same
    assert one != other


def test_the_last_digits_of_a_fit_choose_no_pair():
    rng = np.random.default_rng(4)
    mean = rng.normal(size=15)
    assert chosen(mean) == chosen(mean + 1e-13 * rng.normal(size=15))


def test_a_sure_order_loses_nothing_and_a_vague_one_much():
    mean = np.linspace(3, -3, 20)
    losses = [expected_loss(mean, spread(20, v)) for v in (1e-10, 0.1, 1.0, 4.0)]
    assert losses[0] == pytest.approx(0, abs=1e-6)
    assert losses == sorted(losses)
    assert losses[3] < 1


def test_the_loss_of_two_documents_is_that_of_the_textbook():
    """Where d = x_1 - x_2, the order 1, 2 has e^d + h of the better of it and 1 + h e^d."""
    middle, variance = 0.4, 0.8
    covariance = variance / 4 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    gap = np.exp(middle + np.sqrt(variance) * nodes)
    half = 1 / np.log2(3)
    found = (gap + half) / np.maximum(gap + half, 1 + half * gap)
    expected = 1 - weights @ found / weights.sum()
    mean = np.array([middle / 2, -middle / 2])
    assert expected_loss(mean, covariance, draws=20_000) == pytest.approx(expected, abs=0.003)
