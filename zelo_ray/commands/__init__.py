"""The commands, one row each; what a row names is imported when it is used."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple


class Command(NamedTuple):
    """A command: what help says of it, and the modules of its function and its report.

    They have ``run(options, watch)`` and ``build_report(results)``; ``protocols``: it takes their
    options, too.
    """

    group: str
    purpose: str
    run: str
    report: str = ""
    protocols: bool = False


_PURPOSES = {
    "judge": {
        "annotate": "judge pools and write relevance scores",
        "fit": "fit ratings to comparisons of any origin",
    },
    "compare": {
        "bakeoff": "compare rerankers and test which differences are significant",
        "compare": "find which protocol, instructions or judges judge like people, and at what "
        "cost",
        "probe": "find what moves a judge that should not: length, query words, orders",
    },
    "people": {
        "label": "draw documents or pairs for people to judge, and collect their answers",
        "agree": "measure judges against people and each other",
    },
    "inspect": {
        "prompt": "show the exact requests to judges, without any call",
        "explain": "show a query or document, its score, and the judgments behind it",
        "report": "write report.html again, or a list of several runs",
        "watch": "show how a run stands while it is at work elsewhere",
    },
    "maintain": {
        "doctor": "check versions, keys, judges and servers before a run",
        "convert": "write pools, judgments and runs in other formats",
        "batches": "list pending batches at providers, or cancel them",
        "sample": "write the sample data: pools, recorded judges, a run and people's grades",
    },
}
_REPORTING = ("annotate", "bakeoff", "compare", "probe", "agree")
_PACKAGES = (*_REPORTING, "label", "convert")
COMMANDS = {
    name: Command(
        group,
        purpose,
        f"{name}.run" if name in _PACKAGES else name,
        f"{name}.report" if name in _REPORTING else "",
        name in ("annotate", "compare", "prompt"),
    )
    for group, purposes in _PURPOSES.items()
    for name, purpose in purposes.items()
}
"""By name, in the order of help; what they name is imported when it is used."""


def import_name(name: str) -> Any:
    """Import ``module:NAME``."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"zelo_ray.{module}"), attribute)


def options_of(name: str) -> Any:
    """Return the options of a command."""
    return import_name(f"command_options:{name.title()}Options")


def load(name: str, values: Mapping[str, Any]) -> Any:
    """Load the options of a command from flags, keywords and what a file says."""
    kind = options_of(name)
    if COMMANDS[name].protocols:
        kind = import_name("protocols:refine_options")(kind, values)
    return import_name("options:load_options")(kind, values)


def load_results(out: str, **more: str) -> Any:
    """Return the results in a directory or URL as their command returned them.

    ``more`` is for its report. Raises `NotFoundError` if there are none or the run is not finished.
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
    make = import_name(f"commands.{command.report}:build_report")

    def build(results: Results) -> Any:
        try:
            return make(results, **more)
        except (KeyError, TypeError, ValueError):
            files = ", ".join(["run.json", *(f"{name}.parquet" for name in results.tables)])
            raise InputError(f"{place}: {files}: of another version, or damaged") from None

    status = ExitStatus(record.get("status", 0))
    return Results(record, None, place, build=build, status=status)
