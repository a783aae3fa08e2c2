"""Measure rankers against the truth, and compare every two of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import inf, isnan

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.errors import Stopped
from zelo_ray.evaluation.measures import (
    Measure,
    Ranking,
    Truth,
    default_measures,
    evaluate,
    parse_measures,
    rank_run,
)
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.evaluation.significance import evaluate_rankers, label_draws
from zelo_ray.records import Comparison, Mean

_CELLS = 2**22
"""Resampled labels, and values under them, that are in memory at once: 32 MB each."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Rankers that ranked a query of the truth, measured by all measures, the leading one first."""

    truth: Truth
    runs: Mapping[str, pa.Table]
    """of all rankers, also of those that ranked nothing"""
    names: list[str]
    measures: tuple[Measure, ...]
    compared: tuple[Measure, ...]
    """those without Pairs where nobody named it"""
    rankings: dict[str, Ranking]
    values: dict[str, Floats]
    """by measure, [rankers, queries]"""
    answered: NDArray[np.bool_]
    """[rankers, queries]"""
    means: list[Mean]
    comparisons: list[Comparison]
    label_draws: int
    """0 if the labels are exact"""
    drawn: Callable[[Sequence[Measure]], Iterator[dict[str, Floats]]]
    """yields values of measures under each draw of the labels"""

    @property
    def leading(self) -> str:
        """Return the measure that the rankers are ordered by."""
        return str(self.measures[0])

    @property
    def leading_means(self) -> list[Mean]:
        """Return the means by the leading measure, best first; ties by name, NaN last."""
        rows = [row for row in self.means if row.measure == self.leading]
        return sorted(rows, key=lambda row: (inf if isnan(row.mean) else -row.mean, row.run))

    @property
    def leaderboard(self) -> list[str]:
        """Return the rankers, best first by the leading measure; ties by name, no mean last."""
        return [row.run for row in self.leading_means]


def measure(truth: Truth, runs: Mapping[str, pa.Table], options: BakeoffOptions) -> Measured:
    """Measure every ranker and compare them all.

    A ranker that ranked no query is left out. Means are over all queries of the truth; as usual in
    the field, a query that a ranker did not rank counts as 0. Two rankers are compared on the
    queries that both ranked. `Pairs` is always measured, and compared if it is named.

    Raises:
        OptionError: one of ``options.measures`` is not a measure.
        InputError: a run is not valid.
        Stopped: no ranker ranked any query.
    """
    compared = parse_measures(options.measures) or default_measures(truth)
    measures = tuple(dict.fromkeys((*compared, *parse_measures(["Pairs"]))))
    rankings = {name: rank_run(truth, run) for name, run in runs.items()}
    rankings = {name: ranking for name, ranking in rankings.items() if ranking.answered.any()}
    if not rankings:
        raise Stopped("no ranker ranked any query of the truth")
    by_ranker = np.stack([evaluate(measures, ranking) for ranking in rankings.values()])
    values = {str(each): by_ranker[:, m] for m, each in enumerate(measures)}
    answered = np.array([ranking.answered for ranking in rankings.values()])
    draws = options.label_draws if np.nan_to_num(truth.std_error).any() else 0
    drawn = partial(_evaluate_draws, truth, [*rankings.values()], draws, options.seed)
    means, comparisons = evaluate_rankers(
        values,
        answered,
        [*rankings],
        confidence=options.confidence,
        drawn=drawn(compared),
        uncompared={str(m) for m in measures if m.kind.about_labels or m not in compared},
    )
    return Measured(
        *(truth, runs, [*rankings], measures, compared, rankings, values, answered),
        *(means, comparisons, draws, drawn),
    )


def _evaluate_draws(
    truth: Truth, rankings: Sequence[Ranking], draws: int, seed: int, measures: Sequence[Measure]
) -> Iterator[dict[str, Floats]]:
    """Evaluate under resampled labels, one draw at a time: by measure [rankers, queries]."""
    labels = label_draws(truth.relevance, truth.std_error, draws, seed)
    values = len(rankings) * len(measures) * len(truth.query_ids)
    at_once = max(1, _CELLS // max(1, values, len(truth.relevance)))
    while chunk := [*islice(labels, at_once)]:
        stacked = np.stack(chunk)
        # [draws, measures, rankers, queries]
        drawn = np.stack([evaluate(measures, ranking, stacked) for ranking in rankings], axis=2)
        for draw in drawn:
            yield {str(each): draw[m] for m, each in enumerate(measures)}
