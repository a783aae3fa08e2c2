"""Show how a score came about: the documents it met and the votes, or its grades by judge."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, tanh
from typing import Any

from zelo_ray.commands.explain.paragraphs import first_words
from zelo_ray.formats.wording import counted, printable
from zelo_ray.records import Grade, Rater, Score, Vote

_NAME = 24  # characters of an id in a row


@dataclass(frozen=True, slots=True)
class Meeting:
    """Judgments of a document against one other."""

    opponent: str
    rank: int | None
    gains: tuple[float, ...]
    """preferences, positive where a judge prefers the document"""
    expected: float | None
    """the share of judges that the two scores say would prefer the document"""

    @property
    def mean(self) -> float:
        """Return the mean preference."""
        return sum(self.gains) / len(self.gains)

    @property
    def won(self) -> float:
        """Return the share of judges that prefer the document, as the fit counts: a tie is half."""
        return sum((gain > 0) + 0.5 * (gain == 0) for gain in self.gains) / len(self.gains)


def meetings(doc_id: str, votes: Iterable[Vote], scores: Mapping[str, Score]) -> list[Meeting]:
    """Return the meetings of a document, the best ranked opponent first."""
    gains = dict[str, list[float]]()
    for vote in votes:
        if vote.doc_id_b == doc_id:
            gains.setdefault(vote.doc_id_a, []).append(vote.preference)
        elif vote.doc_id_a == doc_id:
            gains.setdefault(vote.doc_id_b, []).append(0.0 - vote.preference)
    mine, found = scores.get(doc_id), list[Meeting]()
    for opponent, given in gains.items():
        other = scores.get(opponent)
        expected = _chance(mine.score - other.score) if mine and other else None
        found.append(Meeting(opponent, other.rank if other else None, tuple(given), expected))
    return sorted(found, key=lambda one: (one.rank or 0, one.opponent))


def met(found: Sequence[Meeting], texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the table of meetings, below a line that sums them up."""
    won, lost = sum(one.won > 0.5 for one in found), sum(one.won < 0.5 for one in found)
    tied = f", tied {len(found) - won - lost}" if won + lost < len(found) else ""
    yield (
        f"It met {counted(len(found), 'document')}: lost {lost}, won {won}{tied}. For and against "
        "count its judgments; fit: how often it should win by the two scores; mean: of the "
        "preferences, -1 to +1."
    )
    shown = [_clipped(one.opponent) for one in found]
    width = max(8, *map(len, shown))
    yield f"  rank  {'document':{width}}  for  against  fit for   mean  begins"
    for one, name in zip(found, shown, strict=True):
        ahead = sum(gain > 0 for gain in one.gains)
        behind = sum(gain < 0 for gain in one.gains)
        expected = "" if one.expected is None else f"{one.expected:.0%}"
        yield (
            f"  {one.rank or '-':>4}  {name:{width}}  {ahead:>3}  {behind:>7}  {expected:>7}  "
            f"{one.mean:+.2f}  {first_words(texts.get(one.opponent, ''))}"
        ).rstrip()


def graded(grades: Sequence[Grade], raters: Sequence[Rater], *, plain: bool) -> Iterator[str]:
    """Yield the grade of a document by each judge, and what the grades count for.

    Args:
        grades: of the document.
        raters: the judges as they were measured; none where they were not.
        plain: whether the score takes every judge alike.
    """
    known = {each.judge: each for each in raters}
    names = [printable(each.judge) for each in grades]
    width = max(5, *map(len, names))
    weighed = any(each.judge in known for each in grades) and not plain
    yield "How the grades become the score:" if weighed else "The score takes every judge alike:"
    yield f"  {'judge':{width}}  grade" + ("  severity  weight" if weighed else "")
    for name, grade in zip(names, grades, strict=True):
        more = f"{_figures(known.get(grade.judge))}" if weighed else ""
        yield f"  {name:{width}}  {grade.grade:>5}{more}"
    if weighed:
        yield "Severity: positive is harsher than the panel. Weight: share of what the grades tell."


def beats_average(score: Score) -> str:
    """Say how often a document with this score in logits beats the average one."""
    return f"It beats the query's average document in {_chance(score.score):.0%} of comparisons."


def alike(scores: Sequence[Score]) -> list[int]:
    """Return the ranks whose score does not differ significantly from the next rank's (95%)."""
    return [
        one.rank
        for one, other in pairwise(scores)
        if isfinite(wide := (one.std_error**2 + other.std_error**2) ** 0.5)
        and one.score - other.score < 1.96 * wide
    ]


def _chance(logits: float) -> float:
    """Return how often a document that is this far ahead (in logits) wins."""
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
