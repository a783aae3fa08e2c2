"""Say for each command how its results become a report, and read them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zelo_ray.reports.parts import Report
from zelo_ray.reports.source import Source

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReportKind:
    """Kind of report: what files the results of one command have, and what is made of them.

    Attributes:
        record_name: the file that says what ran and how it went, such as ``run.json``.
        fields: what that file holds when the command has ended.
        rows: by table, what its rows are: one kind, or several of which each lacks some columns.
        build: makes the report from the tables and the record.
        headline: makes the most telling figure from them: its name and its value.
    """

    record_name: str
    fields: frozenset[str]
    rows: Mapping[str, Sequence[type]]
    build: Callable[[Source, Record], Report]
    headline: Callable[[Source, Record], tuple[str, str]]

    def source(self, out: str, shown: str = "") -> Source:
        """Return the tables in a directory or URL; ``shown`` is what it is called, if not so."""
        return Source(out, shown, self.rows)

    def read(self, out: str) -> Report:
        """Read the results in a directory or URL.

        Raises:
            InputError: a file is missing, damaged, or lacks what it should hold.
        """
        source = self.source(out)
        return self.build(source, source.record(self.record_name))
