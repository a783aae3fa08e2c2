"""Collections in a directory: BEIR's, and those of MTEB since its version 2, which are alike.

    corpus.jsonl      {"_id", "title", "text"}
    queries.jsonl     {"_id", "text", "metadata"?}
    qrels/test.tsv    query-id, corpus-id and score under a header
    top_ranked.jsonl  {"query-id", "corpus-ids"}: the candidates of each query, where told

Each part may be JSON lines, Parquet or (qrels) TSV, one file or a folder of them, as data sets on
Hugging Face are laid out. Of several splits it is the one called test.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError, Unwritable
from zelo_ray.files.storage import decode_line, list_directory, open_for_writing, read_placed_lines
from zelo_ray.files.wording import counted
from zelo_ray.formats.interchange.pooling import Candidates, columns, make_qrels, pool_candidates
from zelo_ray.formats.interchange.texts import (
    FilledPools,
    find_parts,
    index_by_id,
    make_filled_pools,
    read_texts,
    without_title,
    write_lines,
)
from zelo_ray.formats.interchange.trec import format_numbers
from zelo_ray.formats.lossy_ids import refuse_lossy_id
from zelo_ray.formats.probe import BEIR_QRELS_COLUMNS, probe
from zelo_ray.records import Document, Pool

_Row = tuple[str, str, float, float]


def read_beir_qrels(url: str) -> pa.Table:
    """Read the judgments of a collection, or of one file of judgments.

    Returns:
        The columns of `records.Qrel`; the standard errors are NaN.

    Raises:
        InputError: a line is bad, a document is judged twice, or there is none.
    """
    files = [url] if list_directory(url) is None else find_parts(url, "qrels")
    return make_qrels(url, chain.from_iterable(_judged(file) for file in files))


def read_queries(url: str) -> dict[str, Document]:
    """Read queries by their ids: each with its text, and its other fields as metadata."""
    return index_by_id(read_texts(url, "queries"))


def read_beir_pools(url: str) -> FilledPools:
    """Read a pool for each query: its candidates as they are ranked, else its judged documents.

    A note warns of ranks in which the relevant documents stand first in every query, as in data
    that were converted from rows of positive and negative ones: they are no first stage's opinion.
    """
    names, notes = {name.split(".")[0] for name in list_directory(url) or ()}, []
    if "top_ranked" not in names or list_directory(f"{url.rstrip('/')}/top_ranked") == []:
        candidates = pool_candidates({}, 0, read_beir_qrels(url))
    else:
        candidates = _top_ranked(url)
        if "qrels" in names and _reveals_truth(candidates, read_beir_qrels(url)):
            notes = [
                "relevant documents come first in every query: this is not a first-stage ranking"
            ]
    wanted = {doc_id for ids in candidates.values() for doc_id in ids}
    filled = make_filled_pools(candidates, read_queries(url), read_texts(url, "corpus", wanted))
    return replace(filled, notes=filled.notes + notes)


def write_collection(url: str, pools: Sequence[Pool], qrels: pa.Table) -> None:
    """Write a collection: the documents of the pools, their order, and the judgments.

    Raises:
        Unwritable: two pools have different texts for an id, or an id cannot stand in a TSV file.
    """
    root = url.rstrip("/")
    documents: dict[str, Document] = {}
    for document in chain.from_iterable(pool.documents for pool in pools):
        if documents.setdefault(document.id, document).content != document.content:
            raise Unwritable(f"{url}: document {document.id!r} has one text here and another there")
    write_lines(f"{root}/corpus.jsonl", (_corpus_line(document) for document in documents.values()))
    write_lines(f"{root}/queries.jsonl", map(_query_line, pools))
    _write_qrels(f"{root}/qrels/test.tsv", qrels)
    ranked = (
        {"query-id": pool.query_id, "corpus-ids": [document.id for document in pool.documents]}
        for pool in pools
    )
    write_lines(f"{root}/top_ranked.jsonl", map(orjson.dumps, ranked))


def _judged(file: str) -> Iterator[_Row]:
    place, line = (
        next(read_placed_lines(file), (file, b"")) if not file.endswith(".parquet") else (file, b"")
    )
    head = decode_line(place, line).split("\t")
    if {*BEIR_QRELS_COLUMNS} <= {*head}:  # BEIR quotes nothing: a quote is a part of an id
        at = [head.index(name) for name in BEIR_QRELS_COLUMNS]
        for place, line in islice(read_placed_lines(file), 1, None):
            cells = decode_line(place, line).split("\t")
            if cells == head:  # of another part
                continue
            if len(cells) != len(head):
                width = counted(len(cells), "column")
                raise InputError(f"{place}: has {width}, but the header has {len(head)}")
            yield _row(place, *(cells[n] or None for n in at))
        return
    source = probe(file)
    if {*BEIR_QRELS_COLUMNS} <= {*source.names}:
        for place, row in source.rows():
            yield _row(place, *(row.get(name) for name in BEIR_QRELS_COLUMNS))
        return
    for place, line in read_placed_lines(file):
        cells = decode_line(place, line).split("\t")
        yield _row(place, *(cells if len(cells) == 3 else (None,)))


def _row(place: str, query_id: object = None, doc_id: object = None, score: object = None) -> _Row:
    refuse_lossy_id(place, BEIR_QRELS_COLUMNS[0], query_id)
    refuse_lossy_id(place, BEIR_QRELS_COLUMNS[1], doc_id)
    try:
        number = float(str(score))
    except ValueError:
        number = math.nan
    if not (isinstance(query_id, str | int) and isinstance(doc_id, str | int)) or math.isnan(
        number
    ):
        raise InputError(f"{place}: needs {', '.join(BEIR_QRELS_COLUMNS)}, the last a number")
    return str(query_id), str(doc_id), number, math.nan


def _top_ranked(url: str) -> Candidates:
    candidates: Candidates = {}
    for file in find_parts(url, "top_ranked"):
        for place, row in probe(file).rows():
            ids = row.get("corpus-ids")
            if not isinstance(ids, list) or "query-id" not in row:
                raise InputError(f"{place}: needs query-id and a list of corpus-ids")
            for id_ in (row["query-id"], *ids):
                refuse_lossy_id(place, "the id", id_)
            candidates[str(row["query-id"])] = {str(doc_id): {} for doc_id in ids}
    return candidates


def _reveals_truth(candidates: Candidates, qrels: pa.Table) -> bool:
    """Return whether the relevant candidates stand first in all queries."""
    pairs = set(columns(qrels.filter(pc.field("relevance") > 0), "query_id", "doc_id"))
    marks = [[(query, doc_id) in pairs for doc_id in ids] for query, ids in candidates.items()]
    return all(mark == sorted(mark, reverse=True) for mark in marks)


def _corpus_line(document: Document) -> bytes:
    title, text = without_title(document)
    return orjson.dumps({"_id": document.id, "title": title, "text": text})


def _query_line(pool: Pool) -> bytes:
    fields = {"metadata": dict(pool.about)} if pool.about else {}
    return orjson.dumps({"_id": pool.query_id, "text": pool.query, **fields})


def _write_qrels(url: str, qrels: pa.Table) -> None:
    for name in ("query_id", "doc_id"):
        odd = qrels[name].filter(pc.match_substring_regex(qrels[name], r'[\t\r\n"]|^$'))
        if len(odd):
            raise Unwritable(f"{url}: the {name} {odd[0].as_py()!r} cannot stand in a TSV file")
    scores = format_numbers(url, qrels["relevance"])
    cells = pc.binary_join_element_wise(qrels["query_id"], qrels["doc_id"], scores, "\t")
    with open_for_writing(url) as file:
        file.write("\n".join(["\t".join(BEIR_QRELS_COLUMNS), *cells.to_pylist(), ""]).encode())
