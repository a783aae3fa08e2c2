"""Define what a kind of report is, and read the results that it is built from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.reports.parts import Report
from zelo_ray.reports.source import MemorySource, Source

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReportKind:
    """Kind of report: what files the results of one command have, and what is made of them.

    Attributes:
        record_name: the file that says what ran and how it went, such as ``run.json``.
        files: which files the last line of the command names.
        fields: what the record holds when the command has ended.
        rows: by table, what its rows are: one kind, or several of which each lacks some columns.
        build: makes the report from the tables and the record.
        headline: makes the most telling figure from them: its name and its value.
        is_complete: tells from the record whether all that was asked for is there.
    """

    record_name: str
    files: Sequence[str]
    fields: frozenset[str]
    rows: Mapping[str, Sequence[type]]
    build: Callable[[Source, Record], Report]
    headline: Callable[[Source, Record], tuple[str, str]]
    is_complete: Callable[[Record], bool]

    def source(self, out: str, shown: str = "") -> Source:
        """Return the tables in a directory or URL; ``shown`` is what it is called, if not so."""
        return Source(out, shown, self.rows)

    def read(self, out: str, updates: Record | None = None, shown: str = "") -> Report:
        """Read the results in a directory or URL.

        Args:
            out: where they are.
            updates: what stands in the place of fields of the record.
            shown: what the place is called, if not so.

        Raises:
            InputError: a file is missing, damaged, or lacks what it should hold.
        """
        source = self.source(out, shown)
        record = {**source.record(self.record_name), **(updates or {})}
        if lacking := self.fields - record.keys():
            raise InputError(f"{source.shown}/{self.record_name}: holds no {min(lacking)}")
        return self._report(source, record, out)

    def report(self, tables: Mapping[str, pa.Table], record: Record, out: str | None) -> Report:
        """Report tables that are in memory, and were written to ``out`` if that is given."""
        return replace(self._report(MemorySource(tables), record, out or ""), tables=tables)

    def _report(self, source: Source, record: Record, out: str) -> Report:
        return replace(
            self.build(source, record),
            out=out,
            files=self.files,
            record=record,
            complete=self.is_complete(record),
        )
