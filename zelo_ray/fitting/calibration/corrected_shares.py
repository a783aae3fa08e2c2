"""Estimate means over all documents from the panel's grades, corrected by a few human ones.

Prediction-powered inference (Angelopoulos et al. 2023, Science 382:669), with the power tuning of
PPI++ (Angelopoulos, Duchi & Zrnic 2023, arXiv 2311.01453): human grades measure the panel's error
on a sample, and the panel's grades cover all documents. The sampling unit is the query, since
documents of one query are correlated.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from zelo_ray.fitting.calibration import clusters
from zelo_ray.fitting.calibration.ratings import Floats, Ints
from zelo_ray.records import Share

FEWEST = 5
"""With fewer human grades no interval is given; with fewer on one side of a grade, its share is
estimated from them alone."""
QUERIES = 5
"""The same with fewer queries, if some of them have several human grades."""
ROUNDING = 1e-9
"""Numbers that differ by less are equal."""


def estimate_shares(
    panel_grade: Floats,
    human: Floats,
    levels: int = 4,
    confidence: float = 0.95,
    at_least: Floats | None = None,
    *,
    query: Ints | None = None,
    probability: Floats | None = None,
) -> tuple[Share, ...]:
    """Estimate the mean grade, and the share of documents of each grade or a higher one.

    The documents with human grades must have been drawn at random, one by one or by whole queries,
    or with known probabilities, which `draws.drawn` checks. Intervals are for the population of
    such queries, not for these only. If all documents have human grades, the mean is theirs.

    Intervals are Student's, with variances over queries (CR2). If fewer than five effectively
    independent labels lie on one side of a grade, its share is the labels' own, with the binomial
    interval of `clusters`. If labels have no variance, as when the panel was right on all, a share
    q of the documents may still differ: the largest under which so many equal labels have a chance
    of (1 - confidence) / 2. The interval then covers what q of the documents could change.

    Args:
        panel_grade: of shape [units]; in the shares a fraction counts as the nearest grade, a
            half as the even one.
        human: of shape [units], NaN where there is none.
        levels: number of grades.
        confidence: of the intervals.
        at_least: of shape [units, levels - 1], the panel's chances of grades 1 and up or higher;
            None: from its rounded grades, which are at the ends less often than people's.
        query: of shape [units], numbers of queries; None: each unit is one.
        probability: of shape [units], of a labelled unit to be drawn; NaN elsewhere. None: the same
            for all.
    """
    rounded, has_label = np.rint(np.round(panel_grade, 9)), ~np.isnan(human)
    if at_least is None:
        at_least = (rounded[:, np.newaxis] >= np.arange(1, levels)).astype(np.float64)
    unit = np.arange(len(human)) if query is None else np.unique(query, return_inverse=True)[1]
    rows = [("grade", panel_grade, human, levels - 1)]
    for grade in range(1, levels):
        true = np.where(has_label, human >= grade, np.nan)
        rows.append((f">={grade}", at_least[:, grade - 1], true, 1))
    return tuple(
        Share(
            name,
            float(grades.mean()) if grades.size else np.nan,
            *_Sample(grades, true, unit, top, probability, confidence).corrected(),
            documents=len(grades),
            humans=int(has_label.sum()),
        )
        for name, grades, true, top in rows
    )


@dataclass(frozen=True, slots=True)
class _Sample:
    """Values of the panel for all documents, and the truth of some, from 0 to top; [units] each."""

    panel: Floats
    true: Floats
    query: Ints
    top: int
    probability: Floats | None
    confidence: float

    def corrected(self) -> tuple[float, float, float]:
        """Return the corrected mean and the ends of its interval."""
        has_label = ~np.isnan(self.true)
        true, grades, query = self.true[has_label], self.panel[has_label], self.query[has_label]
        # With equal probabilities the panel's mean is over unlabelled documents; else over all.
        panel_rows = ~has_label if self.probability is None else np.ones(len(has_label), dtype=bool)
        if not true.size:
            return (float(self.panel.mean()) if panel_rows.any() else np.nan), np.nan, np.nan
        weight = np.ones(true.size) if self.probability is None else 1 / self.probability[has_label]
        weight = weight / weight.sum()
        queries = len(np.unique(query))
        enough = true.size >= FEWEST and (queries >= QUERIES or queries == true.size)
        if enough and self.top == 1:
            mean = float(weight @ true)
            size = self._effective_size(has_label) / (true.size * float(weight @ weight))
            if min(mean, 1 - mean) * size < FEWEST - ROUNDING:
                return mean, *clusters.binomial_interval(
                    min(mean * size, size), size, self.confidence
                )
        trust = _trust(self.panel[panel_rows], grades, true, weight)
        apart = true - trust * grades
        mean = float(weight @ apart) + (
            trust * float(self.panel[panel_rows].mean()) if panel_rows.any() else 0
        )
        if not enough:
            return mean, np.nan, np.nan
        variance = _variance(
            (apart, weight, query),
            (
                trust * self.panel[panel_rows],
                np.ones(int(panel_rows.sum())),
                self.query[panel_rows],
            ),
        )
        half = float(scipy.special.stdtrit(queries - 1, (1 + self.confidence) / 2) * variance**0.5)
        below, above = 0.0, 0.0
        if np.ptp(apart) < ROUNDING:
            share = 1 - ((1 - self.confidence) / 2) ** (1 / self._effective_size(has_label))
            below = share * float(apart[0] + trust * self.top)
            above = share * float(self.top - apart[0])
        return mean, max(0.0, mean - half - below), min(self.top, mean + half + above)

    def _effective_size(self, observed: np.ndarray) -> float:
        """Return the effective number of labels, given the correlation within queries."""
        yes = self.true[observed] / self.top
        labels = clusters.sum_by_query(yes, self.query[observed])
        correlations = [clusters.intraclass_correlation(*labels)]
        correlations.append(
            clusters.intraclass_correlation(
                *clusters.sum_by_query(self.panel / self.top, self.query)
            )
        )
        usual = float(np.nanmax(correlations)) if not np.isnan(correlations).all() else np.nan
        return clusters.effective_size(*labels, usual, self.confidence)


def _variance(*means: tuple[Floats, Floats, Ints]) -> float:
    """Compute the variance of a sum of weighted means of values, over a draw of queries.

    For one mean of queries of equal weight it is their variance over their number. Each query's
    residual is divided by the root of 1 minus its leverage (CR2: Bell & McCaffrey 2002, Survey
    Methodol. 28:169). Values of one query in both means are added first.
    """
    several = max(int(query.max(initial=0)) for *_, query in means) + 1
    moved = np.zeros(several)
    for values, weight, query in means:
        if values.size:
            share = weight / weight.sum()
            complement = 1 - np.bincount(query, share, several)
            sums = np.bincount(query, share * (values - share @ values), several)
            moved += np.divide(
                sums, complement**0.5, out=np.zeros(several), where=complement > ROUNDING
            )
    return float((moved**2).sum())


def _trust(unseen: Floats, observed: Floats, true: Floats, weight: Floats) -> float:
    """Return the weight of the panel's values, from 0 to 1, that minimises the variance.

    Documents count as independent here: another weight makes intervals wider, but never wrong.
    """
    spread = (
        np.concatenate([observed, unseen]).var(ddof=1) if observed.size + unseen.size > 1 else 0.0
    )
    if not unseen.size or not spread:
        return 0.0
    together = float(weight @ ((true - weight @ true) * (observed - weight @ observed)))
    return float(np.clip(together / ((1 + observed.size / unseen.size) * spread), 0, 1))
