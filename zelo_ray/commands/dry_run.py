"""Estimate what jobs will still ask, cost and take, for ``--dry-run`` and pilots."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from zelo_ray.engine.batch.parts import Parts
from zelo_ray.engine.count_input import count_input
from zelo_ray.engine.estimate import CostEstimate, InputEstimate, JudgeForecast, Spread
from zelo_ray.engine.learning import read_human_grades
from zelo_ray.engine.ledger import describe_damage
from zelo_ray.engine.preview_input import preview_input
from zelo_ray.engine.replacement import warn_of_other_questions
from zelo_ray.engine.replies import describe_possibly_billed, statuses_to_retry
from zelo_ray.files.wording import counted
from zelo_ray.options import AnnotateOptions, AskingOptions
from zelo_ray.protocols import load_protocol
from zelo_ray.report.command_lines import repeat_with
from zelo_ray.report.model import Cell, Report, Section, Table, Value, name_some, table
from zelo_ray.report.results import Results


def estimate_jobs(jobs: Mapping[str, AnnotateOptions], options: AskingOptions) -> Results:
    """Estimate jobs by name; the next command is that of ``options`` without ``--dry-run``."""
    notes = list[str]()
    estimates = {name: _estimate(job, notes) for name, job in jobs.items()}
    figures, changes = figures_of(estimates), dict[str, Any](dry_run=False)
    [cap, *others] = [row["sufficient_max_usd"] for row in figures["estimates"]]
    if options.max_usd is None and cap and not others:
        changes["max_usd"] = max(0.01, math.ceil(cap * 100) / 100)
    report = build_estimate(estimates, figures, [*dict.fromkeys(notes)])
    return Results(figures, build=lambda _: report, next_command=repeat_with(options, **changes))


def _estimate(options: AnnotateOptions, notes: list[str]) -> CostEstimate:
    """Estimate the rest of a job, without any call or file; add notes on its input."""
    read_human_grades(options)
    with preview_input(options, os.environ, notes.append) as source:
        options, ledger = source.options, source.ledger
        estimate = InputEstimate(source.panel, options, ledger)
        found = count_input(
            *(source.shards, estimate.add, options.out),
            show=options.show_query,
            metadata=options.show_metadata,
            keep=False,
        )
    bad = source.rejected + found.rejected
    notes += [f"{line}." for line in warn_of_other_questions(options)]
    notes += [f"{counted(bad, 'invalid input line')} would be rejected."] if bad else []
    notes += [f"{describe_damage(ledger.damaged)}."] if ledger.damaged else []
    if load_protocol(options.protocol).max_rounds != 1:
        notes.append(
            f"What {options.protocol} asks later depends on its first replies. Without any, later "
            "questions are assumed to be as long as the first; it may also finish early."
        )
    if in_batches := sum(part.requests for part in Parts(options.ledger_dir) if part.is_open):
        notes.append(f"{in_batches:,} of the requests that are left are in open batches already.")
    return estimate.figure(statuses_to_retry(options))


def build_estimate(
    jobs: Mapping[str, CostEstimate], figures: Mapping[str, Any], notes: Sequence[str]
) -> Report:
    """Return estimates as a report: a table of judges for each job, and what it rests on."""
    forecasts, sections = [row for job in jobs.values() for row in job.forecasts], []
    for name, job in jobs.items():
        rows, queries = job.forecasts, counted(job.pools, "query", "queries")
        about = "" if all(row.exact for row in rows) else "about "
        left, planned = (sum(getattr(row, what) for row in rows) for what in ("left", "planned"))
        head = f"{about}{left:,} of {planned:,} requests about {queries} are left to ask."
        sections.append(Section(name, name, [head, _table(job), *_notes(job)]))
    hours = max((row.hours for row in forecasts if row.hours is not None), default=None)
    low, expected, high = figures["dollars"].values()
    more = " + ?" if figures["unpriced"] else ""
    tiles: dict[str, Value] = {
        "requests left": figures["requests_left"],
        "US dollars": f"{Cell(expected, '$', low, high).text()}{more}",
        "spent so far": Cell(figures["estimates"][0]["spent"], "$"),
    }
    if hours is not None and len(jobs) == 1:
        tiles["hours online"] = Cell(hours, ".1f")
    several = "Requests of several jobs are paid once, but counted for each of them here."
    return Report(
        "Estimate of what is left to ask",
        tiles,
        [several] if len(jobs) > 1 else [],
        sections,
        notes=notes,
        names=[row.judge for row in forecasts],
    )


def figures_of(jobs: Mapping[str, CostEstimate]) -> dict[str, Any]:
    """Return the estimates as numbers; dollars leave out judges of unknown price.

    ``sufficient_max_usd`` is a budget for all of a job; None if a price is unknown.
    """
    dollars = {name: job.dollars(job.mode) for name, job in jobs.items()}
    rows = [
        {
            **asdict(job),
            "name": name,
            "dollars": asdict(dollars[name]),
            "sufficient_max_usd": job.spent + job.possibly_billed + high
            if (high := dollars[name].high) and not job.unpriced
            else None,
            "forecasts": [asdict(row) | {"left": row.left} for row in job.forecasts],
        }
        for name, job in jobs.items()
    ]
    return {
        "requests_left": sum(each["left"] for row in rows for each in row["forecasts"]),
        "dollars": {n: sum(row["dollars"][n] for row in rows) for n in ("low", "expected", "high")},
        "unpriced": sorted({judge for job in jobs.values() for judge in job.unpriced}),
        "estimates": rows,
    }


def _table(estimated: CostEstimate) -> Table:
    def dollars(spread: Spread | None) -> Value:
        return Cell(spread.expected, "$", spread.low, spread.high) if spread else "?"

    def hours(row: JudgeForecast) -> Value:
        return Cell(None if row.hours is None else max(row.hours, 0.1 if row.hours else 0), ",.1f")

    columns: dict[str, Any] = {
        "judge": "judge",
        "requests": "left",
        "answered": lambda row: row.answered if row.exact else f"~{row.answered:,}",
        "tokens in": lambda row: Cell(row.input_tokens, ",.0f"),
        "tokens out": lambda row: Cell(row.output_tokens, ",.0f"),
    }
    if any(row.hours is not None for row in estimated.forecasts):
        columns["hours"] = hours
    columns["US dollars"] = lambda row: dollars(row.online)
    if any(row.has_batch for row in estimated.forecasts):
        columns["in batches"] = lambda row: dollars(row.batch) if row.has_batch else "no batch API"
    return table(estimated.forecasts, columns)


def _notes(estimated: CostEstimate) -> Iterator[str]:
    """Yield the assumptions, and what to do."""
    forecasts = [row for row in estimated.forecasts if row.left]
    if replies := sum(row.replies for row in forecasts):
        yield (
            f"Tokens are estimated from {counted(replies, 'reply', 'replies')}; low and high are "
            "two standard errors away, at least 5%."
        )
    if assumed := [row for row in forecasts if row.input_tokens and not row.replies]:
        lengths = sorted({round(row.output_tokens / row.left) for row in assumed})
        yield (
            f"No replies of {name_some([row.judge for row in assumed])} yet: assumed are 1 token "
            f"per 4 bytes of prompt and {' or '.join(map(str, lengths))} per answer. "
            "--pilot 20 asks about 20 queries only, and measures both."
        )
    if unpriced := estimated.unpriced:
        yield (
            "? is an unknown price. Give it in the config file, in dollars for a million "
            f'tokens, such as prices: {{"{unpriced[0]}": {{input: 0.10, output: 0.50}}}}'
        )
    if not all(row.exact for row in estimated.forecasts):
        yield "~ answered is an estimate, from a sample of the queries."
    yield (
        "The standard error of a score falls with the square root of the number of comparisons: "
        "four times the calls halve it at best."
    )
    if estimated.possibly_billed:
        counts = "" if estimated.max_usd is None else " It counts as spent."
        doubt = describe_possibly_billed(estimated.possibly_billed)
        yield f"{doubt[0].upper()}{doubt[1:]}.{counts}"
    if estimated.max_usd is not None:
        cost, spent = estimated.dollars(estimated.mode), estimated.spent + estimated.possibly_billed
        will = "may exhaust" if spent + cost.low <= estimated.max_usd else "will exhaust"
        will = "stays within" if spent + cost.high <= estimated.max_usd else will
        yield f"The run {will} the budget of ${estimated.max_usd:g} (--max-usd)."
