"""Build every ranker's ranking of every pool from the replies in the ledger, without any call."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from zelo_ray.files.pools import Line
from zelo_ray.files.tables import schema_of
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Replies, advance, find_protocol
from zelo_ray.reasons import Disabled, strip_name
from zelo_ray.records import Failure, Pool, Ranked
from zelo_ray.rerankers import BakeoffRanker
from zelo_ray.rerankers.query_costs import QueryCost, RepliesByRound, sum_replies

SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("query_id", pa.string()),
        ("doc_ids", pa.list_(pa.string())),
        ("scores", pa.list_(pa.float64())),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("attempts", pa.int64()),
        ("missing", pa.int64()),
        ("cost", pa.struct(list(schema_of(QueryCost)))),
    ]
)
"""One row for each ranker and pool: its scores in the pool's order, or why there are none.

``missing`` counts requests without a reply; ``cost`` is null where nothing was asked or answered.
"""


def rank_lines(
    lines: Sequence[Line],
    rankers: Mapping[str, tuple[BakeoffRanker, AnnotateOptions]],
    ledger: Replies,
    disabled: Mapping[str, Disabled],
) -> pa.Table:
    """Rank the pools of some lines by every ranker, from the replies in the ledger.

    Args:
        lines: of the input; those without a pool are skipped.
        rankers: the rankers by name, each with the options that it was asked with.
        ledger: the replies.
        disabled: rankers that are asked nothing more, with the reason.

    Returns:
        A table of `SCHEMA`, by line and ranker.
    """
    rows = []
    for line in lines:
        if line.pool is None:
            continue
        for name, (ranker, options) in rankers.items():
            ranked = _rank(line.pool, ranker, options, ledger, disabled.get(name))
            rows.append({"run": name, "query_id": line.pool.query_id, **ranked})
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def costs_in(rows: pa.Table) -> list[QueryCost]:
    """Return the costs in rows of `SCHEMA`."""
    return [QueryCost(**cost) for cost in rows["cost"].to_pylist() if cost]


def _rank(
    pool: Pool,
    ranker: BakeoffRanker,
    options: AnnotateOptions,
    ledger: Replies,
    disabled: Disabled | None,
) -> Mapping[str, Any]:
    if ranker.judge is None:
        documents = pool.documents[: options.document_limit]
        scores = [float(-position) for position in range(len(documents))]
        return _row([document.id for document in documents], scores)
    rounds = find_protocol(ranker.protocol).rounds(pool, (ranker.judge,), options)
    read = RepliesByRound(ledger)
    step = advance(rounds, read, {ranker.judge.name: disabled} if disabled else {})
    failure: Failure
    for failure in step.failures:
        why = strip_name(failure.reason, ranker.judge.name)
        return _row(status=failure.status, reason=why, attempts=failure.attempts)
    ranked: Sequence[Ranked] = step.judgments
    cost = None
    if ranked and read.rounds:
        cost = asdict(
            sum_replies(
                *(read.rounds, ranker.judge, options.prices),
                ranker=ranker.name,
                query_id=pool.query_id,
                documents=len(ranked),
            )
        )
    return _row(
        *([r.doc_id for r in ranked], [r.score for r in ranked]),
        missing=len(step.missing),
        cost=cost,
    )


def _row(
    doc_ids: Sequence[str] = (), scores: Sequence[float] = (), **more: Any
) -> Mapping[str, Any]:
    plain = {"status": "ok", "reason": "", "attempts": 0, "missing": 0, "cost": None}
    return {"doc_ids": doc_ids, "scores": scores, **plain, **more}


def query_fields(line: Line) -> dict[str, str]:
    """Return the fields that describe a line's query: its own, and those of its metadata.

    A field of the documents' metadata is included if all documents have the same value.
    """
    query = json.loads(line.raw)["query"]
    metadata = query.get("metadata")
    fields = {**(metadata if isinstance(metadata, dict) else {}), **query}
    facts = {name: value for name, value in fields.items() if name not in ("id", "query")}
    documents = line.pool.documents if line.pool else ()
    for name in documents[0].metadata if documents else ():
        values = [document.metadata.get(name) for document in documents]
        if all(value == values[0] for value in values):
            facts.setdefault(name, values[0])
    return {n: str(value) for n, value in facts.items() if isinstance(value, str | int | float)}
