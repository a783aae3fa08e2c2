"""Show the result and the progress of a command: for people, or as JSON for programs."""

import contextlib
import io
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

from zelo_ray.commands import COMMANDS
from zelo_ray.errors import ExitStatus
from zelo_ray.files.wording import printable

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from zelo_ray.engine.job import Watch
    from zelo_ray.reports.document import CommandResult
    from zelo_ray.reports.progress.events import MessageStream
    from zelo_ray.reports.terminal import Line

PROGRESS_FORMS = ("text", "json", "none")
"""The values of ``--progress``."""
JSON, PROGRESS = "--json", "--progress"


class Output:
    """Shows the result of a command, its progress and its messages.

    Args:
        words: the typed words; flags in them choose the form.

    Attributes:
        typed: the words, beginning with the command.
        words: those without the flags that choose the form.
        command: the name of the command; empty if there is no such one.
    """

    def __init__(self, words: Sequence[str]) -> None:
        flags = [*words[: words.index("--")]] if "--" in words else [*words]
        is_text = bool({"-h", "--help", "--version"} & {*flags})  # whatever else is asked for
        self._as_json = JSON in flags and not is_text
        self._progress = "text" if is_text else _progress_form(flags)
        self.words = without_output_flags(words)
        first, at = self.words[:1], words.index(self.words[0]) if self.words else len(words)
        self.typed = [*first, *words[:at], *words[at + 1 :]]
        self.command = self.words[0] if self.words and self.words[0] in COMMANDS else ""
        self._stdout, self._closing = sys.stdout, contextlib.ExitStack()
        self._events: MessageStream | None = None

    def __enter__(self) -> Self:
        if self._progress == "json":
            from zelo_ray.reports.progress.events import MessageStream

            self._events = MessageStream(sys.stderr)
            self._closing.enter_context(contextlib.redirect_stderr(self._events))
            self._closing.callback(self._events.finish)
        if self._as_json:  # what libraries print is no part of the document
            self._closing.enter_context(contextlib.redirect_stdout(sys.stderr))
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @property
    def _title(self) -> str:
        return COMMANDS[self.command].purpose if self.command else ""

    @property
    def is_for_programs(self) -> bool:
        """Return whether one of the two streams is JSON."""
        return self._as_json or self._progress == "json"

    def watch(self) -> "AbstractContextManager[Watch]":
        """Return the watch that shows the progress of a command."""
        if self._progress == "json":
            from zelo_ray.reports.progress.events import ProgressEvents

            return ProgressEvents(self._events)
        if self._progress == "none":
            from zelo_ray.reports.progress.events import MessagesOnly

            return MessagesOnly()
        from zelo_ray.reports.progress.display import Display

        return Display()

    def show(self, result: "CommandResult") -> int:
        """Write the page of a result and print it; return the exit status."""
        report = result.report
        written = False
        if report and report.out:
            from zelo_ray.reports.page import write_page

            written = write_page(report)
        if self._as_json:
            from zelo_ray.reports.document import make_document

            self._write(make_document(self.command, self._title, result, self.words))
            return result.status
        if report:
            from zelo_ray.reports.terminal import make_console, render_lines

            width, has_page = make_console().width, bool(report.out)
            print_lines(*render_lines(report, width, with_warnings=written, has_page=has_page))
        print_lines(*result.lines)
        if step := result.next_step(self.words):
            from zelo_ray.reports.next_step import next_line

            print_lines(next_line(step))
        return result.status

    def fail(self, error: object, status: int, code: str, next_command: str | None = None) -> int:
        """Print an error as one line, and its notes; return the exit status.

        Args:
            error: its text is the message.
            status: the exit status.
            code: the word by which programs know the kind of error.
            next_command: for programs, the command that goes on from there.
        """
        notes = [*getattr(error, "__notes__", ())]
        print(printable(f"zelo-ray: {error}"), file=sys.stderr)
        for note in notes:
            print(printable(note), file=sys.stderr)
        if self._as_json:
            from zelo_ray.reports.document import make_error_document

            ended = ExitStatus(status)
            fields = {"code": code, "message": str(error), "notes": notes}
            document = make_error_document(self.command, self._title, fields, ended, next_command)
            self._write(document)
        return status

    def _write(self, document: Mapping[str, Any]) -> None:
        if isinstance(self._stdout, io.TextIOWrapper):
            self._stdout.reconfigure(encoding="utf-8")
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
        print(text, file=self._stdout, flush=True)


def _progress_form(words: Sequence[str]) -> str:
    """Return the form of progress that the words ask for; text if they name no known one."""
    for word, after in pairwise([*words, ""]):
        flag, joined, value = word.partition("=")
        form = value if joined else after
        if flag == PROGRESS and form in PROGRESS_FORMS:
            return form
    return "text"


def without_output_flags(words: Sequence[str]) -> list[str]:
    """Return the words without the flags that choose the form of the output."""
    rest, is_value = list[str](), False
    for word in words:
        if not is_value and word != JSON and word.partition("=")[0] != PROGRESS:
            rest.append(word)
        is_value = word == PROGRESS
    return rest


def print_lines(*parts: "Line") -> None:
    """Print lines and tables, with control characters escaped."""
    for part in parts:
        if isinstance(part, str):
            print(printable(part))
        else:
            from zelo_ray.reports.terminal import make_console

            make_console().print(part)
