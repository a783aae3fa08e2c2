"""Run each command with its options: call, print, return an exit status."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zelo_ray.cli.shown import COMPLETE, INCOMPLETE, WORSE, WRONG, console, show, show_next, tell

Words = Sequence[str]
"""A command as it was typed, behind ``zelo-ray``."""

if TYPE_CHECKING:
    from zelo_ray.options import (
        AgreeOptions,
        AnnotateOptions,
        BakeoffOptions,
        BatchesOptions,
        CompactOptions,
        CompareLabelsOptions,
        CompareProtocolsOptions,
        ConvertOptions,
        DoctorOptions,
        DriftOptions,
        ExplainOptions,
        FitOptions,
        LabelOptions,
        ReportOptions,
        SizeOptions,
    )


def _annotate(options: "AnnotateOptions", words: Words) -> int:
    if options.dry_run:
        return _preview(options, words)
    from zelo_ray.api.annotation import judged
    from zelo_ray.cli import next_step
    from zelo_ray.engine.trial import find_fruitless_judges
    from zelo_ray.protocols import load
    from zelo_ray.records import CrownedScore

    run = judged(options)
    status = tell(run)
    if run.summary.pilot_of:
        _estimate(options)
        show("The same command without --pilot goes on; nothing is paid for twice.")
    crowned = issubclass(load(options.protocol).score.record, CrownedScore)
    fruitless = find_fruitless_judges(options.out) if run.summary.failures else []
    step = next_step.after_annotate(
        *(run.summary, options, words), crowned=crowned, fruitless=fruitless
    )
    show_next(step)
    return status


def _estimate(options: "AnnotateOptions") -> float:
    """Show what is still to be paid, and return the cap that it needs."""
    from zelo_ray.commands.dry_run import foreseen

    lines, cap = foreseen(options, os.environ)
    show(*lines)
    return cap


def _preview(options: "AnnotateOptions", words: Words) -> int:
    from zelo_ray.cli import next_step

    show_next(next_step.after_estimate(words, _estimate(options), options.max_usd))
    return COMPLETE


def _bakeoff(options: "BakeoffOptions", words: Words) -> int:
    from zelo_ray.api.contest import run_bakeoff
    from zelo_ray.cli import next_step

    results = run_bakeoff(options)
    status = tell(results)
    failed = results.tables.get("failures", ())
    # What the file of a run lacks, nobody can be asked for.
    again = not results.complete and any(row["status"] != "missing" for row in failed)
    show_next(next_step.after_bakeoff(options, words, failed=again))
    return WORSE if any(candidate.verdict == "worse" for candidate in results.gate) else status


def _compare_protocols(options: "CompareProtocolsOptions", words: Words) -> int:
    if options.dry_run:
        return _previews(options, words)
    from zelo_ray.api.comparisons import protocols_compared
    from zelo_ray.cli import next_step
    from zelo_ray.commands.compare_protocols import plans

    compared = protocols_compared(options)
    status = tell(compared)
    best_options = options.model_copy(update={"protocols": (compared.best,)})
    (best,) = plans(best_options, options.inputs).values()
    show_next(next_step.after_compare_protocols(options.out, best, words))
    return status


def _previews(options: "CompareProtocolsOptions", words: Words) -> int:
    from zelo_ray.cli import next_step
    from zelo_ray.commands.compare_protocols.run import planned
    from zelo_ray.commands.dry_run import previews
    from zelo_ray.reports.progress.display import Display

    with planned(options, Display()) as plans:
        show(*previews(plans, os.environ))
    show_next(next_step.after_estimate(words, 0.0, options.max_usd))
    return COMPLETE


def _agree(options: "AgreeOptions", _words: Words) -> int:
    from zelo_ray.api.comparisons import agreed
    from zelo_ray.cli import next_step

    measured = agreed(options)
    status = tell(measured)
    show_next(next_step.after_agree(options, grades=len(measured.grading) > 0))
    return status


def _compare_labels(options: "CompareLabelsOptions", _words: Words) -> int:
    from zelo_ray.api.comparisons import labels_compared
    from zelo_ray.cli import next_step

    status = tell(labels_compared(options))
    show_next(next_step.after_compare_labels(options))
    return status


def _label(options: "LabelOptions", _words: Words) -> int:
    from functools import partial

    from zelo_ray.commands.label import label
    from zelo_ray.commands.label.page import labelling_page

    label(options, show, lambda work: partial(labelling_page, work))
    return COMPLETE


def _fit(options: "FitOptions", words: Words) -> int:
    from zelo_ray.cli import next_step
    from zelo_ray.commands.fit import fit
    from zelo_ray.commands.fit.report import build_report
    from zelo_ray.reports.terminal import render_lines

    fitted = fit(options)
    show(*render_lines(build_report(fitted, options), console().width))
    show_next(next_step.after_fit(options, words))
    return INCOMPLETE if fitted.unscored else COMPLETE


def _drift(options: "DriftOptions", _words: Words) -> int:
    from zelo_ray.api.comparisons import drifted
    from zelo_ray.cli import next_step

    drift = drifted(options)
    status = tell(drift)
    show_next(next_step.after_drift(options))
    return WORSE if drift.moved else status


def _convert(options: "ConvertOptions", _words: Words) -> int:
    from zelo_ray.cli import next_step
    from zelo_ray.commands.convert import convert

    show(*convert(options).split("\n"))
    show_next(next_step.after_convert(options))
    return COMPLETE


def _explain(options: "ExplainOptions", _words: Words) -> int:
    from zelo_ray.cli import next_step
    from zelo_ray.commands.explain import explanation, first_ranked
    from zelo_ray.commands.explain.screen import on_screen
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
    return COMPLETE


def _queries(options: "ExplainOptions") -> int:
    """Print the first queries and the command that explains one; return the exit status."""
    from zelo_ray.cli import next_step
    from zelo_ray.commands.explain.queries import listed

    rows, first = listed(options.dir)
    show(*rows)
    show_next(next_step.after_explain(options.dir, first))
    return COMPLETE


def _size(options: "SizeOptions", _words: Words) -> int:
    from zelo_ray.api.sizing import sized
    from zelo_ray.cli import next_step

    sizing = sized(options)
    show(*sizing.lines(console().width))
    enough = [row for row in sizing if options.error and row["std_error"] <= options.error]
    plan = min(enough or list(sizing)[-1:], key=lambda row: row["calls"])["plan"]
    show_next(next_step.after_size(options, plan))
    return COMPLETE


def _doctor(options: "DoctorOptions", _words: Words) -> int:
    from zelo_ray.api.doctor import doctored
    from zelo_ray.cli import next_step

    findings = doctored(options, show)
    show(*findings.told(min(120, console().width)).split("\n"))
    show_next(next_step.after_doctor(options, wrong=findings.wrong, no_judge=findings.none))
    return WRONG if findings.wrong else COMPLETE


def _batches(options: "BatchesOptions", _words: Words) -> int:
    from zelo_ray.commands.batches import list_batches

    show(list_batches(options.dir, os.environ, cancel=options.cancel))
    return COMPLETE


def _compact(options: "CompactOptions", _words: Words) -> int:
    from zelo_ray.commands.compact import compacted

    show(compacted(options.dir, show))
    return COMPLETE


def _report(options: "ReportOptions", _words: Words) -> int:
    from zelo_ray.api.report import reported

    lines, _ = reported(options)
    show(*lines)
    return COMPLETE


RUN: Mapping[str, Callable[[Any, Words], int]] = {
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
    "doctor": _doctor,
    "batches": _batches,
    "compact": _compact,
}
