"""Find parts of the queries: slices with their means, and those where two rankers differ most."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from textwrap import shorten

import numpy as np

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff.measure import Measured
from zelo_ray.evaluation.measures import Measure, Truth, default_measures
from zelo_ray.evaluation.significance import mean_metrics
from zelo_ray.files.pools import Line
from zelo_ray.records import Pool

DIFFICULTY = "difficulty (by result)"
RELEVANT = "relevant documents (by truth)"
_DIFFICULTY = ("hard", "medium", "easy")
_RELEVANT = {"0": 0, "1": 1, "2-5": 5, "6+": np.inf}
"""By the name of a step, the most relevant documents of its queries."""
_RIVALS, _QUERIES, _SHOWN, _SNIPPET = 5, 5, 10, 280


@dataclass(frozen=True, slots=True)
class Slice:
    """The mean of a measure over some of the queries, with its interval."""

    slice: str
    value: str
    run: str
    measure: str
    mean: float
    low: float
    high: float
    queries: int


@dataclass(frozen=True, slots=True)
class Contrast:
    """A document of a query where the best ranker, A, and another differ most.

    ``relevance`` is NaN where the truth does not know it, and a rank 0 where a ranker lacks it.
    """

    query_id: str
    query: str
    run_a: str
    run_b: str
    value_a: float
    value_b: float
    doc_id: str
    text: str
    relevance: float
    rank_a: int
    rank_b: int


def compute_slices(
    measured: Measured, options: BakeoffOptions, fields: Mapping[str, Mapping[str, str]]
) -> Iterator[Slice]:
    """Yield means by each field of ``options.slices``, by relevant documents and by difficulty.

    ``fields`` are those of the queries with their values, by query id.
    """
    ids = measured.truth.query_ids
    groups = {name: [fields.get(q, {}).get(name, "") for q in ids] for name in options.slices}
    if len({*(relevant := _count_relevant(measured))} - {""}) > 1:
        groups[RELEVANT] = relevant
    if len(ids) >= len(_DIFFICULTY) * 2:
        groups[DIFFICULTY] = _difficulty(measured)
    for name, labels in groups.items():
        steps = {RELEVANT: [*_RELEVANT], DIFFICULTY: _DIFFICULTY}.get(name, sorted({*labels}))
        for value in (step for step in steps if step and step in labels):
            chosen = np.array([label == value for label in labels])
            for measure, values in measured.values.items():
                found = mean_metrics(values[:, chosen], options.confidence)
                for ranker, row in zip(measured.names, found.rows(), strict=True):
                    yield Slice(name, value, ranker, measure, *row)


def relevant_from(measures: Sequence[Measure], truth: Truth) -> float | None:
    """Return the least relevance that is relevant: that of the first measure which has one.

    Where no measure has one, it is that of the measures which suit the truth. None where the truth
    is zELO scores, whose 0 depends on the other documents of a query, and no measure names one.
    """
    for measure in (*measures, *default_measures(truth)):
        kind, given = measure.kind, dict(measure.parameters)
        has_rel = "rel" in given or not (kind.exclusive and given)
        if "rel" in kind.parameters and has_rel and (truth.kind != "scores" or "rel" in given):
            return float(given.get("rel", kind.parameters["rel"].default))
    return None


def _count_relevant(measured: Measured) -> list[str]:
    """Return how many documents of each query are relevant, in steps; "" where nothing says it."""
    truth = measured.truth
    threshold = relevant_from(measured.measures, truth)
    if threshold is None:
        return [""] * len(truth.query_ids)
    counts = np.bincount(truth.query, truth.relevance >= threshold, len(truth.query_ids))
    return [next(n for n, most in _RELEVANT.items() if count <= most) for count in counts]


def _difficulty(measured: Measured) -> list[str]:
    """Split the queries into thirds by the mean of the rankers; "" if none ranked the query."""
    values = np.where(measured.answered, measured.values[measured.leading], np.nan)
    counts = (~np.isnan(values)).sum(axis=0)
    queries = np.flatnonzero(counts)
    means = np.nansum(values, axis=0)[queries] / counts[queries]
    thirds = np.argsort(np.argsort(means, kind="stable"), kind="stable") * 3 // len(queries)
    labels = [""] * len(counts)
    for query, third in zip(queries, thirds, strict=True):
        labels[query] = _DIFFICULTY[third]
    return labels


def find_contrasts(measured: Measured, lines: Iterable[Line]) -> list[Contrast]:
    """Return the first documents of queries where the best ranker and its rivals differ most.

    ``lines`` of pools are read for their texts, if there are such queries.
    """
    best, *others = measured.leaderboard
    values, chosen = measured.values[measured.leading], list[tuple[str, int]]()
    a = measured.names.index(best)
    for rival in others[:_RIVALS]:
        b = measured.names.index(rival)
        answered = measured.answered[a] & measured.answered[b]
        gaps = np.where(answered, np.abs(np.nan_to_num(values[a] - values[b])), 0.0)
        widest = np.argsort(-gaps, kind="stable")[:_QUERIES]
        chosen += [(rival, int(q)) for q in widest if gaps[q] > 0]
    wanted, pools = {measured.truth.query_ids[q] for _, q in chosen}, dict[str, Pool]()
    for line in lines if wanted else ():
        if line.pool and line.pool.query_id in wanted:
            pools.setdefault(line.pool.query_id, line.pool)
    rows = list[Contrast]()
    for rival, q in chosen:
        pool = pools.get(measured.truth.query_ids[q])
        rows += _describe_contrast(measured, (best, rival), q, pool)
    return rows


def _describe_contrast(
    measured: Measured, runs: tuple[str, str], q: int, pool: Pool | None
) -> Iterator[Contrast]:
    """Yield the first documents of two rankers for a query, with the texts that its pool has."""
    values, relevance = measured.values[measured.leading], measured.truth.labels(q)
    texts = {document.id: document.content for document in pool.documents} if pool else {}
    sides = [measured.rankings[run].documents(q) for run in runs]
    places = [{doc_id: n for n, doc_id in enumerate(side, start=1)} for side in sides]
    query = measured.truth.query_ids[q], pool.query if pool else ""
    a, b = (float(values[measured.names.index(run), q]) for run in runs)
    for doc_id in dict.fromkeys(doc_id for side in sides for doc_id in side[:_SHOWN]):
        text = shorten(texts.get(doc_id, ""), _SNIPPET, placeholder=" …")
        label, ranks = relevance.get(doc_id, nan), [place.get(doc_id, 0) for place in places]
        yield Contrast(*query, *runs, a, b, doc_id, text, label, *ranks)
