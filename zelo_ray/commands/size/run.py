"""Run `size`: simulate plans of calls, and report their cost and precision."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from zelo_ray.commands.size import size
from zelo_ray.commands.size.report import build_report
from zelo_ray.engine.job import Watch
from zelo_ray.formats.results import write_tables
from zelo_ray.options import SizeOptions
from zelo_ray.reports import next_step
from zelo_ray.reports.parts import Report

PAGE, TABLE = "size.html", "size"


def run(options: SizeOptions, _watch: Watch | None = None) -> Report:
    """Simulate plans of calls, and report the cost of each and its distance from all pairs.

    Raises:
        InputError: the pilot cannot be read.
    """
    sized = size(options)
    table, out = sized.table(), (options.out or "").rstrip("/")
    if out:
        write_tables(out, {TABLE: table})
    return replace(
        build_report(sized),
        out=out,
        page=PAGE,
        files=(f"{TABLE}.parquet",),
        tables={TABLE: table},
        next_step=partial(_next_step, table.to_pylist(), options),
    )


def _next_step(
    rows: Sequence[Mapping[str, Any]], options: SizeOptions, _words: Sequence[str]
) -> str:
    """Return the command for the cheapest plan that reaches the error, else for the largest."""
    enough = [row for row in rows if options.error and row["std_error"] <= options.error]
    plan = min(enough or rows[-1:], key=lambda row: row["calls"])["plan"]
    return next_step.after_size(options, plan)
