"""The report of a bake-off: which ranker is best, by how much, and where rankers differ."""

from collections.abc import Iterator, Mapping
from typing import Any

from zelo_ray.commands.bakeoff.outcome import (
    Slice,
    UnjudgedDocument,
    Unranked,
)
from zelo_ray.commands.bakeoff.report import (
    breakdown,
    families,
    leaderboard,
    people,
)
from zelo_ray.commands.bakeoff.report.gate import gate_section
from zelo_ray.commands.bakeoff.report.results import BakeoffResults
from zelo_ray.commands.bakeoff.report.warnings import rank_bakeoff_warnings
from zelo_ray.engine.bookkeeping import describe_possibly_billed
from zelo_ray.files.run_record import RUN
from zelo_ray.files.wording import counted
from zelo_ray.records import Comparison, Mean, Metric, Ranked
from zelo_ray.reports.instructions import build_instructions_section
from zelo_ray.reports.kind import ReportKind
from zelo_ray.reports.parts import Report, Section
from zelo_ray.reports.source import Source, without_credentials
from zelo_ray.reports.wording import format_cost, format_estimate, short
from zelo_ray.rerankers.ranking import QueryCost


def _instructions_section(results: BakeoffResults) -> Section | None:
    """Show the instructions in the prompts of rerankers that take one."""
    where = "These words stood in the prompts of those rerankers that take one."
    return build_instructions_section(results.run["options"], where)


SECTIONS = (
    gate_section,
    leaderboard.leaderboard_section,
    leaderboard.differences_section,
    people.people_section,
    leaderboard.failures_section,
)
"""Shown by terminal and page."""

DETAILS = (
    breakdown.distribution_section,
    breakdown.slices_section,
    breakdown.contrasts_section,
    breakdown.unjudged_section,
    _instructions_section,
)
"""Shown by the page alone: they read long files, or list single queries and documents."""


def build_report(source: Source, run: Mapping[str, Any]) -> Report:
    """Build the report of a bake-off."""
    results = BakeoffResults(source, run)
    rankers = counted(len(results.summary["rankers"]), "ranker")
    by_people = people.people_lead(results)
    return Report(
        title=f"Bake-off of {rankers} on {counted(results.queries, 'query', 'queries')}",
        tiles=_tiles(results),
        lead=[by_people, people.panel_lead(results)]
        if by_people
        else [leaderboard.lead_sentence(results)],
        sections=[make(results) for make in SECTIONS],
        make_details=lambda: [make(results) for make in DETAILS],
        find_warnings=lambda: rank_bakeoff_warnings(results),
        notes=[*_notes(results.summary)],
        made=_made(run),
        banner=families.family_banner(results),
    )


def _tiles(results: BakeoffResults) -> list[tuple[str, str]]:
    """Return the figures at the top, the most telling first."""
    rankers = results.summary["rankers"]
    shown = [("judged documents", f"{results.summary['truth']['documents']:,}")]
    spent = sum(ranker["dollars"] or 0.0 for ranker in rankers)
    unpriced = any(ranker["unpriced"] for ranker in rankers)
    if spent or unpriced:
        shown.append(("spent", format_cost(spent, unpriced)))
    if results.rankers:
        best = results.rankers[0]
        row = results.means[results.leading][best]
        figure = format_estimate(row["mean"], row["low"], row["high"])
        alone = " by the panel alone" if results.people.get("way") else ""
        shown.insert(0, (f"{results.leading} of {short(best, 40)}{alone}", figure))
    return shown


def _notes(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a reader has to know of the ledger."""
    if damaged := summary.get("damaged"):
        lines = counted(damaged, "damaged line, which was", "damaged lines, which were")
        yield f"The ledger held {lines} set aside and asked again."
    if dollars := summary.get("maybe_dollars"):
        text = describe_possibly_billed(dollars, summary["uncounted"])
        yield f"{text[0].upper()}{text[1:]}."


def _made(run: Mapping[str, Any]) -> str:
    """Describe how to reproduce the page's numbers."""
    options, draws = run["options"], run["summary"]["label_draws"]
    labels = f"{draws:,} draws of the labels" if draws else "labels taken as they are"
    return (
        f"Run {run['run_id']} of zelo-ray {run['versions']['zelo-ray']}: truth "
        f"{without_credentials(options['truth'])}, seed {options['seed']}, "
        f"{labels}."
    )


def _is_complete(run: Mapping[str, Any]) -> bool:
    """Return whether every ranker ranked every query, and the gate could decide."""
    gate = run["summary"].get("gate", ())
    return bool(run.get("complete")) and not any(row["reason"] for row in gate)


BAKEOFF_REPORT = ReportKind(
    RUN,
    ("metrics.parquet", "comparisons.parquet"),
    frozenset({"options", "summary"}),
    {
        "comparisons": (Comparison,),
        "failures": (Unranked,),
        "means": (Mean,),
        "metrics": (Metric,),
        "runs": (Ranked,),
        "slices": (Slice,),
        "times": (QueryCost,),
        "unjudged": (UnjudgedDocument,),
    },
    build_report,
    _is_complete,
)
"""How results of a bake-off become a report."""
