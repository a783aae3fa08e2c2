"""Documents of one text in a query are one opponent: an answer on them counts once."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.helpers.builders import judge_of, options_of, play, truly
from zelo_ray.fitting.scores import score_votes
from zelo_ray.protocols import zelo
from zelo_ray.records import Document, Pool, Vote

PANEL = (judge_of("openai:one"), judge_of("anthropic:two"), judge_of("gemini:three"))


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


def test_copies_in_a_pool_have_one_score_and_others_fewer_comparisons():
    """Twelve of eighteen documents are one text."""
    worths = [1.0] * 12 + [0.0, 0.5, 1.5, 2.0, 2.5, 3.0]
    documents = (Document(f"d{n:02}", f"text [worth={x:.9f}]") for n, x in enumerate(worths))
    step, _ = play(zelo, options_of(), Pool("q", "what?", tuple(documents)), PANEL, truly)
    keyless = [replace(row, key="") for row in step.judgments]
    scores, before = (
        by_document(zelo.fit([rows], options_of())) for rows in (step.judgments, keyless)
    )
    assert sorted(score.rank for score in scores.values()) == [*range(1, 19)]
    met = Counter((scores[f"d{n:02}"].score, scores[f"d{n:02}"].comparisons) for n in range(12))
    assert met.most_common(1)[0][1] >= 10
    others = [f"d{n}" for n in range(12, 18)]
    assert sum(scores[d].comparisons for d in others) < sum(before[d].comparisons for d in others)
