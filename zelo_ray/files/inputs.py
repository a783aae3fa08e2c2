"""Find the pools in what a user names: JSON lines of pools as they are, the rest converted."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import median
from typing import Any, Literal, TypeVar

import fsspec
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.candidates import (
    Candidates,
    describe_doubts,
    explain_mismatch,
    fill_candidates,
    pool_candidates,
    top_ranks,
)
from zelo_ray.files.collections import (
    has_part,
    iter_texts,
    read_texts,
    runs_of_collection,
    top_ranked,
)
from zelo_ray.files.judgments import ANNOTATED, read_qrels, read_runs
from zelo_ray.files.make_pools import Shown, ShownFields, pools_of
from zelo_ray.files.pools import (
    LineLimits,
    Notes,
    PoolRow,
    parse_line,
    pool_lines,
    to_line,
    valid_pool,
)
from zelo_ray.files.rows import BEIR_QRELS, DATASET, Source, open_source
from zelo_ray.files.schema import Columns, split_columns
from zelo_ray.files.storage import (
    find_shards,
    is_jsonl,
    list_directory,
    name_urls,
    unpacked_name,
    write_by_content,
)
from zelo_ray.files.wording import counted, escape_bytes
from zelo_ray.options import AskingOptions
from zelo_ray.records import Pool

_NO_LIMITS = LineLimits(2**40, 2**40, 2**40)
DEPTH = 100
"""How many documents of each query a run gives as candidates."""
_LINES = (".jsonl", ".ndjson")
_TABLES = (".parquet", ".pq", ".csv", ".tsv", ".tab", ".json")
_RUNS = (".run", ".trec", ".res", ".qrels", ".txt")
_DATA = (*_LINES, *_TABLES, *_RUNS, ".xlsx", ".bz2", ".xz", ".zip")
_TEXTS = ("corpus", "queries")
_PUBLIC = (DATASET, "hf://")
_NOTE_PUBLIC = (
    "{} is named or laid out as public collections are: models may have read it, with its labels"
)
_INPUTS = (
    "known are pools as JSON lines, rows of queries and documents (CSV, TSV, JSON, Parquet), BEIR, "
    "MTEB and ir_datasets collections, and runs or judgments with --corpus and --queries (docs/"
    "inputs.md)"
)
Asking = TypeVar("Asking", bound=AskingOptions)


@dataclass(frozen=True, slots=True)
class InputOptions:
    """The user's options on the input: files of texts, names of columns, fields that are shown."""

    corpus: str | None = None
    queries: str | None = None
    columns: Columns = field(default_factory=Columns)
    shown: Shown = field(default_factory=Shown)
    depth: int = DEPTH  # how many documents of each query a run gives as candidates


@dataclass(frozen=True, slots=True)
class ConvertedInputs:
    """The places of pools as JSON lines, and notes on their conversion."""

    places: tuple[str, ...]
    notes: tuple[str, ...] = ()
    made_file: str = ""  # the file of converted pools; empty if there is none


def resolve_inputs(
    options: Asking,
    out: str,
    say: Callable[[str], None],
    name: str = "inputs",
    columns: Columns | None = None,
    *,
    keep: bool = True,
) -> tuple[Asking, list[str]]:
    """Convert the input of a command to JSON lines of pools; return options that name these.

    ``name`` is the option that holds the input; ``keep``: the converted pools stay where they are.
    A caller that gives columns reads other files, too, and refuses what none of them has. The notes
    that are returned have been said.
    """
    patterns: tuple[str, ...] = getattr(options, name)
    if not patterns:
        return options, []
    named = split_columns(options.columns) if columns is None else columns
    shown = Shown(options.show_query, options.show_metadata)
    asked = InputOptions(options.corpus, options.queries, named, shown)
    found = convert_inputs(patterns, out, asked)
    if columns is None:
        named.refuse_unused()
    made = found.made_file
    for number, line in enumerate(found.notes):
        say(f"{line}; pools written to {made}" if keep and made and not number else line)
    update: dict[str, Any] = {name: found.places}
    if made:
        update |= dict.fromkeys(_TEXTS)
    elif unused := [f"--{option}" for option in _TEXTS if getattr(options, option)]:
        say(f"not used, since the input holds its texts: {', '.join(unused)}")
    return options.model_copy(update=update), [*found.notes[bool(made) :]]


def convert_inputs(patterns: Sequence[str], out: str, options: InputOptions) -> ConvertedInputs:
    """Find the pools in paths, directories, globs and URLs; converted ones go below ``out``."""
    notes = Notes()
    places = find_inputs(patterns, out, notes)
    shards, sources, is_known = list[str](), list[Source](), False
    for place in places:
        if is_known and is_jsonl(place):  # one look tells of all shards
            shards.append(place)
            continue
        source = open_source(place, options.columns)
        if source.kind == "pools" and not source.unit:
            shards.append(place)
            is_known = is_jsonl(place)
        else:
            sources.append(source)
    for place in _public(patterns, sources):
        notes.say(_NOTE_PUBLIC.format(place))
    if not sources:
        as_named = shards == find_shards(patterns, out)  # a glob stays one
        return ConvertedInputs(tuple(patterns if as_named else shards), tuple(notes.lines()))
    fields, counts = ShownFields(options.shown.query), Counter[str]()

    def lines() -> Iterator[bytes]:
        for pool in make_pools(sources, options, notes):
            query, documents = pool.get("query"), pool.get("documents")
            counts["queries"] += 1
            counts["documents"] += len(documents) if isinstance(documents, list) else 0
            fields.add(query if isinstance(query, dict) else {})
            yield to_line(pool)

    place = out if "://" in out else os.path.abspath(out)  # noqa: PTH100 - a link stays a link
    made = write_by_content(place, "pools", ".jsonl", (line + b"\n" for line in lines()))
    if not counts["documents"]:
        raise InputError("; ".join([f"{places[0]}: no query has a document", *notes.lines()]))
    fields.check(places[0])
    others = f" and {len(sources) - 1:,} more" if sources[1:] else ""
    queries = counted(counts["queries"], "query", "queries")
    head = f"{sources[0].place}{others}: {queries}, {counted(counts['documents'], 'document')}"
    return ConvertedInputs((*shards, made), (head, *notes.lines()), made)


def read_pools(
    place: str, columns: Columns | None = None, notes: Notes | None = None
) -> list[Pool]:
    """Read the pools of a place that holds texts, in memory."""
    options = InputOptions(columns=columns if columns is not None else Columns())
    notes = Notes() if notes is None else notes
    sources = [open_source(each, options.columns) for each in find_inputs([place], "", notes)]
    if all(source.kind == "pools" and not source.unit for source in sources):
        return [pool for _, pool in pool_lines(source.place for source in sources)]
    pools = make_pools(sources, options, notes)
    lines = (parse_line(place, n, to_line(pool), _NO_LIMITS) for n, pool in enumerate(pools, 1))
    return [valid_pool(line) for line in lines]


def holds_texts(source: Source) -> bool:
    """Return whether a place of judgments also holds the texts of queries and documents."""
    if source.kind == "collection":
        parts: tuple[Literal["corpus", "queries", "qrels"], ...] = ("corpus", "queries", "qrels")
        return source.place.startswith(DATASET) or all(has_part(source, part) for part in parts)
    is_pools = source.kind == "pools" and bool(source.names)
    return is_pools or source.kind in ("results", "mteb", "lists")


def _public(patterns: Iterable[str], sources: Iterable[Source]) -> dict[str, None]:
    named = [place for place in patterns if place.startswith(_PUBLIC)]
    laid_out = [source.place for source in sources if source.kind in ("collection", "mteb")]
    return dict.fromkeys([*named, *laid_out])


def note_public(places: Iterable[str]) -> list[str]:
    """Return a note on each place that is public, as its name or its form tells."""
    sources = []
    for place in places:
        with contextlib.suppress(InputError):
            sources.append(open_source(place))
    return [_NOTE_PUBLIC.format(place) for place in _public(places, sources)]


def find_inputs(patterns: Sequence[str], out: str, notes: Notes) -> list[str]:
    """List the collections and the files that places name, each once."""
    places: dict[str, None] = {}
    for place in patterns:
        is_folder = place.startswith(DATASET) or list_directory(place) is not None
        source = open_source(place) if is_folder else None
        if source is None:
            found = find_shards([place], out)
        elif source.kind in ("collection", "labels"):
            found = [place]
        else:
            found = _files_of_folder(source, out, notes)
        places |= dict.fromkeys(found)
    return [*places]


def _files_of_folder(folder: Source, out: str, notes: Notes) -> list[str]:
    """Return the JSON lines of a folder, else its tables, else its runs; note what is left out."""
    fs, root = fsspec.url_to_fs(folder.place.rstrip("/"))
    if folder.kind == "results" and ANNOTATED in folder.names:
        return name_urls(fs, [f"{root}/{ANNOTATED}"])
    own = fsspec.url_to_fs(out)[1].rstrip("/") if out else ""
    types = {e["name"].rstrip("/").rpartition("/")[2]: e["type"] for e in fs.ls(root, detail=True)}
    names = [
        n for n in sorted(types) if n[:1] not in ("", ".") and own not in (root, f"{root}/{n}")
    ]
    files = [n for n in names if types[n] != "directory"]
    by_ending = (
        [n for n in files if unpacked_name(n).endswith(e)] for e in (_LINES, _TABLES, _RUNS)
    )
    data = next((found for found in by_ending if found), [])
    if not data:
        has = ", ".join(names[:8]) or "nothing else"
        raise InputError(f"{folder.place}: holds no JSON lines, and no table, but {has}; {_INPUTS}")
    others = (n for n in files if n not in data and unpacked_name(n).endswith(_DATA))
    if rest := [*others, *(f"{n}/" for n in names if n not in files)]:
        listed = ", ".join(map(escape_bytes, rest[:10])) + (" ..." if rest[10:] else "")
        notes.say(f"left out of {folder.place}: {listed}")
    return name_urls(fs, [f"{root}/{name}" for name in data])


def _form(source: Source) -> str:
    """Return the kind of a source; of tables run, qrels, rows or ""."""
    if source.kind != "table":
        return source.kind
    if source.has("content", "query"):
        return "rows"
    if not source.has("query_id", "doc_id"):
        return ""
    if {*BEIR_QRELS} <= {*source.names}:
        return "qrels"
    if source.has("score") or (source.has("rank") and not source.has("grade")):
        return "run"
    return "qrels" if source.has("grade") else ""


def make_pools(sources: Sequence[Source], options: InputOptions, notes: Notes) -> Iterator[PoolRow]:
    """Make the pools of some sources, all of one kind, or of runs and the texts they need."""
    folders = [source for source in sources if source.kind == "collection"]
    ranked = [source for source in sources if _form(source) in ("run", "qrels")]
    others = [source for source in sources if source not in (*folders, *ranked)]
    if others and (folders or ranked):
        is_, and_ = (f"{s.place} is {s.summary}" for s in (others[0], (folders or ranked)[0]))
        raise InputError(f"{is_}, and {and_}: give one kind at a time")
    if ranked:
        if len(folders) > 1:
            raise InputError(f"{folders[1].place}: one collection at a time, where there is a run")
        texts = folders[0].place if folders else None
        options = replace(options, corpus=options.corpus or texts, queries=options.queries or texts)
        if lacking := [f"--{part}" for part in _TEXTS if not getattr(options, part)]:
            what = f"{ranked[0].place} is {ranked[0].summary}, without its texts"
            raise OptionError(f"{what}: add {' and '.join(lacking)} (docs/inputs.md)")
        return _pools_of_ranked(ranked, options, notes)
    if folders:
        return chain.from_iterable(_pools_of_folder(f, options, notes) for f in folders)
    for source in others:
        if source.kind == "table" and not _form(source):
            lacks = [name for name in ("query", "content") if not source.has(name)]
            source.refuse("pools", f"it has no column {' and no '.join(lacks)}", _INPUTS)
        if source.kind in ("text", "labels", "folder", "results"):
            source.refuse("pools", _INPUTS)
    return chain.from_iterable(
        pools_of([s for s in others if s.kind == kind], notes, options.shown)
        for kind in dict.fromkeys(source.kind for source in others)
    )


def _unmatched(place: str, ids: Iterable[str], texts: str, others: Iterable[str]) -> InputError:
    why = explain_mismatch(place, ids, texts, others)
    return InputError(f"no id of {place} is in {texts}: {why}")


def _pools_of_ranked(
    sources: Sequence[Source], options: InputOptions, notes: Notes
) -> Iterator[PoolRow]:
    """Make pools of runs, to a depth, and of judgments, in an order that tells nothing of these."""
    judged = [source.place for source in sources if _form(source) == "qrels"]
    runs = read_runs([s.place for s in sources if s.place not in judged], options.columns)
    if judged[1:]:
        raise InputError(f"{judged[1]}: there are judgments in {judged[0]} already")
    qrels = read_qrels(judged[0], options.columns) if judged else None
    depth = options.depth
    for line in describe_doubts(runs, depth):
        notes.say(line)
    if cut := [name for name, run in runs.items() if len(top_ranks(run, depth)) < len(run)]:
        notes.say(f"took the first {depth} documents of each query of {', '.join(cut)}")
    return _filled(pool_candidates(runs, depth, qrels), options, sources[0].place, notes)


def _filled(
    candidates: Candidates, options: InputOptions, place: str, notes: Notes
) -> Iterator[PoolRow]:
    """Yield the pools of candidates with their texts; of the corpus only what is wanted is kept."""
    corpus, queries_place = options.corpus or "", options.queries or ""
    wanted = {doc_id for ranks in candidates.values() for doc_id in ranks}
    queries = read_texts(queries_place, "queries", None, options.columns)
    if queries.keys().isdisjoint(candidates):
        raise _unmatched(place, candidates, queries_place, queries)
    notes.leave_out("queries without candidates", *(q for q in queries if q not in candidates))
    texts = read_texts(corpus, "corpus", wanted, options.columns)
    if not texts:
        others = [text.id for text in iter_texts(corpus, "corpus", None, options.columns)]
        raise _unmatched(place, wanted, corpus, others)
    return fill_candidates(candidates, queries, texts, notes)


def _pools_of_folder(folder: Source, options: InputOptions, notes: Notes) -> Iterator[PoolRow]:
    """Make the pools of a collection: of its ranked candidates, else runs, else judged ones."""
    place = folder.place
    options = replace(options, corpus=place, queries=place)
    if has_part(folder, "top_ranked"):
        candidates = top_ranked(folder)
        if has_part(folder, "qrels") and _shows_relevant_first(candidates, read_qrels(place)):
            first = "relevant documents come first in every query"
            notes.say(f"{first}: this is not a first-stage ranking")
        return _filled(candidates, options, place, notes)
    if runs := runs_of_collection(folder):
        return _pools_of_ranked([*map(open_source, runs)], options, notes)
    if not (place.startswith(DATASET) or has_part(folder, "qrels")):
        raise InputError(f"{place}: nothing in it says which documents to judge: name a run, too")
    qrels = read_qrels(place)
    candidates = pool_candidates({}, 0, qrels)
    if not pc.any(pc.less_equal(qrels["relevance"], 0)).as_py():
        middle = median(map(len, candidates.values()))
        judged = f"the judged documents (median {middle:g} a query, all relevant)"
        notes.say(f"candidates are {judged}: bring a run, annotate {place} bm25.run")
    return _filled(candidates, options, place, notes)


def _shows_relevant_first(candidates: Candidates, qrels: pa.Table) -> bool:
    relevant = qrels.filter(pc.field("relevance") > 0).select(["query_id", "doc_id"])
    pairs = {*zip(*relevant.to_pydict().values(), strict=True)}
    every = ([(query, doc_id) in pairs for doc_id in ids] for query, ids in candidates.items())
    return all(is_relevant == sorted(is_relevant, reverse=True) for is_relevant in every)
