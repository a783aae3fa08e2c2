"""Run `tune`: choose how to ask judges by people's labels, and report."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from zelo_ray.command_options import TuneOptions
from zelo_ray.commands.tune.outcome import CHOSEN
from zelo_ray.commands.tune.report import TUNE_REPORT
from zelo_ray.engine.job import Watch
from zelo_ray.engine.lock import remove_folders_if_refused
from zelo_ray.reports import next_step
from zelo_ray.reports.parts import Report


def run(options: TuneOptions, watch: Watch) -> Report:
    """Let candidates judge what people labelled; choose one, test it, and report.

    Raises:
        InputError, OptionError, PanelError, OptionError, LockError, LedgerError: before
            anything was asked.
        Stopped: while asking; nothing that was paid for is lost.
    """
    from zelo_ray.commands.tune.job import tune_judging  # noqa: PLC0415 - Ray takes seconds

    with remove_folders_if_refused(options.out, options.ledger_dir):
        tune_judging(options, watch)
    report = TUNE_REPORT.read(options.out)
    return replace(report, next_step=partial(_next_step, options))


def _next_step(options: TuneOptions, _words: Sequence[str]) -> str:
    return next_step.after_tune(options, CHOSEN)
