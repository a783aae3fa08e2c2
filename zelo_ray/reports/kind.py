"""Define a kind of report: its files, and how it is built from the results of a command."""

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
    """A kind of report: the result files of one command, and how to build a report from them.

    Attributes:
        record_name: the file that records the run, such as ``run.json``.
        files: the files that the last line of the command names.
        fields: of the record when the command has ended.
        rows: by table, the type of its rows; of several types, each may lack some columns.
        build: builds the report from the tables and the record.
        is_complete: returns from the record whether the results are complete.
    """

    record_name: str
    files: Sequence[str]
    fields: frozenset[str]
    rows: Mapping[str, Sequence[type]]
    build: Callable[[Source, Record], Report]
    is_complete: Callable[[Record], bool]

    def read(self, out: str, updates: Record | None = None) -> Report:
        """Read the results in a directory or URL.

        Args:
            out: the directory or URL.
            updates: values that replace fields of the record.

        Raises:
            InputError: a file is missing, damaged or incomplete.
        """
        source = Source(out, self.rows)
        record = {**source.record(self.record_name), **(updates or {})}
        if lacking := self.fields - record.keys():
            raise InputError(f"{out}/{self.record_name}: holds no {min(lacking)}")
        return self._report(source, record, out)

    def report(self, tables: Mapping[str, pa.Table], record: Record, out: str | None) -> Report:
        """Build the report of tables in memory, which were written to ``out`` if that is given."""
        return replace(self._report(MemorySource(tables), record, out or ""), tables=tables)

    def _report(self, source: Source, record: Record, out: str) -> Report:
        return replace(
            self.build(source, record),
            out=out,
            files=self.files,
            record=record,
            complete=self.is_complete(record),
        )
