"""Find what nothing else beats in quality and cost at once."""

import numpy as np

from zelo_ray.evaluation.resampling import Floats


def pareto_front(quality: Floats, cost: Floats) -> list[int]:
    """Return the places that are on the Pareto front, the best quality first.

    On the front is what has no rival that is as good for less, or better for no more. Places where
    one of both is NaN are left out; of equal ones the first is on it.

    Args:
        quality: the higher the better, [n].
        cost: the lower the better, [n].

    Example:
        >>> import numpy as np
        >>> pareto_front(np.array([0.7, 0.69, 0.5, 0.6]), np.array([5.0, 1.0, 2.0, 0.0]))
        [0, 1, 3]
    """
    places = np.flatnonzero(~(np.isnan(quality) | np.isnan(cost)))
    order = sorted(places.tolist(), key=lambda i: (-quality[i], cost[i], i))
    front = list[int]()
    for i in order:
        if not front or cost[i] < cost[front[-1]]:
            front.append(i)
    return front
