"""Sections of an annotation run on its judges: what they gave, cost, and how far they agree."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from zelo_ray.commands.annotate.report import effective
from zelo_ray.commands.annotate.report.results import Annotation
from zelo_ray.evaluation.wilson import wilson
from zelo_ray.formats.wording import counted
from zelo_ray.providers.registry import heedless
from zelo_ray.report.charts.figures import intervals
from zelo_ray.report.charts.grids import matrix
from zelo_ray.report.instructions import told_by
from zelo_ray.report.parts import Cells, Chart, Section, Table, Text
from zelo_ray.report.wording import paid


def told_section(annotation: Annotation) -> Section | None:
    """Show the instructions that say what counts as relevant."""
    judges, shown = annotation.run["judges"], "people who label are shown them."
    if not (deaf := heedless(judges)):
        where = f"These words stood in every prompt, and {shown}"
    elif len(deaf) == len(judges):
        where = f"No judge of this run reads prompts, and so none has read these words; {shown}"
    else:
        where = f"Judges but {', '.join(deaf)} have read these words, and {shown}"
    return told_by(annotation.run["options"], where)


def judges_section(annotation: Annotation) -> Section:
    """Show the judgments, failures and cost of each judge."""
    failed = annotation.failed
    statuses = sorted({status for counts in failed.values() for status in counts})
    tallies = annotation.run["judges"]
    by_kind: dict[str, Mapping[str, int]] = {}
    for kind in reversed(annotation.kinds):
        by_kind[kind] = annotation.rows_by_judge(kind)
    judging = (name for counts in by_kind.values() for name in counts)
    judges = list(dict.fromkeys([*tallies, *judging, *failed]))
    columns = ["judge", *by_kind, *statuses]
    now = (
        *("known", "asked", "ok", "read without", "retries", "tokens in", "cached", "tokens out"),
        *("cost", "per 1,000"),
    )
    rows: list[Cells] = []
    for name in judges:
        gave = [f"{counts.get(name, 0):,}" for counts in by_kind.values()]
        lost = [f"{failed.get(name, {}).get(status, 0):,}" for status in statuses]
        tally = tallies.get(name)
        spent = _spent(tally) if tally else [""] * len(now)
        family = Text(", ".join(sorted(effective.family_of(name))))
        rows.append([Text(name), *gave, *lost, *spent, family])
    what = f"{', '.join(by_kind)} and failures" if by_kind else "failures"
    caption = (
        f"{what.capitalize()} count all results. The other columns count this run alone: answers "
        "known from earlier runs, requests, good answers, and the cost."
    )
    if any(tally.get("wrapped") for tally in tallies.values()):
        caption += (
            " Some answers were read without the think block, fence or talk around them, or the "
            "quotes around a number."
        )
    if any(tally.get("cached_tokens") for tally in tallies.values()):
        caption += " Cached is the share of the tokens in that was billed as read from a cache."
    if spared := sum(tally.get("spared", 0) for tally in tallies.values()):
        were = "was" if spared == 1 else "were"
        caption += (
            f" {counted(spared, 'request')} that {were} planned {were} not needed in the end."
        )
    caption = f"{caption} {effective.told(annotation)}".rstrip()
    names = ("judge", *columns[1:], *now, "family")
    indices = [i for i in range(len(names)) if any(row[i] not in ("0", "") for row in rows)]
    rows = [[row[i] for i in indices] for row in rows]
    shown = [names[i] for i in indices]
    table = Table(shown, rows, caption, frozenset(shown) - {"judge", "family"})
    return Section("judges", "Judges", (table,))


def _spent(tally: Mapping[str, Any]) -> list[str]:
    answered = tally["answered"]
    unpriced = tally.get("unpriced", 0)
    price = paid(1000 * tally["dollars"] / answered, unpriced) if answered else "\N{EN DASH}"
    recorded, good, retries, tokens_in, tokens_out = (
        f"{count:,}"
        for count in (
            tally["known"],
            tally["statuses"].get("ok", 0),
            tally["retries"],
            tally["input_tokens"],
            tally["output_tokens"],
        )
    )
    cached = tally.get("cached_tokens", 0)
    share = f"{cached / tally['input_tokens']:.0%}" if cached else ""
    wraps = ", ".join(f"{count:,} {wrap}" for wrap, count in tally.get("wrapped", {}).items())
    cost = paid(tally["dollars"], unpriced) if answered else "\N{EN DASH}"
    return [
        recorded,
        f"{answered:,}",
        good,
        wraps,
        retries,
        tokens_in,
        share,
        tokens_out,
        cost,
        price,
    ]


def agreement_section(annotation: Annotation) -> Section | None:
    """Show how often judges agree, and how far the order of presentation sways them."""
    names = sorted(annotation.panel.votes)
    if not names:
        return None
    votes = sum(annotation.panel.votes.values()) if annotation.stretches > 1 else 0
    which = f" From {votes:,} of all votes: each {annotation.stretches}th stretch." if votes else ""
    parts: list[Chart] = []
    if len(names) > 1:
        values = np.full((len(names), len(names)), np.nan)
        hover = [[""] * len(names) for _ in names]
        for i, first in enumerate(names):
            for j, second in enumerate(names):
                if i != j:
                    values[i, j], pairs = annotation.panel.agreement(first, second)
                    on = counted(pairs, "pair")
                    hover[i][j] = f"{first} and {second}: {values[i, j]:.1%} of {on}"
        parts.append(
            Chart(
                {"": matrix(names, values, hover, 0.5)},
                "On which share of pairs two judges prefer the same document; where one of them "
                "sees a tie it counts half. 50% is what two coins would reach." + which,
            )
        )
    share = np.array(
        [annotation.panel.first[name] / annotation.panel.votes[name] for name in names]
    )
    low, high = wilson(share, np.array([annotation.panel.votes[name] for name in names]))
    figure = intervals(names, {"": (share, low, high)}, "share of what came first", 0.5)
    order = (
        "Both orders were asked, so a judge without bias stands at 0.5."
        if annotation.run["options"].get("both_orders")
        else "The order is drawn at random, so a judge without bias stands at 0.5."
    )
    parts.append(
        Chart(
            {"": figure},
            "How often a judge preferred the document it was shown first, a tie for half, with a "
            f"95% interval. {order}{which}",
        )
    )
    return Section("agreement", "Agreement and bias", parts)
