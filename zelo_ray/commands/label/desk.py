"""Assign documents to people in order of priority, each to one person at a time."""

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from zelo_ray.commands.label.store import Answers, now
from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.errors import InputError
from zelo_ray.formats.judgments.answers import Pair, PersonsAnswer

_OPEN_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class SampleDocument:
    """A document of the sample, as people see it; ``key`` identifies it."""

    key: str
    query: str
    document: str
    pair: Pair
    raters_wanted: int
    """the number of people who should judge it"""


@dataclass(frozen=True, slots=True)
class LabelProgress:
    """Progress of the work, counted in documents."""

    done: int
    of: int
    yours: int
    second: int
    """judged documents that need a second person"""


class LabelDesk:
    """Assigns the documents of a sample, and saves the answers. Thread-safe.

    Args:
        sample: query_id, doc_id, query, document, key and twice, in order.
        answers: the saved ones.
        top: the highest grade.
        clock: passed in by tests.
    """

    def __init__(self, sample: pa.Table, answers: Answers, top: int, clock: Clock = CLOCK) -> None:
        self.documents = [
            SampleDocument(
                *(row["key"], row["query"], row["document"]),
                pair=(row["query_id"], row["doc_id"]),
                raters_wanted=2 if row["twice"] else 1,
            )
            for row in sample.to_pylist()
        ]
        self.answers, self.top = answers, top
        self._by_key = {document.key: document for document in self.documents}
        self._lock, self._clock = threading.RLock(), clock
        self._keys = {document.pair: document.key for document in self.documents}
        self._open: dict[str, tuple[Pair, float]] = {}
        """by person, the document before them, and until when it is theirs alone"""

    def assign_next(self, person: str) -> dict[str, Any]:
        """Assign the next document to a person; return it with the progress."""
        with self._lock:
            return self._next(person)

    def save_answer(self, person: str, key: str, grade: float | None) -> dict[str, Any]:
        """Save an answer, durably, and return the next document.

        The same answer sent again, as after a lost reply, is saved once.

        Raises:
            InputError: there is no such document or grade.
            OSError: the disk does not take it.
        """
        with self._lock:
            shown = self.find(key)
            if grade is not None and grade not in range(self.top + 1):
                raise InputError(f"{grade} is not a grade from 0 to {self.top}")
            answer = self.answers.current.get(shown.pair, {}).get(person)
            if answer is None or answer.grade != grade:
                self.answers.append([PersonsAnswer(now(), person, *shown.pair, grade)])
            return self._next(person)

    def undo(self, person: str, key: str) -> dict[str, Any]:
        """Undo a person's answer on a document, and assign it to them again.

        Raises:
            InputError: there is no such document.
            OSError: the disk does not take it.
        """
        with self._lock:
            shown = self.find(key)
            answer = self.answers.current.get(shown.pair, {}).get(person)
            if answer:
                self.answers.append([PersonsAnswer(now(), person, *shown.pair, undo=True)])
            return self._assign(person, shown) | {"before": answer.grade if answer else None}

    def close(self) -> None:
        """Wait for an answer that is being saved, and accept no more."""
        with self._lock:
            self.answers.close()

    def progress(self, person: str) -> LabelProgress:
        """Return the progress, as one person sees it."""
        with self._lock:
            answers = self.answers.current
            rows = [(document, answers.get(document.pair, {})) for document in self.documents]
            return LabelProgress(
                done=sum(bool(people) for _, people in rows),
                of=len(rows),
                yours=sum(person in people for _, people in rows),
                second=sum(len(people) == 1 < document.raters_wanted for document, people in rows),
            )

    def find(self, key: str) -> SampleDocument:
        """Find the document that a key stands for.

        Raises:
            InputError: no document has this key.
        """
        if key not in self._by_key:
            raise InputError(f"no document of this sample has the key {key!r}")
        return self._by_key[key]

    def documents_for(self, person: str) -> Sequence[SampleDocument]:
        """Return the documents that still need an answer which this person can give.

        They are in order, but first come those without which later answers do not count.
        """
        documents, missed = (
            list[SampleDocument](),
            {document.key for document in self.skipped_documents()},
        )
        for shown in self.documents:
            answers = self.answers.current.get(shown.pair, {})
            if len(answers) < shown.raters_wanted and person not in answers:
                documents.append(shown)
        return sorted(documents, key=lambda document: document.key not in missed)

    def skipped_documents(self) -> Sequence[SampleDocument]:
        """Return the unanswered documents that come before an answered one, in order."""
        open_ = [document.pair not in self.answers.current for document in self.documents]
        last = max((n for n, document in enumerate(open_) if not document), default=0)
        return [
            document
            for document, is_open in zip(self.documents[:last], open_, strict=False)
            if is_open
        ]

    def _next(self, person: str) -> dict[str, Any]:
        for shown in self.documents_for(person):
            answers = self.answers.current.get(shown.pair, {})
            if len(answers) + self._count_others(shown.pair, person) < shown.raters_wanted:
                return self._assign(person, shown)
        return self._assign(person, None)

    def _assign(self, person: str, shown: SampleDocument | None) -> dict[str, Any]:
        """Assign a document to this person alone."""
        self._open.pop(person, None)
        text = None
        if shown:
            self._open[person] = (shown.pair, self._clock.now() + _OPEN_SECONDS)
            text = {"key": shown.key, "query": shown.query, "document": shown.document}
        last = self.answers.last_of(person)
        return {
            "document": text,
            "previous": self._keys.get(last.pair) if last else None,
            "progress": asdict(self.progress(person)),
        }

    def _count_others(self, pair: Pair, person: str) -> int:
        """Count the other people to whom a document is assigned."""
        now_ = self._clock.now()
        others = (item for who, item in self._open.items() if who != person)
        return sum(open_ == pair and until > now_ for open_, until in others)
