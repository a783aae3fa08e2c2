"""Jina AI's rerankers."""

from functools import partial
from typing import Any

from zelo_ray.providers import Provider
from zelo_ray.records import Judge
from zelo_ray.rerankers.hosted import Hosted, Shape, result_rows, total_tokens


def _body(judge: Judge, query: str, documents: list[str]) -> dict[str, Any]:
    fields = {"model": judge.model, "query": query, "documents": documents}
    return fields | {"top_n": len(documents), "return_documents": False}


_SHAPE = Shape(
    provider="jina",
    keys=("JINA_API_KEY",),
    base_url="https://api.jina.ai/v1",
    url_variable="JINA_BASE_URL",
    path="/rerank",
    build_body=_body,
    read_rows=result_rows,
    score="relevance_score",
    read_usage=total_tokens,
)

PROVIDER = Provider(
    connect=partial(Hosted, shape=_SHAPE),
    models=("jina-reranker-v3",),
    key_variables=_SHAPE.keys,
    url_variable=_SHAPE.url_variable,
    options={"documents": 1000},  # in one request
    concurrency=32,
    rates={"rpm": 100},
)
