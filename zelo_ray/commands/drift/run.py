"""Run `drift`: find the judges that changed between two runs, and report them."""

from dataclasses import replace

from zelo_ray.command_options import DriftOptions
from zelo_ray.commands.drift import drift, record_of, tables_of
from zelo_ray.commands.drift.report import DRIFT_REPORT
from zelo_ray.engine.job import Watch
from zelo_ray.reports import next_step
from zelo_ray.reports.parts import Report


def run(options: DriftOptions, _watch: Watch) -> Report:
    """Find the judges of a panel that changed between two runs on the same pools.

    Raises:
        OptionError: ``out`` holds other results.
        InputError: an input cannot be read, or the two share too few judgments.
    """
    changes = drift(options)
    report = DRIFT_REPORT.report(tables_of(changes), record_of(changes, options), options.out)
    step = next_step.after_drift(options)
    return replace(report, is_worse=changes.moved, next_step=lambda _words: step)
