"""The commands, one row each; what a row names is imported when it is used."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class Command:
    """A command: what help says of it, its options, and the function of these and a watch.

    ``options`` stand below `zelo_ray`, and ``run`` below `zelo_ray.commands`, as ``module:NAME``;
    ``kind`` is what a record calls results that the command can read again.
    """

    group: str
    purpose: str
    options: str
    run: str
    kind: str = ""
    report: str = ""
    """builds the report of `Results`, below `zelo_ray.commands`; empty if there is none"""
    protocols: bool = False
    """whether it takes the options of protocols, too"""


# A table of two lines a row.
# fmt: off
COMMANDS = {
    "annotate": Command("judge", "judge pools and write relevance scores",
        "options:AnnotateOptions", "annotate.run:run", kind="annotate",
        report="annotate.report:build_report", protocols=True),
    "fit": Command("judge", "fit ratings to comparisons of any origin",
        "command_options:FitOptions", "adapter:fit"),
    "bakeoff": Command("compare", "compare rerankers and test which differences are significant",
        "command_options:BakeoffOptions", "bakeoff.run:run", kind="bakeoff",
        report="bakeoff.report:build_report"),
    "compare": Command("compare",
        "find which protocol, instructions or judges judge like people, and at what cost",
        "command_options:CompareOptions", "adapter:compare", kind="compare",
        report="compare.report:build_report", protocols=True),
    "probe": Command("compare",
        "find what moves a judge that should not: length, query words, orders",
        "command_options:ProbeOptions", "adapter:probe", kind="probe",
        report="probe.report:build_report"),
    "label": Command("people",
        "draw documents or pairs for people to judge, and collect their answers",
        "command_options:LabelOptions", "adapter:label"),
    "agree": Command("people", "measure judges against people and each other",
        "command_options:AgreeOptions", "agree.run:run", kind="agree",
        report="agree.report:build_report"),
    "prompt": Command("inspect", "show the exact requests to judges, without any call",
        "command_options:PromptOptions", "adapter:prompt", protocols=True),
    "explain": Command("inspect",
        "show a query or document, its score, and the judgments behind it",
        "command_options:ExplainOptions", "explain.run:run"),
    "report": Command("inspect", "write report.html again, or a list of several runs",
        "command_options:ReportOptions", "adapter:report"),
    "watch": Command("inspect", "show how a run stands while it is at work elsewhere",
        "command_options:WatchOptions", "adapter:watch"),
    "doctor": Command("maintain", "check this machine, its keys and judges before a run",
        "command_options:DoctorOptions", "adapter:doctor"),
    "convert": Command("maintain", "write pools, judgments and runs in other formats",
        "command_options:ConvertOptions", "adapter:convert"),
    "batches": Command("maintain", "list pending batches at providers, or cancel them",
        "command_options:BatchesOptions", "adapter:batches"),
    "sample": Command("maintain",
        "write the sample data: pools, recorded judges, a run and people's grades",
        "command_options:SampleOptions", "adapter:sample"),
}
# fmt: on
"""By name, in the order of help."""


def import_name(name: str) -> Any:
    """Import ``module:NAME``."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"zelo_ray.{module}"), attribute)


def options_of(name: str) -> Any:
    """Return the options of a command."""
    return import_name(COMMANDS[name].options)


def load(name: str, values: Mapping[str, Any]) -> Any:
    """Load the options of a command from flags, keywords and what a file says."""
    kind = options_of(name)
    if COMMANDS[name].protocols:
        kind = import_name("protocols:refine_options")(kind, values)
    return import_name("options:load_options")(kind, values)


def report_of_kind(kind: str) -> Any:
    """Return how results of a kind become a report; None if there is no such kind."""
    for name, command in COMMANDS.items():
        if kind and command.kind == kind and not command.report:
            module = name.replace("-", "_")
            return import_name(f"commands.{module}.report:{module.upper()}_REPORT")
    return None


def results_of(out: str, **more: str) -> Any:
    """Return the results in a directory or URL as their command returned them.

    None if there are none whose command is known. ``more`` is what its report is to hold besides.
    """
    from zelo_ray.errors import ExitStatus, InputError  # noqa: PLC0415 - paid where it is used
    from zelo_ray.files.run_record import RUN, is_finished, read_record  # noqa: PLC0415 - as above
    from zelo_ray.files.storage import exists  # noqa: PLC0415 - as above
    from zelo_ray.report.results import Results  # noqa: PLC0415 - as above

    place = out.rstrip("/") or "/"
    record = read_record(f"{place}/{RUN}") if exists(f"{place}/{RUN}") else {}
    command = COMMANDS.get(str(record.get("kind")))
    if not (command and command.report and is_finished(record)):
        return None
    make = import_name(f"commands.{command.report}")

    def build(results: Results) -> Any:
        try:
            return make(results, **more)
        except (KeyError, TypeError, ValueError):
            files = ", ".join([RUN, *(f"{name}.parquet" for name in results.tables)])
            raise InputError(f"{place}: {files}: of another version, or damaged") from None

    status = ExitStatus(record.get("status", 0))
    return Results(record, None, place, build=build, status=status)
