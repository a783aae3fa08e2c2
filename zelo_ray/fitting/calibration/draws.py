"""How the documents that have human grades were drawn, as far as the data show it."""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import ndtr

from zelo_ray.fitting.calibration.ratings import Floats, Ints

Bools = NDArray[np.bool_]

CHANCE = 0.001
"""Labels that chance draws as seldom as this were not drawn at random."""
FEW = 10
"""Of fewer queries, intervals of whole queries are wide, and hold a little less than they say."""
_REDRAW = "draw documents at random from all of the run, or label whole queries drawn at random"


@dataclass(frozen=True, slots=True)
class Drawn:
    """Whether labels stand for all documents, and what a user should know of it."""

    sound: bool
    note: str = ""


def drawn(
    panel_grade: Floats, human: Floats, query: Ints, probability: Floats | None = None
) -> Drawn:
    """How labels were drawn.

    Within queries, labelled documents must have the panel grades that a random draw of as many
    would give: the Wilcoxon test, over strata (van Elteren 1960, Bull. ISI 37:351). So labels of
    the top of the panel's own order are seen; labels of chosen queries are not.

    Args:
        panel_grade: the panel's word, [units].
        human: NaN where there is none, [units].
        query: number of each unit's query, [units].
        probability: with which a labelled unit was drawn, [units]; None: alike.
    """
    asked = ~np.isnan(human)
    if not asked.any():
        return Drawn(sound=True)
    if probability is not None:
        return _covering(probability[asked], len(human))
    place = np.unique(query, return_inverse=True)[1]
    size, labelled = np.bincount(place), np.bincount(place, asked)
    some = (labelled > 0) & (labelled < size)
    apart, chance = _test(panel_grade, asked, place, some)
    if chance < CHANCE:
        return Drawn(
            sound=False,
            note=(
                f"human grades do not set the means right: their documents were not drawn at "
                f"random. Within queries the panel gives them {abs(apart):.2f} grades "
                f"{'more' if apart > 0 else 'less'} than the others ({_odds(chance)} by chance); "
                f"{_REDRAW}"
            ),
        )
    queries = int((labelled > 0).sum())
    if not some.any() and size[labelled > 0].max() > 1 and queries < len(size):
        few = "" if queries >= FEW else f": few; {FEW} or more make intervals sure"
        return Drawn(
            sound=True,
            note=(
                f"humans graded all documents of {queries} of {len(size)} queries{few}. Means hold "
                "if these queries were drawn at random"
            ),
        )
    return Drawn(sound=True)


def _test(panel_grade: Floats, asked: Bools, place: Ints, some: Bools) -> tuple[float, float]:
    """How far labelled documents lie above others of their query, in grades; its p-value."""
    off = expected = spread = 0.0
    apart: list[tuple[float, int]] = []
    kept = np.flatnonzero(some[place])
    kept = kept[np.argsort(place[kept], kind="stable")]
    starts = np.flatnonzero(np.diff(place[kept]))
    for own in np.split(kept, starts + 1):
        labelled, grades = asked[own], panel_grade[own]
        if not own.size:
            continue
        rank = scipy.stats.rankdata(grades)
        many, of = int(labelled.sum()), len(own)
        weight = 1 / (of + 1)  # van Elteren's: the best where documents differ alike in all queries
        off += weight * rank[labelled].sum()
        expected += weight * many * (of + 1) / 2
        spread += weight**2 * many * (of - many) / of * rank.var(ddof=1)
        apart.append((grades[labelled].mean() - grades[~labelled].mean(), many))
    if spread <= 0:
        return 0.0, 1.0
    means, weights = np.array(apart).T
    chance = 2 * float(ndtr(-abs(off - expected) / np.sqrt(spread)))
    return float(np.average(means, weights=weights)), chance


def _covering(probability: Floats, units: int) -> Drawn:
    """Whether labels drawn with probabilities can be of all documents: these weigh N together."""
    weight = 1 / probability
    stood = float(weight.sum())
    error = float(np.sqrt(((1 - probability) * weight**2).sum()))
    if abs(stood - units) <= 4 * error + 0.01 * units:
        return Drawn(sound=True)
    return Drawn(
        sound=False,
        note=(
            f"human grades do not set the means right: by their probabilities they stand for "
            f"{stood:,.0f} of {units:,} documents, as where they were drawn for a contest; "
            f"{_REDRAW}"
        ),
    )


def _odds(chance: float) -> str:
    return "once in a million" if chance < 1e-6 else f"p = {chance:.1g}"
