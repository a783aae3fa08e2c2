"""Build every ranker's ranking of every pool, and what it cost, from the replies in the ledger."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isnan, nan
from typing import Any

import numpy as np
import pyarrow as pa

from zelo_ray.files.pools import Line
from zelo_ray.files.tables import schema_of
from zelo_ray.options import AnnotateOptions, Price
from zelo_ray.protocols import Replies, advance, find_protocol
from zelo_ray.providers.pricing import price
from zelo_ray.reasons import Disabled, strip_name
from zelo_ray.records import Judge, Mean, Pool, Reply, Usage
from zelo_ray.rerankers import BakeoffRanker


@dataclass(frozen=True, slots=True)
class QueryCost:
    """The cost of one query that a ranker answered; NaN, 0 or empty where it is not known.

    At most ``in_flight`` calls of the ranker ran side by side. In ``load_seconds``, before
    ``seconds``, a local model was loaded; ``device`` computed.
    """

    run: str
    query_id: str
    documents: int
    requests: int
    seconds: float = nan
    dollars: float = nan
    in_flight: int = 0
    load_seconds: float = 0.0
    device: str = ""


SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "query_id", "status", "reason")),
        *((name, pa.int64()) for name in ("attempts", "missing")),
        ("doc_ids", pa.list_(pa.string())),
        ("scores", pa.list_(pa.float64())),
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
    """Rank the pools of some lines by every ranker, from the replies in the ledger, as `SCHEMA`.

    The rankers are by name, each with the options that it was asked with; ``disabled`` are those
    that are asked nothing more, with the reason.
    """
    plain = {"doc_ids": [], "scores": [], "status": "ok", "reason": "", "attempts": 0, "missing": 0}
    rows = [
        plain
        | {"run": name, "query_id": line.pool.query_id}
        | _rank(line.pool, *rankers[name], ledger, disabled.get(name))
        for line in lines
        if line.pool is not None
        for name in rankers
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _rank(
    pool: Pool,
    ranker: BakeoffRanker,
    options: AnnotateOptions,
    ledger: Replies,
    disabled: Disabled | None,
) -> dict[str, Any]:
    """Return the columns of a ranker's row that are not empty."""
    judge = ranker.judge
    if judge is None:
        documents = pool.documents[: options.document_limit]
        scores = [float(-position) for position in range(len(documents))]
        return {"doc_ids": [document.id for document in documents], "scores": scores}
    rounds = find_protocol(ranker.protocol).rounds(pool, (judge,), options)
    read = _ReadReplies(ledger)
    step = advance(rounds, read, {judge.name: disabled} if disabled else {})
    for failure in step.failures:
        why = strip_name(failure.reason, judge.name)
        return {"status": failure.status, "reason": why, "attempts": failure.attempts}
    ranked, cost = step.judgments, None
    if ranked and read.rounds:
        spent = sum_replies(read.rounds, judge, options.prices)
        cost = asdict(QueryCost(ranker.name, pool.query_id, len(ranked), **spent))
    return {
        "doc_ids": [row.doc_id for row in ranked],
        "scores": [row.score for row in ranked],
        "missing": len(step.missing),
        "cost": cost,
    }


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


@dataclass(slots=True)
class _ReadReplies:
    """A source of replies that remembers what was read from it, a list for each round."""

    source: Replies
    rounds: list[Sequence[Reply]] = field(default_factory=list)

    def contains(self, keys: Sequence[str]) -> list[bool]:
        return self.source.contains(keys)

    def read(self, keys: Sequence[str]) -> list[Reply]:
        replies = self.source.read(keys)
        self.rounds.append(replies)
        return replies


def sum_replies(
    rounds: Sequence[Sequence[Reply]], judge: Judge, prices: Mapping[str, Price]
) -> dict[str, Any]:
    """Sum what one query cost a ranker, as fields of `QueryCost`, from the replies of each round.

    A round takes as long as its slowest reply, and rounds follow one another. Waiting for limits,
    for a free slot or for a model that loads is not part of the seconds, nor are failed tries.
    ``prices`` are for replies whose price was unknown when they came.
    """
    replies = [reply for replies in rounds for reply in replies]
    seconds = sum(max(reply.seconds for reply in part) for part in rounds if part)
    paid = [_dollars(reply, judge, prices) for reply in replies]
    return {
        "requests": len(replies),
        "seconds": seconds if all(reply.seconds for reply in replies) else nan,
        "dollars": nan if None in paid else sum(dollars or 0.0 for dollars in paid),
        "in_flight": max(reply.in_flight for reply in replies),
        "load_seconds": sum(reply.load_seconds for reply in replies),
        "device": next((reply.device for reply in replies if reply.device), ""),
    }


def _dollars(reply: Reply, judge: Judge, prices: Mapping[str, Price]) -> float | None:
    """Return what a reply cost; if that was unknown when it came, what it costs by these prices."""
    if reply.dollars is not None:
        return reply.dollars
    usage = Usage(**{name: getattr(reply, name) for name in _COUNTS})
    return price(judge, usage, prices, batch=bool(reply.batch)) if usage.has_tokens else None


_COUNTS = tuple(name for name in Usage.__dataclass_fields__ if name in Reply._fields)


def sum_costs(costs: Sequence[QueryCost]) -> Iterator[Mean]:
    """Yield what a query takes each ranker: times of queries whose time is known, prices of all."""
    for name in dict.fromkeys(cost.run for cost in costs):
        every = [cost for cost in costs if cost.run == name]
        seconds = [cost.seconds for cost in every if not isnan(cost.seconds)]
        half, most = np.percentile(seconds, [50, 95]).tolist() if seconds else (nan, nan)
        dollars = 1000 * float(np.mean([cost.dollars for cost in every]))
        for what, value, queries in (
            ("seconds_p50", half, len(seconds)),
            ("seconds_p95", most, len(seconds)),
            ("usd_per_1000", dollars, len(every)),
        ):
            if not isnan(value):
                yield Mean(name, what, value, nan, nan, queries, "cost")
