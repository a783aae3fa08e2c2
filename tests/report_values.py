"""Read a report as values, so that it can be compared exactly with another.

Of sentences only the figures are kept, so that their words may change. Sections, tables, rows,
charts and warnings stand in their order.
"""

import base64
import gzip
import json
import re
from collections.abc import Iterator, Mapping
from math import isnan
from typing import Any

from zelo_ray.reports.parts import (
    Chart,
    Contrasts,
    Duel,
    PageLink,
    Queries,
    Report,
    ReportTable,
    Section,
    Sentences,
    TextCell,
)
from zelo_ray.reports.warning import ResultWarning
from zelo_ray.reports.wording import Quantity

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
_NAME = 3
"""The most words of a text that is a name or a figure; longer ones are parts of a sentence."""

Line = Mapping[str, Any]


def report_lines(report: Report) -> Iterator[Line]:
    """Yield all that a report shows, in lines that JSON can hold but for NumPy's arrays."""
    yield {"title": report.title}
    if report.banner:
        yield {"banner": _figures(report.banner)}
    for name, value in report.tiles:
        yield {"tile": name, **_cell(value)}
    for sentence in report.lead:
        yield {"lead": _figures(sentence)}
    for warning in report.warnings.every if report.warnings else ():
        yield _warning(warning)
    for section in filter(None, report.sections):
        yield {"section": section.name}
        yield from _parts(section)
    for section in filter(None, report.details):
        yield {"section of the page": section.name}
        yield from _parts(section)
    for note in report.notes:
        yield {"note": _figures(note)}


def _figures(sentence: str) -> list[str]:
    return NUMBER.findall(sentence)


def _warning(warning: ResultWarning) -> Line:
    values = {
        name: value
        if not isinstance(value, str) or len(value.split()) <= _NAME
        else _figures(value)
        for name, value in warning.values.items()
    }
    return {"warning": warning.code.name, "section": warning.section, "values": values}


def _parts(section: Section) -> Iterator[Line]:
    for part in section.parts:
        match part:
            case Sentences():
                yield from ({"sentence": _figures(line)} for line in part.lines)
            case ReportTable():
                yield from _table(part)
            case Chart():
                yield from _chart(part)
            case Duel():
                yield {"duel": part.data["measure"], "caption": _figures(part.caption)}
                yield from ({"ranker": ranker} for ranker in part.data["rankers"])
                yield {"queries": part.data["queries"]}
            case Queries():
                yield from _queries(part)
            case Contrasts():
                yield from _contrasts(part)


def _table(table: ReportTable) -> Iterator[Line]:
    yield {
        "table": table.columns,
        "numbers": [column for column in table.columns if column in table.numbers],
        "open_rows": table.open_rows,
        "file": table.file,
        "total": table.total,
        "caption": _figures(table.caption),
    }
    for row in table.rows:
        yield {"row": [_short(_cell(cell)) for cell in row]}


def _cell(cell: str | TextCell | PageLink) -> dict[str, Any]:
    match cell:
        case Quantity():
            ends = {name: getattr(cell, name) for name in ("value", "low", "high")}
            return {"text": str(cell), **{k: v for k, v in ends.items() if not isnan(v)}}
        case PageLink():
            return {"text": cell.text, "address": cell.address}
        case TextCell():
            return {"text": cell.text}
        case _:
            return {"text": cell}


def _short(cell: dict[str, Any]) -> Any:
    """Return a cell that is a text alone as that text."""
    return cell if len(cell) > 1 else cell["text"]


def _chart(chart: Chart) -> Iterator[Line]:
    yield {"chart": chart.choice, "caption": _figures(chart.caption)}
    for name, figure in chart.figures.items():
        yield {"figure": name, **{key: figure[key] for key in figure if key != "data"}}
        yield from ({"trace": trace} for trace in figure["data"])


def _queries(queries: Queries) -> Iterator[Line]:
    about = {"unit": queries.unit, "scale": queries.scale, "caption": _figures(queries.caption)}
    yield {"queries": about}
    for item in queries.items:
        yield {"query": {key: item[key] for key in item if key != "packed"}}
        for name, blob in item["packed"].items():
            packed = json.loads(gzip.decompress(base64.b64decode(blob)))
            about, rows = ({}, packed) if isinstance(packed, list) else (packed, packed.pop(name))
            yield {"packed": name, **about}
            yield from ({name: row} for row in rows)


def _contrasts(contrasts: Contrasts) -> Iterator[Line]:
    yield {"contrasts": _figures(contrasts.caption)}
    for pair, items in contrasts.pairs.items():
        for item in items:
            alone = {key: item[key] for key in item if key not in ("documents", "sides")}
            yield {"contrast": pair, **alone}
            for run, value, documents in item["sides"]:
                yield {"side": run, "value": value}
                yield from ({"document": document} for document in documents)
