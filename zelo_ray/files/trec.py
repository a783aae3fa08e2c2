"""Write TREC's qrels and runs; `rows.open_source` reads them as tables."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import OutputError
from zelo_ray.files.pools import write_lines

# where str.split() parts a line, and what would leave a column empty
_WHITE = r"[\s\v\x1c-\x1f\x{85}\p{Z}]|^$|^\x{FEFF}"
_ROWS = 100_000


def write_qrels(url: str, qrels: pa.Table) -> None:
    """Write judgments (columns of `records.Qrel`), in their order, to be read as the same."""
    relevance = format_numbers(url, qrels["relevance"])
    _write(url, qrels, qrels["query_id"], "0", qrels["doc_id"], relevance)


def write_run(url: str, name: str, ordered: pa.Table) -> None:
    """Write a run (the result of `candidates.sort_run`), with its ranks."""
    _refuse_white(url, "the run's name", pa.chunked_array([[name]]))
    scores, ranks = format_numbers(url, ordered["score"]), ordered["rank"].cast(pa.string())
    _write(url, ordered, ordered["query_id"], "Q0", ordered["doc_id"], ranks, scores, name)


def format_numbers(url: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Format numbers as the shortest text that reads as the same number: ``3``, ``-0.25``."""
    plain = values.to_numpy()
    if not np.isfinite(plain).all():
        raise OutputError(f"{url}: a score that is not finite cannot be written")
    return pa.chunked_array([pc.cast(pa.array(plain), pa.string())])


def _refuse_white(url: str, what: str, column: pa.ChunkedArray) -> None:
    for text in column.filter(pc.match_substring_regex(column, _WHITE))[:1].to_pylist():
        raise OutputError(f"{url}: {what} {text!r} is empty, or holds white space or a mark")


def _write(url: str, table: pa.Table, *cells: str | pa.ChunkedArray) -> None:
    for name in ("query_id", "doc_id"):
        _refuse_white(url, f"the {name}", table[name])
    lines = pc.binary_join_element_wise(*cells, " ") if len(table) else pa.chunked_array([[]])
    parts = (lines.slice(start, _ROWS).to_pylist() for start in range(0, len(table), _ROWS))
    write_lines(url, (line.encode() for part in parts for line in part))
