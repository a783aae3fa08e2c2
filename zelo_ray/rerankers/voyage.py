"""Voyage AI's rerankers."""

from collections.abc import Mapping
from typing import Any

from zelo_ray.providers import Provider, Settings
from zelo_ray.records import Judge
from zelo_ray.rerankers.wire import Hosted, Shape, by_tokens, total_tokens

KEY_VARIABLES = ("VOYAGE_API_KEY",)
MODELS = ("rerank-3",)
CLOSED = False
OPTIONS: Mapping[str, Any] = {
    "documents": 1000,  # in one request
    "truncation": False,  # true: the server cuts what is too long, and does not say so
}
CONCURRENCY = 32
RATES: Mapping[str, float] = {"rpm": 2000, "tpm": 2_000_000}
BATCH = None

counted = by_tokens


def connect(settings: Settings) -> Provider:
    """A connection to Voyage AI, or to what speaks as it does at the base URL."""
    return Hosted(settings, _SHAPE)


def _body(judge: Judge, query: str, documents: list[str]) -> dict[str, Any]:
    fields = {"model": judge.model, "query": query, "documents": documents}
    return fields | {"top_k": len(documents), "truncation": judge.options["truncation"]}


def _rows(found: Any) -> Any:
    return found["data"]


_SHAPE = Shape(
    provider="voyage",
    keys=KEY_VARIABLES,
    base_url="https://api.voyageai.com/v1",
    variable="VOYAGE_BASE_URL",
    path="/rerank",
    body=_body,
    rows=_rows,
    score="relevance_score",
    used=total_tokens,
)
