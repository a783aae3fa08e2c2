"""ZeroEntropy's rerankers."""

from functools import partial
from typing import Any

from zelo_ray.providers import Provider
from zelo_ray.records import Judge, Usage, count_of, part_of
from zelo_ray.rerankers.wire import Hosted, Shape, by_results


def _body(judge: Judge, query: str, documents: list[str]) -> dict[str, Any]:
    latency = judge.options["latency"]
    fields = {"model": judge.model, "query": query, "documents": documents}
    return fields | {"top_n": len(documents)} | ({"latency": latency} if latency else {})


def _used(body: Any) -> Usage:
    return Usage(input_tokens=count_of(part_of(body).get("total_tokens")))


_SHAPE = Shape(
    provider="zeroentropy",
    keys=("ZEROENTROPY_API_KEY",),
    base_url="https://api.zeroentropy.dev/v1",
    variable="ZEROENTROPY_BASE_URL",
    path="/models/rerank",
    body=_body,
    rows=by_results,
    score="relevance_score",
    used=_used,
)

PROVIDER = Provider(
    connect=partial(Hosted, shape=_SHAPE),
    models=("zerank-2",),
    key_variables=_SHAPE.keys,
    url_variable=_SHAPE.variable,
    options={
        "documents": 1000,  # in one request
        "latency": None,  # "fast" or "slow", which have limits of their own
    },
    transport={"latency": None},
    concurrency=32,
    rates={"rpm": 1000},
)
