"""Turn what a command left, or its error, into one document of JSON: see report.schema.json."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
from markupsafe import Markup

import zelo_ray
from zelo_ray.errors import ExitStatus
from zelo_ray.report.model import Cell, Link, Part, Report, Section, Table, Value, text_of

SCHEMA = "zelo-ray/report/2"
"""The name of the form of documents. Its number rises with every change of that form."""


def make_document(command: str, title: str, status: ExitStatus, **values: Any) -> dict[str, Any]:
    """Return a document; ``values`` are the fields that are not empty."""
    empty: dict[str, Any] = {
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
        "complete": status in (ExitStatus.COMPLETE, ExitStatus.WORSE),
        "record": None,
        "result": None,
        "error": None,
    }
    plain: dict[str, Any] = plain_value(empty | values)
    return plain


def report_fields(report: Report) -> dict[str, Any]:
    """Return the fields of a document that a report fills. Finding warnings may take long."""
    return {
        "title": report.title,
        "banner": report.banner,
        "tiles": [{"name": name, **_cell(value)} for name, value in report.tiles.items()],
        "lead": report.lead,
        "sections": [_section(section) for section in report.sections],
        "notes": report.notes,
        "warnings": report.warnings,
    }


def _section(section: Section) -> dict[str, Any]:
    parts = [part for part in map(_part, section.parts) if part]
    return {"name": section.name, "title": section.title, "parts": parts}


def _part(part: Part) -> dict[str, Any] | None:
    match part:
        case Table():
            columns, numbers = part.columns, part.numbers
            return {
                "form": "table",
                "columns": columns,
                "rows": [[_cell(value) for value in row] for row in part.rows],
                "caption": part.caption,
                "number_columns": [
                    c for c, is_number in zip(columns, numbers, strict=True) if is_number
                ],
                "total": part.total or len(part.rows),
                "file": part.file or None,
            }
        case Markup():
            return None
        case str():
            return {"form": "sentence", "text": part}
    return {"form": "chart", "caption": part.caption}


def _cell(value: Value) -> dict[str, Any]:
    """Return the text of a value with what it knows: the number, its interval, or its address."""
    match value:
        case Cell():
            ends = {} if math.isnan(value.low) else {"low": value.low, "high": value.high}
            return {"text": value.text(), "value": value.value, **ends}
        case Link():
            return {"text": value.text, "address": value.address}
        case int() | float():
            return {"text": text_of(value), "value": value}
    return {"text": text_of(value)}


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
