"""Decide whether candidates may replace a baseline: better, not worse by a margin, or worse."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, nan, sqrt
from typing import Literal

import numpy as np
import scipy

from zelo_ray.evaluation.ranking import Bools, Floats
from zelo_ray.evaluation.significance import FEWEST, LABELS_SURE, POWER, TIE

Decision = Literal["better", "not worse", "worse", "not enough data", "own family only"]


@dataclass(frozen=True, slots=True)
class GateDecision:
    """The result of a candidate against the baseline.

    ``reason`` says why there is no decision; ``low`` and ``high`` are `limits`; ``labels`` is the
    share of draws of the labels with a difference not below -``margin``, NaN without draws;
    ``enough`` is how many queries let an equal candidate pass four times in five, 0 if unknown.
    """

    run: str
    baseline: str
    measure: str
    estimate: str
    margin: float
    confidence: float
    verdict: Decision = "not enough data"
    reason: str = ""
    difference: float = nan
    low: float = nan
    high: float = nan
    labels: float = nan
    queries: int = 0
    enough: int = 0


def decide_gate(
    values: Floats,
    answered: Bools,
    rankers: Sequence[str],
    baseline: str,
    *,
    measure: str,
    estimate: str = "panel",
    margin: float,
    confidence: float,
    drawn: Iterable[Floats] = (),
    labelled: Sequence[int] | None = None,
) -> list[GateDecision]:
    """Decide for each ranker but the baseline, separately.

    Better: the lower limit of the difference is above 0. Not worse: it is not below
    -``margin``. Worse: neither, and the upper limit is below 0. The chance of each error is 1 -
    ``confidence``. A decision must also hold in .95 of the draws of the labels. A candidate
    that lacks queries of the baseline cannot pass.

    Values and ``answered`` are [rankers, queries], NaN where the ``measure`` is not defined;
    ``drawn`` are values under draws of the labels; ``labelled`` says by ranker how many queries
    have labels of people that tell it from the baseline.
    """
    base = rankers.index(baseline)
    metrics = np.where(answered, values, np.nan)
    differences = metrics - metrics[base]
    common = ~np.isnan(differences)
    draws = [np.where(common, draw - draw[base], 0.0).sum(axis=1) for draw in drawn]
    decisions = []
    for row, ranker in enumerate(rankers):
        if row == base:
            continue
        own = differences[row, common[row]]
        under = np.array([draw[row] / own.size for draw in draws if own.size])
        telling = None if labelled is None else labelled[row]
        low, high = limits(own, confidence, telling)
        verdict, reason = _decide(low, high, margin, under, own.size)
        lost = int((answered[base] & ~answered[row]).sum())
        if telling is not None and telling < FEWEST <= own.size:
            reason = "too few of people's labels distinguish the two"
        elif lost and verdict in ("better", "not worse"):
            verdict, reason = (
                "not enough data",
                f"it did not rank {lost:,} of the baseline's queries",
            )
        decisions.append(
            GateDecision(
                *(ranker, baseline, measure, estimate, margin, confidence, verdict, reason),
                difference=float(own.mean()) if own.size else nan,
                low=low,
                high=high,
                labels=float((under >= -margin).mean()) if under.size else nan,
                queries=own.size,
                enough=queries_needed(own, margin, confidence),
            )
        )
    return decisions


def limits(
    differences: Floats, confidence: float, labelled: int | None = None
) -> tuple[float, float]:
    """Return one-sided limits of the mean, each at ``confidence``; NaN below 5 differences.

    They are Student's t limits, by the ``labelled`` queries if people's labels are behind the
    differences; if these are skewed, that on the side of the longer tail is moved out by
    Johnson's correction (1978, J. Am. Stat. Assoc. 73:536): with few queries t alone errs too
    often (``benchmarks/gate.py``).
    """
    n = len(differences)
    size = n if labelled is None else min(n, labelled)
    if size < FEWEST:
        return nan, nan
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    t = float(scipy.special.stdtrit(size - 1, confidence))
    cubes = float(((differences - mean) ** 3).mean())
    lean = cubes / spread**2 / (6 * n) * (1 + 2 * t * t) if spread > TIE else 0.0
    out = t * spread / sqrt(n)
    return mean - out + min(lean, 0.0), mean + out + max(lean, 0.0)


def queries_needed(differences: Floats, margin: float, confidence: float) -> int:
    """Return how many queries let an equally good candidate pass four times in five.

    By the normal approximation; 0 if there are too few, they do not vary, or there is no margin.
    """
    if len(differences) < FEWEST or not margin > 0:
        return 0
    steps = float(scipy.special.ndtri(confidence) + scipy.special.ndtri(POWER))
    return ceil((steps * float(differences.std(ddof=1)) / margin) ** 2)


def _decide(
    low: float, high: float, margin: float, under: Floats, queries: int
) -> tuple[Decision, str]:
    """Return the decision, and the reason if there is not enough data."""

    def holds(draws: Bools) -> bool:
        return not draws.size or float(draws.mean()) >= LABELS_SURE

    if low > 0 and holds(under > 0):
        return "better", ""
    if low >= -margin and holds(under >= -margin):
        return "not worse", ""
    if low < -margin and high < 0 and holds(under < 0):
        return "worse", ""
    if queries < FEWEST:
        why = f"a comparison needs {FEWEST} queries, and there are {queries:,}"
    else:
        unsure = low >= -margin or high < 0
        why = "the labels are too uncertain" if unsure else "the interval is too wide"
    return "not enough data", why
