"""Cohere's rerankers, which charge for search units: a query with up to 100 documents."""

from collections.abc import Mapping
from typing import Any

from zelo_ray.providers import Provider, Settings
from zelo_ray.records import Judge
from zelo_ray.rerankers.wire import Hosted, Shape, billed_units, by_results, by_tokens

KEY_VARIABLES = ("CO_API_KEY", "COHERE_API_KEY")
MODELS = ("rerank-v5.0-pro",)
CLOSED = False
OPTIONS: Mapping[str, Any] = {
    "documents": 1000,  # in one request
    "max_tokens_per_doc": None,  # the server cuts longer documents; 4,096 if it is not told
}
CONCURRENCY = 32
RATES: Mapping[str, float] = {"rpm": 1000}
BATCH = None

counted = by_tokens


def connect(settings: Settings) -> Provider:
    """A connection to Cohere, or to what speaks as it does at the base URL."""
    return Hosted(settings, _SHAPE)


def _body(judge: Judge, query: str, documents: list[str]) -> dict[str, Any]:
    most = judge.options["max_tokens_per_doc"]
    fields = {"model": judge.model, "query": query, "documents": documents}
    return fields | {"top_n": len(documents)} | ({"max_tokens_per_doc": most} if most else {})


_SHAPE = Shape(
    provider="cohere",
    keys=KEY_VARIABLES,
    base_url="https://api.cohere.com",
    variable="CO_API_URL",
    path="/v2/rerank",
    body=_body,
    rows=by_results,
    score="relevance_score",
    used=billed_units,
)
