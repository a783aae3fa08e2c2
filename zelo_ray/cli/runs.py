"""What each command does with its options: call, print, return an exit status."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from zelo_ray.formats.wording import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from zelo_ray.api.results import Results
    from zelo_ray.options import (
        AgreeOptions,
        AnnotateOptions,
        BakeoffOptions,
        BatchesOptions,
        CompactOptions,
        CompareLabelsOptions,
        CompareProtocolsOptions,
        ConvertOptions,
        DriftOptions,
        ExplainOptions,
        FitOptions,
        LabelOptions,
        ReportOptions,
        SizeOptions,
    )

COMPLETE, INCOMPLETE, WORSE = 0, 3, 4
_WIDE = 160  # characters of a line that no terminal shows


def _annotate(options: "AnnotateOptions") -> int:
    if options.dry_run:
        return _preview(options)
    from zelo_ray.api.annotation import judged

    run = judged(options)
    status = _told(run)
    if run.summary.pilot_of:
        _preview(options)
        show("The same command without --pilot goes on; nothing is paid for twice.")
    return status


def _preview(options: "AnnotateOptions") -> int:
    from zelo_ray.commands.dry_run import preview

    show(*preview(options, os.environ))
    return COMPLETE


def _bakeoff(options: "BakeoffOptions") -> int:
    from zelo_ray.api.contest import contested

    contest = contested(options)
    status = _told(contest)
    return WORSE if any(each.verdict == "worse" for each in contest.gate) else status


def _compare_protocols(options: "CompareProtocolsOptions") -> int:
    if options.dry_run:
        return _previews(options)
    from zelo_ray.api.comparisons import protocols_compared

    return _told(protocols_compared(options))


def _previews(options: "CompareProtocolsOptions") -> int:
    from zelo_ray.commands.dry_run import previews
    from zelo_ray.on_ray.compare_protocols import planned
    from zelo_ray.present.terminal.display import Display

    with planned(options, Display()) as each:
        show(*previews(each, os.environ))
    return COMPLETE


def _agree(options: "AgreeOptions") -> int:
    from zelo_ray.api.comparisons import agreed

    return _told(agreed(options))


def _compare_labels(options: "CompareLabelsOptions") -> int:
    from zelo_ray.api.comparisons import labels_compared

    return _told(labels_compared(options))


def _told(results: "Results") -> int:
    """Write the page of a command, and show what it came to."""
    if results.out:
        results.report()
    show(*results.parts(_console().width))
    return COMPLETE if results.complete else INCOMPLETE


def _label(options: "LabelOptions") -> int:
    from functools import partial

    from zelo_ray.commands.label import label
    from zelo_ray.present.html.labelling import labelling_page

    label(options, show, lambda work: partial(labelling_page, work))
    return COMPLETE


def _fit(options: "FitOptions") -> int:
    from zelo_ray.commands.fit import fit
    from zelo_ray.present.terminal.ratings import told

    fitted = fit(options)
    show(*told(fitted, options))
    return INCOMPLETE if fitted.unscored else COMPLETE


def _drift(options: "DriftOptions") -> int:
    from zelo_ray.api.comparisons import drifted

    found = drifted(options)
    show(*found.parts(_console().width))
    if found.moved:
        return WORSE
    return COMPLETE if found.complete else INCOMPLETE


def _convert(options: "ConvertOptions") -> int:
    from zelo_ray.commands.convert import convert

    show(*convert(options).split("\n"))
    return COMPLETE


def _explain(options: "ExplainOptions") -> int:
    from zelo_ray.commands.explain import explain

    show(*explain(options.dir, options.query, options.doc).split("\n"))
    return COMPLETE


def _report(options: "ReportOptions") -> int:
    from zelo_ray.present.html import write_report
    from zelo_ray.present.html.index import holds_runs, write_index

    first = options.dir[0]
    if len(options.dir) > 1 or options.index or holds_runs(first):
        index = write_index(options.dir, options.index)
        for other in index.others:
            show(f"left out: {other}")
        show(index.place)
        return COMPLETE
    if told := write_report(first):
        show(told)
    show(f"{first}/report.html")
    return COMPLETE


def _size(options: "SizeOptions") -> int:
    from zelo_ray.api.sizing import sized

    show(*sized(options).parts(_console().width))
    return COMPLETE


def _batches(options: "BatchesOptions") -> int:
    from zelo_ray.commands.batches import list_batches

    show(list_batches(options.dir, os.environ, cancel=options.cancel))
    return COMPLETE


def _compact(options: "CompactOptions") -> int:
    from zelo_ray.commands.compact import compacted

    show(compacted(options.dir, show))
    return COMPLETE


RUN: Mapping[str, Callable[[Any], int]] = {
    "annotate": _annotate,
    "bakeoff": _bakeoff,
    "compare-protocols": _compare_protocols,
    "agree": _agree,
    "compare-labels": _compare_labels,
    "label": _label,
    "drift": _drift,
    "fit": _fit,
    "convert": _convert,
    "explain": _explain,
    "report": _report,
    "size": _size,
    "batches": _batches,
    "compact": _compact,
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
