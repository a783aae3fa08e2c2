"""Assign documents or pairs to people in order of priority, each to one person at a time."""

import hashlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from zelo_ray.commands.label.store import Answers, now
from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.errors import InputError
from zelo_ray.files.labels import Ids, LabelUnit, PersonsAnswer

_OPEN_SECONDS = 600.0
_SWAPPED = "-ba"


@dataclass(frozen=True, slots=True)
class SampleItem:
    """A document or pair of the sample, as people see it.

    ``key`` identifies it. A pair's ends in ``-ba`` where the second document is shown first.
    """

    key: str
    query: str
    texts: tuple[str, ...]
    ids: Ids
    raters_wanted: int
    """the number of people who should judge it"""
    swapped: bool = False

    def in_order_for(self, person: str) -> "SampleItem":
        """Return the item as a person sees it: the order of a pair is drawn for each person."""
        digest = hashlib.sha256(f"{self.key}:{person}".encode()).digest()
        return self.swap() if self.texts[1:] and digest[0] % 2 else self

    def swap(self) -> "SampleItem":
        """Return the pair in the other order."""
        return replace(self, key=self.key + _SWAPPED, texts=self.texts[::-1], swapped=True)

    def turn(self, value: float | None) -> float | None:
        """Turn a preference as it was given into that of the pair as it is stored, or back."""
        return -value if self.swapped and value else value


@dataclass(frozen=True, slots=True)
class LabelProgress:
    """Progress of the work, counted in documents or pairs."""

    done: int
    of: int
    yours: int
    second: int
    """of those judged, how many need a second person"""


class LabelDesk:
    """Assigns the documents or pairs of a sample, and saves the answers. Thread-safe.

    Args:
        sample: ids, query, texts, key and twice, in order.
        answers: the saved ones.
        unit: whether they are documents or pairs.
        clock: passed in by tests.
    """

    def __init__(
        self, sample: pa.Table, answers: Answers, unit: LabelUnit, clock: Clock = CLOCK
    ) -> None:
        self.items = [
            SampleItem(
                *(row["key"], row["query"], tuple(row[name] for name in unit.texts)),
                ids=tuple(row[name] for name in unit.ids),
                raters_wanted=2 if row["twice"] else 1,
            )
            for row in sample.to_pylist()
        ]
        self.answers, self.unit = answers, unit
        self._by_key = {item.key: item for item in self.items}
        self._lock, self._clock = threading.RLock(), clock
        self._keys = {item.ids: item.key for item in self.items}
        self._open: dict[str, tuple[Ids, float]] = {}
        """by person, what is before them, and until when it is theirs alone"""

    def assign_next(self, person: str) -> dict[str, Any]:
        """Assign the next document or pair to a person; return it with the progress."""
        with self._lock:
            return self._next(person)

    def save_answer(
        self, person: str, key: str, value: float | None, note: str = ""
    ) -> dict[str, Any]:
        """Save an answer, durably, and return what comes next.

        The same answer sent again, as after a lost reply, is saved once.

        Raises:
            InputError: there is no such document, pair or answer.
            OSError: the disk does not take it.
        """
        with self._lock:
            self.save_answers([(self.find(key), person, value, note)])
            return self._next(person)

    def save_answers(self, entries: Iterable[tuple[SampleItem, str, float | None, str]]) -> int:
        """Save items with a person, an answer as it was given, and a note: all of them or none.

        Returns:
            How many are new.

        Raises:
            InputError: there is no such answer.
            OSError: the disk does not take them.
        """
        new = list[PersonsAnswer]()
        with self._lock:
            for item, person, value, note in entries:
                self._check_value(value)
                before = self.answers.current.get(item.ids, {}).get(person)
                answer = PersonsAnswer(
                    now(), person, item.ids, item.turn(value), note=note, swapped=item.swapped
                )
                if before is None or before.value != answer.value or note not in ("", before.note):
                    new.append(answer)
            self.answers.append(new)
        return len(new)

    def _check_value(self, value: float | None) -> None:
        values = self.unit.values
        if value is not None and value not in values:
            raise InputError(
                f"{value} is not a {self.unit.answer} from {min(values):g} to {max(values):g}"
            )

    def undo(self, person: str, key: str) -> dict[str, Any]:
        """Undo a person's answer on a document or pair, and assign it to them again.

        Raises:
            InputError: there is no such document or pair.
            OSError: the disk does not take it.
        """
        with self._lock:
            shown = self.find(key)
            answer = self.answers.current.get(shown.ids, {}).get(person)
            if answer:
                self.answers.append([PersonsAnswer(now(), person, shown.ids, undo=True)])
            value = shown.in_order_for(person).turn(answer.value) if answer else None
            before = {"before": value, "note": answer.note if answer else ""}
            return self._assign(person, shown) | before

    def close(self) -> None:
        """Wait for an answer that is being saved, and accept no more."""
        with self._lock:
            self.answers.close()

    def progress(self, person: str) -> LabelProgress:
        """Return the progress, as one person sees it."""
        with self._lock:
            answers = self.answers.current
            rows = [(item, answers.get(item.ids, {})) for item in self.items]
            return LabelProgress(
                done=sum(bool(people) for _, people in rows),
                of=len(rows),
                yours=sum(person in people for _, people in rows),
                second=sum(len(people) == 1 < item.raters_wanted for item, people in rows),
            )

    def find(self, key: str) -> SampleItem:
        """Find the document or pair that a key stands for, in the order that it was shown.

        Raises:
            InputError: nothing has this key.
        """
        if item := self._by_key.get(key):
            return item
        if (item := self._by_key.get(key.removesuffix(_SWAPPED))) and item.texts[1:]:
            return item.swap()
        raise InputError(f"no {self.unit.name} of this sample has the key {key!r}")

    def items_for(self, person: str) -> Sequence[SampleItem]:
        """Return what still needs an answer which this person can give, as they see it.

        The items are in order, but first come those without which later answers do not count.
        """
        items, missed = list[SampleItem](), {item.key for item in self.skipped_items()}
        for item in self.items:
            answers = self.answers.current.get(item.ids, {})
            if len(answers) < item.raters_wanted and person not in answers:
                items.append(item)
        items.sort(key=lambda item: item.key not in missed)
        return [item.in_order_for(person) for item in items]

    def skipped_items(self) -> Sequence[SampleItem]:
        """Return the unanswered items that come before an answered one, in order."""
        open_ = [item.ids not in self.answers.current for item in self.items]
        last = max((n for n, is_open in enumerate(open_) if not is_open), default=0)
        return [item for item, is_open in zip(self.items[:last], open_, strict=False) if is_open]

    def _next(self, person: str) -> dict[str, Any]:
        for shown in self.items_for(person):
            answers = self.answers.current.get(shown.ids, {})
            if len(answers) + self._count_others(shown.ids, person) < shown.raters_wanted:
                return self._assign(person, shown)
        return self._assign(person, None)

    def _assign(self, person: str, shown: SampleItem | None) -> dict[str, Any]:
        """Assign an item to this person alone."""
        self._open.pop(person, None)
        item = None
        if shown:
            self._open[person] = (shown.ids, self._clock.now() + _OPEN_SECONDS)
            shown = self.find(self._keys[shown.ids]).in_order_for(person)
            item = {"key": shown.key, "query": shown.query, "texts": shown.texts}
        last = self.answers.last_of(person)
        return {
            "item": item,
            "previous": self._keys.get(last.ids) if last else None,
            "progress": asdict(self.progress(person)),
        }

    def _count_others(self, ids: Ids, person: str) -> int:
        """Count the other people to whom an item is assigned."""
        now_ = self._clock.now()
        others = (item for who, item in self._open.items() if who != person)
        return sum(open_ == ids and until > now_ for open_, until in others)
