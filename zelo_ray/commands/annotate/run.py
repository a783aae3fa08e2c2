"""Run `annotate`: judge pools, and report the scores."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial

from zelo_ray.commands.annotate.report import ANNOTATE_REPORT
from zelo_ray.engine.job import Watch
from zelo_ray.engine.lock import remove_folders_if_refused
from zelo_ray.engine.trial import find_fruitless_judges
from zelo_ray.engine.write_results import Summary
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import load_protocol
from zelo_ray.records import CrownedScore
from zelo_ray.reports import next_step
from zelo_ray.reports.parts import Report
from zelo_ray.reports.source import Source


def run(options: AnnotateOptions, watch: Watch) -> Report:
    """Judge pools, write scores, and report the results.

    Raises:
        InputError, OptionError, PanelError, LockError, LedgerError: before anything was asked.
        Stopped: while asking; nothing that was paid for is lost.
    """
    from zelo_ray.commands.annotate.job import judge_pools  # noqa: PLC0415 - it takes a second

    with remove_folders_if_refused(options.out, options.ledger_dir):
        summary = judge_pools(options, watch)
    figures = asdict(summary)
    if summary.up_to_date:  # the record of the previous run is still valid
        record = Source(options.out, ANNOTATE_REPORT.rows).record(ANNOTATE_REPORT.record_name)
        figures = record["summary"] | {"up_to_date": True}
    report = ANNOTATE_REPORT.read(options.out, {"summary": figures})
    return replace(
        report, is_up_to_date=summary.up_to_date, next_step=partial(_next_step, summary, options)
    )


def _next_step(summary: Summary, options: AnnotateOptions, words: Sequence[str]) -> str:
    crowned = issubclass(load_protocol(options.protocol).score.record, CrownedScore)
    fruitless = find_fruitless_judges(options.out) if summary.failures else []
    return next_step.after_annotate(summary, options, words, crowned=crowned, fruitless=fruitless)
