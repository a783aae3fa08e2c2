"""Say of two arms whether one is significantly above the other."""

from zelo_ray.commands.bakeoff.significance import Significance, significance_of
from zelo_ray.records import Comparison

WORDS = {
    Significance.ABOVE: "significant",
    Significance.BELOW: "significant",
    Significance.NOT_SIGNIFICANT: "not significant",
    Significance.LABELS_COULD_TURN_IT: "not significant by these labels",
    Significance.ONLY_BY_KIN: "only by kin",
    Significance.TOO_FEW_QUERIES: "too few queries",
}
"""In a cell of a table."""

PHRASES = {
    Significance.BELOW: "is below {} where both ranked",
    Significance.NOT_SIGNIFICANT: "does not differ significantly from {}",
    Significance.LABELS_COULD_TURN_IT: (
        "differs from {}, but other answers of the judges could turn that"
    ),
    Significance.ONLY_BY_KIN: "differs from {}, but only by judges that are kin",
    Significance.TOO_FEW_QUERIES: "cannot be compared with {}",
    Significance.ABOVE: "is above {}",
}
"""Of the leader and some others, in the order in which they matter."""


def sentence_of(comparison: Comparison) -> str:
    """Return a sentence about A and B, without the figures."""
    above, below = comparison.run_a, comparison.run_b
    side = "above" if comparison.difference > 0 else "below"
    match significance_of(comparison):
        case Significance.ABOVE:
            return f"{above} is above {below}:"
        case Significance.BELOW:
            return f"{above} has the higher mean, but where both ranked {below} is above it:"
        case Significance.NOT_SIGNIFICANT:
            return f"{above} does not differ significantly from {below}:"
        case Significance.LABELS_COULD_TURN_IT:
            return f"{above} is {side} {below}, but other answers of the judges could turn it:"
        case Significance.ONLY_BY_KIN:
            return f"{above} is {side} {below}, but only by judges that are kin ({comparison.kin}):"
        case Significance.TOO_FEW_QUERIES:
            few = f"{comparison.queries:,} are too few queries for more"
            return f"{above} is {comparison.difference:+.4f} from {below}, and {few}:"
