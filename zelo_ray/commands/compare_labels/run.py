"""Run `compare-labels`: compare old and new labels of a benchmark, and report what changes."""

from dataclasses import replace

from zelo_ray.command_options import CompareLabelsOptions
from zelo_ray.commands.compare_labels import compare_labels
from zelo_ray.commands.compare_labels.report import COMPARE_LABELS_REPORT
from zelo_ray.engine.job import Watch
from zelo_ray.reports import next_step
from zelo_ray.reports.parts import Report


def run(options: CompareLabelsOptions, _watch: Watch) -> Report:
    """Compare old and new labels, and report leaderboards, gaps and contradictions.

    Raises:
        OptionError: ``out`` holds other results, or the measure is unknown.
        InputError: an input cannot be read, or no query has both labels.
    """
    record, tables = compare_labels(options)
    report = COMPARE_LABELS_REPORT.report(tables, record, options.out)
    step = next_step.after_compare_labels(options)
    return replace(report, next_step=lambda _words: step)
