"""Describe the judgments on a query in paragraphs, for one document or for all."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from zelo_ray.formats.wording import counted
from zelo_ray.protocols.protocol import Held, Paragraph
from zelo_ray.records import PANEL, Contest, Failure, Grade, Score, Verdict, Vote

DEEP = " " * 8
"""What stands before running text."""


def of_votes(held: Held, doc_id: str | None) -> Iterable[Paragraph]:
    """Yield the battles of a document, the hardest opponents first; none for a query."""
    votes = held.judgments["votes"]
    for opponent in _opponents(doc_id, votes, held.scores) if doc_id else ():
        yield _battle(doc_id or "", opponent, votes, held.scores.get(opponent))


def of_grades(held: Held, doc_id: str | None) -> Iterable[Paragraph]:
    """Return each judge's grade of a document, and the reason; none for a query."""
    return (_grade(each) for each in held.judgments["grades"] if each.doc_id == doc_id)


def of_verdicts(held: Held, doc_id: str | None) -> Iterable[Paragraph]:
    """Yield the debates of a document, the hardest opponents first, or each pair of a query."""
    verdicts = held.judgments["verdicts"]
    if doc_id is None:
        pairs = dict.fromkeys((each.doc_id_a, each.doc_id_b) for each in verdicts)
        for a, b in pairs:
            yield _pair([each for each in verdicts if (each.doc_id_a, each.doc_id_b) == (a, b)])
        return
    for opponent in _opponents(doc_id, verdicts, held.scores):
        yield _debates(doc_id, opponent, verdicts, held.scores.get(opponent))


def of_winners(held: Held, doc_id: str | None) -> Iterable[Paragraph]:
    """Yield how many tournaments each answer won, or how many a document won."""
    winners = held.judgments["winners"]
    if not winners:
        return
    of = f"{counted(len(winners), 'tournament')} with a winner"
    won = Counter(winner.winner_id for winner in winners)
    if doc_id is None:
        yield [f"{name} won {times} of {of}" for name, times in won.most_common()]
    else:
        yield [f"it won {won[doc_id]} of {of}"]


def of_contests(held: Held, doc_id: str | None) -> Iterable[Paragraph]:
    """Yield the tournaments in which a document had a contest, or all of a query, in order."""
    contests, together = held.judgments["contests"], held.options.get("decide") == PANEL
    kings = {(each.judge, each.repeat): each.winner_id for each in held.judgments["winners"]}
    several = any(each.repeat for each in contests)
    mine = [each for each in contests if doc_id in (None, each.left_id, each.right_id)]
    for key, fought in _courts(mine, together=together):
        king = kings.get(key)
        end = "it" if king is not None and king == doc_id else king
        head = f"tournament of {_named(*key, several=several)}, {_ended_with(end)}"
        if doc_id is None:
            yield _tournament(head, fought, together=together)
        else:
            yield _fought(doc_id, head, fought, together=together)


def of_failures(failures: Sequence[Failure]) -> Iterator[str]:
    """Yield what gave no judgment, and why: once for each judge, pair and reason."""
    found = Counter((f.judge, tuple(sorted(f.doc_ids)), f.status, f.reason) for f in failures)
    for (judge, doc_ids, status, reason), times in found.items():
        often = f", {counted(times, 'time')}" if times > 1 else ""
        yield f"no judgment from {judge} on {' and '.join(doc_ids)}: {status} ({reason}){often}"


def _grade(grade: Grade) -> Iterator[str]:
    """Yield the lines of one judge's grade: the grade, the facets and the reason."""
    yield f"  grade {grade.grade}  {grade.judge}"
    for name, facets in (("covers", grade.facets_covered), ("misses", grade.facets_missing)):
        if facets:
            yield from indented(f"{name}: {'; '.join(facets)}")
    yield from indented(grade.rationale)


def _courts(
    contests: Sequence[Contest], *, together: bool
) -> list[tuple[tuple[str, int], list[Contest]]]:
    """Group contests by court and repeat; the court is the judge, or the panel."""
    held: dict[tuple[str, int], list[Contest]] = {}
    for each in contests:
        held.setdefault((PANEL if together else each.judge, each.repeat), []).append(each)
    return sorted(held.items(), key=lambda item: item[0])


def _named(court: str, repeat: int, *, several: bool) -> str:
    """Return the name of a tournament's court, and which of ``several`` it is."""
    whose = "the panel" if court == PANEL else court
    return f"{whose}, repeat {repeat + 1}" if several else whose


def _ended_with(king: str | None) -> str:
    """Return how a tournament ended."""
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


def _fought(
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
    """Return the opponents of a document, the hardest first."""
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
    """Indent running text below the line that it belongs to; the caller wraps it."""
    return (f"{DEEP}{line.strip()}" for line in text.splitlines() if line.strip())


def _tournament(head: str, contests: Sequence[Contest], *, together: bool) -> Iterator[str]:
    yield head
    for each in sorted(contests, key=lambda one: (one.round, one.judge)):
        won = f"{each.winner_id} won" if each.preference else "a tie"
        first = each.right_id if each.swapped else each.left_id
        who = f"{each.judge}, " if together else ""
        yield (
            f"  round {each.round}  king {each.left_id} against {each.right_id}: {won}  {who}"
            f"confidence {each.confidence:.2f}, {first} shown first; then king: {each.king_id}"
        )
        yield from indented(each.verdict)


def _pair(verdicts: Sequence[Verdict]) -> Iterator[str]:
    a, b = verdicts[0].doc_id_a, verdicts[0].doc_id_b
    yield f"{a} against {b}"
    for each in sorted(verdicts, key=lambda one: (one.judge, one.swapped)):
        one, other = each.average_scores
        won = "a tie" if one == other else f"{a if one > other else b} won"
        tie = " in this order; the orders differ, so a tie" if each.flipped else ""
        yield (
            f"  {won}, {one:.4g} to {other:.4g}{tie}  {each.judge} by {each.method}, "
            f"{b if each.swapped else a} shown first"
        )
        if each.rounds > 1:
            told = ", ".join(f"{x:.4g} to {y:.4g}" for x, y in each.score_history)
            yield from indented(f"round by round: {told}")
