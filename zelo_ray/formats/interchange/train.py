"""Write rows to train a model on: query, document and score, one document a row."""

from collections.abc import Iterator, Sequence

import orjson
import pyarrow as pa

from zelo_ray.formats.interchange.pooling import columns
from zelo_ray.records import Pool


def training_rows(pools: Sequence[Pool], scores: pa.Table) -> tuple[Iterator[bytes], int]:
    """Return a JSON line for each judged document that has a text.

    ``{"query_id", "doc_id", "query", "document", "score"}``, in the order of the pools; the score
    is as it was judged: of a panel's grades the mean, of battles logits, which share no zero from
    query to query.

    Args:
        pools: the texts.
        scores: the columns of `records.Qrel`.

    Returns:
        The lines, and how many judged documents have no text.
    """
    judged = columns(scores, "query_id", "doc_id", "relevance")
    relevance = {(query_id, doc_id): value for query_id, doc_id, value in judged}
    held = {(pool.query_id, document.id) for pool in pools for document in pool.documents}
    return _lines(pools, relevance), len(relevance.keys() - held)


def _lines(pools: Sequence[Pool], scores: dict[tuple[str, str], float]) -> Iterator[bytes]:
    for pool in pools:
        for document in pool.documents:
            score = scores.get((pool.query_id, document.id))
            if score is not None:
                yield orjson.dumps(
                    {
                        "query_id": pool.query_id,
                        "doc_id": document.id,
                        "query": pool.query,
                        "document": document.content,
                        "score": score,
                    }
                )
