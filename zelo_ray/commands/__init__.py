"""The commands, one row each; what a row names is imported when it is used."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class Command:
    """A command: what help says of it, its options, and the function of these and a watch.

    ``options`` stand below `zelo_ray`, ``run`` and ``report`` below `zelo_ray.commands`, as
    ``module:NAME``. ``report`` builds the report of `Results`; empty if there is none.
    """

    group: str
    purpose: str
    options: str
    run: str
    report: str = ""
    protocols: bool = False
    """whether it takes the options of protocols, too"""


# A table of two lines a row.
# fmt: off
COMMANDS = {
    "annotate": Command("judge", "judge pools and write relevance scores",
        "options:AnnotateOptions", "annotate.run:run",
        report="annotate.report:build_report", protocols=True),
    "fit": Command("judge", "fit ratings to comparisons of any origin",
        "command_options:FitOptions", "fit:run"),
    "bakeoff": Command("compare", "compare rerankers and test which differences are significant",
        "command_options:BakeoffOptions", "bakeoff.run:run",
        report="bakeoff.report:build_report"),
    "compare": Command("compare",
        "find which protocol, instructions or judges judge like people, and at what cost",
        "command_options:CompareOptions", "compare.run:run",
        report="compare.report:build_report", protocols=True),
    "probe": Command("compare",
        "find what moves a judge that should not: length, query words, orders",
        "command_options:ProbeOptions", "probe.run:run",
        report="probe.report:build_report"),
    "label": Command("people",
        "draw documents or pairs for people to judge, and collect their answers",
        "command_options:LabelOptions", "label.run:run"),
    "agree": Command("people", "measure judges against people and each other",
        "command_options:AgreeOptions", "agree.run:run",
        report="agree.report:build_report"),
    "prompt": Command("inspect", "show the exact requests to judges, without any call",
        "command_options:PromptOptions", "prompt:run", protocols=True),
    "explain": Command("inspect",
        "show a query or document, its score, and the judgments behind it",
        "command_options:ExplainOptions", "explain:run"),
    "report": Command("inspect", "write report.html again, or a list of several runs",
        "command_options:ReportOptions", "report:run"),
    "watch": Command("inspect", "show how a run stands while it is at work elsewhere",
        "command_options:WatchOptions", "watch:run"),
    "doctor": Command("maintain", "check versions, keys, judges and servers before a run",
        "command_options:DoctorOptions", "doctor:run"),
    "convert": Command("maintain", "write pools, judgments and runs in other formats",
        "command_options:ConvertOptions", "convert.run:run"),
    "batches": Command("maintain", "list pending batches at providers, or cancel them",
        "command_options:BatchesOptions", "batches:run"),
    "sample": Command("maintain",
        "write the sample data: pools, recorded judges, a run and people's grades",
        "command_options:SampleOptions", "sample:run"),
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


def load_results(out: str, **more: str) -> Any:
    """Return the results in a directory or URL as their command returned them.

    ``more`` is what its report is to hold besides. Raises `NotFoundError` if there are none, or the
    run is not finished, and `InputError` if a file is damaged.
    """
    from zelo_ray.errors import ExitStatus, InputError, NotFoundError  # noqa: PLC0415 - when used
    from zelo_ray.files import run_record  # noqa: PLC0415 - as above
    from zelo_ray.files.storage import exists  # noqa: PLC0415 - as above
    from zelo_ray.report.results import Results  # noqa: PLC0415 - as above

    place = out.rstrip("/") or "/"
    url = f"{place}/{run_record.RUN}"
    if not exists(url):
        raise NotFoundError(f"{place} has no run.json: is it the --out of a finished run?")
    record = run_record.read_record(url)
    if not run_record.is_finished(record):
        raise NotFoundError(run_record.unfinished_message(place))
    command = COMMANDS.get(str(record.get("kind")))
    if not (command and command.report):
        raise InputError(f"{url}: is of another version, or damaged")
    make = import_name(f"commands.{command.report}")

    def build(results: Results) -> Any:
        try:
            return make(results, **more)
        except (KeyError, TypeError, ValueError):
            files = ", ".join(["run.json", *(f"{name}.parquet" for name in results.tables)])
            raise InputError(f"{place}: {files}: of another version, or damaged") from None

    status = ExitStatus(record.get("status", 0))
    return Results(record, None, place, build=build, status=status)
