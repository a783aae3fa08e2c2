"""Check how the documents with human grades were drawn, as far as the data show it."""

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
PART = 0.1
"""Labels that may leave out more than this share of the documents are not of all."""
_REDRAW = "draw documents at random from all of the run, or label whole queries drawn at random"


@dataclass(frozen=True, slots=True)
class Drawn:
    """The verdict whether labels represent all documents, with a note for the user."""

    sound: bool
    note: str = ""


def drawn(
    panel_grade: Floats,
    human: Floats,
    query: Ints,
    probability: Floats | None = None,
    frame: int | None = None,
) -> Drawn:
    """Check how labels were drawn.

    Within queries, labelled documents must have the panel grades that a random draw of as many
    would give: the Wilcoxon test, over strata (van Elteren 1960, Bull. ISI 37:351). So labels of
    the top of the panel's own order are seen; labels of chosen queries are not. Labels drawn with
    probabilities must be shown to stand for all documents, by these or by what could be drawn.

    Args:
        panel_grade: the panel's word, [units].
        human: NaN where there is none, [units].
        query: number of each unit's query, [units].
        probability: with which a labelled unit was drawn, [units]; None: alike.
        frame: how many documents could be drawn; None: that is not known.
    """
    has_label = ~np.isnan(human)
    if not has_label.any():
        return Drawn(sound=True)
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
    chance = 2 * float(ndtr(-abs(off - expected) / np.sqrt(spread)))
    return float(np.average(means, weights=weights)), chance


def _covering(probability: Floats, units: int, *, framed: bool) -> Drawn:
    """Check that labels drawn with probabilities represent all documents: weights must sum to N.

    Where all could be drawn, or all alike, so that grades can tell more, it is enough that they may
    be of all. Else it must be shown, since what could not be drawn is in no probability.
    """
    weight = 1 / probability
    stood = float(weight.sum())
    error = float(np.sqrt(((1 - probability) * weight**2).sum()))
    apart = abs(stood - units)
    if apart > 4 * error + 0.01 * units:
        return _of_part(
            f"by their probabilities they stand for {stood:,.0f} of {units:,} documents"
        )
    if framed or np.ptp(probability) == 0 or apart + 2 * error <= PART * units:
        return Drawn(sound=True)
    return _of_part(
        f"their probabilities do not show that they are of all {units:,} documents and not of a "
        f"part (they stand for {stood:,.0f}, give or take {2 * error:,.0f})"
    )


def _of_part(part: str) -> Drawn:
    note = f"human grades do not set the means right: {part}, as for a contest; {_REDRAW}"
    return Drawn(sound=False, note=note)


def _odds(chance: float) -> str:
    return "once in a million" if chance < 1e-6 else f"p = {chance:.1g}"
