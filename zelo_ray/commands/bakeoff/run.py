"""Run `bakeoff`: rank, measure, compare, and report which ranker is best."""

from dataclasses import replace
from functools import partial

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff.report import BAKEOFF_REPORT
from zelo_ray.engine.job import Watch
from zelo_ray.engine.lock import remove_folders_if_refused
from zelo_ray.files.rows import open_source
from zelo_ray.reports import next_step
from zelo_ray.reports.parts import Report


def run(options: BakeoffOptions, watch: Watch) -> Report:
    """Let rankers order the same documents, and report which differences are significant.

    Raises:
        OptionError, InputError, PanelError, LockError, LedgerError: before anything was asked.
        Stopped: while asking; nothing that was paid for is lost.
    """
    from zelo_ray.commands.bakeoff.job import measure_rankers  # noqa: PLC0415 - Ray takes seconds

    with remove_folders_if_refused(options.out, options.ledger_dir):
        outcome = measure_rankers(options, watch)
    report = BAKEOFF_REPORT.read(options.out)
    failures = (failure for entry in outcome.rankers for failure in entry.failures)
    # What the file of a run lacks, nobody can be asked for.
    failed = not report.complete and any(failure.status != "missing" for failure in failures)
    grows = bool(options.human and open_source(options.human).kind == "labels")
    return replace(
        report,
        is_worse=any(candidate.verdict == "worse" for candidate in outcome.gate),
        next_step=partial(next_step.after_bakeoff, options, failed=failed, grows=grows),
    )
