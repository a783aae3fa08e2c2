"""The report of a run: one page that opens from a file, without any network."""

import json
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jinja2 import Environment, PackageLoader, StrictUndefined

from zelo_ray.formats.results import write_text

_QUERIES = 200
"""How many queries a page shows, so that it stays light to open."""
_SNIPPET = 280


class NothingToReport(Exception):  # noqa: N818 - it names what is the matter
    """The directory holds no finished run."""


def write_report(out: str) -> None:
    """Write ``report.html`` from the other files of a finished run.

    Raises:
        NothingToReport: they are not there.
    """
    fs, root = fsspec.url_to_fs(out)
    if not fs.exists(f"{root}/run.json"):
        raise NothingToReport(f"{out} holds no run.json: is it the --out of a finished run?")
    run = json.loads(fs.cat_file(f"{root}/run.json"))
    pools = _first_pools(fs, root)
    shown = [pool["query"]["id"] for pool in pools]
    with fs.open(f"{root}/scores.parquet", "rb") as file:
        scores = pq.read_table(
            file, filters=pc.field("query_id").isin(pa.array(shown, pa.string()))
        ).to_pylist()
    with fs.open(f"{root}/failures.parquet", "rb") as file:
        failures = pq.read_table(file).slice(0, 1000).to_pylist()
    # Whatever comes from data is escaped: a document that holds a script is shown, not run.
    environment = Environment(
        loader=PackageLoader("zelo_ray"), autoescape=True, undefined=StrictUndefined
    )
    page = environment.get_template("report.html").render(
        run=run, failures=failures, queries=_queries(pools, scores), shown=_QUERIES
    )
    write_text(out, "report.html", page)


def _first_pools(fs: fsspec.AbstractFileSystem, root: str) -> list[dict[str, Any]]:
    with fs.open(f"{root}/annotated.jsonl", "rb") as lines:
        return [json.loads(line) for line, _ in zip(lines, range(_QUERIES), strict=False)]


def _queries(pools: list[dict[str, Any]], scores: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The queries, each with its documents by rank."""
    by_document = {(s["query_id"], s["doc_id"]): s for s in scores}
    queries: list[dict[str, Any]] = []
    for pool in pools:
        documents = [
            {
                "id": document["id"],
                "text": document["content"][:_SNIPPET],
                "score": by_document.get((pool["query"]["id"], document["id"])),
            }
            for document in pool["documents"]
        ]
        last = len(documents) + 1
        documents.sort(key=lambda d: d["score"]["rank"] if d["score"] else last)
        reach = max((abs(d["score"]["score"]) for d in documents if d["score"]), default=1.0)
        queries.append({**pool["query"], "documents": documents, "reach": reach or 1.0})
    return queries
