"""The command line: ``zelo-ray annotate``, ``bakeoff``, ``convert``, ``explain`` and others."""

import errno
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence

import zelo_ray
from zelo_ray.cli.printing import print_lines
from zelo_ray.cli.run_commands import RUN_COMMAND
from zelo_ray.errors import ExitStatus, OptionError, ZeloError
from zelo_ray.formats.wording import is_utf8, not_utf8_message, printable

COMMAND_GROUPS = {
    "judge": {
        "annotate": "judge pools and write relevance scores",
        "size": "estimate, without any call, how many calls a standard error takes",
        "fit": "fit ratings to comparisons of any origin",
    },
    "compare": {
        "bakeoff": "compare rerankers and test which differences are significant",
        "compare-protocols": "compare protocols at equal cost",
        "tune": "find which instructions, template, panel or protocol judges like people",
        "compare-labels": "show what new labels change",
        "drift": "find out whether judges changed between two runs on the same pools",
        "probe": "find what moves a judge that should not: length, query words, orders",
    },
    "people": {
        "label": "draw documents or pairs for people to judge, and collect their answers",
        "agree": "measure judges against people and each other",
    },
    "look": {
        "prompt": "show the exact requests to judges, without any call",
        "explain": "show a query or document, its score, and the judgments behind it",
        "report": "write report.html again, or of partial results; or an index of several runs",
        "watch": "show how a run stands while it is at work elsewhere",
    },
    "keep house": {
        "doctor": "check this machine, its keys and judges before a run",
        "pools": "ask a live search index for the candidates of queries",
        "convert": "write pools, judgments and runs in other formats",
        "batches": "list pending batches at providers, or cancel them",
        "compact": "merge the many small files of a ledger",
    },
}
PURPOSES = {name: does for group in COMMAND_GROUPS.values() for name, does in group.items()}
"""The purpose of each command, as in its options, whose import would take most of a second."""
FIRST_STEPS = """begin with:
  zelo-ray doctor
  zelo-ray annotate data/sample --judges offline --out out
  zelo-ray explain out --query tick-removal --doc tick-removal-01"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    if argv is None:  # started from a shell
        signal.signal(signal.SIGINT, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # names and texts may have characters that its encoding lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except BrokenPipeError:  # as in `| head`, which needs no message
        return ExitStatus.FAILED
    finally:
        try:
            print(end="", flush=True)
        except OSError:  # else Python tries again as it ends, and tells of it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupt(_number: int, _frame: object) -> None:
    """End the command; a second interrupt ends the process at once."""
    signal.signal(signal.SIGINT, _leave)
    raise KeyboardInterrupt


def _leave(_number: int, _frame: object) -> None:
    os.write(2, b"zelo-ray: interrupted again, ended at once\n")
    os._exit(ExitStatus.FAILED)


def _run(words: Sequence[str]) -> int:
    """Run one command; print any error as one line."""
    try:
        status = _command(words)
        print(end="", flush=True)
    except ZeloError as error:
        return _complain(error, error.exit_status)
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename and error.errno in (errno.ENOSPC, errno.EDQUOT):
            do = "the disk is full; make room and run the same command again"
            return _complain(f"{error.filename}: {do}", ExitStatus.FAILED)
        return _complain(
            f"{error.filename or 'output'}: {error.strerror or error}", ExitStatus.FAILED
        )
    except KeyboardInterrupt:
        return _complain(
            "interrupted; calls in flight were lost, everything else is kept", ExitStatus.FAILED
        )
    return status


def _command(words: Sequence[str]) -> int:
    if words[:1] == ["--version"]:
        print_lines(f"zelo-ray {zelo_ray.__version__}")
    elif words[:1] in (["--help"], ["-h"]):
        print_lines(*_help())
    else:
        _refuse_odd_bytes([*words, os.getcwd()])  # noqa: PTH109 - raises if the folder is gone
        print_lines(*(() if words else _help()))
        from zelo_ray.cli.arguments import parse_command

        name, options = parse_command(words, _warn)
        return RUN_COMMAND[name](options, [name, *words[1:]])
    return ExitStatus.COMPLETE


def _refuse_odd_bytes(words: Sequence[str]) -> None:
    """Refuse arguments, and a working directory, of bytes that are not UTF-8.

    Raises:
        OptionError: there is one.
    """
    if odd := next((word for word in words if not is_utf8(word)), ""):
        raise OptionError(not_utf8_message(odd))


def _help() -> Iterator[str]:
    """Yield the help: commands grouped by purpose, and three to begin with."""
    yield "usage: zelo-ray COMMAND ..., or zelo-ray COMMAND --help"
    yield ""
    yield (zelo_ray.__doc__ or "").partition("\n")[0]
    for title, commands in COMMAND_GROUPS.items():
        yield from ("", title, *(f"  {name:18} {does}" for name, does in commands.items()))
    yield from ("", *FIRST_STEPS.split("\n"))


def _warn(line: str) -> None:
    print(printable(f"zelo-ray: {line}"), file=sys.stderr)


def _complain(what: object, status: int) -> int:
    print(printable(f"zelo-ray: {what}"), file=sys.stderr)
    for note in getattr(what, "__notes__", ()):
        print(printable(note), file=sys.stderr)
    return status
