"""Read relevance judgments of any known kind, and the texts that are kept with them."""

import hashlib
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.files.storage import list_directory
from zelo_ray.files.tables import schema_of
from zelo_ray.formats.interchange import beir, mteb
from zelo_ray.formats.interchange.iterables import load_dataset, pools_of, qrels_of
from zelo_ray.formats.interchange.pooling import check_qrels
from zelo_ray.formats.interchange.texts import FilledPools
from zelo_ray.formats.interchange.unjudged_pools import pool_lines
from zelo_ray.formats.judgments.grades import (
    NO_COLUMNS,
    open_judgments,
    read_grade_rows,
    unknown_judgments_error,
)
from zelo_ray.formats.probe import RESULTS, FileProbe, first_name_part, probe
from zelo_ray.records import Qrel

ANNOTATED = "annotated.jsonl"
_QREL = schema_of(Qrel)


def read_qrels(place: str, columns: Mapping[str, str] = NO_COLUMNS) -> pa.Table:
    """Read relevance judgments from a file or directory of any known kind.

    Args:
        place: path or URL.
        columns: by role, the name of a column that is not called as is usual.

    Returns:
        The columns of `records.Qrel`; standard errors are NaN where unknown.

    Raises:
        InputError: it is of no known kind, something in it is wrong, or a document is judged twice.
    """
    source = open_judgments(place)
    if source.kind == "dataset":
        return qrels_of(load_dataset(place))
    rows = read_grade_rows(source, columns, "scores")
    if rows is None:
        raise unknown_judgments_error(source)
    table = rows.table.filter(pc.is_valid(rows.table["grade"]))
    errors = table["std_error"]
    if pc.any(pc.or_(pc.is_inf(errors), pc.less(errors, 0))).as_py():
        raise InputError(f"{source.place}: a std_error is below 0, or infinite")
    qrels = table.select(["query_id", "doc_id", "grade", "std_error"])
    return check_qrels(source.place, qrels.rename_columns(_QREL.names).cast(_QREL))


def digest_judgments(table: pa.Table) -> str:
    """Hash judgments (query, document and relevance), whatever their order or file.

    Args:
        table: the columns of `records.Qrel`.

    Returns:
        32 hexadecimal digits.
    """
    rows = table.select(["query_id", "doc_id", "relevance"])
    ordered = rows.sort_by([(name, "ascending") for name in rows.column_names]).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ordered.schema) as stream:
        stream.write_table(ordered)
    return hashlib.blake2b(sink.getvalue(), digest_size=16).hexdigest()


def has_changed(place: str, digest: str | None, columns: Mapping[str, str] = NO_COLUMNS) -> bool:
    """Return whether judgments have changed; False where that cannot be known.

    Args:
        place: where they are.
        digest: what `digest_judgments` gave for them then, if it was kept.
        columns: by role, the names of columns by which they were read.
    """
    if not digest:
        return False
    try:
        return digest_judgments(read_qrels(place, columns)) != digest
    except InputError:
        return False


def as_grades(url: str, table: pa.Table, levels: int = 4) -> pa.Table:
    """Return judgments with relevance as whole grades from 0 to ``levels`` - 1.

    Raises:
        InputError: a judgment is no such grade.
    """
    grades = np.maximum(table["relevance"].to_numpy(), 0)
    bad = (grades != np.floor(grades)) | (grades >= levels)
    if bad.any():
        row = table.slice(int(bad.argmax()), 1).to_pylist()[0]
        raise InputError(
            f"{url}: query {row['query_id']!r}, document {row['doc_id']!r}: "
            f"{row['relevance']:g} is not a grade from 0 to {levels - 1}"
        )
    return table.set_column(2, "relevance", pa.array(grades))


def has_pools(source: FileProbe) -> bool:
    """Return whether a place of judgments is of a kind that holds texts, too."""
    if source.kind == "collection":
        return not {"qrels", "top_ranked"}.isdisjoint(map(first_name_part, source.names))
    if source.kind == "pools":
        return source.form == "lines"
    return source.kind in ("results", "mteb", "dataset")


def read_judged_pools(source: FileProbe) -> FilledPools | None:
    """Read the pools that are kept with judgments; return None if none are.

    Raises:
        InputError: a line is bad.
    """
    match source.kind if has_pools(source) else "":
        case "results":
            lines = pool_lines([f"{source.place.rstrip('/')}/{ANNOTATED}"])
            return FilledPools([pool for _, pool in lines], [])
        case "pools":
            return FilledPools([pool for _, pool in pool_lines([source.place])], [])
        case "mteb":
            return mteb.read_rows(source)[0]
        case "dataset":
            return pools_of(load_dataset(source.place))
        case "collection":
            return beir.read_beir_pools(source.place)
    return None


def pools_file_of_truth(place: str) -> str | None:
    """Return the place of the judged pools as lines that `annotate` reads; None if missing."""
    names = list_directory(place)
    if names is not None:
        return f"{place.rstrip('/')}/{ANNOTATED}" if ANNOTATED in names else None
    folder, _, name = place.rpartition("/")
    if name == RESULTS:
        return pools_file_of_truth(folder or ".")
    return place if probe(place).kind == "pools" else None


def holds_texts(place: str) -> bool:
    """Return whether judgments are kept together with the texts of queries and documents.

    Raises:
        InputError: the place cannot be read.
    """
    source = probe(place)
    stems = {first_name_part(name) for name in source.names}
    return has_pools(source) and (source.kind != "collection" or {"corpus", "queries"} <= stems)
