"""Run each command with its options, print its result, and return the exit status."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from zelo_ray.cli.shown import console, show, show_next, tell
from zelo_ray.errors import Status

Words = Sequence[str]
"""A command as typed, after ``zelo-ray``."""

if TYPE_CHECKING:
    from zelo_ray.options import (
        AnnotateOptions,
        BatchesOptions,
        CompactOptions,
        CompareProtocolsOptions,
        ConvertOptions,
        DoctorOptions,
        ExplainOptions,
        FitOptions,
        LabelOptions,
        ReportOptions,
        SizeOptions,
    )
    from zelo_ray.reports.parts import Report


def _run(name: str, options: Any, words: Words) -> int:
    """Run a command that returns a report; write its page, and print it and the next command."""
    from zelo_ray.api.progress import run_watched

    run = import_module(f"zelo_ray.commands.{name}.run").run
    report = run_watched(run, options, progress=True)
    tell(report)
    return _end(report, words)


def _end(report: "Report", words: Words) -> int:
    show_next(report.next_step(words))
    return report.status


def _annotate(options: "AnnotateOptions", words: Words) -> int:
    if options.dry_run:
        return _preview(options, words)
    from zelo_ray.api.progress import run_watched
    from zelo_ray.commands.annotate.run import run

    report = run_watched(run, options, progress=True)
    tell(report)
    if report.record["summary"]["pilot_of"]:
        _estimate(options)
        show("The same command without --pilot continues; nothing is paid for twice.")
    return _end(report, words)


def _estimate(options: "AnnotateOptions") -> float:
    """Print the estimate of the remaining cost; return the --max-usd that it needs."""
    from zelo_ray.commands.dry_run import foreseen

    lines, cap = foreseen(options, os.environ)
    show(*lines)
    return cap


def _preview(options: "AnnotateOptions", words: Words) -> int:
    from zelo_ray.reports import next_step

    show_next(next_step.after_estimate(words, _estimate(options), options.max_usd))
    return Status.COMPLETE


def _compare_protocols(options: "CompareProtocolsOptions", words: Words) -> int:
    return (_previews if options.dry_run else partial(_run, "compare_protocols"))(options, words)


def _previews(options: "CompareProtocolsOptions", words: Words) -> int:
    from zelo_ray.commands.compare_protocols.job import planned
    from zelo_ray.commands.dry_run import previews
    from zelo_ray.reports import next_step
    from zelo_ray.reports.progress.display import Display

    with planned(options, Display()) as plans:
        show(*previews(plans, os.environ))
    show_next(next_step.after_estimate(words, 0.0, options.max_usd))
    return Status.COMPLETE


def _label(options: "LabelOptions", _words: Words) -> int:
    from zelo_ray.commands.label import label
    from zelo_ray.commands.label.page import labelling_page

    label(options, show, lambda work: partial(labelling_page, work))
    return Status.COMPLETE


def _fit(options: "FitOptions", words: Words) -> int:
    from zelo_ray.commands.fit import fit
    from zelo_ray.commands.fit.report import build_report
    from zelo_ray.reports import next_step

    fitted = fit(options)
    tell(build_report(fitted, options))
    show_next(next_step.after_fit(options, words))
    return Status.INCOMPLETE if fitted.unscored else Status.COMPLETE


def _convert(options: "ConvertOptions", _words: Words) -> int:
    from zelo_ray.commands.convert import convert
    from zelo_ray.reports import next_step

    show(*convert(options).split("\n"))
    show_next(next_step.after_convert(options))
    return Status.COMPLETE


def _explain(options: "ExplainOptions", _words: Words) -> int:
    from zelo_ray.commands.explain import explanation, first_ranked
    from zelo_ray.commands.explain.screen import on_screen
    from zelo_ray.reports import next_step
    from zelo_ray.reports.shell import command_of

    if not options.query:
        return _queries(options)
    parts, screen = explanation(options.dir, options.query, options.doc), console()
    if options.all or not screen.is_terminal:
        show(*"\n\n".join(part.whole() for part in parts).split("\n"))
    else:
        doc = ["--doc", options.doc] if options.doc else []
        full_command = command_of("explain", options.dir, "--query", options.query, *doc, "--all")
        show(*on_screen(parts, *screen.size, full_command))
    show("")
    doc_id = first_ranked(parts)
    if doc_id and not options.doc:
        show_next(next_step.after_explain(options.dir, options.query, doc_id))
    return Status.COMPLETE


def _queries(options: "ExplainOptions") -> int:
    """Print the first queries and the command that explains one; return the exit status."""
    from zelo_ray.commands.explain.queries import listed
    from zelo_ray.reports import next_step

    rows, first = listed(options.dir)
    show(*rows)
    show_next(next_step.after_explain(options.dir, first))
    return Status.COMPLETE


def _size(options: "SizeOptions", words: Words) -> int:
    from zelo_ray.commands.size.run import run

    report = run(options)
    tell(report)
    return _end(report, words)


def _doctor(options: "DoctorOptions", _words: Words) -> int:
    from zelo_ray.commands.doctor.run import has_no_judge, is_wrong, run
    from zelo_ray.commands.doctor.screen import describe_findings
    from zelo_ray.reports import next_step

    findings = run(options, show)
    show(*describe_findings(findings, min(120, console().width)))
    wrong = is_wrong(findings)
    no_judge = has_no_judge(findings)
    show_next(next_step.after_doctor(options, wrong=wrong, no_judge=no_judge))
    return Status.WRONG if wrong else Status.COMPLETE


def _batches(options: "BatchesOptions", _words: Words) -> int:
    from zelo_ray.commands.batches import list_batches

    show(list_batches(options.dir, os.environ, cancel=options.cancel))
    return Status.COMPLETE


def _compact(options: "CompactOptions", _words: Words) -> int:
    from zelo_ray.commands.compact import compacted

    show(compacted(options.dir, show))
    return Status.COMPLETE


def _report(options: "ReportOptions", _words: Words) -> int:
    from zelo_ray.commands.report.run import run

    lines, _ = run(options)
    show(*lines)
    return Status.COMPLETE


RUN: Mapping[str, Callable[[Any, Words], int]] = {
    "annotate": _annotate,
    "bakeoff": partial(_run, "bakeoff"),
    "compare-protocols": _compare_protocols,
    "agree": partial(_run, "agree"),
    "compare-labels": partial(_run, "compare_labels"),
    "label": _label,
    "drift": partial(_run, "drift"),
    "fit": _fit,
    "convert": _convert,
    "explain": _explain,
    "report": _report,
    "size": _size,
    "doctor": _doctor,
    "batches": _batches,
    "compact": _compact,
}
