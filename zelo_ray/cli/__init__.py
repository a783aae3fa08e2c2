"""The command line: ``zelo-ray annotate``, ``bakeoff``, ``convert``, ``explain`` and others."""

import errno
import gc
import io
import json
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence

import zelo_ray
from zelo_ray.cli.output import Output, print_lines
from zelo_ray.commands import COMMANDS
from zelo_ray.errors import ExitStatus, OptionError, Stopped, ZeloError, format_error
from zelo_ray.files.wording import is_utf8, not_utf8_message, printable

FIRST_STEPS = """begin with:
  zelo-ray doctor
  zelo-ray sample data
  zelo-ray annotate data/sample --judges recorded:data/recordings --out out
  zelo-ray explain out --query tick-removal --doc tick-removal-01"""

_NO_FOLDER = {
    errno.EEXIST: "is there, and is no directory; name another place",
    errno.ENOTDIR: "a part of this path is a file, where a directory is needed",
}
"""What is said of places where a directory cannot be made, by the error."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    if argv is None:  # started from a shell
        signal.signal(signal.SIGINT, _interrupt)
        gc.set_threshold(100_000)  # by default a tenth of a short command's time goes into it
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
    line = "zelo-ray: interrupted again, ended at once"
    if hasattr(sys.stderr, "write_event"):  # its lines are JSON
        line = json.dumps({"event": "message", "text": line})
    os.write(2, f"{line}\n".encode())
    os._exit(ExitStatus.FAILED)


def _run(words: Sequence[str]) -> int:
    """Run one command; print any error as one line."""
    with Output(words) as output:
        try:
            status = _command(output)
            print(end="", flush=True)
        except ZeloError as error:
            again = _command_again(output) if isinstance(error, Stopped) else None
            return output.fail(error, error.exit_status, error.code(), again)
        except BrokenPipeError:
            raise
        except OSError as error:
            if error.filename and error.errno in (errno.ENOSPC, errno.EDQUOT):
                do = "the disk is full; make room and run the same command again"
                message, again = f"{error.filename}: {do}", _command_again(output)
                return output.fail(message, ExitStatus.FAILED, "disk_full", again)
            what = _NO_FOLDER.get(error.errno or 0) if error.filename else ""
            message = f"{error.filename or 'output'}: {what or error.strerror or error}"
            return output.fail(message, ExitStatus.FAILED, "system")
        except KeyboardInterrupt:
            message = (
                "interrupted; calls in flight, if any, are lost, and what was recorded is kept"
            )
            again = _command_again(output)
            return output.fail(message, ExitStatus.FAILED, "interrupted", again)
        except Exception as error:  # a bug: a program is told of it in the form that it reads
            if not output.is_for_programs:
                raise
            traceback.print_exc()
            message = f"unexpected error: {format_error(error)}"
            return output.fail(message, ExitStatus.FAILED, "bug")
    return status


def _command_again(output: Output) -> str:
    """Return the typed command, without the flags that choose the form of its output."""
    return shlex.join(["zelo-ray", *output.words])


def _command(output: Output) -> int:
    words = output.words
    if words[:1] == ["--version"]:
        print_lines(f"zelo-ray {zelo_ray.__version__}")
    elif words[:1] in (["--help"], ["-h"]):
        print_lines(*_help())
    else:
        _refuse_odd_bytes([*words, os.getcwd()])  # noqa: PTH109 - raises if the folder is gone
        print_lines(*(() if words else _help()))
        from zelo_ray.cli.flags import parse_command

        name, options = parse_command(output.typed, _warn)
        from zelo_ray.commands.adapter import run_command

        with output.watch() as watch:
            result = run_command(name, options, watch, words)
        return output.show(result)
    return ExitStatus.COMPLETE


def _refuse_odd_bytes(words: Sequence[str]) -> None:
    """Refuse arguments, and a working directory, of bytes that are not UTF-8.

    Raises:
        OptionError: there is one.
    """
    if odd := next((word for word in words if not is_utf8(word)), ""):
        raise OptionError(not_utf8_message(odd))


def _help() -> Iterator[str]:
    """Yield the help: commands grouped by purpose, and some to begin with."""
    yield "usage: zelo-ray COMMAND ..., or zelo-ray COMMAND --help"
    yield ""
    yield (zelo_ray.__doc__ or "").partition("\n")[0]
    group = ""
    for name, command in COMMANDS.items():
        yield from ("", command.group) if command.group != group else ()
        yield f"  {name:18} {command.purpose}"
        group = command.group
    yield from ("", *FIRST_STEPS.split("\n"))


def _warn(line: str) -> None:
    print(printable(f"zelo-ray: {line}"), file=sys.stderr)
