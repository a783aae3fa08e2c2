"""Check that documents with human grades were sampled at random, as far as the data show it."""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from zelo_ray.fitting.calibration.ratings import Floats, Ints

Bools = NDArray[np.bool_]

CHANCE = 0.001
"""Labels with a p-value below this were not drawn at random."""
FEW = 10
"""With fewer queries, intervals over whole queries are wide, and cover slightly too little."""
PART = 0.1
"""Labels must represent all documents but this share."""
_REDRAW = "draw documents at random from the whole run, or label whole queries drawn at random"


@dataclass(frozen=True, slots=True)
class SamplingCheck:
    """The result of the check that labels represent all documents, with a note for the user."""

    sound: bool
    note: str = ""


def check_sampling(
    panel_grade: Floats,
    human: Floats,
    query: Ints,
    probability: Floats | None = None,
    frame: int | None = None,
) -> SamplingCheck:
    """Check how labels were drawn.

    Within queries, the panel grades of labelled documents must look like a random sample, by a
    Wilcoxon test over strata (van Elteren 1960, Bull. ISI 37:351). This detects labels of the top
    of the panel's own order, but not a choice of queries. Labels drawn with probabilities must
    represent all documents, which is checked by the sum of their weights or by the sampling frame.

    Args:
        panel_grade: of the panel, [units].
        human: NaN where there is none, [units].
        query: number of each unit's query, [units].
        probability: of a labelled unit to be drawn, [units]; None: the same for all.
        frame: how many documents could be drawn; None: unknown.
    """
    has_label = ~np.isnan(human)
    if not has_label.any():
        return SamplingCheck(sound=True)
    if frame is not None and frame < len(human):
        return _of_part(f"only {frame:,} of {len(human):,} documents could be drawn")
    if probability is not None and (probability[has_label] < 1).any():
        covering = _covering(probability[has_label], len(human), framed=frame is not None)
        if not covering.sound or np.ptp(probability[has_label]) > 0 or frame is not None:
            return covering
    place = np.unique(query, return_inverse=True)[1]
    size, labelled = np.bincount(place), np.bincount(place, has_label)
    some = (labelled > 0) & (labelled < size)
    apart, chance = _test(panel_grade, has_label, place, some)
    if chance < CHANCE:
        return SamplingCheck(
            sound=False,
            note=(
                f"human grades cannot correct the means: their documents were not drawn at "
                f"random. Within queries the panel gives them {abs(apart):.2f} grades "
                f"{'more' if apart > 0 else 'less'} than the others ({_odds(chance)}); "
                f"{_REDRAW}"
            ),
        )
    queries = int((labelled > 0).sum())
    if not some.any() and size[labelled > 0].max() > 1 and queries < len(size):
        few = "" if queries >= FEW else f" (few: intervals are reliable from {FEW} on)"
        return SamplingCheck(
            sound=True,
            note=(
                f"humans graded all documents of {queries} of {len(size)} queries{few}. Means are "
                "valid if these queries were drawn at random"
            ),
        )
    return SamplingCheck(sound=True)


def _test(panel_grade: Floats, is_asked: Bools, place: Ints, some: Bools) -> tuple[float, float]:
    """Return by how many grades labelled documents lie above others of their query; its p-value."""
    off = expected = spread = 0.0
    apart: list[tuple[float, int]] = []
    rows = np.flatnonzero(some[place])
    rows = rows[np.argsort(place[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(place[rows]))
    for query_rows in np.split(rows, starts + 1):
        labelled, grades = is_asked[query_rows], panel_grade[query_rows]
        if not query_rows.size:
            continue
        rank = scipy.stats.rankdata(grades)
        count, of = int(labelled.sum()), len(query_rows)
        weight = 1 / (of + 1)  # van Elteren's: the best where documents differ alike in all queries
        off += weight * rank[labelled].sum()
        expected += weight * count * (of + 1) / 2
        spread += weight**2 * count * (of - count) / of * rank.var(ddof=1)
        apart.append((grades[labelled].mean() - grades[~labelled].mean(), count))
    if spread <= 0:
        return 0.0, 1.0
    means, weights = np.array(apart).T
    chance = 2 * float(scipy.special.ndtr(-abs(off - expected) / np.sqrt(spread)))
    return float(np.average(means, weights=weights)), chance


def _covering(probability: Floats, units: int, *, framed: bool) -> SamplingCheck:
    """Check that labels drawn with probabilities represent all documents: weights must sum to N.

    If all could be drawn, or all with equal probability so that their grades can be tested, the sum
    must only be compatible with N. Else it must show that all could be drawn, since documents that
    could not be drawn leave no trace in the probabilities.
    """
    weight = 1 / probability
    stood = float(weight.sum())
    error = float(np.sqrt(((1 - probability) * weight**2).sum()))
    apart = abs(stood - units)
    if apart > 4 * error + 0.01 * units:
        return _of_part(
            f"by their probabilities they represent {stood:,.0f} of {units:,} documents"
        )
    if framed or np.ptp(probability) == 0 or apart + 2 * error <= PART * units:
        return SamplingCheck(sound=True)
    return _of_part(
        f"their probabilities do not show that they were drawn from all {units:,} documents (they "
        f"represent {stood:,.0f}, give or take {2 * error:,.0f})"
    )


def _of_part(part: str) -> SamplingCheck:
    note = f"human grades cannot correct the means: {part}, as for a bake-off; {_REDRAW}"
    return SamplingCheck(sound=False, note=note)


def _odds(chance: float) -> str:
    return "p < 1e-6" if chance < 1e-6 else f"p = {chance:.1g}"
