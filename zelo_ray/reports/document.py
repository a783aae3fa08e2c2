"""Turn the result of a command into a document of JSON for programs: see report.schema.json."""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

import zelo_ray
from zelo_ray.errors import ExitStatus
from zelo_ray.files.storage import list_directory
from zelo_ray.files.wording import without_passwords
from zelo_ray.reports.parts import (
    Cells,
    PageLink,
    Report,
    ReportTable,
    Section,
    Sentences,
    no_next_step,
)
from zelo_ray.reports.terminal import Line
from zelo_ray.reports.wording import Quantity

SCHEMA = "zelo-ray/report/1"
"""The name of the form of documents. Its number rises with every change of that form."""
_NUMBER = re.compile(r"(?P<sign>[-+]?)\$?(?P<digits>\d[\d,]*(?:\.\d+)?)(?P<percent>%?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The result of a command, for people and for programs.

    Attributes:
        status: with which the command ends.
        title: what was done, in a few words, if not what the command usually does.
        report: shown first, if there is one.
        lines: for people, below the report.
        lead: those of them that a program may want to read, too.
        notes: further sentences for programs; the lines say the same.
        figures: the command's own figures, for programs.
        tables: those that are in no file, by name.
        next_step: returns the command that usually comes next, from the typed words.
        out: directory, file or URL that was written; empty if nothing was.
        files: the files that were written, besides those of the report.
    """

    status: ExitStatus = ExitStatus.COMPLETE
    title: str = ""
    report: Report | None = None
    lines: Sequence[Line] = ()
    lead: Sequence[str] = ()
    notes: Sequence[str] = ()
    figures: Mapping[str, Any] | None = None
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    next_step: Callable[[Sequence[str]], str | None] = no_next_step
    out: str = ""
    files: Sequence[str] = ()


def make_document(
    command: str, title: str, result: CommandResult, words: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the document of a result.

    Finding the warnings about results may take long.

    Args:
        command: its name.
        title: of a result without a report.
        result: of the command.
        words: the command as typed.
    """
    document = _empty_document(command, result.title or title, result.status)
    report, figures = result.report, result.figures
    if report:
        document |= _report_values(report)
        if figures is None and not report.record:
            figures = {name: table.to_pylist() for name, table in report.tables.items()}
    step = result.next_step(words)
    document |= {
        "lead": [*document["lead"], *result.lead],
        "notes": [*document["notes"], *result.notes],
        "next_command": without_passwords(step) if step else None,
        "out": document["out"] or result.out or None,
        "files": [*document["files"], *result.files],
        "result": figures,
    }
    plain: dict[str, Any] = plain_value(document)
    return plain


def make_error_document(
    command: str,
    title: str,
    error: Mapping[str, Any],
    status: ExitStatus,
    next_command: str | None = None,
) -> dict[str, Any]:
    """Return the document of a command that ended with an error.

    Args:
        command: its name; empty if there is no such command.
        title: the purpose of the command.
        error: its code, message and notes.
        status: with which the command ends.
        next_command: goes on from there, if any does.
    """
    step = without_passwords(next_command) if next_command else None
    values = {"error": error, "next_command": step}
    plain: dict[str, Any] = plain_value(_empty_document(command, title, status) | values)
    return plain


def _empty_document(command: str, title: str, status: ExitStatus) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "program": {"name": "zelo-ray", "version": zelo_ray.__version__},
        "command": command,
        "status": int(status),
        "status_name": status.name.lower(),
        "title": title,
        "banner": "",
        "tiles": [],
        "lead": [],
        "sections": [],
        "notes": [],
        "warnings": [],
        "next_command": None,
        "out": None,
        "files": [],
        "page": None,
        "complete": status is ExitStatus.COMPLETE,
        "record": None,
        "result": None,
        "error": None,
    }


def _report_values(report: Report) -> dict[str, Any]:
    out = report.out.rstrip("/")
    return {
        "title": report.title,
        "banner": report.banner,
        "tiles": [{"name": name, **_cell(value, is_number=True)} for name, value in report.tiles],
        "lead": report.lead,
        "sections": [_section(section) for section in report.sections if section],
        "notes": report.notes,
        "warnings": [*_warnings(report)],
        "out": report.out,
        "files": [*_result_files(out, report.page)] if out else [],
        "page": f"{out}/{report.page}" if out else None,
        "complete": report.complete,
        "record": report.record or None,
    }


def _result_files(out: str, page: str) -> Iterator[str]:
    """Yield the files of results in a directory or URL, but the page."""
    for name in list_directory(out) or ():
        if "." in name.lstrip(".") and name != page:
            yield f"{out}/{name}"


def _warnings(report: Report) -> Iterator[dict[str, Any]]:
    """Yield all warnings about the results, the worst first."""
    for warning in report.warnings.every if report.warnings else ():
        yield {
            "code": warning.code.name.lower(),
            "severity": warning.harm,
            "section": warning.section,
            "text": warning.text,
            "consequence": warning.consequence,
            "advice": warning.advice,
        }


def _section(section: Section) -> dict[str, Any]:
    parts = []
    for part in section.parts:
        match part:
            case Sentences():
                parts.append({"form": part.form, "lines": part.lines})
            case ReportTable():
                parts.append({"form": part.form, **_table(part)})
            case _:
                parts.append({"form": part.form, "caption": part.caption})
    return {"name": section.name, "title": section.title, "parts": parts}


def _table(table: ReportTable) -> dict[str, Any]:
    return {
        "columns": table.columns,
        "rows": [_row(row, table.columns, table.numbers) for row in table.rows],
        "caption": table.caption,
        "number_columns": [name for name in table.columns if name in table.numbers],
        "total": len(table.rows) if table.total is None else table.total,
        "file": table.file or None,
    }


def _row(row: Cells, columns: Sequence[str], numbers: Collection[str]) -> list[dict[str, Any]]:
    return [
        _cell(cell, is_number=name in numbers) for cell, name in zip(row, columns, strict=False)
    ]


def _cell(cell: Any, *, is_number: bool) -> dict[str, Any]:
    """Return the text of a cell with what it knows: value, interval, or where it links to.

    The value of a text that is nothing but a number is that number, as exact as it is shown.
    """
    match cell:
        case Quantity():
            has_ends = not math.isnan(cell.low)
            ends = {"low": cell.low, "high": cell.high} if has_ends else {}
            return {"text": cell, "value": cell.value, **ends}
        case PageLink():
            return {"text": cell.text, "address": cell.address}
        case str():
            number = _NUMBER.fullmatch(cell) if is_number else None
            return {"text": cell, **({"value": _number(number)} if number else {})}
    return {"text": cell.text}


def _number(match: re.Match[str]) -> float:
    digits = match["digits"].replace(",", "")
    if "." not in digits and not match["percent"]:
        return int(match["sign"] + digits)
    return float(Decimal(match["sign"] + digits) / (100 if match["percent"] else 1))


def plain_value(value: Any) -> Any:  # noqa: PLR0911 - one line for each type
    """Return a value of the types of JSON: numbers that are not finite become None."""
    match value:
        case None | bool() | int():
            return int(value) if isinstance(value, Enum) else value
        case str():  # file names may hold bytes that are not UTF-8
            return str(value).encode(errors="backslashreplace").decode()
        case float():
            return value if math.isfinite(value) else None
        case Enum():
            return plain_value(value.value)
        case np.ndarray() | np.generic():
            return plain_value(value.tolist())
        case pa.Table():
            return plain_value(value.to_pylist())
        case Mapping():
            return {str(plain_value(name)): plain_value(v) for name, v in value.items()}
        case tuple() if hasattr(value, "_asdict"):
            return plain_value(value._asdict())
        case list() | tuple() | set() | frozenset():
            return [plain_value(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain_value(getattr(value, each.name)) for each in fields(value)}
    return plain_value(str(value))
