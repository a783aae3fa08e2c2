"""Runs made by hand, to hold what reports say of them against a record.

    python -m tests.runs_by_hand       # record it anew in tests/golden/reports/

They show what those of small jobs do not: failures, ties, and orders that differ.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders import pool_of, results_of, write_run
from tests.hills import write_contests, write_verdicts
from tests.results import write_both
from tests.test_bakeoff_report import write_bakeoff
from zelo_ray.commands import report_of_kind
from zelo_ray.commands import results_of as results_of_place
from zelo_ray.commands.report import RECORDS as FILES
from zelo_ray.evaluation.gate import GateDecision
from zelo_ray.files.storage import write_json
from zelo_ray.report.document import plain_value, report_fields
from zelo_ray.reports.document import CommandResult, make_document


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


def _write_contest(out: Path) -> None:
    """Write a contest with what few have: instructions, draws, costs, many slices, lost queries."""
    pairs = {(0, 1): {"p_labels": 0.8}}
    write_bakeoff(out, queries=30, pairs=pairs, label_draws=200)
    [row, *_] = pq.read_table(out / "slices.parquet").to_pylist()
    rows = [row | {"slice": "tenant", "value": f"t{n:02}"} for n in range(31)]
    pq.write_table(pa.Table.from_pylist(rows), out / "slices.parquet")
    run = json.loads((out / "run.json").read_text())
    run["options"] |= {"instructions": "A nurse can act on it.", "show_query": ["narrative"]}
    run["summary"]["truth"]["queries"] = 31
    run["summary"]["rankers"][0] |= {"dollars": 0.5, "unpriced": 2}
    run["summary"]["gate"] = [asdict(gate) for gate in _GATES]
    write_json(str(out), "run.json", run)


_GATES = (
    GateDecision(
        *("original", "bm25", "nDCG@10", "panel", 0.5, 0.95, "not enough data"),
        *("the interval is too wide", -0.4, -0.7, 0.03, nan, 30, 420),
    ),
    GateDecision(
        *("cross-encoder", "bm25", "nDCG@10", "panel", 0.5, 0.95, "not worse", ""),
        *(-0.2, -0.3, -0.1, nan, 30, 30),
    ),
)


RUNS: Mapping[str, Callable[[Path], object]] = {
    "votes": _write_votes,
    "votes-on-nothing": _write_nothing,
    "grades-and-votes": write_both,
    "tournaments": write_contests,
    "debates": write_verdicts,
    "contest": _write_contest,
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
    if results := results_of_place(str(folder)):
        return plain_value(report_fields(results.report))
    record = next(folder / name for name in FILES if (folder / name).exists())
    report = report_of_kind(json.loads(record.read_text())["kind"]).read(str(folder))
    return make_document("annotate", "", CommandResult(report=report))


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
