"""What a comparison allows to say. The terminal and the report say the same."""

from dataclasses import replace
from typing import Literal

from zelo_ray.evaluation.gate import LABELS_SURE
from zelo_ray.evaluation.significance import FEWEST
from zelo_ray.records import Comparison

SURE = 0.05
"""Below this, p after Holm's correction is taken for a difference."""

Verdict = Literal["above", "below", "open", "labels", "kin", "few"]
"""Of A: it is above B or below it; open: chance explains the difference; labels: on these labels it
is one or the other, but other answers of the judges could turn it; kin: only judges that are kin of
one of the two make it so; few: there are too few queries.
"""


def verdict(one: Comparison) -> Verdict:
    """What can be said of A, seen from B."""
    if one.queries < FEWEST:
        return "few"
    if not one.p_holm < SURE:
        return "open"
    same = one.p_labels if one.difference > 0 else 1 - one.p_labels
    if same < LABELS_SURE:  # not where there is none: NaN
        return "labels"
    if one.kin:
        return "kin"
    return "above" if one.difference > 0 else "below"


def turned(one: Comparison) -> Comparison:
    """The same comparison, seen from the other arm."""
    return replace(
        one,
        run_a=one.run_b,
        run_b=one.run_a,
        mean_a=one.mean_b,
        mean_b=one.mean_a,
        difference=-one.difference,
        low=-one.high,
        high=-one.low,
        p_better=1 - one.p_better,
        p_labels=1 - one.p_labels,
        wins=one.losses,
        losses=one.wins,
    )
