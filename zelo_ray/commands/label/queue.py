"""Give the documents or pairs of a sample to people by priority, and store their answers."""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.errors import InputError
from zelo_ray.files.labels import (
    CurrentAnswers,
    Ids,
    PersonsAnswer,
    current_answers,
    read_answers,
    unit_of_sample,
)
from zelo_ray.files.run_record import ANSWERS
from zelo_ray.files.storage import sync_path

_TORN = "answers.torn"
_SWAPPED = "-ba"
_OPEN_SECONDS = 600.0
"""How long a document that is before a person is given to nobody else."""


@dataclass(frozen=True, slots=True)
class LabelTask:
    """A document or pair of the sample as people see it, and how many of them should judge it.

    The key of a pair ends in ``-ba`` where its second document is shown first.
    """

    key: str
    query: str
    texts: tuple[str, ...]
    ids: Ids
    copies: int = 1
    swapped: bool = False

    def swap(self) -> "LabelTask":
        """Return the pair in the other order."""
        return replace(self, key=self.key + _SWAPPED, texts=self.texts[::-1], swapped=True)

    def order_for(self, person: str) -> "LabelTask":
        """Return the task as a person sees it: the order of a pair is drawn for each person."""
        digest = hashlib.sha256(f"{self.key}:{person}".encode()).digest()
        return self.swap() if self.texts[1:] and digest[0] % 2 else self

    def turn(self, value: float | None) -> float | None:
        """Turn a preference as it was given into that of the pair as it is stored, or back."""
        return -value if self.swapped and value else value


class Answers:
    """The answers in ``answers.jsonl``, which is only ever added to, durably."""

    def __init__(self, out: str, say: Callable[[str], None]) -> None:
        self._path, self._all = Path(out) / ANSWERS, list[PersonsAnswer]()
        if self._path.exists():
            self._all, end = read_answers(str(self._path))
            self._mend_end(end, say)
        else:
            self._path.touch()
            sync_path(self._path.parent)
        self._end = self._path.stat().st_size
        self.current: CurrentAnswers = current_answers(self._all)

    def _mend_end(self, end: int, say: Callable[[str], None]) -> None:
        """Move a torn last line to another file; complete a whole one that lacks its line break."""
        with self._path.open("r+b") as file:
            data = file.read()
            if torn := data[end:]:
                with self._path.with_name(_TORN).open("ab") as other:
                    other.write(torn + b"\n")
                file.truncate(end)
                say(f"{self._path}: an incomplete last line, which nobody saw saved, is in {_TORN}")
            elif data and not data.endswith(b"\n"):
                file.write(b"\n")

    def append(self, answers: Iterable[PersonsAnswer]) -> None:
        """Append answers: all of them durably, or, with an `OSError`, none."""
        new = [*answers]
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
        self._all += new
        self.current = current_answers(self._all)

    def by(self, ids: Ids) -> dict[str, PersonsAnswer]:
        """Return the current answers on a document or pair, by person."""
        return self.current.get(ids, {})

    def last_of(self, person: str) -> PersonsAnswer | None:
        """Return the last current answer of a person: the one that they can take back."""
        answers = (answer for answer in reversed(self._all) if answer.person == person)
        return next((each for each in answers if self.by(each.ids).get(person) is each), None)


class LabelQueue:
    """The tasks of a sample in order of priority, each before one person at a time."""

    def __init__(
        self,
        out: str,
        about: Mapping[str, Any],
        tasks: Sequence[LabelTask],
        say: Callable[[str], None],
        clock: Clock = CLOCK,
    ) -> None:
        self.out, self.about, self.tasks = out, about, tasks
        self.unit, self.answers, self._clock = unit_of_sample(about), Answers(out, say), clock
        self._by_key = {task.key: task for task in tasks}
        self._by_ids = {task.ids: task for task in tasks}
        self._open: dict[str, tuple[Ids, float]] = {}
        """by person, what is before them, and until when it is theirs alone"""

    def next(self, person: str) -> dict[str, Any]:
        """Give a person the next task; return what the page shows."""
        now = self._clock.now()
        others = [open_ for who, open_ in self._open.items() if who != person]
        for task in self.unanswered(person):
            at_work = sum(ids == task.ids and until > now for ids, until in others)
            if len(self.answers.by(task.ids)) + at_work < task.copies:
                return self._show(person, task)
        return self._show(person, None)

    def answer(self, person: str, key: str, value: float | None, note: str) -> dict[str, Any]:
        """Save an answer, durably, and give the next task."""
        self.save([(self.find(key), person, value, note)])
        return self.next(person)

    def save(self, entries: Iterable[tuple[LabelTask, str, float | None, str]]) -> int:
        """Save tasks with a person, an answer as it was given and a note; return how many are new.

        All are saved or, with the errors of `answer`, none. An answer that is sent again, as after
        a lost reply, is saved once.
        """
        new, values = list[PersonsAnswer](), (None, *self.unit.values)
        for task, person, value, note in entries:
            if value not in values:
                raise InputError(f"{value} is not {self.unit.words}")
            before, turned = self.answers.by(task.ids).get(person), task.turn(value)
            if before is None or before.value != turned or note not in ("", before.note):
                words = (_now(), person, task.ids, turned)
                new.append(PersonsAnswer(*words, note=note, swapped=task.swapped))
        if new:
            self.answers.append(new)
        return len(new)

    def undo(self, person: str, key: str) -> dict[str, Any]:
        """Take back a person's answer, and give them its task again, with what they had said."""
        task = self._by_ids[self.find(key).ids].order_for(person)
        answer = self.answers.by(task.ids).get(person)
        if answer:
            self.answers.append([PersonsAnswer(_now(), person, task.ids, undo=True)])
        before = {"before": task.turn(answer.value), "note": answer.note} if answer else {}
        return self._show(person, task) | before

    def _show(self, person: str, task: LabelTask | None) -> dict[str, Any]:
        """Put a task before a person alone; return what the page shows."""
        self._open.pop(person, None)
        if task:
            self._open[person] = (task.ids, self._clock.now() + _OPEN_SECONDS)
        last = self.answers.last_of(person)
        return {
            "item": task and {"key": task.key, "query": task.query, "texts": task.texts},
            "previous": self._by_ids[last.ids].key if last and last.ids in self._by_ids else None,
            "progress": self.progress(person),
        }

    def progress(self, person: str = "") -> dict[str, int]:
        """Count the tasks: all, done, done by this person, and open for a second person."""
        answers = [(task, self.answers.by(task.ids)) for task in self.tasks]
        return {
            "of": len(answers),
            "done": sum(bool(people) for _, people in answers),
            "yours": sum(person in people for _, people in answers),
            "second": sum(len(people) == 1 < task.copies for task, people in answers),
        }

    def find(self, key: str) -> LabelTask:
        """Find the task of a key, in the order that was shown."""
        if task := self._by_key.get(key):
            return task
        if (task := self._by_key.get(key.removesuffix(_SWAPPED))) and task.texts[1:]:
            return task.swap()
        raise InputError(f"no {self.unit.name} of this sample has the key {key!r}")

    def unanswered(self, person: str) -> list[LabelTask]:
        """Return the tasks that this person can still answer, as they see them.

        They are in order, but first come those without which later answers do not count.
        """
        skipped = {task.key for task in self.skipped()}
        people = ((task, self.answers.by(task.ids)) for task in self.tasks)
        tasks = [task for task, by in people if len(by) < task.copies and person not in by]
        tasks.sort(key=lambda task: task.key not in skipped)
        return [task.order_for(person) for task in tasks]

    def skipped(self) -> list[LabelTask]:
        """Return the tasks without an answer that come before one with an answer."""
        answered = [bool(self.answers.by(task.ids)) for task in self.tasks]
        last = max((number for number, done in enumerate(answered) if done), default=0)
        return [task for task, done in zip(self.tasks[:last], answered, strict=False) if not done]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
