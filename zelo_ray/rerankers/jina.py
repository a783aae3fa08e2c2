"""Jina AI's rerankers."""

from typing import Any

from zelo_ray.records import Judge
from zelo_ray.rerankers.hosted import Shape, build_hosted_provider


def _body(judge: Judge, query: str, documents: list[str]) -> dict[str, Any]:
    fields = {"model": judge.model, "query": query, "documents": documents}
    return fields | {"top_n": len(documents), "return_documents": False}


_SHAPE = Shape(
    provider="jina",
    keys=("JINA_API_KEY",),
    base_url="https://api.jina.ai/v1",
    url_variable="JINA_BASE_URL",
    build_body=_body,
)

PROVIDER = build_hosted_provider(_SHAPE, models=("jina-reranker-v3",), rates={"rpm": 100})
