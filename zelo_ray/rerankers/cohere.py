"""Cohere's rerankers, which charge for search units: a query with up to 100 documents."""

from typing import Any

from zelo_ray.records import Judge
from zelo_ray.rerankers.hosted import Shape, billed_units, build_hosted_provider


def _body(judge: Judge, query: str, documents: list[str]) -> dict[str, Any]:
    limit = judge.options["max_tokens_per_doc"]
    fields = {"model": judge.model, "query": query, "documents": documents}
    return fields | {"top_n": len(documents)} | ({"max_tokens_per_doc": limit} if limit else {})


_SHAPE = Shape(
    provider="cohere",
    keys=("CO_API_KEY", "COHERE_API_KEY"),
    base_url="https://api.cohere.com",
    url_variable="CO_API_URL",
    path="/v2/rerank",
    build_body=_body,
    read_usage=billed_units,
)

PROVIDER = build_hosted_provider(
    _SHAPE,
    models=("rerank-v5.0-pro",),
    options={"max_tokens_per_doc": None},  # longer documents are cut; None: the server's 4,096
    rates={"rpm": 1000},
)
