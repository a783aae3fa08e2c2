"""King of the hill: who meets whom, what the judges see, who reigns, and what it comes to."""

import json
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import builders
from tests.helpers.builders import judge_of, pool_of, seen_worth
from zelo_ray.protocols import best_of, zelo
from zelo_ray.reasons import UnscoredReason
from zelo_ray.records import Contest, Document, Pool, Vote, Winner

PANEL = (judge_of("openai:one"), judge_of("anthropic:two"), judge_of("gemini:three"))


def options_of(**fields):
    return builders.options_of(protocol="best-of", **fields)


def duel(request, winner):
    """The text that names a document, or tie, as the winner of a request's two."""
    shown = {document.id: str(place) for place, document in enumerate(request.documents, 1)}
    said = {"reasoning": "first, second", "verdict": f"{winner}, clearly"}
    return json.dumps({**said, "winner": shown.get(winner, "tie"), "confidence": 0.8})


def worthier(request):
    """Who is worth more."""
    first, second = seen_worth(request)
    ids = [document.id for document in request.documents]
    return duel(request, "tie" if first == second else ids[second > first])


def play(pool, panel=PANEL, say=worthier, **fields):
    return builders.play(best_of, options_of(**fields), pool, panel, say)


def of(step, kind):
    return [row for row in step.judgments if isinstance(row, kind)]


def test_an_answer_called_tie_is_refused():
    step, asked = play(Pool("q", "which?", (Document("tie", "a"), Document("b", "b"))))
    assert (asked, step.judgments, len(step.failures)) == ([], (), 3)


# What holds for every tournament

FIELDS = {
    "order": st.sampled_from(["input", "random"]),
    "repeats": st.integers(1, 3),
    "seed": st.integers(0, 99),
}
WORTHS = st.lists(st.integers(0, 3), min_size=2, max_size=6)


@given(WORTHS, st.integers(1, 3), st.sampled_from([0, 0, 7]), st.fixed_dictionaries(FIELDS))
@settings(max_examples=40, deadline=None)
def test_tournaments(worths, judges, failing, fields):
    def say(request):
        fails = failing and int(request.key, 16) % failing == 0
        return ("", "refused") if fails else worthier(request)

    step, _ = play(pool_of(worths), PANEL[:judges], say, **fields)
    courses, kings = {}, {(w.judge, w.repeat): w for w in of(step, Winner)}
    for row in of(step, Contest):
        courses.setdefault((row.judge, row.repeat), []).append(row)
    if not failing:
        assert len(kings) == len(courses) == judges * fields["repeats"]
        assert all(worths[int(king.winner_id[1:])] == max(worths) for king in kings.values())
    for who, rows in courses.items():
        assert [row.round for row in rows] == [*range(1, len(rows) + 1)]
        assert all(a.king_id == b.left_id for a, b in pairwise(rows))
        met = [rows[0].left_id, *(row.right_id for row in rows)]
        assert fields["order"] == "random" or met == [f"d{n}" for n in range(len(met))]
        for row in rows:
            left, right = (worths[int(each[1:])] for each in (row.left_id, row.right_id))
            better = row.left_id if left > right else row.right_id
            assert row.winner_id == ("tie" if left == right else better)
            assert row.king_id == (row.right_id if row.winner_id == row.right_id else row.left_id)
        assert (who in kings) == (len(rows) == len(worths) - 1)
        if who in kings:
            assert (kings[who].winner_id, kings[who].contests) == (rows[-1].king_id, len(rows))


# Scores


def contest(judge, number, left, right, winner, king):
    words = (winner, 0.5, "", "", False, king)
    return Contest("", "q", judge, 0, number, left, right, *words, f"{judge}{number}")


def test_contests_are_votes_and_crowns_are_shares_of_tournaments():
    told = [
        *(contest("x", 1, "a", "b", "b", "b"), contest("x", 2, "b", "c", "b", "b")),
        *(contest("y", 1, "a", "b", "tie", "a"), contest("y", 2, "a", "c", "c", "c")),
        contest("z", 1, "a", "b", "a", "a"),
        *(Winner("", "q", "x", 0, "b", 2), Winner("", "q", "y", 0, "c", 2)),
    ]
    fit, unfinished, none = best_of.fit([told, told[:1], []], options_of())
    assert {score.doc_id: score.crowned for score in fit.scores} == {"a": 0.0, "b": 0.5, "c": 0.5}
    rows = [("a", "b", "x", 1), ("b", "c", "x", -1), ("a", "b", "y", 0), ("a", "c", "y", 1)]
    votes = [Vote("q", *row, False, "", "") for row in (*rows, ("a", "b", "z", -1))]
    same = ("doc_id", "score", "std_error", "comparisons", "rank")
    one, two = (
        [[getattr(score, name) for name in same] for score in each.scores]
        for each in (fit, zelo.fit([votes], builders.options_of())[0])
    )
    assert one == two
    assert (unfinished.scores, unfinished.reason.code) == ((), UnscoredReason.NO_TOURNAMENT)
    assert none.reason.code is UnscoredReason.NO_VOTES
