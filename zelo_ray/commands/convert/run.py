"""Convert pools, judgments and runs between formats, and collect unjudged documents."""

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import ConvertOptions
from zelo_ray.commands.convert.train import write_training_data
from zelo_ray.engine.job import Watch
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.candidates import Candidates, fill_candidates, fuse_ranks, sort_run, top_ranks
from zelo_ray.files.collections import read_texts, write_collection
from zelo_ray.files.inputs import (
    DEPTH,
    InputOptions,
    find_inputs,
    holds_texts,
    make_pools,
    read_pools,
)
from zelo_ray.files.judgments import (
    has_grades,
    has_logits,
    pools_file_of_truth,
    read_absolute,
    read_graded,
    read_qrels,
    read_runs,
)
from zelo_ray.files.make_pools import has_visible_text
from zelo_ray.files.pools import (
    LineLimits,
    Notes,
    document_row,
    few,
    parse_line,
    pool_lines,
    to_line,
    write_lines,
)
from zelo_ray.files.rows import open_source
from zelo_ray.files.schema import Columns, split_columns
from zelo_ray.files.storage import file_stem, find_shards
from zelo_ray.files.tables import iter_rows
from zelo_ray.files.trec import write_qrels, write_run
from zelo_ray.names import split_name
from zelo_ray.records import Pool
from zelo_ray.report.command_lines import command_of, sibling_path
from zelo_ray.report.results import Results

_UNJUDGED_DEPTH = 10
_PAIR = ("query_id", "doc_id")
_ONE_SCALE = "give the --out of annotate --calls-per-document 4, or --protocol graded"


Written = tuple[dict[str, int], list[str]]
"""How many of each noun were written, and lines on that."""


def run(options: ConvertOptions, _watch: Watch) -> Results:
    """Convert one format into another."""
    columns = split_columns(options.columns)
    counts, lines = _MAKERS[options.what](options, columns)
    columns.refuse_unused()
    return Results(
        {"counts": counts},
        out=options.out,
        lines=lines,
        lead=lines,
        files=[options.out],
        next_command=_next_command(options),
    )


def _next_command(options: ConvertOptions) -> str:
    """Return the command that uses the file; none if other tools read it."""
    out, what = options.out, options.what
    if what in ("pool", "unjudged"):
        return command_of("annotate", out, "--out", sibling_path(out, "judged"), "--dry-run")
    if what not in ("beir", "qrels"):
        return ""
    pools = ("--pools", *(options.pools or ("POOLS",))) if what == "qrels" else ()
    plain = ("--rerankers", "original", "bm25", "--out", sibling_path(out, "bakeoff"))
    return command_of("bakeoff", "--truth", out, *pools, *plain)


def _pool(options: ConvertOptions, columns: Columns) -> Written:
    ranked = [*(split_name(run)[1] for run in options.runs), *filter(None, [options.qrels])]
    places = [*filter(None, [options.source]), *ranked]
    if not places:
        raise OptionError("convert pool needs FROM, or --corpus, --queries and --runs or --qrels")
    notes, depth = Notes(), options.depth or DEPTH
    settings = InputOptions(options.corpus, options.queries, columns, depth=depth)
    sources = [open_source(place, columns) for place in find_inputs(places, "", notes)]
    pools, documents = make_pools(sources, settings, notes), 0
    first = next(pools, None)
    columns.refuse_unused()
    if first is None:
        raise InputError("; ".join([f"{places[0]}: no query has a document", *notes.lines()]))

    def lines() -> Iterator[bytes]:
        nonlocal documents
        for pool in chain([first], pools):
            line = parse_line("", 0, to_line(pool), LineLimits())
            notes.count_own_query(line)
            documents += len(line.pool.documents if line.pool else ())
            yield line.raw

    number = write_lines(options.out, lines())
    done = f"{number:,} pools with {documents:,} documents: {options.out}"
    return {"pools": number, "documents": documents}, [done, *notes.lines()]


def _unjudged(options: ConvertOptions, columns: Columns) -> Written:
    truth, runs = read_qrels(options.truth, columns), read_runs(options.runs, columns)
    depth, notes = options.depth or _UNJUDGED_DEPTH, Notes()
    unjudged: Candidates = {}
    counts = dict.fromkeys(runs, 0)
    for name, run in runs.items():
        for query_id, doc_id, rank in _find_unjudged(truth, run, depth):
            unjudged.setdefault(query_id, {}).setdefault(doc_id, {})[name] = rank
            counts[name] += 1
    number = write_lines(options.out, _unjudged_pools(options, columns, truth, unjudged, notes))
    by_run = ", ".join(f"{name} {counts[name]:,}" for name in runs)
    done = f"unjudged to depth {depth}: {by_run}; {number:,} pools to annotate: {options.out}"
    return {"pools": number, "unjudged": sum(counts.values())}, [done, *notes.lines()]


def _find_unjudged(truth: pa.Table, run: pa.Table, depth: int) -> Iterator[tuple[str, str, int]]:
    """Yield query, document and rank of the unjudged documents at the top of a run."""
    judged = {*iter_rows(truth, *_PAIR)}
    is_judged = pc.is_in(run["query_id"], value_set=pc.unique(truth["query_id"]))
    for *pair, rank in iter_rows(top_ranks(run.filter(is_judged), depth), *_PAIR, "rank"):
        if tuple(pair) not in judged:
            yield pair[0], pair[1], rank


def _unjudged_pools(
    options: ConvertOptions, columns: Columns, truth: pa.Table, unjudged: Candidates, notes: Notes
) -> Iterator[bytes]:
    """Yield pools to annotate as input lines: those that exist, then those of other queries.

    A pool holds the unjudged documents, and the judged ones to compare them with.
    """
    judged: dict[str, set[str]] = {query_id: set() for query_id in unjudged}
    for query_id, doc_id in iter_rows(truth, *_PAIR):
        if query_id in judged:
            judged[query_id].add(doc_id)
    wanted = {doc_id for ids in (*unjudged.values(), *judged.values()) for doc_id in ids}
    corpus, place = options.corpus, options.queries or ""
    every = read_texts(corpus, "corpus", wanted, columns) if corpus else {}
    texts = {id_: text for id_, text in every.items() if has_visible_text(text.content)}
    truth_pools = pools_file_of_truth(options.truth)
    shards = find_shards(options.pools or ([truth_pools] if truth_pools else []))
    queries = read_texts(place, "queries", None, columns) if place else {}
    for raw, pool in pool_lines(shards):
        if ranks := unjudged.pop(pool.query_id, None):
            line = json.loads(raw)
            doc_ids = ranks.keys() | judged[pool.query_id]
            old = [document for document in line.get("documents", []) if document["id"] in doc_ids]
            missing = ranks.keys() - {document["id"] for document in old}
            lacking = sorted(missing - texts.keys())
            if lacking and not texts:
                what = f"unjudged documents have no text ({few(lacking)})"
                raise InputError(f"{what}: give --corpus")
            notes.leave_out("unjudged documents without a text", *lacking)
            fused = fuse_ranks(pool.query_id, {d: ranks[d] for d in missing & texts.keys()})
            new = [document_row(texts[doc_id]) for doc_id in fused]
            yield to_line({**line, "documents": old + new})
        elif options.all:
            yield raw
    if unjudged and not (queries and texts):
        what = f"{len(unjudged):,} queries with unjudged documents have no pool, such as"
        how = "give --pools, or --corpus and --queries"
        raise InputError(f"{what} {next(iter(unjudged))!r}: {how}")
    candidates = {
        query_id: fuse_ranks(query_id, {d: ranks.get(d, {}) for d in {*judged[query_id], *ranks}})
        for query_id, ranks in unjudged.items()
    }
    yield from map(to_line, fill_candidates(candidates, queries, texts, notes))


def _qrels(options: ConvertOptions, columns: Columns) -> Written:
    if options.grades:
        labels, rule = read_graded(options.source), list[str]()
    else:
        labels, rule = _apply_rule(options, read_qrels(options.source, columns))
    qrels, notes = _drop_ambiguous(options, labels)
    if not len(qrels):
        raise InputError(f"{options.source} has no judgments to write")
    columns.refuse_unused()
    write_qrels(options.out, qrels)
    done = f"{len(qrels):,} judgments: {options.out}"
    return {"judgments": len(qrels)}, [done, *notes, *rule]


def _apply_rule(options: ConvertOptions, qrels: pa.Table) -> tuple[pa.Table, list[str]]:
    """Cut scores to whole grades if cuts are named; else say so if other tools need that."""
    source, values = options.source, qrels["relevance"].to_numpy()
    if options.cut:
        cuts = ", ".join(f"{cut:.3g}" for cut in options.cut)
        return _cut(options, qrels), [f"grades: cut at {cuts}"]
    if (values >= 0).all() and (values == np.floor(values)).all():
        return qrels, []
    if has_grades(source) and options.what == "qrels":
        return qrels, ["relevance is the panel's mean grade; --grades writes whole grades"]
    span = f"{values.min():.4g} to {values.max():.4g}"
    why = "where trec_eval, BEIR and MTEB hold whole grades from 0"
    return qrels, [f"relevance is {span}, {why}; --cut makes whole grades of them"]


def _cut(options: ConvertOptions, qrels: pa.Table) -> pa.Table:
    """Return whole grades: one more at each of the cuts."""
    scores = read_absolute(options.source)
    if scores is None and has_logits(options.source):
        raise InputError(
            f"{options.source}: its scores share no zero from query to query, so that no cut fits "
            f"all: {_ONE_SCALE}"
        )
    scores = qrels if scores is None else scores
    cuts, values = np.array(options.cut), scores["relevance"].to_numpy()
    grades = np.searchsorted(cuts, values, side="right").astype(np.float64)
    table = scores.set_column(2, "relevance", pa.array(grades))
    return table.set_column(3, "std_error", pa.array(np.full(len(grades), np.nan)))


def _train(options: ConvertOptions, columns: Columns) -> Written:
    pools, scores, notes = _read_labelled_pools(options, columns)
    absolute = read_absolute(options.source)
    scores, more = _drop_ambiguous(options, scores if absolute is None else absolute)
    with_text = {(pool.query_id, document.id) for pool in pools for document in pool.documents}
    lacking = len({*iter_rows(scores, "query_id", "doc_id")} - with_text)
    examples, done = write_training_data(options, pools, scores)
    more += [f"left out judged documents without a text: {lacking:,}"] if lacking else []
    return {"examples": examples}, [*done, *notes.lines(), *more]


def _drop_ambiguous(options: ConvertOptions, qrels: pa.Table) -> tuple[pa.Table, list[str]]:
    """Drop judgments of documents that the panel is split on, if the options say so."""
    if not options.without_ambiguous:
        return qrels, []
    graded = read_graded(options.source)
    split = {*iter_rows(graded.filter(graded["ambiguous"]), "query_id", "doc_id")}
    mask = [pair not in split for pair in iter_rows(qrels, "query_id", "doc_id")]
    return qrels.filter(pa.array(mask)), [f"left out ambiguous documents: {len(split):,}"]


def _run(options: ConvertOptions, columns: Columns) -> Written:
    source = options.source
    content = open_source(source, columns)
    if content.kind == "table" and content.has("score"):
        runs = read_runs([source], columns)
    else:
        judged = read_qrels(source, columns).rename_columns({"relevance": "score"})
        runs = {file_stem(source): judged}
    if len(runs) > 1:
        raise InputError(f"{source} holds several runs ({', '.join(runs)}), a TREC file holds one")
    ((name, table),) = runs.items()
    columns.refuse_unused()
    write_run(options.out, name, sort_run(table))
    done = f"{len(table):,} lines of the run {name}: {options.out}"
    return {"lines": len(table)}, [done]


def _beir(options: ConvertOptions, columns: Columns) -> Written:
    pools, judged, notes = _read_labelled_pools(options, columns)
    qrels, rule = _apply_rule(options, judged)
    write_collection(options.out, pools, qrels)
    done = f"{len(pools):,} queries with {len(qrels):,} judgments: {options.out}"
    return {"queries": len(pools), "judgments": len(qrels)}, [done, *rule, *notes.lines()]


def _read_labelled_pools(
    options: ConvertOptions, columns: Columns
) -> tuple[list[Pool], pa.Table, Notes]:
    """Read pools and judgments, from one place or two."""
    qrels, notes = read_qrels(options.source, columns), Notes()
    if not options.pools and not holds_texts(open_source(options.source, columns)):
        raise InputError(f"{options.source}: holds no texts: give --pools")
    places = options.pools or (options.source,)
    pools = [pool for place in places for pool in read_pools(place, columns, notes)]
    columns.refuse_unused()
    return pools, qrels, notes


_MAKERS: Mapping[str, Callable[[ConvertOptions, Columns], Written]] = {
    "pool": _pool,
    "unjudged": _unjudged,
    "qrels": _qrels,
    "train": _train,
    "run": _run,
    "beir": _beir,
}
