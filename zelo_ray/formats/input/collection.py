"""Candidates that are kept apart from their texts: runs, judgments, and folders of collections."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.formats.files import listing
from zelo_ray.formats.input.long import Left, Pool, Texts
from zelo_ray.formats.input.sight import look
from zelo_ray.formats.interchange import beir
from zelo_ray.formats.interchange.pooling import Candidates, pooled, top
from zelo_ray.formats.interchange.runs import read_runs
from zelo_ray.formats.interchange.texts import (
    Filled,
    by_id,
    document_row,
    fill,
    note,
    read_texts,
)
from zelo_ray.formats.interchange.truth import read_truth

DEPTH = 100
_CORPUS = ("corpus", "docs", "documents", "collection")
_QUERIES = ("queries", "topics")
_RUNS = (".run", ".trec", ".res")
_PACKED = (".gz", ".zst")


@dataclass(frozen=True, slots=True)
class Collection:
    """What lies in a folder: texts, and what says which of them are candidates."""

    url: str
    judged: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    ranked: bool = False

    @property
    def has_candidates(self) -> bool:
        """Whether anything says which documents are candidates of which query."""
        return self.ranked or bool(self.runs or self.judged)


def stem_of(name: str) -> str:
    """The first part of a file's name, small."""
    return name.split(".", maxsplit=1)[0].lower()


def collection_at(url: str) -> Collection | None:
    """The collection in a folder: BEIR's, MTEB's, or what ``ir_datasets`` exports; None if none."""
    names = listing(url)
    stems = {stem_of(name) for name in names or ()}
    if names is None or stems.isdisjoint(_CORPUS) or stems.isdisjoint(_QUERIES):
        return None
    root = url.rstrip("/")
    plain = {name: name.removesuffix(".gz").removesuffix(".zst") for name in names}
    runs = [n for n in names if stem_of(n) == "scoreddocs" or plain[n].endswith(_RUNS)]
    runs = [n for n in runs if stem_of(n) != "qrels"]
    return Collection(
        root,
        judged=tuple(f"{root}/{name}" for name in names if stem_of(name) == "qrels"),
        runs=tuple(f"{root}/{name}" for name in runs),
        ranked="top_ranked" in stems,
    )


def of_collection(found: Collection) -> Filled:
    """The pools of a folder: its ranked candidates, else those of its runs, else what is judged.

    Raises:
        InputError: nothing in it says which documents are candidates.
    """
    if found.ranked:
        return beir.read_pools(found.url)
    if found.runs:
        return of_runs(found.runs, (), found.url, found.url)
    if found.judged:
        return filled(pooled({}, 0, _judged(found)), found.url, found.url)
    raise InputError(f"{found.url}: has a corpus and queries, but nothing says what to judge")


def of_runs(runs: Sequence[str], judged: Sequence[str], corpus: str, queries: str) -> Filled:
    """The pools of runs, to a depth, and of judgments, in an order that tells nothing of these."""
    tables = read_runs(runs)
    qrels = read_truth(judged[0]) if judged else None
    if judged[1:]:
        raise InputError(f"{judged[1]}: there are judgments in {judged[0]} already; name one file")
    found = filled(pooled(tables, DEPTH, qrels), corpus, queries)
    cut = [name for name, table in tables.items() if len(top(table, DEPTH)) < len(table)]
    told = [f"took the first {DEPTH} documents of each query of {', '.join(cut)}"] if cut else []
    return Filled(found.pools, [*told, *found.notes])


def filled(candidates: Candidates, corpus: str, queries: str) -> Filled:
    """Candidates with their texts; of the corpus only what is wanted is kept."""
    wanted = {doc_id for ranks in candidates.values() for doc_id in ranks}
    known, idle = dict[str, str](), list[str]()
    for query in read_texts(queries, "queries"):
        if query.id in candidates:
            known[query.id] = query.content
        else:
            idle.append(query.id)
    found = fill(candidates, known, read_texts(corpus, "corpus", wanted))
    idle += [pool.query_id for pool in found.pools if not pool.documents]
    lacking = note("queries without candidates", idle)
    pools = [pool for pool in found.pools if pool.documents]
    return Filled(pools, [*found.notes, *([lacking] if lacking else [])])


def lines_of(found: Filled, left: Left) -> Iterator[Pool]:
    """Pools as they stand in lines; the notes go to ``left``."""
    left.made |= dict.fromkeys(found.notes)
    for pool in found.pools:
        session = {"session_id": pool.session_id} if pool.session_id else {}
        query = {"id": pool.query_id, "query": pool.query, **session}
        yield {"query": query, "documents": [document_row(each) for each in pool.documents]}


def texts_at(corpus: str | None, queries: str | None, wanted: Mapping[str, None] | None) -> Texts:
    """The texts that rows lack."""
    return Texts(
        queries=None if queries is None else beir.read_queries(queries),
        corpus=None if corpus is None else by_id(read_texts(corpus, "corpus", wanted)),
    )


def beside(url: str) -> tuple[str, str]:
    """Where the corpus and the queries of a run may lie: in its folder, by their names."""
    folder = url.rpartition("/")[0]
    try:
        names = listing(folder or ".") or []
    except InputError:
        names = []
    prefix = f"{folder}/" if folder else ""
    found = []
    for usual, word in ((_CORPUS, "CORPUS"), (_QUERIES, "QUERIES")):
        there = [name for name in names if stem_of(name) in usual]
        found.append(f"{prefix}{there[0]}" if there else word)
    return found[0], found[1]


def _judged(found: Collection) -> pa.Table:
    name = found.judged[0].rpartition("/")[2]
    is_file = listing(found.judged[0]) is None and name.count(".") > 0
    if is_file and look(found.judged[0]).form == "qrels":
        return read_truth(found.judged[0])
    return beir.read_qrels(found.url)
