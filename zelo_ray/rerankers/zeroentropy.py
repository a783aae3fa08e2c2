"""ZeroEntropy's rerankers."""

from typing import Any

from zelo_ray.records import Judge, Usage, nested_object, parse_count
from zelo_ray.rerankers.hosted import Shape, build_hosted_provider


def _body(judge: Judge, query: str, documents: list[str]) -> dict[str, Any]:
    latency = judge.options["latency"]
    fields = {"model": judge.model, "query": query, "documents": documents}
    return fields | {"top_n": len(documents)} | ({"latency": latency} if latency else {})


def _used(body: Any) -> Usage:
    return Usage(input_tokens=parse_count(nested_object(body).get("total_tokens")))


_SHAPE = Shape(
    provider="zeroentropy",
    keys=("ZEROENTROPY_API_KEY",),
    base_url="https://api.zeroentropy.dev/v1",
    url_variable="ZEROENTROPY_BASE_URL",
    path="/models/rerank",
    build_body=_body,
    read_usage=_used,
)

PROVIDER = build_hosted_provider(
    _SHAPE,
    models=("zerank-2",),
    options={"latency": None},  # "fast" or "slow", which have limits of their own
    transport={"latency": None},
    rates={"rpm": 1000},
)
