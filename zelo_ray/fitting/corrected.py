"""Set means over all documents right by a few grades of people.

Prediction-powered inference (Angelopoulos et al. 2023, Science 382:669), with the power tuning of
PPI++ (Angelopoulos, Duchi & Zrnic 2023, arXiv 2311.01453): people's grades measure the panel's
error on a sample, and the panel's grades cover all documents. The sampling unit is the query, since
documents of one query are correlated.
"""

import numpy as np
import scipy

from zelo_ray.fitting import clusters
from zelo_ray.fitting.battles import Floats, Ints
from zelo_ray.fitting.grades import LEVELS, round_grades
from zelo_ray.records import Share

FEWEST = 5
"""With fewer human grades, or queries of several, no interval is given; with fewer on one side of a
grade, its share is estimated from them alone."""
FEW = 10
"""With fewer queries, intervals over whole queries cover slightly too little."""
_PART = 0.1
"""Labels must represent all documents but this share."""
_ROUNDING = 1e-9
_DRAW = "draw documents by zelo-ray label, or grade whole queries drawn at random"


def correct_means(
    grade: Floats,
    human: Floats,
    query: Ints,
    probability: Floats | None = None,
    *,
    frame: int | None = None,
) -> tuple[tuple[Share, ...], tuple[str, ...]]:
    """Estimate the mean grade, and the share of documents of each grade or a higher one.

    People's grades (``human``, NaN where there is none) correct the panel only if their
    documents were drawn at random: with a known ``probability``, among ``frame`` documents; or
    as whole queries. Else the corrected means are NaN, and a note says why. Intervals are for
    the population of such queries: Student's, with variances over queries (CR2).

    If fewer than five effectively independent labels lie on one side of a grade, its share is
    the labels' own, with a binomial interval. If labels have no variance, as when the panel was
    right on all, a share q of the documents may still differ: the largest under which so many
    equal labels have a chance of .025. The interval then covers what q of the documents could
    change.
    """
    has_label = ~np.isnan(human)
    note, is_sound = _check_sampling(has_label, query, probability, frame)
    if probability is not None and (probability[has_label] == 1).all():
        probability = None  # as of all documents, or of whole queries
    rounded, unit = round_grades(grade), np.unique(query, return_inverse=True)[1]
    shares = list[Share]()
    for level in range(LEVELS):
        name, panel, true, top = "grade", grade, human, LEVELS - 1
        if level:
            name, panel, top = f">={level}", (rounded >= level).astype(np.float64), 1
            true = np.where(has_label, human >= level, np.nan)
        alone = float(panel.mean()) if panel.size else np.nan
        estimate = np.nan, np.nan, np.nan
        if is_sound:
            estimate = _correct(panel, true, unit, top, probability)
        shares.append(Share(name, alone, *estimate, len(panel), int(has_label.sum())))
    return tuple(shares), (note,) if note else ()


def _check_sampling(
    has_label: np.ndarray, query: Ints, probability: Floats | None, frame: int | None
) -> tuple[str, bool]:
    """Return what is to be said of how labels were drawn, and whether they may correct."""
    if not has_label.any():
        return "", True
    units, problem = len(has_label), ""
    if frame is not None and frame < units:
        problem = f"only {frame:,} of {units:,} documents could be drawn, as for a bake-off"
    elif probability is not None and (probability[has_label] < 1).any():
        weight = 1 / probability[has_label]
        stood = float(weight.sum())
        error = float(np.sqrt(((1 - probability[has_label]) * weight**2).sum()))
        missing = abs(stood - units)
        if missing > 4 * error + 0.01 * units:
            problem = f"by their probabilities they represent {stood:,.0f} of {units:,} documents"
        elif frame is None and np.ptp(weight) > 0 and missing + 2 * error > _PART * units:
            problem = (
                f"their probabilities do not show that all {units:,} documents could be drawn "
                f"(they represent {stood:,.0f}, give or take {2 * error:,.0f})"
            )
    else:
        place = np.unique(query, return_inverse=True)[1]
        size, labelled = np.bincount(place), np.bincount(place, has_label)
        queries = int((labelled > 0).sum())
        if ((labelled > 0) & (labelled < size)).any():
            problem = "nothing says with which probabilities their documents were drawn"
        elif queries < len(size):
            few = "" if queries >= FEW else f" (few: intervals are reliable from {FEW} on)"
            return (
                f"people graded all documents of {queries} of {len(size)} queries{few}. Means are "
                "valid if these queries were drawn at random"
            ), True
    if not problem:
        return "", True
    return f"people's grades cannot correct the means: {problem}; {_DRAW}", False


def _correct(
    panel: Floats, truth: Floats, query: Ints, top: int, probability: Floats | None
) -> tuple[float, float, float]:
    """Return the corrected mean and the ends of its interval, of values from 0 to ``top``."""
    has_label = ~np.isnan(truth)
    if not has_label.any():
        return (float(panel.mean()) if panel.size else np.nan), np.nan, np.nan
    true, grades, labelled = truth[has_label], panel[has_label], query[has_label]
    # With equal probabilities the panel's mean is over unlabelled documents; else over all.
    rest = ~has_label if probability is None else np.ones(len(panel), dtype=bool)
    weight = np.ones(true.size) if probability is None else 1 / probability[has_label]
    weight = weight / weight.sum()
    queries, size = len(np.unique(labelled)), np.nan
    enough = true.size >= FEWEST and (queries >= FEWEST or queries == true.size)
    if enough:  # how many labels these are worth, given the correlation within queries
        labels = clusters.sum_by_query(true / top, labelled)
        every = clusters.sum_by_query(panel / top, query)
        usual = [clusters.intraclass_correlation(*part) for part in (labels, every)]
        usual = [value for value in usual if not np.isnan(value)] or [np.nan]
        size = clusters.effective_size(*labels, max(usual))
        if top == 1:
            mean, alike = float(weight @ true), size / (true.size * float(weight @ weight))
            if min(mean, 1 - mean) * alike < FEWEST - _ROUNDING:
                return mean, *clusters.binomial_interval(min(mean * alike, alike), alike)
    trust = _trust(panel[rest], grades, true, weight)
    errors = true - trust * grades
    mean = float(weight @ errors) + (trust * float(panel[rest].mean()) if rest.any() else 0)
    if not enough:
        return mean, np.nan, np.nan
    variance = _variance((errors, weight, labelled), (trust * panel[rest], rest[rest], query[rest]))
    half = float(scipy.special.stdtrit(queries - 1, 0.975) * variance**0.5)
    below, above = 0.0, 0.0
    if np.ptp(errors) < _ROUNDING:
        share = 1 - 0.025 ** (1 / size)
        below = share * float(errors[0] + trust * top)
        above = share * float(top - errors[0])
    return mean, max(0.0, mean - half - below), min(top, mean + half + above)


def _variance(*means: tuple[Floats, Floats, Ints]) -> float:
    """Compute the variance of a sum of weighted means of values, over a draw of queries.

    Each query's residual is divided by the root of 1 minus its leverage (CR2: Bell & McCaffrey
    2002, Survey Methodol. 28:169). Values of one query in both means are added first.
    """
    several = max(int(query.max(initial=0)) for *_, query in means) + 1
    moved = np.zeros(several)
    for values, weight, query in means:
        if values.size:
            share = weight / weight.sum()
            complement = 1 - np.bincount(query, share, several)
            sums = np.bincount(query, share * (values - share @ values), several)
            moved += np.divide(
                sums, complement**0.5, out=np.zeros(several), where=complement > _ROUNDING
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
