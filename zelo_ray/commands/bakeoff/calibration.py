"""Measure which rankers' scores are probabilities of being relevant, and whether these hold."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np

from zelo_ray.commands.bakeoff.outcome import BakeoffOutcome, MeasuredRanker
from zelo_ray.commands.bakeoff.thresholds import find_threshold
from zelo_ray.evaluation.score_calibration import Reliability, measure_reliability
from zelo_ray.options import BakeoffOptions


@dataclass(frozen=True, slots=True)
class ScoreCalibration:
    """A ranker and how far its scores hold as probabilities; NaN where they leave 0 to 1.

    ``relevant_from`` is the least relevance that counts as relevant, ``relevant`` the share of the
    judged documents that is; `evaluation.score_calibration.Reliability` defines the other figures.
    """

    run: str
    lowest: float
    """score, of all documents"""
    highest: float
    relevant_from: float
    documents: int
    queries: int
    relevant: float
    brier: float
    brier_low: float
    brier_high: float
    ece: float
    ece_low: float
    ece_high: float
    ece_by_chance: float


@dataclass(frozen=True, slots=True)
class ScoreBin:
    """The judged documents whose scores lie in [start, stop): mean score, and relevant share."""

    run: str
    start: float
    stop: float
    documents: int
    mean_score: float
    relevant: float
    low: float
    high: float


def measure_calibration(
    outcome: BakeoffOutcome, options: BakeoffOptions
) -> dict[str, tuple[type, list[Any]]]:
    """Return result files: ``calibration``, a ranker a row, and ``reliability``, a bin a row.

    Scores are taken for probabilities where all of a ranker's lie between 0 and 1. A document is
    relevant as measures have it (`find_threshold`); where the truth is zELO scores nothing says
    which are, and the files have no rows.
    """
    rankers, bins = list[ScoreCalibration](), list[ScoreBin]()
    threshold = find_threshold(outcome.measures, outcome.truth)
    if threshold is not None:
        for entry in outcome.rankers:
            if entry.name in outcome.ranker_names:
                row, reliability = _calibrate(outcome, entry, threshold, options)
                rankers.append(row)
                bins += _bins(entry.name, reliability) if reliability else ()
    return {"calibration": (ScoreCalibration, rankers), "reliability": (ScoreBin, bins)}


def _calibrate(
    outcome: BakeoffOutcome, entry: MeasuredRanker, threshold: float, options: BakeoffOptions
) -> tuple[ScoreCalibration, Reliability | None]:
    ranking, truth = outcome.rankings[entry.name], outcome.truth
    scores = np.asarray(entry.run["score"].to_numpy(), np.float64)[ranking.positions]
    lowest, highest = float(scores.min()), float(scores.max())
    judged = ranking.rows >= 0
    rows = ranking.rows[judged]
    if not (lowest >= 0 and highest <= 1 and len(rows)):
        return _without_figures(entry.name, lowest, highest, threshold), None
    reliability = measure_reliability(
        scores[judged],
        truth.relevance[rows] >= threshold,
        truth.query[rows],
        resamples=options.resamples,
        confidence=options.confidence,
        seed=options.seed,
    )
    row = ScoreCalibration(
        *(
            entry.name,
            lowest,
            highest,
            threshold,
            reliability.documents,
            reliability.queries,
            reliability.relevant,
        ),
        *(reliability.brier.value, reliability.brier.low, reliability.brier.high),
        *(
            reliability.ece.value,
            reliability.ece.low,
            reliability.ece.high,
            reliability.ece_by_chance,
        ),
    )
    return row, reliability


def _without_figures(
    name: str, lowest: float, highest: float, threshold: float
) -> ScoreCalibration:
    return ScoreCalibration(name, lowest, highest, threshold, 0, 0, *(nan,) * 8)


def _bins(name: str, reliability: Reliability) -> Iterator[ScoreBin]:
    for score_bin in reliability.bins:
        yield ScoreBin(
            *(name, score_bin.start, score_bin.stop, score_bin.documents, score_bin.mean_score),
            *(score_bin.relevant.value, score_bin.relevant.low, score_bin.relevant.high),
        )
