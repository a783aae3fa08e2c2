"""Correct a graded run's means by human grades, and measure when to trust its panel.

People's grades set the means over all documents right, if their documents were drawn at random; and
they show how right the panel is by how far its judges agree.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import isfinite, nan
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.fitting import calibration
from zelo_ray.fitting.calibration.ratings import Floats, Ints
from zelo_ray.protocols.anchors import example_query_ids
from zelo_ray.records import Consensus, Share


def without_example_queries(people: pa.Table, options: Any) -> pa.Table:
    """Return human grades without those of a query used in the judges' worked examples."""
    shown = example_query_ids(options.anchors) if hasattr(options, "anchors") else ()
    return people.filter(pc.invert(pc.is_in(people["query_id"], pa.array([*shown], pa.string()))))


def correct_means(
    word: Floats,
    sure: Floats | None,
    human: Floats,
    query: Ints,
    probability: Floats | None = None,
    *,
    frame: int | None = None,
) -> tuple[tuple[Share, ...], tuple[str, ...]]:
    """Return means over all documents, and what a user should know of them.

    Where labels were not drawn at random the means are NaN, but for the panel's own.

    Args:
        word: the panel's, [documents].
        sure: its chances of grades 1, 2 and 3 or higher, [documents, 3]; None: its word alone.
        human: people's grades, NaN where there is none, [documents].
        query: number of each document's query, [documents].
        probability: with which a labelled document was drawn, [documents]; None: as any other.
        frame: how many documents could be drawn; None: that is not known.
    """
    sample = calibration.check_sampling(word, human, query, probability, frame)
    if probability is not None and (probability[np.isfinite(human)] == 1).all():
        probability = None  # as of all documents, or of whole queries
    shares = calibration.estimate_shares(
        word, human, at_least=sure, query=query, probability=probability
    )
    if not sample.sound:
        shares = tuple(replace(share, mean=nan, low=nan, high=nan) for share in shares)
    return shares, (sample.note,) if sample.note else ()


def measure_consensus(
    ratings: calibration.Ratings, human: Floats, query: Ints
) -> tuple[Consensus, ...]:
    """Measure how often people say what the panel says, by how far its judges agree.

    Args:
        ratings: the judges' grades; its units are documents.
        human: people's grades, NaN where there is none, [documents].
        query: number of each document's query, [documents].
    """
    (indices,) = np.isfinite(human).nonzero()
    if not indices.size:
        return ()
    grades = calibration.grade_matrix(ratings)[:, indices]
    cuts = range(1, ratings.levels)
    people = human[indices].astype(np.int16)
    return tuple(calibration.grade_consensus(grades, people, query[indices], ratings.levels, cuts))


def describe_consensus(found: Iterable[Consensus]) -> Iterator[str]:
    """Yield a line on how often people order two documents as all judges do."""
    for row in found:
        if (row.about, row.level) == (calibration.ORDERS, calibration.LEVELS[0]) and row.items:
            interval = f" [{row.low:.3f}, {row.high:.3f}]" if isfinite(row.low) else ""
            yield (
                f"where all judges agree on the order of two documents ({row.share:.0%} of pairs), "
                f"people say the same of {row.same:.3f}{interval}: consensus.parquet"
            )
