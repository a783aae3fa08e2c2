"""Run each command with its options, and return its result."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from zelo_ray.cli import tool_commands
from zelo_ray.cli.output import Output
from zelo_ray.cli.tool_commands import Words
from zelo_ray.errors import ExitStatus, ZeloError

if TYPE_CHECKING:
    from zelo_ray.commands.dry_run import JobPreview
    from zelo_ray.options import (
        AnnotateOptions,
        CompareProtocolsOptions,
        FitOptions,
        LabelOptions,
        ProbeOptions,
        TuneOptions,
    )
    from zelo_ray.reports.document import CommandResult
    from zelo_ray.reports.parts import Report


def _run(name: str, options: Any, words: Words, output: Output) -> "CommandResult":
    """Run a command that returns a report."""
    run = import_module(f"zelo_ray.commands.{name}.run").run
    return _reported(output.run(run, options, words), words)


def _reported(report: "Report", words: Words, **values: Any) -> "CommandResult":
    """Return the result of a command with a report and the command that comes next."""
    from zelo_ray.reports.document import CommandResult

    step = report.next_step(words)
    return CommandResult(**{"status": report.status, "next_command": step, **values}, report=report)


def _annotate(options: "AnnotateOptions", words: Words, output: Output) -> "CommandResult":
    if options.dry_run:
        from zelo_ray.commands.dry_run import preview_job

        job = preview_job(options, os.environ)
        return _estimated({"annotate": job}, job.to_lines(), words, options.max_usd, job.cap)
    from zelo_ray.commands.annotate.run import run

    report = output.run(run, options, words)
    if not report.record["summary"]["pilot_of"]:
        return _reported(report, words)
    from zelo_ray.commands.cost_figures import cost_figures
    from zelo_ray.commands.dry_run import preview_job

    try:
        job = preview_job(options, os.environ)
    except ZeloError as error:  # what was judged is shown all the same
        return _reported(report, words, lines=[f"the rest cannot be estimated: {error}"])
    more = "The same command without --pilot continues; nothing is paid for twice."
    figures = cost_figures({"annotate": job})
    lines = [*job.to_lines(), more]
    return _reported(report, words, lines=lines, lead=[more], notes=job.notes, figures=figures)


def _estimated(
    jobs: Mapping[str, "JobPreview"],
    lines: Sequence[str],
    words: Words,
    max_usd: float | None,
    cap: float = 0.0,
) -> "CommandResult":
    """Return the estimates of jobs, and the run itself as the next command, with a cap."""
    from zelo_ray.commands.cost_figures import cost_figures
    from zelo_ray.reports import next_step
    from zelo_ray.reports.document import CommandResult

    return CommandResult(
        title="estimate what is left to ask, and what it costs",
        lines=lines,
        notes=[note for job in jobs.values() for note in job.notes],
        figures=cost_figures(jobs),
        next_command=next_step.after_estimate(words, cap, max_usd),
    )


def _compare_protocols(
    options: "CompareProtocolsOptions", words: Words, output: Output
) -> "CommandResult":
    if not options.dry_run:
        return _run("compare_protocols", options, words, output)
    from zelo_ray.commands.compare_protocols.job import plan_protocols

    return _estimate_plans(plan_protocols, options, words, output, "protocols")


def _tune(options: "TuneOptions", words: Words, output: Output) -> "CommandResult":
    if not options.dry_run:
        return _run("tune", options, words, output)
    from zelo_ray.commands.tune.preview import plan_candidates

    return _estimate_plans(plan_candidates, options, words, output, "candidates")


def _estimate_plans(
    plan: Callable[..., Any], options: Any, words: Words, output: Output, what: str
) -> "CommandResult":
    from zelo_ray.commands.dry_run import format_previews, preview_job

    with output.watch as watch, plan(options, watch) as plans:
        jobs = {name: preview_job(planned, os.environ) for name, planned in plans.items()}
    return _estimated(jobs, [*format_previews(jobs, what)], words, options.max_usd)


def _probe(options: "ProbeOptions", words: Words, output: Output) -> "CommandResult":
    if not options.dry_run:
        return _run("probe", options, words, output)
    from zelo_ray.commands.dry_run import preview_job
    from zelo_ray.commands.probe.job import plan_probe

    with output.watch as watch, plan_probe(options, watch) as plan:
        job = preview_job(plan, os.environ)
    lines = job.to_lines(pilot=False)
    return _estimated({"probe": job}, lines, words, options.max_usd, job.cap)


def _label(options: "LabelOptions", _words: Words, output: Output) -> "CommandResult":
    from zelo_ray.commands.label import label
    from zelo_ray.commands.label.page import labelling_page
    from zelo_ray.reports.document import CommandResult

    done = label(options, output.say, lambda work: partial(labelling_page, work))
    return CommandResult(
        lines=done.lines,
        lead=done.lines,
        figures=done.figures,
        next_command=done.next_command,
        out=options.out,
        files=done.files,
    )


def _fit(options: "FitOptions", words: Words, _output: Output) -> "CommandResult":
    from zelo_ray.commands.fit import fit
    from zelo_ray.commands.fit.report import build_report
    from zelo_ray.reports import next_step
    from zelo_ray.reports.document import CommandResult

    fitted = fit(options)
    return CommandResult(
        status=ExitStatus.INCOMPLETE if fitted.unscored else ExitStatus.COMPLETE,
        report=build_report(fitted, options),
        figures={
            "comparisons": fitted.rows,
            "scores": fitted.scores.to_pylist(),
            "unscored": fitted.unscored,
        },
        next_command=next_step.after_fit(options, words),
        files=[options.out] if options.out else [],
    )


RUN_COMMAND: Mapping[str, Callable[[Any, Words, Output], "CommandResult"]] = {
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
    "convert": tool_commands.run_convert,
    "explain": tool_commands.run_explain,
    "prompt": tool_commands.run_prompt,
    "report": tool_commands.run_report,
    "watch": tool_commands.run_watch,
    "doctor": tool_commands.run_doctor,
    "batches": tool_commands.run_batches,
    "sample": tool_commands.run_sample,
}
