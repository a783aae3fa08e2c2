"""Run `agree`: compare judges with people and with each other, and report it."""

from dataclasses import replace

from zelo_ray.command_options import AgreeOptions
from zelo_ray.commands.agree import agree
from zelo_ray.commands.agree.report import AGREE_REPORT
from zelo_ray.engine.job import Watch
from zelo_ray.reports import next_step
from zelo_ray.reports.parts import Report


def run(options: AgreeOptions, _watch: Watch) -> Report:
    """Measure how far judges agree with people and with each other, and report it.

    Raises:
        OptionError: a coefficient is unknown, or ``out`` holds other results.
        InputError: an input cannot be read, or there is nothing to compare.
    """
    measured = agree(options)
    report = AGREE_REPORT.report(measured.tables, measured.record, options.out)
    step = next_step.after_agree(options, grades=len(measured.tables["grading"]) > 0)
    return replace(report, next_step=lambda _words: step)
