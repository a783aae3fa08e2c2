"""The commands, one row each; what a row names is imported when it is used."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

_OPTIONS, _COMMANDS = "zelo_ray.options", "zelo_ray.commands"


@dataclass(frozen=True, slots=True)
class Command:
    """A command; ``options`` is a model, ``run`` a function of these and a watch."""

    group: str
    purpose: str
    options: str
    run: str
    kind: str = ""
    """what its record calls its results"""
    report: str = ""
    """how results that are on disk become a report"""
    protocols: bool = False
    """whether it takes the options of protocols, too"""


COMMANDS = {
    "annotate": Command(
        "judge",
        "judge pools and write relevance scores",
        f"{_OPTIONS}.judging:AnnotateOptions",
        f"{_COMMANDS}.adapter:annotate",
        "annotate",
        f"{_COMMANDS}.annotate.report:ANNOTATE_REPORT",
        protocols=True,
    ),
    "fit": Command(
        "judge",
        "fit ratings to comparisons of any origin",
        f"{_OPTIONS}.files:FitOptions",
        f"{_COMMANDS}.adapter:fit",
    ),
    "bakeoff": Command(
        "compare",
        "compare rerankers and test which differences are significant",
        f"{_OPTIONS}.bakeoff:BakeoffOptions",
        f"{_COMMANDS}.bakeoff.run:run",
        "bakeoff",
        f"{_COMMANDS}.bakeoff.report:BAKEOFF_REPORT",
    ),
    "compare-protocols": Command(
        "compare",
        "compare protocols at equal cost",
        f"{_OPTIONS}.comparing:CompareProtocolsOptions",
        f"{_COMMANDS}.adapter:compare_protocols",
        "protocols",
        f"{_COMMANDS}.compare_protocols.report:COMPARE_PROTOCOLS_REPORT",
        protocols=True,
    ),
    "tune": Command(
        "compare",
        "find which instructions, template, panel or protocol judges like people",
        f"{_OPTIONS}.comparing:TuneOptions",
        f"{_COMMANDS}.adapter:tune",
        "tune",
        f"{_COMMANDS}.tune.report:TUNE_REPORT",
        protocols=True,
    ),
    "compare-labels": Command(
        "compare",
        "show what new labels change",
        f"{_OPTIONS}.agree:CompareLabelsOptions",
        f"{_COMMANDS}.compare_labels.run:run",
        "compare",
        f"{_COMMANDS}.compare_labels.report:COMPARE_LABELS_REPORT",
    ),
    "drift": Command(
        "compare",
        "find out whether judges changed between two runs on the same pools",
        f"{_OPTIONS}.agree:DriftOptions",
        f"{_COMMANDS}.drift.run:run",
        "drift",
        f"{_COMMANDS}.drift.report:DRIFT_REPORT",
    ),
    "probe": Command(
        "compare",
        "find what moves a judge that should not: length, query words, orders",
        f"{_OPTIONS}.comparing:ProbeOptions",
        f"{_COMMANDS}.adapter:probe",
        "probe",
        f"{_COMMANDS}.probe.report:PROBE_REPORT",
    ),
    "label": Command(
        "people",
        "draw documents or pairs for people to judge, and collect their answers",
        f"{_OPTIONS}.label:LabelOptions",
        f"{_COMMANDS}.adapter:label",
    ),
    "agree": Command(
        "people",
        "measure judges against people and each other",
        f"{_OPTIONS}.agree:AgreeOptions",
        f"{_COMMANDS}.agree.run:run",
        "agree",
        f"{_COMMANDS}.agree.report:AGREE_REPORT",
    ),
    "prompt": Command(
        "inspect",
        "show the exact requests to judges, without any call",
        f"{_OPTIONS}.judging:PromptOptions",
        f"{_COMMANDS}.adapter:prompt",
        protocols=True,
    ),
    "explain": Command(
        "inspect",
        "show a query or document, its score, and the judgments behind it",
        f"{_OPTIONS}.inspecting:ExplainOptions",
        f"{_COMMANDS}.adapter:explain",
    ),
    "report": Command(
        "inspect",
        "write report.html again, or a list of several runs",
        f"{_OPTIONS}.inspecting:ReportOptions",
        f"{_COMMANDS}.adapter:report",
    ),
    "watch": Command(
        "inspect",
        "show how a run stands while it is at work elsewhere",
        f"{_OPTIONS}.inspecting:WatchOptions",
        f"{_COMMANDS}.adapter:watch",
    ),
    "doctor": Command(
        "maintain",
        "check this machine, its keys and judges before a run",
        f"{_OPTIONS}.inspecting:DoctorOptions",
        f"{_COMMANDS}.adapter:doctor",
    ),
    "convert": Command(
        "maintain",
        "write pools, judgments and runs in other formats",
        f"{_OPTIONS}.files:ConvertOptions",
        f"{_COMMANDS}.adapter:convert",
    ),
    "batches": Command(
        "maintain",
        "list pending batches at providers, or cancel them",
        f"{_OPTIONS}.inspecting:BatchesOptions",
        f"{_COMMANDS}.adapter:batches",
    ),
    "sample": Command(
        "maintain",
        "write the sample data: pools, recorded judges, a run and people's grades",
        f"{_OPTIONS}.inspecting:SampleOptions",
        f"{_COMMANDS}.adapter:sample",
    ),
}
"""By name, in the order of help."""


def import_name(name: str) -> Any:
    """Import what a row names, as ``module:NAME``."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def load(name: str, values: Mapping[str, Any], config: str = "") -> Any:
    """Load the options of a command from flags or keywords, and the text of a YAML file.

    Raises:
        OptionError: an option is unknown, out of range, or of other protocols.
    """
    from zelo_ray.options.base import load_options  # noqa: PLC0415 - a list of commands needs none

    command = COMMANDS[name]
    refine = import_name("zelo_ray.protocols:refine_options") if command.protocols else None
    return load_options(import_name(command.options), values, config, refine=refine)


def report_of_kind(kind: str) -> Any:
    """Return how results of a kind become a report; None if there is no such kind."""
    names = (command.report for command in COMMANDS.values() if command.kind == kind and kind)
    return next(map(import_name, names), None)
