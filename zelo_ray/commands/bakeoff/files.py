"""The files of a contest."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from zelo_ray.commands.bakeoff.outcome import Hole, Outcome, Slice, Unranked
from zelo_ray.formats.results import Results
from zelo_ray.formats.tables import schema_of, table_of
from zelo_ray.records import Comparison, Mean, Metric, Ranked


def describe(
    outcome: Outcome, shown: Sequence[Mapping[str, Any]], seconds: Mapping[str, float]
) -> dict[str, Any]:
    """What ``run.json`` tells of a contest: how it went, recall curves, and `contrasts`."""
    queries = len(outcome.truth.query_ids)
    truth = {
        "queries": queries,
        "documents": len(outcome.truth.relevance),
        "kind": outcome.truth.kind,
    }
    arms = [
        {
            "name": entry.name,
            "answered": outcome.answered_by(entry.name),
            "missing": queries - outcome.answered_by(entry.name),
            "failed": len(entry.failures),
            "dollars": entry.dollars,
            "unpriced": entry.unpriced,
            "note": entry.note,
        }
        for entry in outcome.entries
    ]
    summary = {
        "truth": truth,
        "arms": arms,
        "standing": outcome.standing,
        "measures": [str(each) for each in outcome.measures],
        "leading": outcome.leading,
        "label_draws": outcome.draws,
        "damaged": len(outcome.damaged),
        "maybe_dollars": outcome.maybe_dollars,
        "seconds": dict(seconds),
    }
    told = {"complete": outcome.complete, "summary": summary}
    return {**told, "curves": outcome.curves, "contrasts": list(shown)}


def write_outcome(out: str, outcome: Outcome) -> None:
    """Write the tables of a contest under a directory or URL."""
    records: dict[str, tuple[type, list[Any]]] = {
        "means": (Mean, outcome.means),
        "comparisons": (Comparison, outcome.comparisons),
        "slices": (Slice, outcome.slices),
        "holes": (Hole, outcome.holes),
        "failures": (Unranked, [f for entry in outcome.entries for f in entry.failures]),
    }
    tables = {name: schema_of(record) for name, (record, _) in records.items()}
    runs = pa.schema([("run", pa.string()), *schema_of(Ranked)])
    with Results(out, {**tables, "metrics": schema_of(Metric), "runs": runs}) as results:
        for name, (record, rows) in records.items():
            results.add(name, table_of(rows, record))
        for table in _metrics(outcome):
            results.add("metrics", table)
        for entry in outcome.entries:
            named = pa.array([entry.name] * len(entry.run), pa.string())
            results.add(
                "runs", entry.run.select(schema_of(Ranked).names).add_column(0, "run", named)
            )


def _metrics(outcome: Outcome) -> Iterable[pa.Table]:
    ids = pa.array(outcome.truth.query_ids, pa.string())
    for name, values in outcome.values.items():
        for arm, row in zip(outcome.arms, values, strict=True):
            named = [pa.array([text] * len(ids), pa.string()) for text in (arm, name)]
            yield pa.table([named[0], ids, named[1], pa.array(row)], schema=schema_of(Metric))
