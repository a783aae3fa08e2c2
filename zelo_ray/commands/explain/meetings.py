"""Show how a score came about: by comparisons with other documents, or by grades."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, tanh
from typing import Any

from zelo_ray.commands.explain.paragraphs import first_words
from zelo_ray.files.wording import counted, printable
from zelo_ray.records import Grade, Rater, Score, Vote

_NAME = 24  # characters of an id in a row


@dataclass(frozen=True, slots=True)
class Meeting:
    """Votes on a document against one other."""

    opponent: str
    rank: int | None
    preferences: tuple[float, ...]
    """preferences, positive where a judge prefers the document"""
    expected: float | None
    """the share of judges that would prefer the document by the two scores"""

    @property
    def mean(self) -> float:
        """Return the mean preference."""
        return sum(self.preferences) / len(self.preferences)

    @property
    def share_won(self) -> float:
        """Return the share of votes for the document; a tie counts half, as in the fit."""
        return sum((gain > 0) + 0.5 * (gain == 0) for gain in self.preferences) / len(
            self.preferences
        )


def find_meetings(doc_id: str, votes: Iterable[Vote], scores: Mapping[str, Score]) -> list[Meeting]:
    """Return the meetings of a document, the best ranked opponent first."""
    gains = dict[str, list[float]]()
    for vote in votes:
        if vote.doc_id_b == doc_id:
            gains.setdefault(vote.doc_id_a, []).append(vote.preference)
        elif vote.doc_id_a == doc_id:
            gains.setdefault(vote.doc_id_b, []).append(0.0 - vote.preference)
    score, matches = scores.get(doc_id), list[Meeting]()
    for opponent, preferences in gains.items():
        rival_score = scores.get(opponent)
        expected = _chance(score.score - rival_score.score) if score and rival_score else None
        matches.append(
            Meeting(
                opponent, rival_score.rank if rival_score else None, tuple(preferences), expected
            )
        )
    return sorted(matches, key=lambda meeting: (meeting.rank or 0, meeting.opponent))


def format_meetings(meetings: Sequence[Meeting], texts: Mapping[str, str]) -> Iterator[str]:
    """Yield a summary of the meetings, and a table of them."""
    won, lost = (
        sum(row.share_won > 0.5 for row in meetings),
        sum(row.share_won < 0.5 for row in meetings),
    )
    tied = f", tied {len(meetings) - won - lost}" if won + lost < len(meetings) else ""
    yield (
        f"It was compared with {counted(len(meetings), 'document')}: lost {lost}, won "
        f"{won}{tied}. For and against count its judgments; fit: how often it should win by the "
        "two scores; mean: of the preferences, -1 to +1."
    )
    shown = [_clipped(row.opponent) for row in meetings]
    width = max(8, *map(len, shown))
    yield f"  rank  {'document':{width}}  for  against  fit for   mean  begins"
    for meeting, name in zip(meetings, shown, strict=True):
        ahead = sum(gain > 0 for gain in meeting.preferences)
        behind = sum(gain < 0 for gain in meeting.preferences)
        expected = "" if meeting.expected is None else f"{meeting.expected:.0%}"
        yield (
            f"  {meeting.rank or '-':>4}  {name:{width}}  {ahead:>3}  {behind:>7}  {expected:>7}  "
            f"{meeting.mean:+.2f}  {first_words(texts.get(meeting.opponent, ''))}"
        ).rstrip()


def format_grades(
    grades: Sequence[Grade], raters: Sequence[Rater], *, plain: bool
) -> Iterator[str]:
    """Yield the grade of a document by each judge, with its severity and weight.

    Args:
        grades: of the document.
        raters: severity and weight of judges; empty if they were not measured.
        plain: whether the score weighs all judges equally.
    """
    by_judge = {rater.judge: rater for rater in raters}
    names = [printable(grade.judge) for grade in grades]
    width = max(5, *map(len, names))
    weighed = any(grade.judge in by_judge for grade in grades) and not plain
    heads = {True: "The score weighs all judges equally:", False: "Grades by judges:"}
    yield "How the grades become the score:" if weighed else heads[plain]
    yield f"  {'judge':{width}}  grade" + ("  severity  weight" if weighed else "")
    for name, grade in zip(names, grades, strict=True):
        more = f"{_figures(by_judge.get(grade.judge))}" if weighed else ""
        yield f"  {name:{width}}  {grade.grade:>5}{more}"
    if weighed:
        yield "Severity: positive is stricter than the panel. Weight: share of the information."


def beats_average(score: Score) -> str:
    """Say how often a document with this score in logits beats the average one."""
    return f"It beats the query's average document in {_chance(score.score):.0%} of comparisons."


def ranks_not_different(scores: Sequence[Score]) -> list[int]:
    """Return the ranks whose score does not differ significantly from the next rank's (95%)."""
    return [
        upper.rank
        for upper, lower in pairwise(scores)
        if isfinite(wide := (upper.std_error**2 + lower.std_error**2) ** 0.5)
        and upper.score - lower.score < 1.96 * wide
    ]


def _chance(logits: float) -> float:
    """Return how often a document with this lead in logits wins."""
    return 0.5 + 0.5 * tanh(logits / 2)


def _figures(rater: Any) -> str:
    if rater is None:
        return "   unknown"
    severity = f"{rater.severity:+.2f}" if isfinite(rater.severity) else "-"
    weight = f"{rater.weight:.0%}" if isfinite(rater.weight) else "-"
    return f"  {severity:>8}  {weight:>6}"


def _clipped(name: str) -> str:
    shown = printable(name)
    return shown if len(shown) <= _NAME else f"{shown[: _NAME - 1]}…"
