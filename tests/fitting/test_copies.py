"""Documents of one text in a query are one opponent: an answer on them counts once."""

import random
from dataclasses import replace

import pytest

from zelo_ray.fitting.scores import score_votes
from zelo_ray.records import Vote


def key_of(number):
    """A key as requests have it."""
    return f"{number:032x}"


def vote(a, b, preference, key, *, swapped=False, judge="j"):
    return Vote("q", a, b, judge, preference, swapped, "", key)


def by_document(fits):
    (fit,) = fits
    return {score.doc_id: score for score in fit.scores}


def test_one_answer_on_fifteen_copies_is_one_comparison():
    copies = [f"c{n:02}" for n in range(15)]
    one = by_document(score_votes([[vote("c00", "d", 1.0, key_of(1))]]))
    many = by_document(score_votes([[vote(copy, "d", 1.0, key_of(1)) for copy in copies]]))
    assert many["d"].std_error == one["d"].std_error
    assert many["d"].comparisons == 1
    gap = one["d"].score - one["c00"].score
    for place, copy in enumerate(copies, start=2):
        assert many["d"].score - many[copy].score == pytest.approx(gap)
        assert (many[copy].std_error, many[copy].rank) == (one["c00"].std_error, place)
    assert sum(score.score for score in many.values()) == pytest.approx(0, abs=1e-9)


def test_copies_shown_in_either_order_and_met_with_each_other():
    """The copies meet others in different orders, and themselves; the rest is as with one."""
    votes = [
        vote("a", "c1", -1.0, key_of(1)),
        vote("a", "c2", -1.0, key_of(1)),
        vote("c2", "d", 1.0, key_of(2), swapped=True),
        vote("c1", "d", 1.0, key_of(2), swapped=True),
        vote("c1", "c2", -1.0, key_of(3)),
        vote("c2", "c3", -1.0, key_of(3)),
        vote("a", "d", -1.0, key_of(4)),
    ]
    wanted = by_document(score_votes([[votes[0], replace(votes[3]), votes[6]]]))
    for seed in range(5):
        random.Random(seed).shuffle(votes)
        found = by_document(score_votes([votes]))
        assert {found[f"c{n}"].score for n in (1, 2, 3)} == {found["c1"].score}
        for doc_id in "ad":
            assert found[doc_id].std_error == wanted[doc_id].std_error
            assert found[doc_id].comparisons == 2
        assert found["a"].score - found["d"].score == pytest.approx(
            wanted["a"].score - wanted["d"].score
        )


@pytest.mark.parametrize("pool", ["one text", "two"])
def test_a_pool_of_copies_alone_still_has_scores_of_all(pool):
    ids = [("a", "b"), ("a", "c"), ("b", "c")]
    keys = [1, 1, 1] if pool == "one text" else [1, 1, 2]
    fits = score_votes([[vote(*i, -1.0, key_of(k)) for i, k in zip(ids, keys, strict=True)]])
    assert set(by_document(fits)) == {"a", "b", "c"}
