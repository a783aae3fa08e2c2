"""Write judgments in the formats of tools that search teams keep them in.

All of them hold whole grades from 0 on, by the text of the query and the id of the document in the
index. A tool is a function, and a line in ``TOOLS``.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import orjson
import pyarrow as pa

from zelo_ray.formats.files import open_for_writing
from zelo_ray.formats.interchange.pooling import columns
from zelo_ray.records import Pool

RatedQueries = Sequence[tuple[Pool, Sequence[tuple[str, int]]]]
"""Queries with the grades of their documents, by doc_id, in the order of the pool."""


@dataclass(frozen=True, slots=True)
class SearchIndex:
    """An index that a tool finds the documents in, and its field that queries match."""

    name: str
    field: str


def rate_queries(pools: Sequence[Pool], grades: pa.Table) -> RatedQueries:
    """Join queries with the grades of their documents; queries without any are left out.

    Args:
        pools: the queries.
        grades: the columns of `records.Qrel`, whose relevance is a whole grade from 0 on.
    """
    by_query: dict[str, list[tuple[str, int]]] = {}
    for query_id, doc_id, grade in columns(grades, "query_id", "doc_id", "relevance"):
        by_query.setdefault(query_id, []).append((doc_id, int(grade)))
    return [(pool, by_query[pool.query_id]) for pool in pools if pool.query_id in by_query]


def opensearch_judgments(rated: RatedQueries, index: SearchIndex) -> bytes:
    """Return the body that imports a judgment list into OpenSearch's Search Relevance Workbench.

    It is sent by PUT to ``_plugins/_search_relevance/judgments`` (OpenSearch 3.1 and later), whose
    documentation has ratings as texts of three decimals.
    """
    body = {
        "name": index.name or "zelo-ray",
        "description": "Judgments by zelo-ray",
        "type": "IMPORT_JUDGMENT",
        "judgmentRatings": [
            {
                "query": pool.query,
                "ratings": [
                    {"docId": doc_id, "rating": f"{grade:.3f}"} for doc_id, grade in grades
                ],
            }
            for pool, grades in rated
        ],
    }
    return orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n"


def rank_eval_body(rated: RatedQueries, index: SearchIndex) -> bytes:
    """Return the body of ``_rank_eval`` of Elasticsearch and OpenSearch, with nDCG@10.

    Each request is a match query, which stands for the one to be measured.
    """
    requests = [
        {
            "id": pool.query_id,
            "request": {"query": {"match": {index.field: pool.query}}},
            "ratings": [
                {"_index": index.name, "_id": doc_id, "rating": grade} for doc_id, grade in grades
            ],
        }
        for pool, grades in rated
    ]
    body = {"requests": requests, "metric": {"dcg": {"k": 10, "normalize": True}}}
    return orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n"


def quepid_csv(rated: RatedQueries, _: SearchIndex) -> bytes:
    """Return the CSV that Quepid imports as ratings: query, docid, rating."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("query", "docid", "rating"))
    for pool, grades in rated:
        # Not guarded against formulas: Quepid would take the guard for a part of the query.
        writer.writerows((pool.query, doc_id, grade) for doc_id, grade in grades)
    return text.getvalue().encode()


TOOLS: Mapping[str, Callable[[RatedQueries, SearchIndex], bytes]] = {
    "opensearch": opensearch_judgments,
    "rank-eval": rank_eval_body,
    "quepid": quepid_csv,
}


def write_judgments(url: str, tool: str, rated: RatedQueries, index: SearchIndex) -> None:
    """Write judgments for one of ``TOOLS``."""
    with open_for_writing(url) as file:
        file.write(TOOLS[tool](rated, index))
