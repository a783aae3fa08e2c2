"""Compute the posterior of each query's scores by votes and grades: mean and covariance."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from zelo_ray.fitting.battles import Battles, Floats, Ints
from zelo_ray.fitting.panel.arrays import inverse
from zelo_ray.fitting.panel.columns import Grades, VoteStack, build_columns, build_stacks
from zelo_ray.fitting.panel.curves import curves_of
from zelo_ray.fitting.panel.mode import maximise
from zelo_ray.fitting.panel.model import PanelModel


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelPosterior:
    """Laplace's posterior of the scores of queries whose pools have one size.

    All in logits of winning, and centred: scores of a query sum to 0, and so do the rows of its
    covariance.
    """

    places: Ints
    """the queries, by their place in the battles: [queries]"""
    mean: Floats
    """[queries, documents]"""
    covariance: Floats
    """[queries, documents, documents]"""
    battles: Ints
    """number of each document's votes: [queries, documents]"""
    graded: Ints
    """number of its grades: [queries, documents]"""
    expected: Floats
    """the score that its grades predict, on one scale for all queries; 0 without grades: [queries,
    documents]"""


def posteriors(
    battles: Battles, grades: Grades | None, model: PanelModel
) -> Iterator[PanelPosterior]:
    """Compute the posteriors of all queries with documents, stacked by the size of their pools.

    A query's numbers depend, bit for bit, on its own votes and grades alone, and not on their
    order. Scores of documents without votes or grades come from the prior.

    Args:
        battles: the votes.
        grades: of some of the documents, or None.
        model: of the judges of ``battles``; see `PanelModel.of`.

    Raises:
        ValueError: the model is of other judges, a preference lies outside [-1, 1], a document
            meets itself, or a grade is not 0, 1, 2 or 3.
        ArithmeticError: the maximum was not reached.
    """
    if model.judges != battles.judges:
        raise ValueError(f"a model of {model.judges}, but votes of {battles.judges}")
    curves, scale = curves_of(model), model.win_scale
    for stack in build_stacks(build_columns(battles), grades, model):
        mode = maximise(stack, curves, model.own_sd)
        yield _in_logits(stack, mode.s, inverse(mode.curvature), scale)


def _in_logits(stack: VoteStack, s: Floats, covariance: Floats, scale: float) -> PanelPosterior:
    of_document = covariance.mean(2)
    centred = covariance - of_document[:, :, np.newaxis] - of_document[:, np.newaxis, :]
    centred += of_document.mean(1)[:, np.newaxis, np.newaxis]
    row, cells = stack.query * s.shape[1], s.size
    counts = np.bincount(row + stack.i, minlength=cells)
    counts += np.bincount(row + stack.j, minlength=cells)
    return PanelPosterior(
        places=stack.places,
        mean=scale * (s - s.mean(1, keepdims=True)),
        covariance=scale**2 * centred,
        battles=counts.reshape(s.shape),
        graded=stack.graded,
        expected=scale * stack.prior,
    )
