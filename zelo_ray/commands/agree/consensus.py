"""The section on trust: how often people say what the judges say, by how far these agree."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from math import isnan

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.agree.section import Section, laid_out, with_interval
from zelo_ray.commands.agree.spoken import spoken
from zelo_ray.evaluation.agreement import ratings_of
from zelo_ray.fitting.calibration.consensus import (
    ALL,
    GRADES,
    LEVELS,
    ORDERS,
    VOTES,
    of_grades,
    of_votes,
)
from zelo_ray.formats.interchange.verdicts import HUMAN, Verdicts
from zelo_ray.formats.tables import table_of
from zelo_ray.formats.wording import counted
from zelo_ray.options import AgreeOptions
from zelo_ray.records import Consensus

TITLES = {
    VOTES: "pairs, by votes",
    ORDERS: "pairs, by grades",
    GRADES: "documents",
}
SAID = {
    "unanimous": "all judges agree",
    "all but one": "all but one agree",
    "three quarters": "three quarters agree",
    "over half": "over half agree",
    "split": "split",
    ALL: "all together",
}
"""What levels are called."""
ALONE = SAID | {"unanimous": "the judge decides", "split": "the judge ties"}
"""The same of one judge that votes."""
_SCALES = 2  # of documents, for which there is room


def consensus(verdicts: Verdicts, options: AgreeOptions) -> Section:
    """Measure how often the panel is right by people, by how far its judges agree."""
    rows = [*_by_votes(verdicts, options), *_by_grades(verdicts, options)]
    tables = {"consensus": table_of(rows, Consensus)}
    voters = len(verdicts.voters)
    return Section([*_lines(rows, options.trust, voters)] if rows else [], tables)


def called(about: str, voters: int) -> Mapping[str, str]:
    """Return the names of the levels, for so many judges that vote."""
    return ALONE if about == VOTES and voters == 1 else SAID


def titled(about: str, scale: str) -> str:
    """Return the title of the rows about votes or grades, with their scale."""
    return TITLES[about] + (f" {scale}" if scale else "")


def answer(rows: Sequence[Consensus], trust: float, said: Mapping[str, str]) -> str:
    """Say where the panel can be trusted blindly, and for what share of pairs or documents.

    A level counts if its interval lies above ``trust``, and so do all levels before it. ``perhaps``
    is where its share does, and too few queries were labelled to be sure.

    Args:
        rows: of one kind and scale.
        trust: the share of words that people share from which on it can.
        said: what levels are called.
    """
    by_level = {row.level: row for row in rows}
    levels = [by_level[level] for level in LEVELS[:-1] if level in by_level]
    first = levels[0] if levels else None
    if first is None or isnan(first.low):
        return ""
    noun = "documents" if first.about == GRADES else "pairs"
    sure = [*takewhile(lambda row: row.low >= trust, levels)]
    blindly = f"blindly trustworthy ({trust:g} or more)"
    if sure:
        share, where = sum(row.share for row in sure), said[sure[-1].level]
        more = " or more" if len(sure) > 1 else ""
        return f"{blindly}: {share:.0%} of {noun}, where {where}{more}"
    word = "none" if first.high < trust else "not shown" if first.same < trust else "perhaps"
    value = with_interval(first.same, first.low, first.high)
    return (
        f"{blindly}: {word}; where {said[first.level]} ({first.share:.0%} of {noun}), people say "
        f"the same of {value}"
    )


def kinds(rows: Iterable[Consensus]) -> dict[tuple[str, str], list[Consensus]]:
    """Group rows by what they are about and by scale."""
    groups: dict[tuple[str, str], list[Consensus]] = {}
    for row in rows:
        groups.setdefault((row.about, row.scale), []).append(row)
    return groups


def _by_votes(verdicts: Verdicts, options: AgreeOptions) -> list[Consensus]:
    if not (len(verdicts.voices) and len(verdicts.votes)):
        return []
    pair_votes = spoken(verdicts, options)
    return of_votes(pair_votes.said[1:], pair_votes.said[0], pair_votes.cast.pairs[:, 0])


def _by_grades(verdicts: Verdicts, options: AgreeOptions) -> list[Consensus]:
    judged = verdicts.grades.filter(
        pc.is_in(verdicts.grades["judge"], pa.array(verdicts.panel, pa.string()))
    )
    if not (len(verdicts.human) and len(judged)):
        return []
    ratings = ratings_of(pa.concat_tables([verdicts.human, judged]), verdicts.levels)
    people = ratings.raters.index(HUMAN)
    judges = np.delete(ratings.grades, people, axis=0)
    cuts = options.cuts if verdicts.levels > 2 else ()
    return of_grades(judges, ratings.grades[people], ratings.queries, verdicts.levels, cuts)


def _lines(found: Sequence[Consensus], trust: float, voters: int) -> Iterator[str]:
    shown = 0
    yield "How often people say what the judges say, by how far the judges agree"
    for (about, scale), rows in kinds(found).items():
        shown += about == GRADES
        if shown > _SCALES:
            break
        noun, names = "documents" if about == GRADES else "pairs", called(about, voters)
        ordered = [row for row in rows if row.level != ALL] + [r for r in rows if r.level == ALL]
        cells = [
            [
                names[row.level],
                f"{row.share:.1%}",
                with_interval(row.same, row.low, row.high),
                f"{row.items:,}",
                *([] if about == GRADES else [f"{row.tied:,}"]),
            ]
            for row in ordered
        ]
        heads = [titled(about, scale), f"of {noun}", "people say the same", noun]
        yield from laid_out([*heads, *([] if about == GRADES else ["people tie"])], cells)
        if conclusion := answer(rows, trust, names):
            yield from (f"  {part}" for part in conclusion.split("; "))
    if any(row.about != GRADES for row in found):
        tied = counted(sum(row.tied for row in found if row.level == ALL), "pair")
        yield f"Of pairs, those that people tie ({tied}) are left out of what they say the same of;"
        yield "where as many judges say the one as the other, the panel is half right."
