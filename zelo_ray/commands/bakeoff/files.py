"""Write the files of a bake-off: tables, its part of ``run.json``, annotated pools."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from zelo_ray.commands.bakeoff.outcome import (
    BakeoffOutcome,
    MeasuredRanker,
    SelfPreference,
    Slice,
    UnjudgedDocument,
    Unranked,
)
from zelo_ray.commands.bakeoff.thresholds import find_threshold
from zelo_ray.files.pools import Line, annotate_line
from zelo_ray.files.storage import open_for_writing
from zelo_ray.files.tables import ResultsWriter, schema_of, table_of
from zelo_ray.records import Comparison, Mean, Metric, Ranked
from zelo_ray.rerankers.ranking import QueryCost

_ODD = re.compile(r"[^\w.+-]+")


def build_record(
    outcome: BakeoffOutcome, shown: Sequence[Mapping[str, Any]], seconds: Mapping[str, float]
) -> dict[str, Any]:
    """Return what ``run.json`` says of a bake-off: summary and `contrasts`."""
    queries = len(outcome.truth.query_ids)
    truth = {
        "queries": queries,
        "documents": len(outcome.truth.relevance),
        "kind": outcome.truth.kind,
        "fractional": bool((outcome.truth.relevance % 1 != 0).any()),
        "relevant_from": find_threshold(outcome.measures, outcome.truth),
        "digest": outcome.truth_digest,
    }
    rankers = [
        {
            "name": entry.name,
            "answered": outcome.count_answered(entry.name),
            "missing": queries - outcome.count_answered(entry.name),
            "failed": len(entry.failures),
            "dollars": entry.dollars,
            "unpriced": entry.unpriced,
            "note": entry.note,
        }
        for entry in outcome.rankers
    ]
    summary = {
        "truth": truth,
        "rankers": rankers,
        "standing": outcome.leaderboard,
        "measures": [str(measure) for measure in outcome.measures],
        "leading": outcome.leading,
        "label_draws": outcome.label_draws,
        "damaged": len(outcome.damaged),
        "maybe_dollars": outcome.possibly_billed,
        "uncounted": dict(outcome.uncounted),
        "seconds": dict(seconds),
        "kin": _describe_families(outcome.self_preference) if outcome.self_preference else None,
        "gate": [asdict(candidate) for candidate in outcome.gate],
        "warnings": [asdict(caution) for caution in outcome.cautions],
    }
    description = {"complete": outcome.complete, "summary": summary}
    if outcome.people:
        summary["people"] = outcome.people.describe()
    return {**description, "contrasts": list(shown)}


def write_outcome(out: str, outcome: BakeoffOutcome) -> None:
    """Write the tables of a bake-off under a directory or URL."""
    records: dict[str, tuple[type, Sequence[Any]]] = {
        "means": (
            Mean,
            [
                *outcome.means,
                *(outcome.people.means if outcome.people else ()),
                *outcome.costs,
            ],
        ),
        "times": (QueryCost, [cost for entry in outcome.rankers for cost in entry.costs]),
        "comparisons": (
            Comparison,
            [*outcome.comparisons, *(outcome.people.comparisons if outcome.people else ())],
        ),
        "slices": (Slice, outcome.slices),
        "unjudged": (UnjudgedDocument, outcome.unjudged),
        "failures": (Unranked, [f for entry in outcome.rankers for f in entry.failures]),
    }
    tables = {name: schema_of(record) for name, (record, _) in records.items()}
    runs = pa.schema([("run", pa.string()), *schema_of(Ranked)])
    with ResultsWriter(out, {**tables, "metrics": schema_of(Metric), "runs": runs}) as results:
        for name, (record, rows) in records.items():
            results.add(name, table_of(rows, record))
        for table in _metrics(outcome):
            results.add("metrics", table)
        for entry in outcome.rankers:
            column = pa.array([entry.name] * len(entry.run), pa.string())
            results.add(
                "runs", entry.run.select(schema_of(Ranked).names).add_column(0, "run", column)
            )


def write_annotated(
    out: str, lines: Iterable[Line], entries: Sequence[MeasuredRanker]
) -> list[str]:
    """Write the pools once for each ranker, with its score on each document that it ranked.

    Scores that were in the input are kept as ``input_score``.

    Args:
        out: directory or URL of the bake-off.
        lines: the valid lines of its pools.
        entries: the rankers.

    Returns:
        The paths of the files, in the order of the rankers.
    """
    names = file_names(entry.name for entry in entries)
    scores = [_scores(entry.run) for entry in entries]
    places = [f"{out.rstrip('/')}/annotated/{name}.jsonl" for name in names]
    with ExitStack() as stack:
        files = [stack.enter_context(open_for_writing(place)) for place in places]
        for line in lines:
            query_id = line.pool.query_id if line.pool else ""
            for file, by_query in zip(files, scores, strict=True):
                documents = by_query.get(query_id, {})
                file.write(annotate_line(line.raw, documents, "score") + b"\n")
    return places


def file_names(names: Iterable[str]) -> list[str]:
    """Return a distinct file name for each name; names may hold any characters."""
    by_lower: dict[str, str] = {}  # some file systems do not distinguish upper and lower case
    for name in names:
        plain = file_name = _ODD.sub("_", name).lstrip(".") or "_"
        number = 1
        while file_name.lower() in by_lower:
            number += 1
            file_name = f"{plain}-{number}"
        by_lower[file_name.lower()] = file_name
    return list(by_lower.values())


def _scores(run: pa.Table) -> dict[str, dict[str, dict[str, float]]]:
    """Return the scores of a run by query and document."""
    by_query: dict[str, dict[str, dict[str, float]]] = {}
    columns = (run[name].to_pylist() for name in ("query_id", "doc_id", "score"))
    for query_id, doc_id, score in zip(*columns, strict=True):
        by_query.setdefault(query_id, {})[doc_id] = {"score": score}
    return by_query


def _describe_families(kin: SelfPreference) -> dict[str, Any]:
    """Describe for ``run.json`` the families of judges and rankers, and what was not refitted."""
    kinship = kin.overlap
    return {
        "judges": {judge: sorted(names) for judge, names in kinship.judges.items()},
        "rankers": {
            ranker: {"families": sorted(kinship.shared_families(ranker)), "judges": sorted(judges)}
            for ranker, judges in kinship.judges_by_ranker.items()
        },
        "untold": kin.not_refitted,
    }


def _metrics(outcome: BakeoffOutcome) -> Iterable[pa.Table]:
    ids = pa.array(outcome.truth.query_ids, pa.string())
    for name, values in outcome.values.items():
        for ranker, row in zip(outcome.ranker_names, values, strict=True):
            columns = [pa.array([text] * len(ids), pa.string()) for text in (ranker, name)]
            yield pa.table([columns[0], ids, columns[1], pa.array(row)], schema=schema_of(Metric))
