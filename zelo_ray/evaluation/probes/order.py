"""Show the same two documents in both orders.

A judge without a bias prefers neither place (Wang et al. 2023, arXiv 2305.17926). Grades are of one
document alone, so this probe takes votes.
"""

from zelo_ray.evaluation.probes.kind import ProbeKind

PROBE = ProbeKind(
    name="order",
    does="beside another one, in both orders",
    change=None,
    wrong="either",
    up="prefers what is shown first",
    down="prefers what is shown second",
    advice="Ask in both orders (--repeats 2), so that the place cancels out",
)
