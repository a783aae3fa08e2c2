"""The page of a bake-off: which arm is best, by how much, and where the arms differ."""

from collections.abc import Mapping
from typing import Any

from zelo_ray.report import breakdown, standings
from zelo_ray.report.contest import Contest, turned
from zelo_ray.report.page import Page, plural
from zelo_ray.report.source import Source

SECTIONS = (
    standings.leaderboard_section,
    standings.differences_section,
    breakdown.distribution_section,
    breakdown.curves_section,
    breakdown.slices_section,
    breakdown.difficulty_section,
    breakdown.contrasts_section,
    breakdown.failures_section,
    breakdown.holes_section,
)


_KINDS = {
    "scores": "real-valued scores",
    "grades": "grades",
    "binary": "binary labels",
}


def bakeoff_page(source: Source, run: Mapping[str, Any]) -> Page:
    """The page of a contest between rerankers."""
    contest = Contest(source, run)
    summary = run["summary"]
    truth, leading, arms = summary["truth"], summary["leading"], summary["arms"]
    best = contest.means.get(leading, {}).get(contest.arms[0]) if contest.arms else None
    queries = plural(truth["queries"], "query", "queries")
    spent = sum(arm["dollars"] or 0.0 for arm in arms)
    unpriced = any(arm["unpriced"] for arm in arms)
    tiles = [
        ("arms", f"{len(arms):,}"),
        ("queries of the truth", f"{truth['queries']:,}"),
        ("judged documents", f"{truth['documents']:,}"),
        ("spent", f"${spent:,.4f}" + (" + ?" if unpriced else "")),
    ]
    if best:
        tiles.insert(0, (f"best {leading}", f"{best['mean']:.3f}"))
    return Page(
        title=f"A contest of {plural(len(arms), 'arm')} on {queries}",
        tiles=tiles,
        lead=(
            _verdict(contest),
            (
                f"The truth consists of {_KINDS.get(truth['kind'], truth['kind'])}. Intervals "
                f"are of {run['options']['confidence']:.0%}, over queries. A document that nobody "
                "judged counts as not relevant, and a query that an arm did not answer as 0; two "
                "arms are compared on the queries that both answered."
            ),
        ),
        notes=(f"Run {run['run_id']}.",),
        sections=[make(contest) for make in SECTIONS],
    )


def _verdict(contest: Contest) -> str:
    """Which arms cannot be told apart from the best, in words."""
    leading = contest.summary["leading"]
    if not contest.arms:
        return "No arm has a result."
    best = contest.arms[0]
    head = f"{best} has the highest {leading}."
    rivals = [turned(row, best) for row in contest.comparisons.get(leading, ())]
    against = [row for row in rivals if row]
    if not against:
        return head
    near = [row["run_b"] for row in against if not row["p_holm"] < standings.REAL]
    if not near:
        return f"{head} All other arms are below it by more than chance explains."
    named = ", ".join(near[:5]) + (f" and {len(near) - 5} more" if len(near) > 5 else "")
    return f"{head} It cannot be told apart from {named} on these queries."
