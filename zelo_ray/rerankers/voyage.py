"""Voyage AI's rerankers."""

from typing import Any

from zelo_ray.records import Judge
from zelo_ray.rerankers.hosted import Shape, build_hosted_provider


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
    build_body=_body,
    read_rows=_rows,
)

PROVIDER = build_hosted_provider(
    _SHAPE,
    models=("rerank-3",),
    options={"truncation": False},  # true: the server silently cuts long texts
    rates={"rpm": 2000, "tpm": 2_000_000},
)
