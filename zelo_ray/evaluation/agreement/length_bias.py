"""Estimate how much higher a judge grades long documents than their content deserves."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def length_terms(
    query: Ints, length: Floats, grade: Floats, queries: int, level: Ints | None = None
) -> Floats:
    """Compute the terms of `length_slope` by query, which add up over samples of queries.

    All variables are centred within a query (a fixed effect of the query), so that it does not
    matter which queries have long documents.

    Args:
        query: place of the query of each document, [documents].
        length: of the documents, in any unit, above 0, [documents].
        grade: the judge's grade, or its difference from another grade, [documents].
        queries: how many there are.
        level: the quality of the content by another source, such as human grades, as numbers from
            0: only documents of one level are compared, [documents]; None: all are.

    Returns:
        Of shape [queries, k + 1, k + 1]: sums of products of k regressors (log2 of the length, then
        a column for each level but the first) and the grade, in this order.
    """
    columns = [np.log2(length)]
    if level is not None:
        columns += [(level == category).astype(np.float64) for category in np.unique(level)[1:]]
    table = np.stack([*columns, grade], axis=1)
    count = np.bincount(query, minlength=queries)[:, np.newaxis]
    sums = np.zeros((queries, table.shape[1]))
    np.add.at(sums, query, table)
    centred = table - (sums / np.maximum(count, 1))[query]
    products = np.zeros((queries, table.shape[1], table.shape[1]))
    np.add.at(products, query, centred[:, :, np.newaxis] * centred[:, np.newaxis, :])
    return products


def length_slope(terms: Floats) -> Floats:
    """Return grades per doubling of the length, by ordinary least squares.

    Args:
        terms: sums over queries of what `length_terms` gives, [..., k + 1, k + 1].

    Returns:
        Of shape [...]; NaN where lengths do not differ within queries and levels.
    """
    products = terms[..., :-1, :-1]
    # The residual of the length given the levels (Frisch & Waugh 1933): a level that a sample lacks
    # is a column of zeros, which the pseudo-inverse ignores.
    levels = np.linalg.pinv(products[..., 1:, 1:], rcond=1e-10, hermitian=True)
    across = products[..., :1, 1:] @ levels
    residual = products[..., 0, 0] - (across @ products[..., 1:, :1])[..., 0, 0]
    with_grade = terms[..., 0, -1] - (across @ terms[..., 1:-1, -1:])[..., 0, 0]
    mask = residual > 1e-9 * np.maximum(products[..., 0, 0], 1e-9)
    slope: Floats = np.where(mask, with_grade / np.where(mask, residual, 1.0), np.nan)
    return slope
