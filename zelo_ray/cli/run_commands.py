"""Run each command with its options, print its result, and return the exit status."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from zelo_ray.cli.printing import make_console, print_lines, print_next_step, print_report
from zelo_ray.errors import ExitStatus

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
        PoolsOptions,
        ProbeOptions,
        PromptOptions,
        ReportOptions,
        TuneOptions,
        WatchOptions,
    )
    from zelo_ray.reports.parts import Report


def _run(name: str, options: Any, words: Words) -> int:
    """Run a command that returns a report; write its page, and print it and the next command."""
    from zelo_ray.api.progress import run_watched

    run = import_module(f"zelo_ray.commands.{name}.run").run
    report = run_watched(run, options, progress=True, words=words)
    print_report(report)
    return _print_next_step(report, words)


def _print_next_step(report: "Report", words: Words) -> int:
    print_next_step(report.next_step(words))
    return report.status


def _annotate(options: "AnnotateOptions", words: Words) -> int:
    if options.dry_run:
        return _preview(options, words)
    from zelo_ray.api.progress import run_watched
    from zelo_ray.commands.annotate.run import run

    report = run_watched(run, options, progress=True, words=words)
    print_report(report)
    if report.record["summary"]["pilot_of"]:
        _estimate(options)
        print_lines("The same command without --pilot continues; nothing is paid for twice.")
    return _print_next_step(report, words)


def _estimate(options: "AnnotateOptions", *, pilot: bool = True) -> float:
    """Print the estimate of the remaining cost; return the --max-usd that it needs."""
    from zelo_ray.commands.dry_run import preview_with_cap

    lines, cap = preview_with_cap(options, os.environ, pilot=pilot)
    print_lines(*lines)
    return cap


def _preview(options: "AnnotateOptions", words: Words) -> int:
    from zelo_ray.reports import next_step

    print_next_step(next_step.after_estimate(words, _estimate(options), options.max_usd))
    return ExitStatus.COMPLETE


def _compare_protocols(options: "CompareProtocolsOptions", words: Words) -> int:
    return (_preview_protocols if options.dry_run else partial(_run, "compare_protocols"))(
        options, words
    )


def _preview_protocols(options: "CompareProtocolsOptions", words: Words) -> int:
    from zelo_ray.commands.compare_protocols.job import plan_protocols
    from zelo_ray.commands.dry_run import previews
    from zelo_ray.reports import next_step
    from zelo_ray.reports.progress.display import Display

    with plan_protocols(options, Display()) as plans:
        print_lines(*previews(plans, os.environ))
    print_next_step(next_step.after_estimate(words, 0.0, options.max_usd))
    return ExitStatus.COMPLETE


def _probe(options: "ProbeOptions", words: Words) -> int:
    return (_preview_probe if options.dry_run else partial(_run, "probe"))(options, words)


def _preview_probe(options: "ProbeOptions", words: Words) -> int:
    from zelo_ray.commands.probe.job import plan_probe
    from zelo_ray.reports import next_step
    from zelo_ray.reports.progress.display import Display

    with plan_probe(options, Display()) as plan:
        high = _estimate(plan, pilot=False)
    print_next_step(next_step.after_estimate(words, high, options.max_usd))
    return ExitStatus.COMPLETE


def _tune(options: "TuneOptions", words: Words) -> int:
    return (_preview_tune if options.dry_run else partial(_run, "tune"))(options, words)


def _preview_tune(options: "TuneOptions", words: Words) -> int:
    from zelo_ray.commands.dry_run import previews
    from zelo_ray.commands.tune.preview import plan_candidates
    from zelo_ray.reports import next_step
    from zelo_ray.reports.progress.display import Display

    with plan_candidates(options, Display()) as plans:
        print_lines(*previews(plans, os.environ, "candidates"))
    print_next_step(next_step.after_estimate(words, 0.0, options.max_usd))
    return ExitStatus.COMPLETE


def _label(options: "LabelOptions", _words: Words) -> int:
    from zelo_ray.commands.label import label
    from zelo_ray.commands.label.page import labelling_page

    label(options, print_lines, lambda work: partial(labelling_page, work))
    return ExitStatus.COMPLETE


def _fit(options: "FitOptions", words: Words) -> int:
    from zelo_ray.commands.fit import fit
    from zelo_ray.commands.fit.report import build_report
    from zelo_ray.reports import next_step

    fitted = fit(options)
    print_report(build_report(fitted, options))
    print_next_step(next_step.after_fit(options, words))
    return ExitStatus.INCOMPLETE if fitted.unscored else ExitStatus.COMPLETE


def _convert(options: "ConvertOptions", _words: Words) -> int:
    from zelo_ray.commands.convert import convert
    from zelo_ray.reports import next_step

    print_lines(*convert(options).split("\n"))
    print_next_step(next_step.after_convert(options))
    return ExitStatus.COMPLETE


def _pools(options: "PoolsOptions", _words: Words) -> int:
    from zelo_ray.commands.pools import make_pools
    from zelo_ray.reports import next_step

    print_lines(*make_pools(options, os.environ).split("\n"))
    print_next_step(next_step.after_pools(options.out))
    return ExitStatus.COMPLETE


def _prompt(options: "PromptOptions", _words: Words) -> int:
    from zelo_ray.commands.prompt import find_requests
    from zelo_ray.commands.prompt.screen import bodies_of, describe_requests

    requests = find_requests(options, os.environ)
    print_lines(*(bodies_of(requests) if options.body else describe_requests(requests)))
    return ExitStatus.COMPLETE


def _explain(options: "ExplainOptions", _words: Words) -> int:
    from zelo_ray.commands.explain import build_explanation, first_ranked
    from zelo_ray.commands.explain.screen import fit_to_screen
    from zelo_ray.reports import next_step
    from zelo_ray.reports.command_lines import command_of

    if not options.query:
        return _explain_queries(options)
    if options.prompt:
        from zelo_ray.commands.prompt import requests_of_run
        from zelo_ray.commands.prompt.screen import describe_requests

        doc_ids = [options.doc] if options.doc else []
        requests = requests_of_run(options.dir, os.environ, options.query, doc_ids)
        print_lines(*describe_requests(requests))
        return ExitStatus.COMPLETE
    parts, screen = build_explanation(options.dir, options.query, options.doc), make_console()
    if options.all or not screen.is_terminal:
        print_lines(*"\n\n".join(part.whole() for part in parts).split("\n"))
    else:
        doc = ["--doc", options.doc] if options.doc else []
        full_command = command_of("explain", options.dir, "--query", options.query, *doc, "--all")
        print_lines(*fit_to_screen(parts, *screen.size, full_command))
    print_lines("")
    doc_id = first_ranked(parts)
    if doc_id and not options.doc:
        print_next_step(next_step.after_explain(options.dir, options.query, doc_id))
    return ExitStatus.COMPLETE


def _explain_queries(options: "ExplainOptions") -> int:
    """Print the first queries and the command that explains one; return the exit status."""
    from zelo_ray.commands.explain.queries import list_queries
    from zelo_ray.reports import next_step

    rows, first = list_queries(options.dir)
    print_lines(*rows)
    print_next_step(next_step.after_explain(options.dir, first))
    return ExitStatus.COMPLETE


def _doctor(options: "DoctorOptions", _words: Words) -> int:
    from zelo_ray.commands.doctor.run import has_no_judge, is_wrong, run
    from zelo_ray.commands.doctor.screen import describe_findings
    from zelo_ray.reports import next_step

    findings = run(options, print_lines)
    print_lines(*describe_findings(findings, min(120, make_console().width)))
    wrong = is_wrong(findings)
    no_judge = has_no_judge(findings)
    print_next_step(next_step.after_doctor(options, wrong=wrong, no_judge=no_judge))
    return ExitStatus.FAILED if wrong else ExitStatus.COMPLETE


def _batches(options: "BatchesOptions", _words: Words) -> int:
    from zelo_ray.commands.batches import list_batches

    print_lines(list_batches(options.dir, os.environ, cancel=options.cancel))
    return ExitStatus.COMPLETE


def _compact(options: "CompactOptions", _words: Words) -> int:
    from zelo_ray.commands.compact import compact_ledger

    print_lines(compact_ledger(options.dir, print_lines))
    return ExitStatus.COMPLETE


def _report(options: "ReportOptions", _words: Words) -> int:
    from zelo_ray.commands.report.run import run

    lines, _ = run(options)
    print_lines(*lines)
    return ExitStatus.COMPLETE


def _watch(options: "WatchOptions", _words: Words) -> int:
    from zelo_ray.commands.watch.run import watch_run

    with contextlib.suppress(KeyboardInterrupt):  # by which an onlooker leaves
        print_lines(*watch_run(options, make_console()))
    return ExitStatus.COMPLETE


RUN_COMMAND: Mapping[str, Callable[[Any, Words], int]] = {
    "annotate": _annotate,
    "bakeoff": partial(_run, "bakeoff"),
    "compare-protocols": _compare_protocols,
    "tune": _tune,
    "agree": partial(_run, "agree"),
    "compare-labels": partial(_run, "compare_labels"),
    "label": _label,
    "drift": partial(_run, "drift"),
    "probe": _probe,
    "fit": _fit,
    "convert": _convert,
    "pools": _pools,
    "explain": _explain,
    "prompt": _prompt,
    "report": _report,
    "watch": _watch,
    "size": partial(_run, "size"),
    "doctor": _doctor,
    "batches": _batches,
    "compact": _compact,
}
