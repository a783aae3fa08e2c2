"""AP: average precision, the mean of the precision at the rank of each relevant document."""

import numpy as np

from zelo_ray.evaluation.measures.lists import Floats, Lists, ratio
from zelo_ray.evaluation.measures.spec import REL, MeasureKind


def _metrics(lists: Lists, cutoff: int | None, rel: float) -> Floats:
    """Return AP, divided by the number of relevant documents for any cutoff, as trec_eval does.

    Expected over ties (McSherry & Najork 2008, ECIR): a rank among g tied documents of which b are
    relevant holds one of them with probability b / g; then of those that precede it among the tied
    ones, a share (b - 1) / (g - 1) is relevant.
    """
    relevant = (lists.ranked(cutoff) >= rel).astype(np.float64)
    above, within = lists.tied_sums(relevant)
    size, preceding = lists.tied(relevant)
    hits = above + 1 + preceding * (within - 1) / np.maximum(size - 1, 1)
    precisions = within / size * hits / np.arange(1, relevant.shape[-1] + 1)
    return ratio(precisions[..., :cutoff].sum(axis=-1), (lists.judged >= rel).sum(axis=-1))


MEASURE = MeasureKind(metrics=_metrics, parameters={"rel": REL})
