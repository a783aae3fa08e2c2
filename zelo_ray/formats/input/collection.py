"""Make pools of runs, judgments and collections, whose texts are in other files."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from statistics import median

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.files.run_record import RUN
from zelo_ray.files.storage import has_data_ending, list_directory, unpacked_name
from zelo_ray.formats.input.input_options import InputOptions, Part
from zelo_ray.formats.input.long import ConversionNotes, Pool, TextsById
from zelo_ray.formats.interchange import beir
from zelo_ray.formats.interchange.iterables import load_dataset
from zelo_ray.formats.interchange.iterables import pools_of as make_dataset_pools
from zelo_ray.formats.interchange.pooling import Candidates, pool_candidates, top_ranks
from zelo_ray.formats.interchange.suspicious_scores import describe_doubts
from zelo_ray.formats.interchange.texts import (
    FilledPools,
    describe_left_out,
    index_by_id,
    make_filled_pools,
    pool_row,
)
from zelo_ray.formats.judgments.qrels import read_qrels
from zelo_ray.formats.probe import (
    CORPUS_NAMES,
    QUERIES_NAMES,
    first_name_part,
    is_dataset_name,
    probe,
)
from zelo_ray.formats.runs import read_runs, without_ranks
from zelo_ray.records import Document

DEPTH = 100
_RUNS = (".run", ".trec", ".res")
_OF: Mapping[Part, str] = {"corpus": "doc_id", "queries": "query_id"}
_OTHER: Mapping[Part, Part] = {"corpus": "queries", "queries": "corpus"}


@dataclass(frozen=True, slots=True)
class Collection:
    """A folder with texts, and with files that name the candidates of queries."""

    url: str
    judged: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    ranked: bool = False
    others: tuple[str, ...] = ()
    """files of data that are no part of it, or give no candidates since others do"""

    @property
    def has_candidates(self) -> bool:
        """Return whether any file says which documents are candidates of which query."""
        return self.ranked or bool(self.runs or self.judged)


def find_collection(url: str) -> Collection | None:
    """Return the collection (BEIR, MTEB or ``ir_datasets`` export) in a folder, or None.

    A data set of ``ir_datasets`` that is called by its name is one, too.
    """
    if is_dataset_name(url):
        return Collection(url, ranked=True)
    names = list_directory(url)
    stems = {first_name_part(name) for name in names or ()}
    if names is None or stems.isdisjoint(CORPUS_NAMES) or stems.isdisjoint(QUERIES_NAMES):
        return None
    root = url.rstrip("/")
    runs = [
        n for n in names if first_name_part(n) == "scoreddocs" or unpacked_name(n).endswith(_RUNS)
    ]
    runs = [n for n in runs if first_name_part(n) != "qrels"]
    ranked = "top_ranked" in stems and list_directory(f"{root}/top_ranked") != []
    parts = {
        *CORPUS_NAMES,
        *QUERIES_NAMES,
        "qrels",
        "top_ranked",
        *(first_name_part(n) for n in runs if not ranked),
    }
    others = [
        n
        for n in names
        if has_data_ending(n) and first_name_part(n) not in parts and RUN not in names
    ]
    return Collection(
        root,
        judged=tuple(f"{root}/{name}" for name in names if first_name_part(name) == "qrels"),
        runs=tuple(f"{root}/{name}" for name in runs),
        ranked=ranked,
        others=tuple(others),
    )


def make_collection_pools(collection: Collection) -> FilledPools:
    """Make the pools of a folder: of ranked candidates, else of runs, else of judged documents.

    Raises:
        InputError: nothing in it says which documents are candidates.
    """
    made = _of_parts(collection)
    others = f"left out other files of {collection.url}: {', '.join(collection.others)}"
    return replace(made, notes=[*made.notes, *([others] if collection.others else [])])


def _of_parts(collection: Collection) -> FilledPools:
    request = InputOptions(collection.url, collection.url)
    if is_dataset_name(collection.url):
        return make_dataset_pools(load_dataset(collection.url))
    if collection.ranked:
        return beir.read_beir_pools(collection.url)
    if collection.runs:
        return make_run_pools(collection.runs, (), request)
    if collection.judged:
        qrels = _judged(collection)
        made = fill_candidates(pool_candidates({}, 0, qrels), request, collection.url)
        return replace(made, notes=[*_poor(qrels, made, collection.url), *made.notes])
    raise InputError(f"{collection.url}: has a corpus and queries, but nothing says what to judge")


def _poor(qrels: pa.Table, made: FilledPools, url: str) -> Iterator[str]:
    """Yield a warning if the candidates are the relevant documents alone."""
    if made.pools and not pc.any(pc.less_equal(qrels["relevance"], 0)).as_py():
        middle = median(len(pool.documents) for pool in made.pools)
        yield (
            f"candidates are the judged documents (median {middle:g} a query, all relevant): bring "
            f"a run, annotate {url} bm25.run"
        )


def make_run_pools(
    runs: Sequence[str], judged: Sequence[str], input_options: InputOptions
) -> FilledPools:
    """Make pools of runs, to a depth, and of judgments, in an order that does not reveal these."""
    rankings = read_runs(runs, ranks=True, columns=input_options.columns)
    tables = without_ranks(rankings)
    qrels = read_qrels(judged[0], input_options.columns) if judged else None
    if judged[1:]:
        raise InputError(f"{judged[1]}: there are judgments in {judged[0]} already; name one file")
    pools = fill_candidates(
        pool_candidates(tables, DEPTH, qrels), input_options, [*runs, *judged][0]
    )
    cut = [name for name, table in tables.items() if len(top_ranks(table, DEPTH)) < len(table)]
    notes = describe_doubts(rankings, DEPTH)
    notes += [f"took the first {DEPTH} documents of each query of {', '.join(cut)}"] if cut else []
    return replace(pools, notes=[*notes, *pools.notes])


def fill_candidates(
    candidates: Candidates, input_options: InputOptions, source: str
) -> FilledPools:
    """Add texts to candidates; of the corpus, keep only the wanted documents.

    Raises:
        InputError: no query, or no document, has the id of a candidate.
    """
    wanted = {doc_id for ranks in candidates.values() for doc_id in ranks}
    queries, idle = dict[str, Document](), list[str]()
    for query in input_options.texts("queries"):
        if query.id in candidates:
            queries[query.id] = query
        else:
            idle.append(query.id)
    if not queries:
        input_options.refuse_unmatched_texts("queries", source, candidates, wanted)
    drafts = make_filled_pools(candidates, queries, input_options.texts("corpus", wanted))
    if not any(pool.documents for pool in drafts.pools):
        input_options.refuse_unmatched_texts("corpus", source, wanted, candidates)
    idle += [pool.query_id for pool in drafts.pools if not pool.documents]
    lacking = describe_left_out("queries without candidates", idle)
    pools = [pool for pool in drafts.pools if pool.documents]
    return FilledPools(pools, [*drafts.notes, *([lacking] if lacking else [])], drafts.own_queries)


def pools_as_lines(found: FilledPools, left: ConversionNotes) -> Iterator[Pool]:
    """Yield pools in the form of input lines; add their notes to ``left``."""
    left.made_up |= dict.fromkeys(found.notes)
    for pool in found.pools:
        yield pool_row(pool, found.own_queries)


def read_missing_texts(
    input_options: InputOptions, lacks: AbstractSet[str], rows: pa.Table, source: str
) -> TextsById:
    """Read the texts that rows lack.

    Raises:
        InputError: none of them is where it is to be.
    """
    ids = {part: {*rows[name].to_pylist()} - {None} for part, name in _OF.items() if part in lacks}
    texts: dict[str, dict[str, Document]] = {}
    for part, wanted in ids.items():
        texts[part] = index_by_id(input_options.texts(part, wanted))
        if wanted and not texts[part]:
            input_options.refuse_unmatched_texts(part, source, wanted, ids.get(_OTHER[part], ()))
    return TextsById(queries=texts.get("queries"), corpus=texts.get("corpus"))


def guess_text_files(url: str) -> tuple[str, str]:
    """Guess from the names in a run's folder where its corpus and its queries are."""
    folder = url.rpartition("/")[0]
    try:
        names = list_directory(folder or ".") or []
    except InputError:
        names = []
    prefix = f"{folder}/" if folder else ""
    urls = []
    for usual, word in ((CORPUS_NAMES, "CORPUS"), (QUERIES_NAMES, "QUERIES")):
        matches = [name for name in names if first_name_part(name) in usual]
        urls.append(f"{prefix}{matches[0]}" if matches else word)
    return urls[0], urls[1]


def _judged(collection: Collection) -> pa.Table:
    name = collection.judged[0].rpartition("/")[2]
    is_file = list_directory(collection.judged[0]) is None and name.count(".") > 0
    if is_file and probe(collection.judged[0]).kind == "trec qrels":
        return read_qrels(collection.judged[0])
    return beir.read_beir_qrels(collection.url)
