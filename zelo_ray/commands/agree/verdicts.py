"""The section on verdicts: every judge's word on pairs beside that of most people."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import isnan, nan

import numpy as np

from zelo_ray.commands.agree.section import Section, laid_out, with_interval
from zelo_ray.commands.agree.spoken import spoken
from zelo_ray.commands.agree.wins import Win, win_lines, wins
from zelo_ray.evaluation.agreement import COEFFICIENTS, Agreement
from zelo_ray.evaluation.agreement.differences import Difference
from zelo_ray.evaluation.agreement.estimates import share
from zelo_ray.evaluation.agreement.pairs import (
    A_OR_NOT,
    DECIDED,
    VOTES,
    VOTES_DECIDED,
    WITH_TIES,
    differ,
    with_people,
)
from zelo_ray.evaluation.agreement.votes import Ballots, crossed
from zelo_ray.formats.interchange.verdicts import HUMAN, Verdicts
from zelo_ray.formats.tables import table_of
from zelo_ray.options import AgreeOptions

_NAMED = {name: COEFFICIENTS[name] for name in ("agreement", "alpha-nominal", "kappa", "mcc")}
_SHOWN = {
    WITH_TIES: ((WITH_TIES, "agreement"), (WITH_TIES, "alpha-nominal"), (A_OR_NOT, "mcc")),
    DECIDED: ((DECIDED, "agreement"), (DECIDED, "alpha-nominal"), (DECIDED, "mcc")),
}
"""The columns of a table, with ties and without: same, alpha and MCC."""
_HEADS = ("same", "alpha", "mcc")
_JUDGES, _PAIRS = 40, 10  # for which there is room
_SIGNED = "+z.3f"
_Found = Mapping[tuple[str, str, str], Agreement]


def outcomes(verdicts: Verdicts, options: AgreeOptions) -> Section:
    """Measure how far judges agree with people on pairs, and which of two judges agrees more."""
    agreed: list[Agreement] = []
    apart: list[Difference] = []
    won: list[Win] = []
    lines: list[str] = []
    missing: list[str] = []
    if len(verdicts.voices):
        pair_votes = spoken(verdicts, options)
        ratings = pair_votes.ratings
        agreed = [
            *with_people(ratings, _NAMED, **options.chance),
            *_by_votes(pair_votes.single, options),
        ]
        judges = _best_first(agreed)
        apart = differ(ratings, judges, _NAMED, **options.chance)
        won = [*wins(pair_votes.cast, pair_votes.said, pair_votes.votes, options)]
        lines = [*_lines(agreed, apart, judges), *win_lines(won, judges)] if judges else []
        missing = [*_alone(verdicts, agreed)]
    elif len(verdicts.votes) and len(verdicts.human):
        missing = [f"judges voted, and {HUMAN} graded no two documents of a pair differently"]
    tables = {
        "outcomes": table_of(agreed, Agreement),
        "differences": table_of(apart, Difference),
        "wins": table_of(won, Win),
    }
    return Section(lines, tables, missing)


def _by_votes(cast: Ballots, options: AgreeOptions) -> Iterator[Agreement]:
    """Yield each judge's agreement with the people, vote by vote."""
    for row, judge in enumerate(cast.judges[1:], 1):
        table = crossed(cast, 0, row)
        for scale, counts in ((VOTES, table), (VOTES_DECIDED, table[:, ::2, ::2])):
            same, totals = np.trace(counts, axis1=1, axis2=2), counts.sum(axis=(1, 2))
            agreement = share(same, totals, **options.chance)
            ends = (agreement.value, agreement.low, agreement.high)
            items = round(float(totals.sum()))
            yield Agreement(HUMAN, judge, scale, "agreement", *ends, items, agreement.queries)


def _best_first(agreed: Sequence[Agreement]) -> list[str]:
    """Return the judges that can be compared with the people, the highest alpha first."""
    leading = {
        row.rater_b: np.nan_to_num(row.value, nan=-2)
        for row in agreed
        if (row.scale, row.coefficient) == (WITH_TIES, "alpha-nominal") and row.items
    }
    return sorted(leading, key=lambda judge: -leading[judge])


def _alone(verdicts: Verdicts, agreed: Sequence[Agreement]) -> Iterator[str]:
    if not len(verdicts.votes):
        yield f"{HUMAN} voted on pairs, and no judge did"
    for row in agreed:
        if row.scale == VOTES and not row.items:
            yield f"{row.rater_b} and {HUMAN} judged no pair in common"


def _lines(
    agreed: Sequence[Agreement], apart: Sequence[Difference], judges: Sequence[str]
) -> Iterator[str]:
    of = {(row.rater_b, row.scale, row.coefficient): row for row in agreed}
    places = {judge: f"{i} {judge}" for i, judge in enumerate(judges[:_JUDGES], 1)}
    yield f"Verdicts of judges on pairs, beside {HUMAN}: A is better, a tie, B is better"
    yield from _table(of, places, WITH_TIES)
    yield "and where both decided, without ties"
    yield from _table(of, places, DECIDED)
    if len(judges) > _JUDGES:
        yield f"… and {len(judges) - _JUDGES:,} more judges"
    yield "alpha: Krippendorff's, nominal; mcc: of the word that A is better"
    yield ""
    yield from _counts(of, places)
    yield from _apart(apart, places)


def _table(of: _Found, places: Mapping[str, str], scale: str) -> Iterator[str]:
    rows = []
    for judge, place in places.items():
        figures = [of[judge, *key] for key in _SHOWN[scale]]
        cells = [with_interval(figure.value, figure.low, figure.high) for figure in figures]
        rows.append([place, *cells, f"{figures[0].items:,}"])
    yield from laid_out(["judge", *_HEADS, "pairs"], rows)


def _counts(of: _Found, places: Mapping[str, str]) -> Iterator[str]:
    """Yield a table of how often judges and people said the same, in numbers."""
    rows = []
    for judge, place in places.items():
        cells = []
        for scale in (WITH_TIES, DECIDED, VOTES, VOTES_DECIDED):
            figure = of[judge, scale, "agreement"]
            cells.append(
                f"{round(figure.value * figure.items):,} of {figure.items:,}"
                if figure.items
                else "-"
            )
            if (judge, scale, "kappa") in of:
                cells.append(with_interval(of[judge, scale, "kappa"].value, nan, nan))
        rows.append([place, *cells])
    yield "The same word, of so many"
    yield from laid_out(
        ["judge", "words", "kappa", "both decided", "kappa", "votes", "both decided"], rows
    )
    yield "words: one of each on a pair, most of its votes; votes: a judge's with each person's, as"
    yield "  FastChat counts agreement; who votes again on the same counts once"


def _apart(apart: Sequence[Difference], places: Mapping[str, str]) -> Iterator[str]:
    """Yield a table of how much closer to the people one of two judges is."""
    of = {(row.rater_a, row.rater_b, row.scale, row.coefficient): row for row in apart}
    pairs = [*combinations(places, 2)]
    for scale, title in ((WITH_TIES, "with ties"), (DECIDED, "both decided")) if pairs else ():
        rows = []
        for a, b in pairs[:_PAIRS]:
            same, alpha, mcc = (of[a, b, *key] for key in _SHOWN[scale])
            cells = [
                with_interval(figure.difference, figure.low, figure.high, _SIGNED)
                for figure in (same, alpha, mcc)
            ]
            cells.insert(2, "-" if isnan(alpha.relative) else f"{alpha.relative:+z.1f}")
            numbers = (places[judge].split(" ")[0] for judge in (a, b))
            rows.append([" over ".join(numbers), *cells, f"{same.items:,}"])
        yield ""
        yield f"By how much one judge is nearer to {HUMAN} than another on the same pairs, {title}"
        yield from laid_out(["judges", "same", "alpha", "alpha, %", "mcc", "pairs"], rows)
    if len(pairs) > _PAIRS:
        yield f"… and {len(pairs) - _PAIRS:,} more pairs of judges"
