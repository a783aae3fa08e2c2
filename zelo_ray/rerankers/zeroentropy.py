"""ZeroEntropy's rerankers."""

from collections.abc import Mapping
from typing import Any

from zelo_ray.providers import Provider, Settings
from zelo_ray.records import Judge, Usage
from zelo_ray.rerankers.wire import Hosted, Shape, by_results, by_tokens, part_of

KEY_VARIABLES = ("ZEROENTROPY_API_KEY",)
MODELS = ("zerank-2",)
CLOSED = False
OPTIONS: Mapping[str, Any] = {
    "documents": 1000,  # in one request
    "latency": None,  # "fast" or "slow", which have limits of their own
}
TRANSPORT: Mapping[str, Any] = {"latency": None}
CONCURRENCY = 32
RATES: Mapping[str, float] = {"rpm": 1000}
BATCH = None

counted = by_tokens


def connect(settings: Settings) -> Provider:
    """A connection to ZeroEntropy, or to what speaks as it does at the base URL."""
    return Hosted(settings, _SHAPE)


def _body(judge: Judge, query: str, documents: list[str]) -> dict[str, Any]:
    latency = judge.options["latency"]
    fields = {"model": judge.model, "query": query, "documents": documents}
    return fields | {"top_n": len(documents)} | ({"latency": latency} if latency else {})


def _used(found: Any) -> Usage:
    return Usage(input_tokens=part_of(found).get("total_tokens") or 0)


_SHAPE = Shape(
    provider="zeroentropy",
    keys=KEY_VARIABLES,
    base_url="https://api.zeroentropy.dev/v1",
    variable="ZEROENTROPY_BASE_URL",
    path="/models/rerank",
    body=_body,
    rows=by_results,
    score="relevance_score",
    used=_used,
)
