"""What each command does with its options: call, print, return an exit status."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from zelo_ray.formats.wording import printable
from zelo_ray.options import (
    AgreeOptions,
    AnnotateOptions,
    BakeoffOptions,
    BatchesOptions,
    CompareLabelsOptions,
    CompareProtocolsOptions,
    ConvertOptions,
    ExplainOptions,
    ReportOptions,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

COMPLETE, INCOMPLETE = 0, 3
_WIDE = 160  # characters of a line that no terminal shows


def _annotate(options: AnnotateOptions) -> int:
    from zelo_ray.present.terminal.annotate import closing
    from zelo_ray.present.terminal.display import Display

    if options.dry_run:
        return _preview(options)
    from zelo_ray.on_ray import annotate

    with Display() as display:
        summary = annotate(options, display)
    _report_on(options.out)
    show(*closing(summary, options))
    if summary.pilot_of:
        show("", f"This was a pilot, of {summary.queries:,} of {summary.pilot_of:,} queries.")
        _preview(options)
        show("The same command without --pilot goes on; nothing is paid for twice.", "")
    show(f"results: {summary.out}/annotated.jsonl, scores.parquet, report.html")
    return COMPLETE if summary.complete else INCOMPLETE


def _preview(options: AnnotateOptions) -> int:
    from zelo_ray.commands.dry_run import preview

    show(*preview(options, os.environ))
    return COMPLETE


def _bakeoff(options: BakeoffOptions) -> int:
    from zelo_ray.on_ray.bakeoff import bakeoff
    from zelo_ray.present.terminal.bakeoff import standings
    from zelo_ray.present.terminal.display import Display

    with Display() as display:
        outcome = bakeoff(options, display)
    _report_on(options.out)
    show(*standings(outcome, _console().width))
    show(f"results: {options.out}/metrics.parquet, comparisons.parquet, report.html")
    return COMPLETE if outcome.complete else INCOMPLETE


def _compare_protocols(options: CompareProtocolsOptions) -> int:
    from zelo_ray.commands.dry_run import previews
    from zelo_ray.on_ray.compare_protocols import planned, protocols
    from zelo_ray.present.terminal.display import Display
    from zelo_ray.present.terminal.protocols import terminal

    if options.dry_run:
        with planned(options, Display()) as each:
            show(*previews(each, os.environ))
        return COMPLETE
    outcome = protocols(options, Display)
    _report_on(options.out)
    show(*terminal(outcome, _console().width))
    tables = "trials.parquet, differences.parquet, costs.parquet"
    show(f"results: {options.out}/{tables}, report.html")
    return COMPLETE if outcome.complete else INCOMPLETE


def _agree(options: AgreeOptions) -> int:
    from zelo_ray.commands.agree import agree

    told = agree(options)
    if options.out:
        _report_on(options.out)
    show(*told.text.split("\n"))
    return COMPLETE if told.complete else INCOMPLETE


def _compare_labels(options: CompareLabelsOptions) -> int:
    from zelo_ray.commands.compare_labels import TABLES, compare_labels
    from zelo_ray.present.terminal.labels import told

    compared = compare_labels(options)
    if options.out:
        _report_on(options.out)
    show(*told(compared))
    if options.out:
        names = ", ".join(f"{name}.parquet" for name in TABLES)
        show("", f"results: {options.out}/compare.json, {names}, report.html")
    return COMPLETE if compared.complete else INCOMPLETE


def _convert(options: ConvertOptions) -> int:
    from zelo_ray.commands.convert import convert

    show(*convert(options).split("\n"))
    return COMPLETE


def _explain(options: ExplainOptions) -> int:
    from zelo_ray.commands.explain import explain

    show(*explain(options.dir, options.query, options.doc).split("\n"))
    return COMPLETE


def _report_on(out: str) -> str:
    from zelo_ray.present.html import write_report

    return write_report(out)


def _report(options: ReportOptions) -> int:
    if told := _report_on(options.dir):
        show(told)
    show(f"{options.dir}/report.html")
    return COMPLETE


def _batches(options: BatchesOptions) -> int:
    from zelo_ray.commands.batches import list_batches

    show(list_batches(options.dir, os.environ, cancel=options.cancel))
    return COMPLETE


RUN: Mapping[str, Callable[[Any], int]] = {
    "annotate": _annotate,
    "bakeoff": _bakeoff,
    "compare-protocols": _compare_protocols,
    "agree": _agree,
    "compare-labels": _compare_labels,
    "convert": _convert,
    "explain": _explain,
    "report": _report,
    "batches": _batches,
}


def _console() -> "Console":
    from rich.console import Console

    console = Console(highlight=False)
    console.width = console.width if console.is_terminal else _WIDE
    return console


def show(*parts: "str | Table") -> None:
    """Print lines and tables; an id of somebody's cannot steer the terminal."""
    for part in parts:
        if isinstance(part, str):
            print(printable(part))
        else:
            _console().print(part)
