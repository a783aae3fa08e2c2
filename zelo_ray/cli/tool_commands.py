"""Run the commands that judge and compare nothing, and return their results."""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from zelo_ray.cli.output import Output
from zelo_ray.cli.printing import make_console
from zelo_ray.errors import ExitStatus

if TYPE_CHECKING:
    from zelo_ray.commands.convert import WrittenSummary
    from zelo_ray.options import (
        BatchesOptions,
        ConvertOptions,
        DoctorOptions,
        ExplainOptions,
        PromptOptions,
        ReportOptions,
        SampleOptions,
        WatchOptions,
    )
    from zelo_ray.reports.document import CommandResult

Words = Sequence[str]
"""A command as typed, after ``zelo-ray``."""


def run_convert(options: "ConvertOptions", _words: Words, _output: Output) -> "CommandResult":
    """Convert files, and return the result."""
    from zelo_ray.commands.convert import convert
    from zelo_ray.reports import next_step

    return _written(convert(options), options.out, next_step.after_convert(options))


def _written(summary: "WrittenSummary", out: str, step: str | None) -> "CommandResult":
    from zelo_ray.reports.document import CommandResult

    lines = summary.split("\n")
    return CommandResult(
        lines=lines,
        lead=lines,
        figures={"counts": summary.counts},
        next_command=step,
        out=out,
        files=[out],
    )


def run_prompt(options: "PromptOptions", _words: Words, _output: Output) -> "CommandResult":
    """Find the requests of `prompt`, and return the result."""
    from zelo_ray.commands.prompt import find_requests
    from zelo_ray.commands.prompt.screen import bodies_of, describe_requests
    from zelo_ray.reports.document import CommandResult

    requests = find_requests(options, os.environ)
    shown = bodies_of(requests) if options.body else describe_requests(requests)
    return CommandResult(
        lines=[*shown],
        notes=requests.notes,
        figures={
            "query_id": requests.query_id,
            "query": requests.query,
            "requests": requests.requests,
            "known_requests": requests.known_count,
            "has_later_rounds": requests.has_later_rounds,
        },
    )


def run_explain(options: "ExplainOptions", _words: Words, _output: Output) -> "CommandResult":
    """Explain a query or a document, or list the queries, and return the result."""
    from zelo_ray.commands.explain import build_explanation
    from zelo_ray.reports import next_step
    from zelo_ray.reports.document import CommandResult

    if not options.query:
        return _explain_queries(options)
    explained = build_explanation(options.dir, options.query, options.doc)
    parts = explained.parts
    if options.short:
        parts = [part for part in parts if part.kind != "judgments"]
    lines = "\n\n".join(part.whole() for part in parts).split("\n")
    best = "" if options.doc else explained.best
    return CommandResult(
        lines=[*lines, ""],
        figures={
            "query_id": explained.query_id,
            "doc_id": explained.doc_id or None,
            "parts": [{"kind": part.kind, "lines": part.lines} for part in parts],
            "scores": explained.scores,
            "judgments": explained.judgments,
            "failures": explained.failures,
        },
        next_command=next_step.after_explain(options.dir, options.query, best) if best else None,
    )


def _explain_queries(options: "ExplainOptions") -> "CommandResult":
    """Return the queries of a run, and the command that explains the first one."""
    from zelo_ray.commands.explain.queries import describe_queries, list_queries
    from zelo_ray.reports import next_step
    from zelo_ray.reports.document import CommandResult

    texts = list_queries(options.dir)
    return CommandResult(
        lines=describe_queries(options.dir, texts),
        figures={"queries": [{"query_id": name, "query": text} for name, text in texts.items()]},
        next_command=next_step.after_explain(options.dir, next(iter(texts))),
    )


def run_doctor(options: "DoctorOptions", _words: Words, output: Output) -> "CommandResult":
    """Check this machine, its keys and judges, and return the result."""
    from zelo_ray.commands.doctor.run import has_no_judge, is_wrong, run
    from zelo_ray.commands.doctor.screen import describe_findings
    from zelo_ray.reports import next_step
    from zelo_ray.reports.document import CommandResult

    findings = run(options, output.say)
    lines = [*describe_findings(findings, min(120, make_console().width))]
    wrong, no_judge = is_wrong(findings), has_no_judge(findings)
    return CommandResult(
        status=ExitStatus.FAILED if wrong else ExitStatus.COMPLETE,
        lines=lines,
        lead=lines[-1:],
        figures={"findings": [asdict(finding) for finding in findings]},
        next_command=next_step.after_doctor(options, wrong=wrong, no_judge=no_judge),
    )


def run_batches(options: "BatchesOptions", _words: Words, _output: Output) -> "CommandResult":
    """List batches, or cancel them, and return the result."""
    from zelo_ray.commands.batches import batches_table, list_batches
    from zelo_ray.reports.document import CommandResult

    batches = list_batches(options.dir, os.environ, cancel=options.cancel)
    return CommandResult(lines=[batches_table(batches)], figures={"batches": batches})


def run_sample(options: "SampleOptions", _words: Words, _output: Output) -> "CommandResult":
    """Write the sample data, and return the result."""
    from zelo_ray.commands.sample import write_sample
    from zelo_ray.reports import next_step
    from zelo_ray.reports.document import CommandResult

    names = write_sample(options.dir)
    lines = [f"{options.dir} holds the sample: {', '.join(names)}"]
    return CommandResult(
        lines=lines,
        lead=lines,
        figures={"counts": {"files": len(names)}},
        next_command=next_step.after_sample(options.dir),
        out=options.dir,
        files=[f"{options.dir}/{name}" for name in names],
    )


def run_report(options: "ReportOptions", _words: Words, _output: Output) -> "CommandResult":
    """Write the page of a run, or an index over several, and return the result."""
    from zelo_ray.commands.report.run import run
    from zelo_ray.reports.document import CommandResult

    lines, page = run(options)
    return CommandResult(lines=lines, lead=lines, figures={"page": page}, out=page, files=[page])


def run_watch(options: "WatchOptions", _words: Words, _output: Output) -> "CommandResult":
    """Show a run until it ends, or once, and return how it stands."""
    from zelo_ray.commands.watch.run import watch_run
    from zelo_ray.reports.document import CommandResult

    with contextlib.suppress(KeyboardInterrupt):  # by which an onlooker leaves
        lines, figures = watch_run(options, make_console())
        return CommandResult(lines=lines, figures=figures, out=options.dir)
    return CommandResult(out=options.dir)
