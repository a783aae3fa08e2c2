"""Store answers in an append-only file, durably."""

import errno
import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from zelo_ray.files.labels import (
    CurrentAnswers,
    PersonsAnswer,
    current_answers,
    read_answers,
)
from zelo_ray.files.run_record import ANSWERS
from zelo_ray.files.storage import sync_path

_TORN = "answers.torn"


class Answers:
    """The saved answers of people; only one process may open them.

    Args:
        out: directory of the labels.
        say: gets a message if a killed process left a torn line.

    Raises:
        InputError: the file is not a file of answers.
    """

    def __init__(self, out: str, say: Callable[[str], None]) -> None:
        self._path = Path(out) / ANSWERS
        self._said = list[PersonsAnswer]()
        if self._path.exists():
            self._said, end = read_answers(str(self._path))
            self._set_aside(end, say)
        else:
            self._path.touch()
            sync_path(self._path.parent)
        self._end = self._path.stat().st_size
        self.current: CurrentAnswers = current_answers(self._said)
        self._closed = False

    def _set_aside(self, end: int, say: Callable[[str], None]) -> None:
        """Move a torn last line to another file; complete a good one that lacks its line break."""
        with self._path.open("r+b") as file:
            data = file.read()
            if torn := data[end:]:
                with self._path.with_name(_TORN).open("ab") as aside:
                    aside.write(torn + b"\n")
                file.truncate(end)
                say(
                    f"{self._path}: moved an incomplete last line to {_TORN}; it was never "
                    "reported as saved."
                )
            elif data and not data.endswith(b"\n"):
                file.write(b"\n")

    def append(self, answers: Iterable[PersonsAnswer]) -> None:
        """Append answers: all of them durably, or on an error none.

        Raises:
            OSError: they cannot be written.
        """
        new = [*answers]
        if not new:
            return
        if self._closed:
            raise OSError(errno.ESHUTDOWN, "the server has ended")
        payload = b"".join(answer.to_json_line() for answer in new)
        end = self._end + len(payload)
        with self._path.open("ab", buffering=0) as file:  # a buffer would write the rest on close
            try:
                while payload:
                    payload = payload[file.write(payload) :]
                os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), self._end)
                raise
        self._end = end
        self._said += new
        self.current = current_answers(self._said)

    def close(self) -> None:
        """Accept no more answers: another process may use the directory from now on."""
        self._closed = True

    def last_of(self, person: str) -> PersonsAnswer | None:
        """Return the last valid answer of a person: the one that they can undo."""
        answers = (
            answer for answer in reversed(self._said) if answer.person == person and not answer.undo
        )
        return next((answer for answer in answers if self._stands(answer)), None)

    def _stands(self, answer: PersonsAnswer) -> bool:
        return self.current.get(answer.ids, {}).get(answer.person) is answer


def now() -> str:
    """Return the time in the format of answers."""
    return datetime.now(UTC).isoformat(timespec="seconds")
