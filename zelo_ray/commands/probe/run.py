"""Run `probe`: find what moves a judge that should not, and report it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from zelo_ray.command_options import ProbeOptions
from zelo_ray.commands.probe.report import PROBE_REPORT
from zelo_ray.engine.job import Watch
from zelo_ray.engine.lock import remove_folders_if_refused
from zelo_ray.reports import next_step
from zelo_ray.reports.parts import Report


def run(options: ProbeOptions, watch: Watch) -> Report:
    """Change documents, have them judged, and report which judges moved.

    Raises:
        InputError, OptionError, PanelError, LockError, LedgerError: before anything was asked.
        Stopped: while asking; nothing that was paid for is lost.
    """
    from zelo_ray.commands.probe.job import probe_judges  # noqa: PLC0415 - it takes a second

    with remove_folders_if_refused(options.out, options.ledger_dir):
        probe_judges(options, watch)
    report = PROBE_REPORT.read(options.out)
    failing: Sequence[Sequence[str]] = report.record["failing"]
    step = partial(
        next_step.after_probe, options, failing=[*dict.fromkeys(judge for judge, _ in failing)]
    )
    return replace(report, is_worse=bool(failing), next_step=step)
