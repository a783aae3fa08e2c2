"""Jina AI's rerankers."""

from collections.abc import Mapping
from typing import Any

from zelo_ray.providers import Provider, Settings
from zelo_ray.records import Judge
from zelo_ray.rerankers.wire import Hosted, Shape, by_results, by_tokens, total_tokens

KEY_VARIABLES = ("JINA_API_KEY",)
MODELS = ("jina-reranker-v3",)
CLOSED = False
OPTIONS: Mapping[str, Any] = {"documents": 1000}  # in one request
CONCURRENCY = 32
RATES: Mapping[str, float] = {"rpm": 100}
BATCH = None

counted = by_tokens


def connect(settings: Settings) -> Provider:
    """A connection to Jina AI, or to what speaks as it does at the base URL."""
    return Hosted(settings, _SHAPE)


def _body(judge: Judge, query: str, documents: list[str]) -> dict[str, Any]:
    fields = {"model": judge.model, "query": query, "documents": documents}
    return fields | {"top_n": len(documents), "return_documents": False}


_SHAPE = Shape(
    provider="jina",
    keys=KEY_VARIABLES,
    base_url="https://api.jina.ai/v1",
    variable="JINA_BASE_URL",
    path="/rerank",
    body=_body,
    rows=by_results,
    score="relevance_score",
    used=total_tokens,
)
