"""What judges said, in lines: each judgment as seen from the document that is explained."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from zelo_ray.records import PANEL, Contest, Grade, Score, Verdict, Vote, Winner


def of_grade(grade: Grade) -> Iterator[str]:
    """What one judge graded, and why."""
    yield f"  grade {grade.grade}  {grade.judge}"
    for name, facets in (("covers", grade.facets_covered), ("misses", grade.facets_missing)):
        if facets:
            yield from indented(f"{name}: {'; '.join(facets)}")
    yield from indented(grade.rationale)


def of_votes(
    doc_id: str, votes: Sequence[Vote], scores: Mapping[str, Score]
) -> Iterator[Iterator[str]]:
    """The battles of a document, the hardest opponents first."""
    for opponent in _opponents(doc_id, votes, scores):
        yield _battle(doc_id, opponent, votes, scores.get(opponent))


def of_verdicts(
    doc_id: str, verdicts: Sequence[Verdict], scores: Mapping[str, Score]
) -> Iterator[Iterator[str]]:
    """The debates of a document, the hardest opponents first."""
    for opponent in _opponents(doc_id, verdicts, scores):
        yield _debates(doc_id, opponent, verdicts, scores.get(opponent))


def of_contests(
    doc_id: str, contests: Sequence[Contest], winners: Sequence[Winner], *, together: bool
) -> Iterator[Iterator[str]]:
    """The tournaments in which a document had a contest, each in order.

    Args:
        doc_id: the document.
        contests: of its query.
        winners: of its query.
        together: whether the panel decided each tournament together.
    """
    kings = {(each.judge, each.repeat): each.winner_id for each in winners}
    mine = [each for each in contests if doc_id in (each.left_id, each.right_id)]
    several = any(each.repeat for each in contests)
    for key, held in courts(mine, together=together):
        king = kings.get(key)
        end = ended_with("it" if king == doc_id else king)
        head = f"tournament of {named(*key, several=several)}, {end}"
        yield _tournament(doc_id, head, held, together=together)


def courts(
    contests: Sequence[Contest], *, together: bool
) -> list[tuple[tuple[str, int], list[Contest]]]:
    """The contests of each court and repeat; the court is the judge, or the panel."""
    held: dict[tuple[str, int], list[Contest]] = {}
    for each in contests:
        held.setdefault((PANEL if together else each.judge, each.repeat), []).append(each)
    return sorted(held.items(), key=lambda item: item[0])


def named(court: str, repeat: int, *, several: bool) -> str:
    """Whose tournament it is, and which of ``several``."""
    whose = "the panel" if court == PANEL else court
    return f"{whose}, repeat {repeat + 1}" if several else whose


def ended_with(king: str | None) -> str:
    """How a tournament ended."""
    return "which did not end" if king is None else f"won by {king}"


def _battle(
    doc_id: str, opponent: str, votes: Sequence[Vote], score: Score | None
) -> Iterator[str]:
    yield f"against {opponent}{_standing(score)}"
    for vote in votes:
        if opponent == _other(vote, doc_id):
            mine = vote.preference if vote.doc_id_b == doc_id else 0.0 - vote.preference
            a, b = vote.doc_id_a, vote.doc_id_b
            first, second = (b, a) if vote.swapped else (a, b)
            won = f"{_outcome(mine):4} {mine:+.2f}"
            yield f"  {won}  {vote.judge}, which saw {first} as A, {second} as B"
            yield from indented(vote.reasoning)


def _debates(
    doc_id: str, opponent: str, verdicts: Sequence[Verdict], score: Score | None
) -> Iterator[str]:
    yield f"against {opponent}{_standing(score)}"
    for verdict in verdicts:
        if opponent == _other(verdict, doc_id):
            yield from _debate(doc_id, verdict)


def _debate(doc_id: str, verdict: Verdict) -> Iterator[str]:
    is_b = verdict.doc_id_b == doc_id
    seen = 2 if is_b != verdict.swapped else 1
    mine, other = verdict.average_scores[::-1] if is_b else verdict.average_scores
    tie = " in this order; the orders differ, so a tie" if verdict.flipped else ""
    yield (
        f"  {_outcome(mine - other):4} {mine:.4g} to {other:.4g}{tie}  {verdict.judge} by "
        f"{verdict.method}, shown as Answer {seen}"
    )
    for number, (scores, arguments, feedback, why) in enumerate(verdict.by_round(), 1):
        mine, other = scores[::-1] if is_b else scores
        yield f"    round {number}: {mine:.4g} to {other:.4g}"
        sides = arguments[::-1] if is_b else arguments
        for whose, argument in zip(("for", "against"), sides, strict=bool(sides)):
            yield from indented(f"{whose}: {argument}")
        yield from indented(f"feedback: {feedback}" if feedback else "")
        yield from indented(why)


def _tournament(
    doc_id: str, head: str, contests: Sequence[Contest], *, together: bool
) -> Iterator[str]:
    yield head
    for each in contests:
        left = each.left_id == doc_id
        gain = -each.preference if left else each.preference
        opponent, as_king = (each.right_id, ", as king") if left else (each.left_id, "")
        seen = 1 if left != each.swapped else 2
        who = f"{each.judge}, " if together else ""
        yield (
            f"  round {each.round}  {_outcome(gain):4} against {opponent}{as_king}  {who}"
            f"confidence {each.confidence:.2f}, shown as Answer {seen}; then king: {each.king_id}"
        )
        yield from indented(each.verdict)
        yield from indented(each.reasoning)


def _opponents(
    doc_id: str, judgments: Sequence[Vote | Verdict], scores: Mapping[str, Score]
) -> list[str]:
    """Whom a document met, the hardest first."""
    met = {_other(each, doc_id) for each in judgments if doc_id in (each.doc_id_a, each.doc_id_b)}
    return sorted(met, key=lambda one: (scores[one].rank if one in scores else 0, one))


def _standing(score: Score | None) -> str:
    return f" (score {score.score:+.2f}, rank {score.rank})" if score else ""


def _outcome(gain: float) -> str:
    return "won" if gain > 0 else "lost" if gain < 0 else "tied"


def _other(judgment: Vote | Verdict, doc_id: str) -> str:
    if doc_id not in (judgment.doc_id_a, judgment.doc_id_b):
        return ""
    return judgment.doc_id_b if judgment.doc_id_a == doc_id else judgment.doc_id_a


def indented(text: str) -> Iterator[str]:
    """Running text, below the line that it belongs to."""
    for line in text.splitlines():
        yield from textwrap.wrap(
            line, 100, initial_indent=" " * 8, subsequent_indent=" " * 8, break_long_words=False
        )
