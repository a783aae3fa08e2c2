"""Rows on worlds whose truth is known: plans beside zbench and today's zelo, on equal queries."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.lean import figures, zbench
from benchmarks.lean.designs import cycle_asks, cycle_scores
from benchmarks.lean.lines import Line, Lines, Size
from benchmarks.lean.plans import Plan, play
from benchmarks.lean.worlds import REGIMES, World, draw_typical, draw_world
from zelo_ray.fitting.battles import Floats

CYCLES = 4
TOP = {10: Plan(4, 2, 1), 25: Plan(4, 2, 1), 100: Plan(4, 2, 2)}
"""The lean plan at 4 calls a document, by the number of documents."""
RINGS = Plan(5, 3.7)
"""A grade and as many rings as 5 calls a document buy."""
MORE = Plan(6, 4, 1)
USUAL = {10: 400, 25: 300, 100: 100}

Order = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True, slots=True)
class Target:
    """The least difference of nDCG and of tau, and the largest share of the error."""

    ndcg: float
    tau: float
    rmse: float | None = None


def against_zelo(
    row: str, world: World, plan: Plan, target: Target, *, seed: int, typical: bool = False
) -> Lines:
    """What zbench and zelo do as they stand, then the plan with its differences to zelo."""
    queries, judges, documents = world.grades.shape
    gains = world.truth if typical else np.exp(world.truth)
    order: Order = figures.in_order if typical else figures.tau
    rng = np.random.default_rng(seed)

    def said(scores: Floats) -> str:
        good = figures.ndcg(scores, gains).mean(), order(scores, world.truth).mean()
        return "/".join(f"{x:.3f}" for x in (*good, figures.rmse(scores, world.truth)))

    old = zbench.asks(queries, documents, CYCLES, judges, rng)
    yield Line(row, "zbench", f"{said(zbench.scores(world.answer(old), judges))} at 12 calls")
    asks = cycle_asks(queries, documents, CYCLES, judges, seed)
    zelo, _ = cycle_scores(world.answer(asks))
    calls = len(asks) / queries / documents
    yield Line(row, "zelo", f"{said(zelo)} at {calls:.2f} calls")
    outcome = play(world, plan, seed)
    new = outcome.scores
    yield Line(
        row,
        f"<= {plan.calls:g} calls a document",
        f"{said(new)} at {outcome.calls:.2f} calls; {outcome.said()}",
        outcome.calls <= plan.calls + 0.02,
    )
    change = figures.difference(figures.ndcg(new, gains), figures.ndcg(zelo, gains))
    yield Line(row, f"nDCG@10 >= {target.ndcg:+.2f}", str(change), change.value >= target.ndcg)
    change = figures.difference(order(new, world.truth), order(zelo, world.truth))
    name = "in order" if typical else "tau"
    yield Line(row, f"{name} >= {target.tau:+.2f}", str(change), change.value >= target.tau)
    if target.rmse is not None:
        share = figures.rmse_ratio(new, zelo, world.truth)
        yield Line(row, f"RMSE <= {target.rmse:.2f}x", str(share), share.value <= target.rmse)


def _row(regime: str, documents: int, plan: Plan, target: Target) -> Callable[[str, Size], Lines]:
    def lines(name: str, size: Size) -> Iterator[Line]:
        rng = np.random.default_rng([size.seed, documents])
        queries = size.of(USUAL[documents])
        world = (
            draw_typical(queries, documents, rng)
            if regime == "typical"
            else draw_world(REGIMES[regime], queries, documents, rng)
        )
        yield from against_zelo(
            name, world, plan, target, seed=size.seed, typical=regime == "typical"
        )

    return lines


ROWS: dict[str, Callable[[str, Size], Lines]] = {
    "mid25": _row("mid", 25, TOP[25], Target(0.02, -0.02, 0.9)),
    "mid100": _row("mid", 100, TOP[100], Target(0.08, -0.02, 0.92)),
    "mid10": _row("mid", 10, TOP[10], Target(-0.01, -0.01, 0.9)),
    "rings25": _row("mid", 25, RINGS, Target(0, 0, 1)),
    "sign25": _row("sign", 25, TOP[25], Target(0, -0.07)),
    "typical25": _row("typical", 25, MORE, Target(0, 0, 1)),
}
