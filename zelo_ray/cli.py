"""The command line: ``zelo-ray annotate``, ``bakeoff``, ``convert``, ``explain`` and others."""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin

from dotenv import find_dotenv, load_dotenv
from rich.console import Console
from rich.table import Table

from zelo_ray import __version__
from zelo_ray.commands import agree, convert
from zelo_ray.commands import compare_labels as compare
from zelo_ray.commands.batches import list_batches
from zelo_ray.commands.explain import explain
from zelo_ray.errors import OptionError, ZeloError
from zelo_ray.formats.wording import printable
from zelo_ray.options import (
    AnnotateOptions,
    AskingOptions,
    BakeoffOptions,
    CompareProtocolsOptions,
    Kind,
    load_options,
)
from zelo_ray.options.places import check_url
from zelo_ray.present.html import write_report
from zelo_ray.present.terminal import labels
from zelo_ray.present.terminal.annotate import closing
from zelo_ray.present.terminal.bakeoff import standings
from zelo_ray.present.terminal.display import Display
from zelo_ray.present.terminal.protocols import terminal
from zelo_ray.protocols import load

COMPLETE, WRONG, INCOMPLETE = 0, 1, 3
_WIDE = 160  # characters of a line that no terminal shows


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names and texts may hold what it cannot say
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(argv)
    except BrokenPipeError:  # as in `| head`: who read this has read enough, and needs no line
        return WRONG
    finally:
        try:
            print(end="", flush=True)
        except OSError:  # else Python tries again as it ends, and tells of it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(argv: Sequence[str] | None) -> int:
    """Run one command; tell in one line what keeps it from its end."""
    try:
        status = _command(argv)
        print(end="", flush=True)
    except ZeloError as error:
        return _complain(error, error.exit_status)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _complain(f"{error.filename or 'output'}: {error.strerror or error}", WRONG)
    except KeyboardInterrupt:
        return _complain("interrupted; calls in flight were lost, all else is kept", WRONG)
    return status


def _command(argv: Sequence[str] | None) -> int:
    _read_dotenv()
    parser = _Parser(prog="zelo-ray", description=__doc__)
    parser.add_argument("--version", action="version", version=f"zelo-ray {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    annotating = commands.add_parser("annotate", help="judge pools, write relevance scores")
    contesting = commands.add_parser("bakeoff", help="compare rerankers, with what is sure of it")
    comparing = commands.add_parser(
        "compare-protocols",
        aliases=["protocols"],
        help="compare ways of judging at equal cost",
    )
    for each, kind in (
        (annotating, AnnotateOptions),
        (contesting, BakeoffOptions),
        (comparing, CompareProtocolsOptions),
    ):
        each.add_argument("--config", help="YAML file of options; flags win over it")
        _add_options(each, kind)
    explaining = commands.add_parser("explain", help="show the judgments behind scores")
    explaining.add_argument("--query", required=True, help="query id")
    explaining.add_argument("--doc", help="document id; without it, what was said of all of them")
    reporting = commands.add_parser("report", help="write report.html anew, or of what there is")
    listing = commands.add_parser("batches", help="list what lies in batches at providers")
    listing.add_argument("--cancel", action="store_true", help="cancel those that have not ended")
    converting = commands.add_parser("convert", help="pools, judgments and runs, to other formats")
    convert.add_arguments(converting)
    agreeing = commands.add_parser("agree", help="measure judges, against people and each other")
    agree.add_arguments(agreeing)
    relabelled = commands.add_parser("compare-labels", help="show what new labels change")
    compare.add_arguments(relabelled)
    for each in (explaining, reporting, listing):
        each.add_argument("dir", help="output directory or URL of annotate")
    arguments = vars(parser.parse_args(argv))
    command = {
        "agree": _agree,
        "annotate": _annotate,
        "bakeoff": _bakeoff,
        "batches": _batches,
        "compare-labels": _compare,
        "convert": _convert,
        "explain": _explain,
        "compare-protocols": _protocols,
        "protocols": _protocols,
        "report": _report,
    }[arguments.pop("command")]
    return command(arguments)


def _read_dotenv() -> None:
    try:
        load_dotenv(find_dotenv(usecwd=True))
    except (OSError, ValueError) as error:
        raise OptionError(f".env: cannot be read ({error})") from None


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints steer no terminal: arguments may be file names of others."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def _add_options(parser: argparse.ArgumentParser, kind: type[AskingOptions]) -> None:
    """A flag for each option that a flag can hold; pydantic does the rest."""
    for name, field in kind.model_fields.items():
        many = get_origin(field.annotation) is tuple
        if get_origin(field.annotation) is dict:
            continue
        if name == "inputs":
            parser.add_argument(name, nargs="*", default=argparse.SUPPRESS, help=field.description)
            continue
        plain = not (many or field.is_required() or field.default is None)
        default = f" (default {field.default})" if plain else ""
        shape: dict[str, Any] = {"nargs": "+"} if many else {}
        if field.annotation is bool:
            shape, default = {"action": "store_true"}, ""
        if get_origin(field.annotation) is Literal:
            shape["metavar"] = f"{{{','.join(get_args(field.annotation))}}}"
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            default=argparse.SUPPRESS,
            help=f"{field.description}{default}",
            **shape,
        )


def _options(kind: type[Kind], arguments: dict[str, Any]) -> Kind:
    """What flags, variables and the config file say together."""
    flags = {name: value for name, value in arguments.items() if value not in (None, [])}
    config = flags.pop("config", None)
    try:
        text = Path(config).read_text(encoding="utf-8") if config else ""
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{config}: cannot be read ({error})") from None
    return load_options(kind, flags, os.environ, text)


def _annotate(arguments: dict[str, Any]) -> int:
    options = _options(AnnotateOptions, arguments)
    load(options.protocol)
    if options.dry_run:
        _print(*_preview(options))
        return COMPLETE
    from zelo_ray.on_ray import annotate  # noqa: PLC0415 - Ray takes seconds to import

    with Display() as display:
        summary = annotate(options, display)
    write_report(options.out)
    _print(*closing(summary, options))
    if summary.pilot_of:
        _print("", f"This was a pilot, of {summary.queries:,} of {summary.pilot_of:,} queries.")
        _print(*_preview(options))
        _print("The same command without --pilot goes on; nothing is paid for twice.", "")
    _print(f"results: {summary.out}/annotated.jsonl, scores.parquet, report.html")
    return COMPLETE if summary.complete else INCOMPLETE


def _bakeoff(arguments: dict[str, Any]) -> int:
    options = _options(BakeoffOptions, arguments)
    from zelo_ray.on_ray.bakeoff import bakeoff  # noqa: PLC0415 - Ray takes seconds to import

    with Display() as display:
        outcome = bakeoff(options, display)
    write_report(options.out)
    _print(*standings(outcome, _console().width))
    _print(f"results: {options.out}/metrics.parquet, comparisons.parquet, report.html")
    return COMPLETE if outcome.complete else INCOMPLETE


def _protocols(arguments: dict[str, Any]) -> int:
    options = _options(CompareProtocolsOptions, arguments)
    from zelo_ray.on_ray.compare_protocols import planned, protocols  # noqa: PLC0415 - Ray takes seconds to import

    if options.dry_run:
        from zelo_ray.commands.dry_run import previews  # noqa: PLC0415 - scipy takes a second to import

        with planned(options, Display()) as each:
            _print(*previews(each, os.environ))
        return COMPLETE
    outcome = protocols(options, Display)
    write_report(options.out)
    _print(*terminal(outcome, _console().width))
    tables = "trials.parquet, differences.parquet, costs.parquet"
    _print(f"results: {options.out}/{tables}, report.html")
    return COMPLETE if outcome.complete else INCOMPLETE


def _console() -> Console:
    console = Console(highlight=False)
    console.width = console.width if console.is_terminal else _WIDE
    return console


def _print(*parts: str | Table) -> None:
    """Print lines and tables; an id of somebody's cannot steer the terminal."""
    for part in parts:
        if isinstance(part, str):
            print(printable(part))
        else:
            _console().print(part)


def _preview(options: AnnotateOptions) -> list[str]:
    from zelo_ray.commands.dry_run import preview  # noqa: PLC0415 - scipy takes a second to import

    return preview(options, os.environ)


def _batches(arguments: dict[str, Any]) -> int:
    place = _place(arguments["dir"])
    table = list_batches(place, os.environ, cancel=arguments["cancel"])
    _print(table)
    return COMPLETE


def _agree(arguments: dict[str, Any]) -> int:
    told = agree.run(arguments)
    if out := arguments["out"]:
        write_report(out)
    _print(*told.text.split("\n"))
    return COMPLETE if told.complete else INCOMPLETE


def _compare(arguments: dict[str, Any]) -> int:
    out, compared = arguments["out"], compare.run(arguments)
    if out:
        write_report(out)
    _print(*labels.told(compared))
    if out:
        names = ", ".join(f"{name}.parquet" for name in compare.TABLES)
        _print("", f"results: {out}/compare.json, {names}, report.html")
    return COMPLETE if compared.complete else INCOMPLETE


def _convert(arguments: dict[str, Any]) -> int:
    _print(*convert.run(arguments).split("\n"))
    return COMPLETE


def _explain(arguments: dict[str, Any]) -> int:
    place = _place(arguments["dir"])
    told = explain(place, arguments["query"], arguments["doc"])
    _print(*told.split("\n"))
    return COMPLETE


def _report(arguments: dict[str, Any]) -> int:
    place = _place(arguments["dir"])
    if told := write_report(place):
        _print(told)
    _print(f"{arguments['dir']}/report.html")
    return COMPLETE


def _place(url: str) -> str:
    try:
        return check_url(url)
    except ValueError as error:
        raise OptionError(str(error)) from None


def _complain(what: object, status: int) -> int:
    print(printable(f"zelo-ray: {what}"), file=sys.stderr)
    return status
