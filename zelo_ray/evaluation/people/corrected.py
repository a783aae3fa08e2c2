"""Metrics by people's labels: alone, and as a correction of the panel's.

Prediction-powered inference (Angelopoulos et al. 2023, Science 382:669; for ranking measures
Oosterhuis et al. 2024, arXiv 2407.02464). Of every query and arm

    V = sum over documents of weight * f(panel's grade)
      + sum over labelled ones of weight * (gain of the label - f(panel's grade)) / probability

is without bias for the metric by people, whatever f is (Horvitz & Thompson 1952): labels set right
what the panel says, and the better f foretells them, the narrower the interval. So f is learned
from the labels, for each query from those of other queries.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from zelo_ray.evaluation.people.frame import Frame

Floats = NDArray[np.float64]

FOLDS = 10
"""Parts of the queries, each foretold from the labels of the others."""
FEWEST = 30
"""From fewer labels nothing is learned: f is then the panel's own gain."""


def corrected(frame: Frame, gain: Floats, probability: Floats) -> Floats:
    """The metrics of the arms by the panel, set right by people.

    Args:
        frame: of the contest.
        gain: what people's labels are worth, [rows]; NaN where there is none.
        probability: of each document to be labelled, [rows]; it matters where there is a label.

    Returns:
        Of shape [arms, queries]. Only differences of two arms are without bias: documents that all
        arms rank alike have no label.
    """
    told = _foretold(frame, gain)
    return frame.by_query(frame.weight * (told + _weighted(gain - told, probability)))


def people_alone(frame: Frame, gain: Floats, probability: Floats) -> Floats:
    """The same by people's labels only, as if there were no panel."""
    return frame.by_query(frame.weight * _weighted(gain, probability))


def by_panel(frame: Frame) -> Floats:
    """The same by the panel only."""
    return frame.by_query(frame.weight * panel_gains(frame))


def panel_gains(frame: Frame) -> Floats:
    """What the panel's own grades are worth, [rows]; without a grade, what 0 is."""
    return frame.linear.gains(np.nan_to_num(frame.panel, nan=0.0))


def _weighted(gain: Floats, probability: Floats) -> Floats:
    """By the inverse probability, 0 where there is no label."""
    labelled = ~np.isnan(gain)
    return np.where(labelled, gain, 0.0) / np.where(labelled, probability, 1.0)


def _foretold(frame: Frame, gain: Floats) -> Floats:
    """What people's gains are expected to be, by the panel's grade, [rows].

    Isotonic in the grade; documents without a grade have a mean of their own.
    """
    told = panel_gains(frame)
    labelled = ~np.isnan(gain)
    if labelled.sum() < FEWEST:
        return told
    edges = np.linspace(0, len(frame.query_ids), FOLDS + 1).round().astype(np.int64)
    for low, high in pairwise(edges):
        own = (frame.query >= low) & (frame.query < high)
        told[own] = _learned(frame.panel, gain, labelled & ~own, own, told[own])
    return told


def _learned(
    panel: Floats,
    gain: Floats,
    known: NDArray[np.bool_],
    wanted: NDArray[np.bool_],
    otherwise: Floats,
) -> Floats:
    found = otherwise.copy()
    for judged in (True, False):
        of_kind = ~np.isnan(panel) if judged else np.isnan(panel)
        here = known & of_kind
        at = of_kind[wanted]
        if not here.any() or not at.any():
            continue
        if not judged:
            found[at] = gain[here].mean()
            continue
        grades, place = np.unique(panel[here], return_inverse=True)
        count = np.bincount(place)
        means = np.bincount(place, gain[here]) / count
        steps = isotonic_regression(means, weights=count).x
        found[at] = np.interp(panel[wanted][at], grades, steps)
    return found
