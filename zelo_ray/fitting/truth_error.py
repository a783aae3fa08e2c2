"""Estimate the error of a score as an estimate of people's view: every score's second error.

    truth_error^2 = std_error^2 + su^2 (1 - 1/K)

``std_error`` is about another draw of the same panel's answers. It leaves out what all judges get
wrong together about a document: an error of standard deviation su, the same in every vote.
Centring on the K documents of the query removes 1/K of its variance.

su cannot be estimated from votes. By default it is a share of the spread of the query's own scores;
the share can be learned from people's labels. On recorded battles of GPT-4o (TREC DL 2019, 43
queries) the probability that one document is above another differs from how often people said so,
on average, by .05 and .09 at 2 and 3.5 battles per document without su; by .01 with the default.

Arrays are of shape [documents]: the numbers of their queries from 0, scores that are centred on 0
in each query, their standard errors, and people's grades, NaN where there is none.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from zelo_ray.fitting.battles import Floats, Ints

SHARE = 1.0
"""su of scores of votes, as a share of the spread of a query's scores: the median of the shares
learned from people's grades in three years of recorded battles is 1.05."""

GRADE_SD = 1.0
"""su of grades, on their scale from 0 to 3. Score +- 1.96 truth_error then holds the person's grade
in .95 to .97 of 9,260 documents of TREC DL 2019 for panels of three judges, in .94 for all eight
recorded ones; but in .91 for three prompts of one model of 8B. By std_error alone in .42 to .70."""

FULL_WEIGHT_QUERIES = 40
"""From so many labelled queries on the learned value counts in full, below that in part."""

_SPREAD, _WORTH = 1.2, 3.0
"""The expected spread of scores, in logits, and how many documents this prior counts for."""

_LOW, _HIGH = 0.05, 5.0
"""The range in which a share is searched."""


@dataclass(frozen=True, slots=True)
class SharedError:
    """The error that judges share, as a share of the spread of a query's scores, or in grades.

    ``value`` is to be used: what was ``found`` from the labels of ``queries``, shrunk towards the
    default.
    """

    value: float
    found: float
    queries: int


def shared_sd(query: Ints, scores: Floats, share: float = SHARE) -> Floats:
    """Return each document's default su, in logits: a share of the spread of its query's scores.

    The spread of a few documents is uncertain, so it is shrunk towards 1.2 as if three more
    documents had shown that. A query's numbers depend on its own scores only.
    """
    counts = np.bincount(query)
    squares = np.bincount(query, scores**2)
    spread = np.sqrt((squares + _WORTH * _SPREAD**2) / (np.maximum(counts - 1, 0) + _WORTH))
    errors: Floats = share * spread[query]
    return errors


def truth_errors(query: Ints, scores: Floats, errors: Floats, share: float = SHARE) -> Floats:
    """Return the errors of scores as estimates of people's view, in logits."""
    if not len(query):
        return errors
    factor = 1 - 1 / np.bincount(query)[query]
    totals: Floats = np.sqrt(errors**2 + factor * shared_sd(query, scores, share) ** 2)
    return totals


def learn_share(query: Ints, scores: Floats, errors: Floats, human: Floats) -> SharedError:
    """Learn su, as a share of the spread of scores, from the order of human grades.

    It is the share under which the orders that people gave are most likely, if document i is
    above j with probability Phi((s_i - s_j) / hypot(truth_error_i, truth_error_j)); queries
    count alike. Fewer than 40 queries with usable labels shrink it towards the default.
    """
    unit_variance = shared_sd(query, scores, 1.0) ** 2
    factor = 1 - 1 / np.bincount(query)[query] if len(query) else unit_variance
    terms = []
    for number in np.unique(query).tolist():
        (rows,) = np.nonzero((query == number) & np.isfinite(human))
        above, below = np.nonzero(human[rows][:, np.newaxis] > human[rows])
        i, j = rows[above], rows[below]
        if len(i):
            variance = errors[i] ** 2 + errors[j] ** 2
            terms.append(
                (scores[i] - scores[j], variance, unit_variance[i] * (factor[i] + factor[j]))
            )
    if not terms:
        return _shrink_to_default(SHARE, SHARE, 0)

    def unlikely(log_share: float) -> float:
        squared = np.exp(2 * log_share)
        means = [scipy.special.log_ndtr(d / np.sqrt(v + squared * su)).mean() for d, v, su in terms]
        return -float(np.mean(means))

    best = scipy.optimize.minimize_scalar(
        unlikely, bounds=(np.log(_LOW), np.log(_HIGH)), method="bounded"
    )
    return _shrink_to_default(float(np.exp(best.x)), SHARE, len(terms))


def learn_grades(query: Ints, scores: Floats, errors: Floats, human: Floats) -> SharedError:
    """Learn su in grades, so that score +- 1.96 truth_error holds .95 of human grades.

    Fewer than 40 queries with usable labels shrink it towards the default.
    """
    mask = np.isfinite(human) & np.isfinite(errors)
    if not mask.any():
        return _shrink_to_default(GRADE_SD, GRADE_SD, 0)
    short = ((scores[mask] - human[mask]) / 1.96) ** 2 - errors[mask] ** 2
    needed = np.sqrt(np.maximum(np.quantile(short, 0.95, method="higher"), _LOW**2))
    return _shrink_to_default(float(needed), GRADE_SD, len(np.unique(query[mask])))


def _shrink_to_default(estimate: float, default: float, queries: int) -> SharedError:
    weight = min(1.0, queries / FULL_WEIGHT_QUERIES)
    value = float(np.exp(weight * np.log(estimate) + (1 - weight) * np.log(default)))
    return SharedError(value, estimate, queries)
