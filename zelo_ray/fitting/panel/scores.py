"""Compute ranked scores of each query with their errors, also on one scale for all queries."""

from collections.abc import Sequence
from math import hypot, nan

import numpy as np

from zelo_ray.fitting.battles import Battles, Bools, Floats, Ints
from zelo_ray.fitting.bradley_terry import Fit
from zelo_ray.fitting.games import connected_parts, disconnected_reason
from zelo_ray.fitting.panel.columns import Grades
from zelo_ray.fitting.panel.model import PanelModel
from zelo_ray.fitting.panel.posterior import PanelPosterior, posteriors
from zelo_ray.fitting.truth_error import SHARE, truth_errors
from zelo_ray.reasons import Unscored, UnscoredReason
from zelo_ray.records import AbsoluteScore


def fit(
    battles: Battles,
    grades: Grades | None,
    model: PanelModel,
    query_ids: Sequence[str],
    share: float = SHARE,
) -> list[Fit]:
    """Return the scores of each query, or why there are none.

    Documents without a vote or a grade get no score. Votes link documents; where they leave parts
    that never met, grades link them if every part has one, and else the query has no scores.

    Args:
        battles: the votes.
        grades: of some of the documents, or None.
        model: of the judges of ``battles``.
        query_ids: of the queries of ``battles``.
        share: what judges get wrong together, as a share of the spread of a query's scores; see
            `zelo_ray.fitting.truth_error`.

    Returns:
        One fit for each query. Its scores are `AbsoluteScore`: in logits of winning, centred on
        the query's judged documents; ``comparisons`` counts votes; the absolute ones are NaN in a
        query without grades.

    Raises:
        ValueError, ArithmeticError: as `posteriors`.
    """
    fits = [Fit(reason=Unscored.because(UnscoredReason.NO_VOTES))] * len(query_ids)
    linked = _linked(battles, grades)
    for posterior in posteriors(battles, grades, model):
        shifts, errors = absolute_shifts(posterior, model)
        for row, place in enumerate(posterior.places.tolist()):
            judged = np.flatnonzero(posterior.battles[row] + posterior.graded[row])
            if not judged.size:
                continue
            if not linked[place]:
                fits[place] = Fit(reason=_disconnected(battles, place, judged))
                continue
            fits[place] = _ranked(
                query_ids[place],
                [battles.documents[place][document] for document in judged],
                _of_judged(posterior, row, judged, share),
                posterior.battles[row, judged].tolist(),
                (float(shifts[row]), float(errors[row])),
            )
    return fits


def absolute_shifts(posterior: PanelPosterior, model: PanelModel) -> tuple[Floats, Floats]:
    """Return the shifts that put the scores of each query on one scale for all queries.

    The mean grade of a query's documents measures how good they are on the whole: it moves by
    ``grade_slope`` for each unit, with noise that averages out over the documents. Shifts are
    shrunk towards 0 by their uncertainty, given their sd ``pool_sd`` over queries. Grades end at 0
    and 3, and so move less the further a query is from the others: in simulations where shifts have
    .8 of the sd of documents, they are estimated as .75 of the true ones, and their errors are
    twice the standard error.

    Args:
        posterior: of some queries.
        model: the one that it was computed with.

    Returns:
        Shifts and their standard errors, in logits: [queries] each; NaN in a query without grades.
    """
    scale = model.win_scale
    graded = posterior.graded > 0
    documents = graded.sum(1)
    excess = (posterior.expected - model.grade_slope * posterior.mean) * graded
    precision = documents * (model.grade_slope / model.grade_noise) ** 2
    sure = precision + model.pool_sd**-2
    shifts = model.grade_slope / model.grade_noise**2 * excess.sum(1) / sure
    none = documents == 0
    return np.where(none, nan, shifts), np.where(none, nan, scale / np.sqrt(sure))


def _of_judged(
    posterior: PanelPosterior, row: int, judged: Ints, share: float
) -> tuple[Floats, Floats, Floats]:
    """Return scores and both errors, centred on the judged documents."""
    mean, covariance = posterior.mean[row], posterior.covariance[row]
    if len(judged) < len(mean):
        mean = mean[judged] - mean[judged].mean()
        block = covariance[np.ix_(judged, judged)]
        covariance = block - block.mean(0) - block.mean(1)[:, np.newaxis] + block.mean()
    errors = np.sqrt(np.maximum(covariance.diagonal(), 0))
    return mean, errors, truth_errors(np.zeros(len(mean), dtype=np.int64), mean, errors, share)


def _ranked(
    query_id: str,
    doc_ids: Sequence[str],
    numbers: tuple[Floats, Floats, Floats],
    battles: Sequence[int],
    shift: tuple[float, float],
) -> Fit:
    """Name the numbers, best first; equal scores by document id."""
    # The digits past the ninth are rounding, which must not break a tie. Adding 0 turns -0 to 0.
    scores, *errors = ((np.round(column, 9) + 0.0).tolist() for column in numbers)
    rows = sorted(zip(scores, doc_ids, *errors, battles, strict=True), key=lambda r: (-r[0], r[1]))
    moved, unsure = shift
    return Fit(
        tuple(
            AbsoluteScore(
                *(query_id, doc_id, score, error, count, rank),
                truth_error=truth_error,
                absolute_score=score + moved,
                absolute_error=hypot(error, unsure),
            )
            for rank, (score, doc_id, error, truth_error, count) in enumerate(rows, start=1)
        )
    )


def _linked(battles: Battles, grades: Grades | None) -> Bools:
    """Return whether votes and grades link the judged documents of each query."""
    sizes = np.array([len(ids) for ids in battles.documents], dtype=np.int64)
    before = np.concatenate([[0], np.cumsum(sizes)])
    all_documents, offset = int(before[-1]), before[battles.query]
    pairs = (offset + battles.a, offset + battles.b)
    part = connected_parts(*pairs, all_documents)
    judged, graded = np.zeros(all_documents, dtype=bool), np.zeros(all_documents, dtype=bool)
    judged[pairs[0]] = judged[pairs[1]] = True
    if grades is not None:
        documents = before[grades.query] + grades.document
        judged[documents] = graded[part[documents]] = True
    query = np.repeat(np.arange(len(sizes)), sizes)
    # A part lies within one query; each is counted once, at its first document.
    kinds, first = np.unique(part[judged], return_index=True)
    owner = query[judged][first]
    count = np.bincount(owner, minlength=len(sizes))
    ungraded = np.bincount(owner, ~graded[kinds], minlength=len(sizes))
    linked: Bools = (count == 1) | (ungraded == 0)
    return linked


def _disconnected(battles: Battles, place: int, judged: Ints) -> Unscored:
    rows, ids = battles.query == place, battles.documents[place]
    part = connected_parts(battles.a[rows], battles.b[rows], len(ids))
    return disconnected_reason([ids[document] for document in judged], part[judged])
