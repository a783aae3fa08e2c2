"""Run `compare-protocols`: judge what people labelled by several protocols, and report."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from zelo_ray.command_options import CompareProtocolsOptions
from zelo_ray.commands.compare_protocols.plans import make_plans
from zelo_ray.commands.compare_protocols.report import COMPARE_PROTOCOLS_REPORT
from zelo_ray.engine.job import Watch
from zelo_ray.engine.lock import remove_folders_if_refused
from zelo_ray.reports import next_step
from zelo_ray.reports.parts import Report


def run(options: CompareProtocolsOptions, watch: Watch) -> Report:
    """Compare protocols on what people labelled, and report agreement and cost.

    Raises:
        InputError, OptionError, PanelError, OptionError, LockError, LedgerError: before
            anything was asked.
        Stopped: while asking; nothing that was paid for is lost.
    """
    from zelo_ray.commands.compare_protocols.job import (  # noqa: PLC0415 - Ray takes seconds
        measure_protocols,
    )

    with remove_folders_if_refused(options.out, options.ledger_dir):
        outcome = measure_protocols(options, watch)
    report = COMPARE_PROTOCOLS_REPORT.read(options.out)
    if not outcome.best:
        return report
    return replace(report, next_step=partial(_next_step, options, outcome.best))


def _next_step(options: CompareProtocolsOptions, best: str, words: Sequence[str]) -> str:
    of_best = options.model_copy(update={"protocols": (best,)})
    (plan,) = make_plans(of_best, options.inputs).values()
    return next_step.after_compare_protocols(options.out, plan, words)
