"""Any server with the usual ``/rerank`` endpoint: vLLM, text-embeddings-inference and others.

``rerank:MODEL@http://host:8000/v1`` posts to ``http://host:8000/v1/rerank``. For
text-embeddings-inference set ``{documents_field: texts, documents: 32}``: its field has another
name, and by default it accepts 32 documents at once.
"""

from typing import Any

from zelo_ray.records import Judge, Usage
from zelo_ray.rerankers.hosted import Shape, billed_units, build_hosted_provider, total_tokens


def _body(judge: Judge, query: str, documents: list[str]) -> dict[str, Any]:
    fields = {"model": judge.model, "query": query, "top_n": len(documents)}
    return {**fields, judge.options["documents_field"]: documents, **judge.options["extra_body"]}


def _rows(body: Any) -> Any:
    """Return the rows, from a list or from ``results``, with their scores under one name."""
    rows = body if isinstance(body, list) else body["results"]
    return [{"score": row.get("relevance_score", row.get("score")), **row} for row in rows]


def _used(body: Any) -> Usage:
    """Return the usage that most servers report, or the one that gateways to Cohere report."""
    usage = billed_units(body)
    return usage if usage != Usage() else total_tokens(body)


_SHAPE = Shape(
    provider="rerank",
    keys=(),
    base_url="",
    url_variable="",
    build_body=_body,
    read_rows=_rows,
    score="score",
    read_usage=_used,
)

PROVIDER = build_hosted_provider(
    _SHAPE,
    options={
        "documents_field": "documents",
        "extra_body": {},  # more fields of the request, such as raw_scores or truncate
    },
)
