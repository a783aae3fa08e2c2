"""``pools``: ask a live search index for the candidates of queries, and unite first stages."""

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from zelo_ray.commands.pools.search_index import (
    QUERY_PLACE,
    Hit,
    IndexAddress,
    fetch_documents,
    match_body,
    search_queries,
)
from zelo_ray.errors import InputError
from zelo_ray.formats.columns import split_columns
from zelo_ray.formats.files import file_stem, read_json_object
from zelo_ray.formats.interchange.beir import read_queries
from zelo_ray.formats.interchange.pooling import pool_candidates
from zelo_ray.formats.interchange.suspicious_scores import describe_doubts
from zelo_ray.formats.interchange.texts import make_filled_pools, pool_line, write_lines
from zelo_ray.formats.runs import read_runs, without_ranks
from zelo_ray.formats.tables import schema_of, table_of_rows
from zelo_ray.formats.wording import WrittenSummary, counted
from zelo_ray.options import PoolsOptions
from zelo_ray.records import Document, Ranked


def make_pools(options: PoolsOptions, environ: Mapping[str, str]) -> WrittenSummary:
    """Write the pools of queries whose candidates an index finds; return a summary.

    Each body of a search is a first stage; so is each run, whose texts the index gives. A
    document's metadata says at which rank each stage found it.

    Args:
        options: of ``pools``.
        environ: environment variables, which hold the key.

    Raises:
        InputError: the queries cannot be read, or the index cannot be searched or finds nothing.
    """
    address = IndexAddress(
        options.url, options.index, options.field, authorization_headers(environ)
    )
    queries = read_queries(options.queries)
    texts = {query_id: query.content for query_id, query in queries.items()}
    documents: dict[str, Document] = {}
    runs: dict[str, pa.Table] = {}
    for name, body in _bodies(options).items():
        hits = asyncio.run(search_queries(address, body, texts, options.k))
        runs[name] = _run_of(hits)
        for rows in hits.values():
            documents.update((hit.document.id, hit.document) for hit in rows)
    given = read_runs(options.runs, ranks=True, columns=split_columns(options.columns))
    if twice := runs.keys() & given.keys():
        raise InputError(f"two first stages are called {sorted(twice)[0]}: --runs NAME=FILE")
    notes = describe_doubts(given, options.k)
    candidates = pool_candidates({**runs, **without_ranks(given)}, options.k)
    wanted = {doc_id for ranks in candidates.values() for doc_id in ranks} - documents.keys()
    fetched = asyncio.run(fetch_documents(address, sorted(wanted))) if wanted else []
    filled = make_filled_pools(candidates, queries, [*documents.values(), *fetched])
    number = sum(len(pool.documents) for pool in filled.pools)
    if not number:
        raise InputError(f"{address.place}: finds no document for any of the queries")
    written = write_lines(
        options.out, (pool_line(pool, filled.own_queries) for pool in filled.pools)
    )
    done = f"{counted(written, 'pool')} with {counted(number, 'document')}: {options.out}"
    stages = ", ".join(f"{name} {len(run):,}" for name, run in {**runs, **given}.items())
    without = [query_id for query_id in queries if query_id not in candidates]
    lines = [done, f"first stages: {stages}", *filled.notes, *notes]
    if without:
        some = counted(len(without), "query", "queries")
        lines.insert(2, f"found nothing for {some}, such as {without[0]}")
    return WrittenSummary(*lines, pools=written, documents=number)


def authorization_headers(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that authorize searches: by an API key, else by name and password."""
    key, name, password = (environ.get(variable, "") for variable in PoolsOptions.key_variables)
    if key:
        return {"Authorization": f"ApiKey {key}"}
    if name:
        pair = f"{name}:{password}"
        return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
    return {}


def _bodies(options: PoolsOptions) -> dict[str, dict[str, Any]]:
    """Return the bodies of searches by the names of their stages.

    Raises:
        InputError: a file has no place for the query.
    """
    bodies = {}
    for file in options.bodies:
        body = read_json_object(file)
        if QUERY_PLACE not in str(body):
            raise InputError(f"{file}: has no {QUERY_PLACE} where the text of the query goes")
        bodies[file_stem(file)] = body
    return bodies or {options.engine: match_body(options.field)}


def _run_of(hits: Mapping[str, list[Hit]]) -> pa.Table:
    """Return hits as a run, by their places: scores of an index may be equal or missing."""
    rows = [
        (query_id, hit.document.id, -float(place))
        for query_id, found in hits.items()
        for place, hit in enumerate(found, 1)
    ]
    return table_of_rows(rows, schema_of(Ranked))
