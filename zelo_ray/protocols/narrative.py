"""Describe the judgments on a query in paragraphs, for one document or for all."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from zelo_ray.files.wording import counted
from zelo_ray.protocols.protocol import Paragraph, QueryResults
from zelo_ray.records import Contest, Failure, Grade, Score, Verdict, Vote

DEEP = " " * 8
"""What stands before running text."""


def of_votes(held: QueryResults, doc_id: str | None) -> Iterable[Paragraph]:
    """Yield the battles of a document, the hardest opponents first; none for a query."""
    votes = held.judgments["votes"]
    for opponent in _opponents(doc_id, votes, held.scores) if doc_id else ():
        yield _battle(doc_id or "", opponent, votes, held.scores.get(opponent))


def of_grades(held: QueryResults, doc_id: str | None) -> Iterable[Paragraph]:
    """Return each judge's grade of a document, and the reason; none for a query."""
    return (_grade(grade) for grade in held.judgments["grades"] if grade.doc_id == doc_id)


def of_verdicts(held: QueryResults, doc_id: str | None) -> Iterable[Paragraph]:
    """Yield the debates of a document, the hardest opponents first, or each pair of a query."""
    verdicts = held.judgments["verdicts"]
    if doc_id is None:
        pairs = dict.fromkeys((row.doc_id_a, row.doc_id_b) for row in verdicts)
        for a, b in pairs:
            yield _pair([row for row in verdicts if (row.doc_id_a, row.doc_id_b) == (a, b)])
        return
    for opponent in _opponents(doc_id, verdicts, held.scores):
        yield _debates(doc_id, opponent, verdicts, held.scores.get(opponent))


def of_winners(held: QueryResults, doc_id: str | None) -> Iterable[Paragraph]:
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


def of_contests(held: QueryResults, doc_id: str | None) -> Iterable[Paragraph]:
    """Yield the tournaments in which a document had a contest, or all of a query, in order."""
    contests = held.judgments["contests"]
    kings = {(row.judge, row.repeat): row.winner_id for row in held.judgments["winners"]}
    several = any(row.repeat for row in contests)
    own_contests = [row for row in contests if doc_id in (None, row.left_id, row.right_id)]
    for key, fought in _by_judge(own_contests):
        king = kings.get(key)
        end = "it" if king is not None and king == doc_id else king
        head = f"tournament of {_named(*key, several=several)}, {_ended_with(end)}"
        if doc_id is None:
            yield _tournament(head, fought)
        else:
            yield _fought(doc_id, head, fought)


def of_failures(failures: Sequence[Failure]) -> Iterator[str]:
    """Yield what gave no judgment, and why: once for each judge, pair and reason."""
    counts = Counter((f.judge, tuple(sorted(f.doc_ids)), f.status, f.reason) for f in failures)
    for (judge, doc_ids, status, reason), times in counts.items():
        often = f", {counted(times, 'time')}" if times > 1 else ""
        yield f"no judgment from {judge} on {' and '.join(doc_ids)}: {status} ({reason}){often}"


def _grade(grade: Grade) -> Iterator[str]:
    """Yield the lines of one judge's grade: the grade, the facets and the reason."""
    yield f"  grade {grade.grade}  {grade.judge}"
    for name, facets in (("covers", grade.facets_covered), ("misses", grade.facets_missing)):
        if facets:
            yield from indented(f"{name}: {'; '.join(facets)}")
    yield from indented(grade.rationale)


def _by_judge(contests: Sequence[Contest]) -> list[tuple[tuple[str, int], list[Contest]]]:
    """Group contests by judge and repeat."""
    held: dict[tuple[str, int], list[Contest]] = {}
    for contest in contests:
        held.setdefault((contest.judge, contest.repeat), []).append(contest)
    return sorted(held.items(), key=lambda item: item[0])


def _named(judge: str, repeat: int, *, several: bool) -> str:
    """Return the name of a tournament's judge, and which of ``several`` it is."""
    return f"{judge}, repeat {repeat + 1}" if several else judge


def _ended_with(king: str | None) -> str:
    """Return how a tournament ended."""
    return "which did not end" if king is None else f"won by {king}"


def _battle(
    doc_id: str, opponent: str, votes: Sequence[Vote], score: Score | None
) -> Iterator[str]:
    yield f"against {opponent}{_standing(score)}"
    for vote in votes:
        if opponent == _other(vote, doc_id):
            preference = vote.preference if vote.doc_id_b == doc_id else 0.0 - vote.preference
            a, b = vote.doc_id_a, vote.doc_id_b
            first, second = (b, a) if vote.swapped else (a, b)
            won = f"{_outcome(preference):4} {preference:+z.2f}"
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
    place = 2 if is_b != verdict.swapped else 1
    score, rival = verdict.average_scores[::-1] if is_b else verdict.average_scores
    tie = " in this order; the orders differ, so a tie" if verdict.flipped else ""
    yield (
        f"  {_outcome(score - rival):4} {score:.4g} to {rival:.4g}{tie}  {verdict.judge} by "
        f"{verdict.method}, shown as Answer {place}"
    )
    for number, (scores, arguments, feedback, why) in enumerate(verdict.by_round(), 1):
        score, rival = scores[::-1] if is_b else scores
        yield f"    round {number}: {score:.4g} to {rival:.4g}"
        sides = arguments[::-1] if is_b else arguments
        for whose, argument in zip(("for", "against"), sides, strict=bool(sides)):
            yield from indented(f"{whose}: {argument}")
        yield from indented(f"feedback: {feedback}" if feedback else "")
        yield from indented(why)


def _fought(doc_id: str, head: str, contests: Sequence[Contest]) -> Iterator[str]:
    yield head
    for row in contests:
        is_left = row.left_id == doc_id
        gain = -row.preference if is_left else row.preference
        opponent, as_king = (row.right_id, ", as king") if is_left else (row.left_id, "")
        place = 1 if is_left != row.swapped else 2
        yield (
            f"  round {row.round}  {_outcome(gain):4} against {opponent}{as_king}  "
            f"confidence {row.confidence:.2f}, shown as Answer {place}; then king: {row.king_id}"
        )
        yield from indented(row.verdict)
        yield from indented(row.reasoning)


def _opponents(
    doc_id: str, judgments: Sequence[Vote | Verdict], scores: Mapping[str, Score]
) -> list[str]:
    """Return the opponents of a document, the hardest first."""
    rivals = {_other(row, doc_id) for row in judgments if doc_id in (row.doc_id_a, row.doc_id_b)}
    return sorted(rivals, key=lambda rival: (scores[rival].rank if rival in scores else 0, rival))


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


def _tournament(head: str, contests: Sequence[Contest]) -> Iterator[str]:
    yield head
    for row in sorted(contests, key=lambda contest: (contest.round, contest.judge)):
        won = f"{row.winner_id} won" if row.preference else "a tie"
        first = row.right_id if row.swapped else row.left_id
        yield (
            f"  round {row.round}  king {row.left_id} against {row.right_id}: {won}  "
            f"confidence {row.confidence:.2f}, {first} shown first; then king: {row.king_id}"
        )
        yield from indented(row.verdict)


def _pair(verdicts: Sequence[Verdict]) -> Iterator[str]:
    a, b = verdicts[0].doc_id_a, verdicts[0].doc_id_b
    yield f"{a} against {b}"
    for row in sorted(verdicts, key=lambda verdict: (verdict.judge, verdict.swapped)):
        score_a, score_b = row.average_scores
        won = "a tie" if score_a == score_b else f"{a if score_a > score_b else b} won"
        tie = " in this order; the orders differ, so a tie" if row.flipped else ""
        yield (
            f"  {won}, {score_a:.4g} to {score_b:.4g}{tie}  {row.judge} by {row.method}, "
            f"{b if row.swapped else a} shown first"
        )
        if row.rounds > 1:
            history = ", ".join(f"{x:.4g} to {y:.4g}" for x, y in row.score_history)
            yield from indented(f"round by round: {history}")
