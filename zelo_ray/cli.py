"""The command line: ``zelo-ray annotate``, ``bakeoff``, ``convert``, ``explain`` and others."""

import argparse
import contextlib
import errno
import gc
import io
import json
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, get_args, get_origin

import zelo_ray
from zelo_ray.commands import COMMANDS, load, options_of
from zelo_ray.errors import ExitStatus, OptionError, Stopped, ZeloError, format_error
from zelo_ray.files.wording import describe_other_bytes, printable, without_passwords
from zelo_ray.names import did_you_mean
from zelo_ray.options import (
    OTHERS,
    CommandOptions,
    flag_of,
    group_of,
    has_flag,
    is_collection_of,
    read_config,
)

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pydantic.fields import FieldInfo

    from zelo_ray.engine.job import Watch
    from zelo_ray.report.results import Results
    from zelo_ray.report.terminal import Line
    from zelo_ray.report.watches import MessageStream

PROGRESS_FORMS = ("text", "json", "none")
_JSON, _PROGRESS = "--json", "--progress"
_FIRST_STEPS = """begin with:
  zelo-ray doctor
  zelo-ray sample data
  zelo-ray annotate data/sample --judges recorded:data/recordings --out out
  zelo-ray explain out --query tick-removal --doc tick-removal-01"""
_INTERRUPTED = "interrupted; calls in flight, if any, are lost, and what was recorded is kept"
_SYSTEM_ERRORS = {
    errno.EEXIST: "is there, and is no directory; name another place",
    errno.ENOTDIR: "a part of this path is a file, where a directory is needed",
}
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    if argv is None:  # started from a shell
        signal.signal(signal.SIGINT, _interrupt)
        gc.set_threshold(100_000)  # by default a tenth of a short command's time goes into it
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # texts may have characters that it cannot encode
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
            again = isinstance(error, Stopped)
            return output.fail(error, error.code(), error.exit_status, again=again)
        except BrokenPipeError:
            raise
        except OSError as error:
            if error.filename and error.errno in _DISK_FULL:
                what = "the disk is full; make room and run the same command again"
                return output.fail(f"{error.filename}: {what}", "disk_full", again=True)
            explained = _SYSTEM_ERRORS.get(error.errno or 0) if error.filename else None
            what = explained or error.strerror or str(error)
            return output.fail(f"{error.filename or 'output'}: {what}", "system")
        except KeyboardInterrupt:
            return output.fail(_INTERRUPTED, "interrupted", again=True)
        except Exception as error:  # a bug: a program is told of it in the form that it reads
            if not output.is_for_programs:
                raise
            traceback.print_exc()
            return output.fail(f"unexpected error: {format_error(error)}", "bug")
    return status


def _command(output: "Output") -> int:
    words = output.words
    if words[:1] == ["--version"]:
        print_lines(f"zelo-ray {zelo_ray.__version__}")
    elif words[:1] in (["--help"], ["-h"]):
        print_lines(*_help())
    else:
        for word in [*words, os.getcwd()]:  # noqa: PTH109 - raises if the folder is gone
            if message := describe_other_bytes(word):
                raise OptionError(message)
        print_lines(*(() if words else _help()))
        name, options = parse_command(words, _warn)
        from zelo_ray.commands.running import run_command

        with output.watch() as watch:
            results = run_command(name, options.with_typed(words), watch)
        return output.show(results)
    return ExitStatus.COMPLETE


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
    yield from ("", *_FIRST_STEPS.split("\n"))


def _warn(line: str) -> None:
    print(printable(f"zelo-ray: {line}"), file=sys.stderr)


# --- words to options -----------------------------------------------------------------------------


def parse_command(
    words: Sequence[str], warn: Callable[[str], None] = lambda _: None
) -> tuple[str, CommandOptions]:
    """Parse the command that the words name, and its options, and take the keys of ``.env``."""
    name = words[0] if words else ""
    if name not in COMMANDS:
        unknown = f"no such command {name!r}{did_you_mean(name, COMMANDS)}"
        raise OptionError(f"{unknown if name else 'give a command'}; zelo-ray --help shows all")
    parser, kind = make_parser(name, words[1:])
    namespace, others = parser.parse_known_args(words[1:])
    if others:
        parser.error(_describe_unknown(others, kind))
    typed = [word.partition("=")[0] for word in words if word.startswith("--") and word != "--"]
    if twice := [flag for flag in typed if typed.count(flag) > 1]:
        parser.error(f"{twice[0]} is given twice; give it once, followed by all its values")
    values = {each: value for each, value in vars(namespace).items() if each in kind.model_fields}
    values = {each: value for each, value in values.items() if value or each not in kind.positional}
    config = read_config(getattr(namespace, "config", ""))
    options: CommandOptions = load(name, {**config, **values})
    from zelo_ray.providers.dotenv import take_keys

    for line in take_keys(options, os.environ):
        if name != "doctor":  # which reports it itself
            warn(f".env: {line}")
    return name, options


class _Parser(argparse.ArgumentParser):
    """A parser that raises OptionError with a message of one line."""

    def error(self, message: str) -> NoReturn:
        complaint = message.removeprefix("argument ")
        raise OptionError(f"{self.prog.partition(' ')[2]}: {complaint}; {self.prog} --help")


def make_parser(
    name: str, words: Sequence[str] = ()
) -> tuple[argparse.ArgumentParser, type[CommandOptions]]:
    """Return the parser of a command with a flag for each option that has one, and its options."""
    command, kind = COMMANDS[name], options_of(name)
    is_help, names = bool({"--help", "-h"} & {*words}), list[str]()
    if command.protocols:
        from zelo_ray import protocols

        first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        first.add_argument(
            "--protocol", "--try", dest="own", nargs="*", action="extend", default=[]
        )
        own = protocols.tried_protocols(first.parse_known_args(words)[0].own)
        kind = protocols.options_with_all_protocols(kind, filter(protocols.is_own_protocol, own))
        names = protocols.protocol_names() if is_help else [*protocols.PROTOCOLS]
    parser = _Parser(
        prog=f"zelo-ray {name}",
        usage=f"zelo-ray {kind.usage} ...",
        description=f"{command.purpose[0].upper()}{command.purpose[1:]}.",
        allow_abbrev=False,
    )
    groups: dict[str, Any] = {OTHERS.title: parser}
    add = partial(parser.add_argument, default=argparse.SUPPRESS)
    add("--config", metavar="FILE", help="YAML file of options; flags override it")
    add(_JSON, action="store_true", help="print the result as one JSON document")
    add(_PROGRESS, choices=PROGRESS_FORMS, help="show progress as text, as JSON lines, or not")
    for option, field in _in_order(kind, words if name == "convert" and is_help else ()):
        title = group_of(field).title
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        is_positional, text = option in kind.positional, field.description or ""
        if option == "protocol" and names:
            text += f": {', '.join(names)}"
        if not field.is_required() and field.default not in (None, (), "", False):
            text += f" (default {field.default})"
        shape = _shape(option, field, positional=is_positional)
        groups[title].add_argument(
            option if is_positional else flag_of(option),
            default=argparse.SUPPRESS,
            help=text.replace("%", "%%"),
            **(shape if is_positional else {**shape, "dest": option}),
        )
    return parser, kind


def _in_order(kind: type[CommandOptions], words: Sequence[str]) -> "list[tuple[str, FieldInfo]]":
    """Return the options with a flag, positional and own ones first; of a format only its own."""
    fields = kind.model_fields
    own = [name for name in fields if name in kind.__annotations__]
    names = [*dict.fromkeys([*kind.positional, *own, *fields])]
    for format_name in words[:1]:
        from zelo_ray.command_options import OPTIONS_OF_FORMAT

        first = ("what", "out", "columns", *OPTIONS_OF_FORMAT.get(format_name, names))
        names = [name for name in names if name in first]
    flags = [(name, fields[name]) for name in names if has_flag(fields[name])]
    return sorted(flags, key=lambda each: group_of(each[1]).last)


def _shape(name: str, field: "FieldInfo", *, positional: bool) -> dict[str, Any]:
    """Return argparse's arguments for the number of values and their placeholder."""
    plain = {field.annotation, *get_args(field.annotation)}
    if field.annotation is bool:
        return {"action": "store_true"}
    is_list = is_collection_of(field.annotation, tuple)
    if get_origin(field.annotation) is Literal:
        metavar = f"{{{','.join(get_args(field.annotation))}}}"
    elif not is_list and plain & {int, float}:
        metavar = "N" if int in plain else "X"
    else:
        metavar = name.rstrip("_").rpartition("_")[2].upper()
        metavar = metavar.removesuffix("S") if is_list else metavar
    if positional:
        return {"metavar": metavar, "nargs": "*" if is_list else "?"}
    some = {"nargs": "*" if field.default is None else "+"}
    return {"metavar": metavar, **some} if is_list else {"metavar": metavar}


def _describe_unknown(words: Sequence[str], kind: type[CommandOptions]) -> str:
    """Name the first unknown argument, and suggest a flag."""
    flag = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
    if not flag:
        return f"unexpected {words[0]!r}"
    name = flag[2:].replace("-", "_")
    if name in kind.model_fields:
        return f"{name} has no flag: write it into a file (YAML), and name that by --config"
    flags = [flag_of(n) for n, f in kind.model_fields.items() if has_flag(f)]
    return f"no such option {flag}{did_you_mean(flag, flags)}"


# --- results and progress -------------------------------------------------------------------------


def take_output_flags(words: Sequence[str]) -> tuple[list[str], bool, str]:
    """Return the words without ``--json`` and ``--progress FORM``, and what these ask for."""
    rest, as_json, progress = list[str](), False, "text"
    for word in words:
        flag, _, value = word.partition("=")
        if word == _JSON:
            as_json = True
        elif flag == _PROGRESS and value in PROGRESS_FORMS:
            progress = value
        elif rest[-1:] == [_PROGRESS] and word in PROGRESS_FORMS:
            rest.pop()
            progress = word
        else:
            rest.append(word)
    return rest, as_json, progress


class Output:
    """Shows the result of a command, its progress and its messages, as text or as JSON."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words, self._as_json, self._progress = take_output_flags(words)
        if {"-h", "--help", "--version"} & {*words}:  # text, whatever else is asked for
            self._as_json, self._progress = False, "text"
        self.is_for_programs = self._as_json or self._progress == "json"
        self._command = self.words[0] if self.words and self.words[0] in COMMANDS else ""
        self._title = COMMANDS[self._command].purpose if self._command else ""
        self._stdout, self._closing = sys.stdout, contextlib.ExitStack()
        self._events: MessageStream | None = None

    def __enter__(self) -> Self:
        if self._progress == "json":
            from zelo_ray.report.watches import MessageStream

            self._events = MessageStream(sys.stderr)
            self._closing.enter_context(contextlib.redirect_stderr(self._events))
            self._closing.callback(self._events.finish)
        if self._as_json:  # what libraries print is no part of the document
            self._closing.enter_context(contextlib.redirect_stdout(sys.stderr))
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def watch(self) -> "AbstractContextManager[Watch]":
        """Return the watch that shows the progress of a command."""
        if self._progress == "text":
            from zelo_ray.report.watches import make_display

            return make_display()
        from zelo_ray.report.watches import MessagesOnly, ProgressEvents

        return ProgressEvents(self._events) if self._progress == "json" else MessagesOnly()

    def show(self, results: "Results") -> int:
        """Write the page of results and print them; return the exit status."""
        from zelo_ray.commands.running import next_line
        from zelo_ray.report.terminal import make_console

        if results.page:
            results.write_report()
        if self._as_json:
            self._write(results.to_document(self._command, self._title))
            return results.status
        print_lines(*results.render(make_console().width), *filter(None, [next_line(results)]))
        return results.status

    def fail(
        self,
        error: object,
        code: str,
        status: ExitStatus = ExitStatus.FAILED,
        *,
        again: bool = False,
    ) -> int:
        """Print an error as one line, and its notes; return the exit status."""
        notes = [*getattr(error, "__notes__", ())]
        for line in (f"zelo-ray: {error}", *notes):
            print(printable(line), file=sys.stderr)
        if self._as_json:
            from zelo_ray.report.document import make_document

            fields = {"code": code, "message": str(error), "notes": notes}
            step = without_passwords(shlex.join(["zelo-ray", *self.words])) if again else None
            values = {"error": fields, "next_command": step}
            self._write(make_document(self._command, self._title, status, **values))
        return status

    def _write(self, document: Mapping[str, Any]) -> None:
        if isinstance(self._stdout, io.TextIOWrapper):
            self._stdout.reconfigure(encoding="utf-8")
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
        print(text, file=self._stdout, flush=True)


def print_lines(*parts: "Line") -> None:
    """Print lines and tables, with control characters escaped."""
    for part in parts:
        if isinstance(part, str):
            print(printable(part))
        else:
            from zelo_ray.report.terminal import make_console

            make_console().print(part)
