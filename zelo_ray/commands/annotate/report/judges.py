"""Sections of an annotation run on its judges: judgments, failures, cost, and agreement."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from zelo_ray.commands.annotate.report.answering_models import list_models
from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.engine.write_results import Summary
from zelo_ray.evaluation.significance import share_intervals
from zelo_ray.files.wording import counted
from zelo_ray.providers.registry import judges_without_prompt
from zelo_ray.reasons import judges_by_reason
from zelo_ray.reports.charts.figures import intervals
from zelo_ray.reports.charts.grids import matrix
from zelo_ray.reports.instructions import build_instructions_section
from zelo_ray.reports.parts import Cells, Chart, ReportTable, Section, Sentences, TextCell
from zelo_ray.reports.wording import format_cost


def instructions_section(results: AnnotateResults) -> Section | None:
    """Show the instructions that say what counts as relevant."""
    judges, shown = results.run["judges"], "people who label are shown them."
    if not (deaf := judges_without_prompt(judges)):
        where = f"These words were in every prompt, and {shown}"
    elif len(deaf) == len(judges):
        where = f"No judge of this run reads prompts, and so none has read these words; {shown}"
    else:
        where = f"Judges but {', '.join(deaf)} have read these words, and {shown}"
    return build_instructions_section(results.options, where)


def judges_section(results: AnnotateResults) -> Section:
    """Show the judgments, failures and cost of each judge, and which were disabled."""
    summary, tallies = results.summary, results.run["judges"]
    judged, failed = summary.judgments_by_judge, summary.failures_by_judge
    statuses = sorted({status for counts in failed.values() for status in counts})
    now = ("cost", "per 1,000", "retries", "tokens in", "cached", "tokens out")
    columns = ("judge", *results.kinds, *statuses, *now, "answered by")
    rows: list[Cells] = []
    for name in dict.fromkeys([*tallies, *judged, *failed]):
        counts = judged.get(name, {}) | failed.get(name, {})
        spent = _spent(tallies[name]) if name in tallies else [""] * len(now)
        tables = [f"{counts.get(kind, 0):,}" for kind in (*results.kinds, *statuses)]
        rows.append(
            [
                TextCell(name),
                *tables,
                *spent,
                TextCell(models) if (models := _answered_by(name, summary)) else "",
            ]
        )
    indices = [i for i in range(len(columns)) if any(row[i] not in ("0", "") for row in rows)]
    shown = [columns[i] for i in indices]
    table = ReportTable(
        shown,
        [[row[i] for i in indices] for row in rows],
        _caption(results),
        frozenset(shown) - {"judge", "answered by"},
    )
    stopped = [
        f"Stopped using {', '.join(judges)} ({reason.message})."
        for reason, judges in judges_by_reason(summary.disabled).items()
    ]
    return Section("judges", "Judges", (*([Sentences(stopped)] if stopped else []), table))


def _answered_by(judge: str, summary: Summary) -> str:
    figures = summary.servers.get(judge)
    return list_models(judge, figures.models) if figures else ""


def _caption(results: AnnotateResults) -> str:
    tallies = results.run["judges"].values()
    sentences = []
    if any(tally["known"] for tally in tallies):
        sentences.append("Cost and tokens are of this run alone.")
    if any(tally.get("cached_tokens") for tally in tallies):
        sentences.append("Cached is the share of input tokens that were read from a cache.")
    if spared := sum(tally.get("spared", 0) for tally in tallies):
        were = "was" if spared == 1 else "were"
        sentences.append(f"{counted(spared, 'planned request')} {were} not needed in the end.")
    return " ".join(sentences)


def _spent(tally: Mapping[str, Any]) -> list[str]:
    """Return what a judge cost in this run, and how its requests went."""
    answered, tokens_in = tally["answered"], tally["input_tokens"]
    unpriced, cached = tally.get("unpriced", 0), tally.get("cached_tokens", 0)
    return [
        format_cost(tally["dollars"], unpriced) if answered else "",
        format_cost(1000 * tally["dollars"] / answered, unpriced) if answered else "",
        *(f"{count:,}" for count in (tally["retries"], tokens_in)),
        f"{cached / tokens_in:.0%}" if cached else "",
        f"{tally['output_tokens']:,}",
    ]


def agreement_section(results: AnnotateResults) -> Section | None:
    """Show how often judges agree, and how far the order of presentation sways them."""
    names = sorted(results.panel.votes)
    if not names:
        return None
    votes = sum(results.panel.votes.values()) if results.vote_stride > 1 else 0
    which = f" From {votes:,} of all votes: each {results.vote_stride}th stretch." if votes else ""
    parts: list[Chart] = []
    if len(names) > 1:
        values = np.full((len(names), len(names)), np.nan)
        hover = [[""] * len(names) for _ in names]
        for i, first in enumerate(names):
            for j, second in enumerate(names):
                if i != j:
                    values[i, j], pairs = results.panel.agreement(first, second)
                    on = counted(pairs, "pair")
                    hover[i][j] = f"{first} and {second}: {values[i, j]:.1%} of {on}"
        parts.append(
            Chart(
                {"": matrix(names, values, hover, 0.5)},
                "The share of pairs on which two judges prefer the same document; a tie by one "
                "of them counts half. Chance would reach 50%." + which,
            )
        )
    share = np.array([results.panel.first[name] / results.panel.votes[name] for name in names])
    low, high = share_intervals(share, np.array([results.panel.votes[name] for name in names]))
    figure = intervals(names, {"": (share, low, high)}, "share of what came first", 0.5)
    order = (
        "Both orders were asked, so an unbiased judge is at 0.5."
        if results.options.get("both_orders")
        else "The order is random, so an unbiased judge is at 0.5."
    )
    parts.append(
        Chart(
            {"": figure},
            "How often a judge preferred the document that was shown first (a tie counts half), "
            f"with a 95% interval. {order}{which}",
        )
    )
    return Section("agreement", "Agreement and bias", parts)
