"""Voyage AI's rerankers."""

from functools import partial
from typing import Any

from zelo_ray.providers import Provider
from zelo_ray.records import Judge
from zelo_ray.rerankers.hosted import Hosted, Shape, total_tokens


def _body(judge: Judge, query: str, documents: list[str]) -> dict[str, Any]:
    fields = {"model": judge.model, "query": query, "documents": documents}
    return fields | {"top_k": len(documents), "truncation": judge.options["truncation"]}


def _rows(body: Any) -> Any:
    return body["data"]


_SHAPE = Shape(
    provider="voyage",
    keys=("VOYAGE_API_KEY",),
    base_url="https://api.voyageai.com/v1",
    url_variable="VOYAGE_BASE_URL",
    path="/rerank",
    build_body=_body,
    read_rows=_rows,
    score="relevance_score",
    read_usage=total_tokens,
)

PROVIDER = Provider(
    connect=partial(Hosted, shape=_SHAPE),
    models=("rerank-3",),
    key_variables=_SHAPE.keys,
    url_variable=_SHAPE.url_variable,
    options={
        "documents": 1000,  # in one request
        "truncation": False,  # true: the server silently cuts long texts
    },
    concurrency=32,
    rates={"rpm": 2000, "tpm": 2_000_000},
)
