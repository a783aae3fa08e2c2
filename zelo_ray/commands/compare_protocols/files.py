"""The files of a comparison of protocols."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from zelo_ray.commands.compare_protocols.measured import FIGURES
from zelo_ray.commands.compare_protocols.outcome import Cost, ProtocolsOutcome, ProtocolTrial
from zelo_ray.evaluation.agreement.differences import Difference
from zelo_ray.formats.results import ResultsWriter
from zelo_ray.formats.tables import schema_of, table_of

_COUNTS = ("items", "judged", "correct", "decided", "decided_correct", "queries")
_TRIALS = pa.schema(
    [
        ("protocol", pa.string()),
        *((name, pa.int64()) for name in (*_COUNTS, "unpriced")),
        ("dollars_known", pa.float64()),
        *((f"{name}{end}", pa.float64()) for name in FIGURES for end in ("", "_low", "_high")),
    ]
)


def write_outcome(out: str, outcome: ProtocolsOutcome) -> None:
    """Write the tables of a comparison under a directory or URL."""
    tables = {
        "trials": pa.Table.from_pylist(_rows(outcome.ranked), schema=_TRIALS),
        "costs": table_of(outcome.costs, Cost),
        "differences": table_of(outcome.differences, Difference),
    }
    schemas = {"trials": _TRIALS, "costs": schema_of(Cost), "differences": schema_of(Difference)}
    with ResultsWriter(out, schemas) as results:
        for name, table in tables.items():
            results.add(name, table)


def _rows(trials: Sequence[ProtocolTrial]) -> list[dict[str, Any]]:
    rows = []
    for trial in trials:
        row: dict[str, Any] = {name: getattr(trial, name) for name in ("protocol", *_COUNTS)}
        row |= {"unpriced": trial.bill.unpriced, "dollars_known": trial.bill.dollars}
        for name, figure in trial.figures.items():
            row |= {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}
        rows.append(row)
    return rows
