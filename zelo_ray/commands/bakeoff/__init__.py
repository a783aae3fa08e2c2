"""Measure rankers against the truth, and compare them: means, differences, gate, warnings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff.gate import decide_gates
from zelo_ray.commands.bakeoff.outcome import (
    BakeoffOutcome,
    Caution,
    Floats,
    MeasuredRanker,
    UnjudgedDocument,
    Unranked,
)
from zelo_ray.commands.bakeoff.people import correct_by_people
from zelo_ray.commands.bakeoff.slices import compute_slices
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
from zelo_ray.evaluation.significance import evaluate_rankers, label_draws
from zelo_ray.files.candidates import find_doubts
from zelo_ray.files.labels import PeoplesLabels

_CELLS = 2**22
"""Resampled labels, and values under them, that are in memory at once: 32 MB each."""
_UNJUDGED_DEPTH = 10


def measure(
    truth: Truth,
    entries: list[MeasuredRanker],
    options: BakeoffOptions,
    fields: Mapping[str, Mapping[str, str]],
    labels: PeoplesLabels | None = None,
    *,
    cautions: Sequence[Caution] = (),
) -> BakeoffOutcome:
    """Measure every ranker and compare them all.

    A ranker that answered no query is left out. Means are over all queries of the truth; as usual
    in the field, a query that a ranker did not answer counts as 0. Two rankers are compared on the
    queries that both answered. `Pairs` is always measured, and compared if it is named.

    Args:
        truth: relevance labels.
        entries: the rankers.
        options: of the bake-off.
        fields: by query id, its fields and their values, for ``options.slices``.
        labels: people's labels, to correct the truth with.
        cautions: those that were found while reading.

    Raises:
        OptionError: one of ``options.measures`` is not a measure.
        InputError: the ranking of a ranker is not a valid run.
        Stopped: no ranker ranked any query, or the baseline ranked none.
    """
    compared = parse_measures(options.measures) or default_measures(truth)
    measures = tuple(dict.fromkeys((*compared, *parse_measures(["Pairs"]))))
    rankings = {entry.name: rank_run(truth, entry.run) for entry in entries}
    rankers = [name for name, ranking in rankings.items() if ranking.answered.any()]
    for entry in entries:
        query_ids = {failure.query_id for failure in entry.failures}
        entry.failures.extend(
            Unranked(entry.name, query_id, "missing", "it is not in the run", 0)
            for query_id in rankings[entry.name].missing
            if query_id not in query_ids
        )
        if entry.name not in rankers:
            entry.note = entry.note or "it ranked no query of the truth, and takes no part"
    if not rankers:
        why = "; ".join(f"{entry.name}: {_first_reason(entry)}" for entry in entries)
        raise Stopped(f"no ranker ranked any query of the truth ({why})")
    rankings = {name: rankings[name] for name in rankers}
    answered = np.array([ranking.answered for ranking in rankings.values()])
    values = _values(measures, rankings.values())
    draws = options.label_draws if np.nan_to_num(truth.std_error).any() else 0
    drawn = partial(_evaluate_label_draws, truth, [*rankings.values()], draws, options.seed)
    means, comparisons = evaluate_rankers(
        values,
        answered,
        rankers,
        confidence=options.confidence,
        drawn=drawn(compared),
        uncompared={str(m) for m in measures if m.of_labels or m not in compared},
    )
    outcome = BakeoffOutcome(
        measures=measures,
        compared=compared,
        truth=truth,
        rankers=entries,
        ranker_names=rankers,
        values=values,
        answered=answered,
        rankings=rankings,
        means=means,
        comparisons=comparisons,
        slices=[],
        unjudged=[
            hole
            for name in rankers
            for hole in _find_unjudged(name, rankings[name], _UNJUDGED_DEPTH)
        ],
        label_draws=draws,
        confidence=options.confidence,
    )
    outcome.cautions = [*_find_cautions(outcome), *cautions]
    outcome.slices = list(compute_slices(outcome, options, fields))
    outcome.people = correct_by_people(outcome, labels, options) if labels else None
    if options.baseline:
        leading = (each[outcome.leading] for each in drawn(measures[:1]))
        outcome.gate = [*decide_gates(outcome, options, leading)]
    return outcome


def _find_cautions(outcome: BakeoffOutcome) -> Iterator[Caution]:
    """Yield reasons why the rankers' scores, or the truth's grades, may mislead."""
    truth, depth = outcome.truth, outcome.measures[0].cutoff
    for entry in (entry for entry in outcome.rankers if entry.name in outcome.ranker_names):
        run = entry.run.filter(pc.is_in(entry.run["query_id"], pa.array(truth.query_ids)))
        for code, (some, every) in find_doubts(run, depth).items():
            yield Caution(code, entry.name, some, every, depth)


def _first_reason(entry: MeasuredRanker) -> str:
    return entry.failures[0].description if entry.failures else entry.note


def _values(measures: Sequence[Measure], rankings: Iterable[Ranking]) -> dict[str, Floats]:
    """Evaluate the rankings: by measure, values of shape [rankers, queries]."""
    by_ranker = np.stack([evaluate(measures, ranking) for ranking in rankings])
    return {str(measure): by_ranker[:, m] for m, measure in enumerate(measures)}


def _evaluate_label_draws(
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
            yield {str(measure): draw[m] for m, measure in enumerate(measures)}


def _find_unjudged(name: str, ranking: Ranking, depth: int) -> list[UnjudgedDocument]:
    return [UnjudgedDocument(name, *hole) for hole in ranking.unjudged(depth)]
