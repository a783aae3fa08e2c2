"""Read data sets with the iterators of ``ir_datasets``, also by the names that it gives them.

Such an object has some of ``docs_iter()``, ``queries_iter()``, ``qrels_iter()`` and
``scoreddocs_iter()``, which yield named tuples with the fields ``doc_id``, ``query_id``,
``relevance``, ``score`` and texts. That package is needed for names such as
``ir_datasets:beir/nfcorpus/test`` alone.
"""

import math
from importlib import import_module
from typing import Any

import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.files.tables import table_of
from zelo_ray.formats.interchange.pooling import make_qrels, pool_candidates
from zelo_ray.formats.interchange.query_fields import other_fields
from zelo_ray.formats.interchange.texts import FilledPools, make_filled_pools
from zelo_ray.formats.probe import DATASET
from zelo_ray.records import Document, Ranked


def load_dataset(place: str) -> Any:
    """Load a data set of ``ir_datasets`` by its name.

    Raises:
        InputError: the package is not installed, or knows no such data set.
    """
    name = place.removeprefix(DATASET)
    try:
        return import_module("ir_datasets").load(name)
    except ImportError:
        raise InputError(f"{place}: needs the extra: pip install 'zelo-ray[ir-datasets]'") from None
    except KeyError:
        raise InputError(
            f"{place}: ir_datasets has no such data set; ir_datasets list names them all"
        ) from None


def qrels_of(dataset: Any) -> pa.Table:
    """Return the judgments of a data set.

    Returns:
        The columns of `records.Qrel`; the standard errors are NaN.

    Raises:
        InputError: it has none, or a document is judged twice.
    """
    rows = ((q.query_id, q.doc_id, float(q.relevance), math.nan) for q in dataset.qrels_iter())
    return make_qrels(str(dataset), rows)


def run_of(dataset: Any) -> pa.Table:
    """Return the scores of the first stage, in the columns of `records.Ranked`."""
    scored = ((s.query_id, s.doc_id, float(s.score)) for s in dataset.scoreddocs_iter())
    return table_of([Ranked(*row) for row in scored], Ranked)


def pools_of(dataset: Any, depth: int = 100) -> FilledPools:
    """Make a pool for each query: the first stage's documents to a depth, and all judged ones.

    Args:
        dataset: it needs queries and documents, and judgments or a first stage's scores.
        depth: how many documents of the first stage each query gets.
    """
    runs = {"first stage": run_of(dataset)} if hasattr(dataset, "scoreddocs_iter") else {}
    judged = qrels_of(dataset) if hasattr(dataset, "qrels_iter") else None
    queries = {query.query_id: _query(query) for query in dataset.queries_iter()}
    documents = (Document(doc.doc_id, _text(doc, "doc_id")) for doc in dataset.docs_iter())
    return make_filled_pools(pool_candidates(runs, depth, judged), queries, documents)


def _query(record: Any) -> Document:
    """Return a query, with its fields other than its text (such as a narrative) as metadata."""
    text = _text(record, "query_id")
    others = {name: getattr(record, name) for name in getattr(record, "_fields", ())}
    fields = {name: field for name, field in others.items() if field != text}
    return Document(record.query_id, text, other_fields(fields, {"query_id"}))


def _text(record: Any, id_field: str) -> str:
    """Return a record's default text, or else all its texts but its id, line by line."""
    if hasattr(record, "default_text"):
        return str(record.default_text())
    values = (getattr(record, name) for name in record._fields if name != id_field)
    return "\n".join(value for value in values if isinstance(value, str) and value.strip())
