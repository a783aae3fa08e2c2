"""DCG: what the first k documents are worth, lower ranks less, and not divided by the best order.

So a query with more to find counts for more. It is linear in the labels: people can correct it.
"""

import numpy as np

from zelo_ray.evaluation.measures import Linear, MeasureKind


def discounts(ranks):
    return 1 / np.log2(np.arange(2, ranks + 2))


def linear(cutoff):
    return Linear(cutoff, discounts, lambda grades: grades.clip(min=0))


MEASURE = MeasureKind(linear=linear)
