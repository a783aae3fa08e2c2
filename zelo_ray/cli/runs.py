"""What each command does with its options: call, print, return an exit status."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zelo_ray.cli.looked import (
    contest_at,
    first_query,
    fruitless_judges,
    kind_of,
    people_for,
    recorded,
    runs_among,
    some_pools,
    texts_of,
    there,
    use_of,
)
from zelo_ray.cli.shown import COMPLETE, INCOMPLETE, WORSE, WRONG, console, show, tell, then

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
    from zelo_ray.present.terminal import next as follow
    from zelo_ray.protocols import load
    from zelo_ray.records import CrownedScore

    run = judged(options)
    status = tell(run)
    if run.summary.pilot_of:
        _estimate(options)
        show("The same command without --pilot goes on; nothing is paid for twice.")
    crowned = issubclass(load(options.protocol).score.record, CrownedScore)
    query_id = first_query(options.out) if crowned else ""
    fruitless = fruitless_judges(options.out) if run.summary.failures else []
    next_ = follow.after_annotate(
        *(run.summary, options, words),
        crowned=query_id,
        runs=runs_among(options),
        fruitless=fruitless,
    )
    then(next_)
    return status


def _estimate(options: "AnnotateOptions") -> float:
    """Show what is still to be paid, and return the cap that it needs."""
    from zelo_ray.commands.dry_run import foreseen

    lines, cap = foreseen(options, os.environ)
    show(*lines)
    return cap


def _preview(options: "AnnotateOptions", words: Words) -> int:
    from zelo_ray.present.terminal import next as follow

    then(follow.after_estimate(words, _estimate(options), options.max_usd))
    return COMPLETE


def _bakeoff(options: "BakeoffOptions", words: Words) -> int:
    from zelo_ray.api.contest import contested
    from zelo_ray.present.terminal import next as follow

    contest = contested(options)
    status = tell(contest)
    failed = contest.tables.get("failures", ())
    # What the file of a run lacks, nobody can be asked for.
    again = not contest.complete and any(row["status"] != "missing" for row in failed)
    then(follow.after_bakeoff(options, words, again=again, people=people_for(options)))
    return WORSE if any(each.verdict == "worse" for each in contest.gate) else status


def _compare_protocols(options: "CompareProtocolsOptions", words: Words) -> int:
    if options.dry_run:
        return _previews(options, words)
    from zelo_ray.api.comparisons import protocols_compared
    from zelo_ray.commands.compare_protocols import plans
    from zelo_ray.present.terminal import next as follow

    compared = protocols_compared(options)
    status = tell(compared)
    one = options.model_copy(update={"protocols": (compared.best,)})
    (best,) = plans(one, options.inputs).values()
    then(follow.after_compare_protocols(options.out, best, words))
    return status


def _previews(options: "CompareProtocolsOptions", words: Words) -> int:
    from zelo_ray.commands.dry_run import previews
    from zelo_ray.on_ray.compare_protocols import planned
    from zelo_ray.present.terminal import next as follow
    from zelo_ray.present.terminal.display import Display

    with planned(options, Display()) as each:
        show(*previews(each, os.environ))
    then(follow.after_estimate(words, 0.0, options.max_usd))
    return COMPLETE


def _agree(options: "AgreeOptions", _words: Words) -> int:
    from zelo_ray.api.comparisons import agreed
    from zelo_ray.present.terminal import next as follow

    status = tell(agreed(options))
    then(follow.after_agree(options, use_of))
    return status


def _compare_labels(options: "CompareLabelsOptions", _words: Words) -> int:
    from zelo_ray.api.comparisons import labels_compared
    from zelo_ray.present.terminal import next as follow

    status = tell(labels_compared(options))
    then(follow.after_compare_labels(options, use_of))
    return status


def _label(options: "LabelOptions", _words: Words) -> int:
    from functools import partial

    from zelo_ray.commands.label import label
    from zelo_ray.present.html.labelling import labelling_page

    label(options, show, lambda work: partial(labelling_page, work))
    return COMPLETE


def _fit(options: "FitOptions", words: Words) -> int:
    from zelo_ray.commands.fit import fit
    from zelo_ray.present.terminal import next as follow
    from zelo_ray.present.terminal.ratings import told

    fitted = fit(options)
    show(*told(fitted, options))
    then(follow.after_fit(options, words))
    return INCOMPLETE if fitted.unscored else COMPLETE


def _drift(options: "DriftOptions", _words: Words) -> int:
    from zelo_ray.api.comparisons import drifted
    from zelo_ray.present.terminal import next as follow

    found = drifted(options)
    show(*found.parts(console().width))
    then(follow.after_drift(options, use_of))
    if found.moved:
        return WORSE
    return COMPLETE if found.complete else INCOMPLETE


def _convert(options: "ConvertOptions", _words: Words) -> int:
    from zelo_ray.commands.convert import convert
    from zelo_ray.present.terminal import next as follow

    show(*convert(options).split("\n"))
    truth = recorded(follow.run_of(options.truth)) if options.what == "holes" else None
    then(follow.after_convert(options, truth, texts_of(options.source)))
    return COMPLETE


def _explain(options: "ExplainOptions", _words: Words) -> int:
    from zelo_ray.commands.explain import explanation, first_ranked
    from zelo_ray.present.terminal import next as follow
    from zelo_ray.present.terminal.explain import on_screen

    if not options.query:
        return _queries(options)
    parts, screen = explanation(options.dir, options.query, options.doc), console()
    if options.all or not screen.is_terminal:
        show(*"\n\n".join(each.whole() for each in parts).split("\n"))
    else:
        show(*on_screen(parts, *screen.size, follow.whole_of(options)))
    show("")
    then(follow.after_explain(options, first_ranked(parts)))
    return COMPLETE


def _queries(options: "ExplainOptions") -> int:
    """The first queries, and the command that explains one."""
    from zelo_ray.commands.explain.queries import listed
    from zelo_ray.present.terminal import next as follow

    rows, first = listed(options.dir)
    show(*rows)
    then(follow.after_explain(options.model_copy(update={"query": first}), ""))
    return COMPLETE


def _size(options: "SizeOptions", _words: Words) -> int:
    from zelo_ray.api.sizing import sized
    from zelo_ray.formats.files import record
    from zelo_ray.present.terminal import next as follow

    found = sized(options)
    show(*found.parts(console().width))
    enough = [row for row in found if options.error and row["std_error"] <= options.error]
    plan = min(enough or list(found)[-1:], key=lambda row: row["calls"])["plan"]
    run = record(f"{options.judges_from}/run.json") if options.judges_from else {}
    pilot = there(run.get("options", {}).get("inputs", ()))
    then(follow.after_size(options, plan, pilot or [*filter(None, [some_pools()])]))
    return COMPLETE


def _doctor(options: "DoctorOptions", _words: Words) -> int:
    from zelo_ray.api.doctor import doctored
    from zelo_ray.present.terminal import next as follow

    found = doctored(options, show)
    show(*found.told(min(120, console().width)).split("\n"))
    how = {"wrong": found.wrong, "asked": options.ask, "none": found.none}
    then(follow.after_doctor(options.judges, pools=some_pools(), **how))
    return WRONG if found.wrong else COMPLETE


def _batches(options: "BatchesOptions", _words: Words) -> int:
    from zelo_ray.commands.batches import list_batches
    from zelo_ray.present.terminal import next as follow

    show(list_batches(options.dir, os.environ, cancel=options.cancel))
    run = recorded(options.dir)
    then(follow.after_batches(options.dir, run if run and there(run.inputs) else None))
    return COMPLETE


def _compact(options: "CompactOptions", _words: Words) -> int:
    from zelo_ray.commands.compact import compacted
    from zelo_ray.present.terminal import next as follow

    show(compacted(options.dir, show))
    then(follow.after_compact(options.dir))
    return COMPLETE


def _report(options: "ReportOptions", _words: Words) -> int:
    from zelo_ray.api.report import reported
    from zelo_ray.present.terminal import next as follow

    lines, page = reported(options)
    show(*lines)
    first = options.dir[0].rstrip("/")
    if page == f"{first}/report.html":
        kind = kind_of(first)
        query_id = first_query(first) if kind == "annotate" else ""
        contest = contest_at(first) if kind == "bakeoff" else None
        then(follow.after_report(first, query_id, people_for(contest) if contest else "none"))
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
