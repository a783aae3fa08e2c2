"""Runs made by hand, to hold what reports say of them against a record.

    python -m tests.runs_by_hand       # record it anew in tests/golden/reports/

They show what those of small jobs do not: failures, ties, and orders that differ.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.helpers.builders import pool_of, results_of, write_run
from tests.helpers.hills import write_contests, write_verdicts
from tests.helpers.results import write_both
from zelo_ray.commands import load_results
from zelo_ray.report.document import plain_value, report_fields


def _write_votes(out: Path) -> None:
    """Write votes, some refused; on equal documents of a query, and a query with one document."""

    def say(request: Any) -> str | None:
        refuses = {document.id for document in request.documents} == {"d0", "d1"}
        return "refused" if refuses and request.judge.provider == "anthropic" else None

    pools = [pool_of((1, 3, 1, 0)), pool_of((1, 1, 1), "equal"), pool_of((1,), "alone")]
    write_run(out, results_of(out, pools, say, document_limit=3))


def _write_nothing(out: Path) -> None:
    """Write a run without queries."""
    write_run(out, results_of(out, []))


RUNS: Mapping[str, Callable[[Path], object]] = {
    "votes": _write_votes,
    "votes-on-nothing": _write_nothing,
    "grades-and-votes": write_both,
    "tournaments": write_contests,
    "debates": write_verdicts,
}
"""By name, what writes the files of a run."""
RECORDS = Path(__file__).parent / "golden" / "reports"


def report_values(name: str, folder: Path) -> Any:
    """Make a run; return what `--json` prints of it, without the sentences."""
    folder.mkdir(exist_ok=True)
    RUNS[name](folder)
    document = _document(folder)
    return {
        "tiles": {tile["name"]: tile.get("value", tile["text"]) for tile in document["tiles"]},
        "warnings": [warning["code"] for warning in document["warnings"]],
        "sections": {
            section["name"]: [_table(part) for part in section["parts"] if part["form"] == "table"]
            for section in document["sections"]
        },
    }


def _document(folder: Path) -> Any:
    """Return the tiles, warnings and sections of a run."""
    return plain_value(report_fields(load_results(str(folder)).report))


def _table(part: Mapping[str, Any]) -> list[list[Any]]:
    """Return the columns of a table, and each row with the values of its cells."""
    rows = ([_cell(cell) for cell in row] for row in part["rows"])
    return [part["columns"], *rows]


def _cell(cell: Mapping[str, Any]) -> Any:
    ends = [cell[name] for name in ("value", "low", "high") if name in cell]
    return ends or cell["text"]


if __name__ == "__main__":
    RECORDS.mkdir(exist_ok=True)
    for run in RUNS:
        with tempfile.TemporaryDirectory() as temporary:
            values = report_values(run, Path(temporary) / run)
        lines = json.dumps(values, ensure_ascii=False, indent=1)
        (RECORDS / f"{run}.json").write_text(lines + "\n")
