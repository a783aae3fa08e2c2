"""The command line: ``zelo-ray annotate``, ``bakeoff``, ``convert``, ``explain`` and others."""

import io
import os
import sys
from collections.abc import Sequence

import zelo_ray
from zelo_ray.cli.arguments import parse
from zelo_ray.cli.runs import COMPLETE, RUN, show
from zelo_ray.errors import ZeloError
from zelo_ray.formats.wording import printable
from zelo_ray.options import COMMANDS

WRONG = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names and texts may hold what it cannot say
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except BrokenPipeError:  # as in `| head`: who read this has read enough, and needs no line
        return WRONG
    finally:
        try:
            print(end="", flush=True)
        except OSError:  # else Python tries again as it ends, and tells of it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: Sequence[str]) -> int:
    """Run one command; tell in one line what keeps it from its end."""
    try:
        status = _command(words)
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


def _command(words: Sequence[str]) -> int:
    if words[:1] == ["--version"]:
        show(f"zelo-ray {zelo_ray.__version__}")
    elif words[:1] in (["--help"], ["-h"]):
        show(
            "usage: zelo-ray COMMAND ..., or zelo-ray COMMAND --help",
            "",
            (zelo_ray.__doc__ or "").partition("\n")[0],
            "",
        )
        show(*(f"  {name:18} {COMMANDS[name].does}" for name in COMMANDS))
    else:
        name, options = parse(words)
        return RUN[name](options)
    return COMPLETE


def _complain(what: object, status: int) -> int:
    print(printable(f"zelo-ray: {what}"), file=sys.stderr)
    return status
