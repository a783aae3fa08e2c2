"""Convert pools, judgments and runs between formats, and collect unjudged documents."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Self

import numpy as np
import pyarrow as pa

from zelo_ray.commands.convert.train import write_training_data
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.candidates import find_unjudged, pool_lines, sort_run, unjudged_pools
from zelo_ray.files.collections import index_by_id, read_texts, write_collection
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
from zelo_ray.files.make_pools import Notes
from zelo_ray.files.pools import LineLimits, OwnQueries, parse_line, to_line, write_lines
from zelo_ray.files.rows import open_source
from zelo_ray.files.schema import Columns, split_columns
from zelo_ray.files.storage import file_stem, find_shards
from zelo_ray.files.tables import iter_rows
from zelo_ray.files.trec import write_qrels, write_run
from zelo_ray.files.wording import printable
from zelo_ray.names import split_name
from zelo_ray.options.files import ConvertOptions
from zelo_ray.records import Document, Pool

_UNJUDGED_DEPTH = 10
_ONE_SCALE = "give the --out of annotate --protocol zelo+graded, lean, auto or graded"


class WrittenSummary(str):
    """Lines on what was written, such as ``3 pools: pools.jsonl``.

    Attributes:
        counts: how many of each noun were written.
    """

    __slots__ = ("counts",)
    counts: Mapping[str, int]

    def __new__(cls, *lines: str, **counts: int) -> Self:
        """Return the lines as one text, with control characters escaped."""
        text = super().__new__(cls, "\n".join(map(printable, lines)))
        text.counts = counts
        return text


def convert(options: ConvertOptions) -> WrittenSummary:
    """Convert one format into another; return a summary."""
    columns = split_columns(options.columns)
    summary = _MAKERS[options.what](options, columns)
    columns.refuse_unused()
    return summary


def _pool(options: ConvertOptions, columns: Columns) -> WrittenSummary:
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

    own = OwnQueries()

    def lines() -> Iterator[bytes]:
        nonlocal documents
        for pool in chain([first], pools):
            line = parse_line("", 0, to_line(pool), LineLimits())
            own.count(line)
            documents += len(line.pool.documents if line.pool else ())
            yield line.raw

    number = write_lines(options.out, lines())
    done = f"{number:,} pools with {documents:,} documents: {options.out}"
    more = [*notes.lines(), *own.notes()]
    return WrittenSummary(done, *more, pools=number, documents=documents)


def _unjudged(options: ConvertOptions, columns: Columns) -> WrittenSummary:
    truth, runs = read_qrels(options.truth, columns), read_runs(options.runs, columns)
    depth = options.depth or _UNJUDGED_DEPTH
    table = pa.concat_tables([find_unjudged(truth, name, run, depth) for name, run in runs.items()])
    truth_pools = pools_file_of_truth(options.truth)
    shards = find_shards(options.pools or ([truth_pools] if truth_pools else []))
    texts = read_texts(options.queries, "queries", None, columns) if options.queries else ()
    queries, notes = index_by_id(texts, options.queries or ""), Notes()

    def read_corpus(wanted: set[str]) -> Iterable[Document]:
        return read_texts(options.corpus, "corpus", wanted, columns) if options.corpus else ()

    lines = unjudged_pools(
        truth,
        table,
        pool_lines(shards),
        read_corpus=read_corpus,
        queries=queries,
        notes=notes,
        everything=options.all,
    )
    number = write_lines(options.out, lines)
    by_run = Counter(table["run"].to_pylist())
    counts = ", ".join(f"{name} {by_run[name]:,}" for name in runs)
    done = f"unjudged to depth {depth}: {counts}; {number:,} pools to annotate: {options.out}"
    return WrittenSummary(done, *notes.lines(), pools=number, unjudged=len(table))


def _qrels(options: ConvertOptions, columns: Columns) -> WrittenSummary:
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
    return WrittenSummary(done, *notes, *rule, judgments=len(qrels))


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
    rule = "--cut makes whole grades of them"
    if read_absolute(source) is None and has_logits(source):
        rule = f"no cut makes grades of them, since their 0 is each query's own mean: {_ONE_SCALE}"
    span = f"{values.min():.4g} to {values.max():.4g}"
    why = "where trec_eval, BEIR and MTEB hold whole grades from 0"
    return qrels, [f"relevance is {span}, {why}; {rule}"]


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


def _train(options: ConvertOptions, columns: Columns) -> WrittenSummary:
    pools, scores, notes = _read_labelled_pools(options, columns)
    absolute = read_absolute(options.source)
    scores, more = _drop_ambiguous(options, scores if absolute is None else absolute)
    with_text = {(pool.query_id, document.id) for pool in pools for document in pool.documents}
    lacking = len({*iter_rows(scores, "query_id", "doc_id")} - with_text)
    examples, done = write_training_data(options, pools, scores)
    more += [f"left out judged documents without a text: {lacking:,}"] if lacking else []
    return WrittenSummary(*done, *notes.lines(), *more, examples=examples)


def _drop_ambiguous(options: ConvertOptions, qrels: pa.Table) -> tuple[pa.Table, list[str]]:
    """Drop judgments of documents that the panel is split on, if the options say so."""
    if not options.without_ambiguous:
        return qrels, []
    graded = read_graded(options.source)
    split = {*iter_rows(graded.filter(graded["ambiguous"]), "query_id", "doc_id")}
    mask = [pair not in split for pair in iter_rows(qrels, "query_id", "doc_id")]
    return qrels.filter(pa.array(mask)), [f"left out ambiguous documents: {len(split):,}"]


def _run(options: ConvertOptions, columns: Columns) -> WrittenSummary:
    source = options.source
    content = open_source(source, columns)
    if content.kind == "trec run" or (content.kind == "table" and content.has("score")):
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
    return WrittenSummary(done, lines=len(table))


def _beir(options: ConvertOptions, columns: Columns) -> WrittenSummary:
    pools, judged, notes = _read_labelled_pools(options, columns)
    qrels, rule = _apply_rule(options, judged)
    write_collection(options.out, pools, qrels)
    done = f"{len(pools):,} queries with {len(qrels):,} judgments: {options.out}"
    return WrittenSummary(done, *rule, *notes.lines(), queries=len(pools), judgments=len(qrels))


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


_MAKERS: Mapping[str, Callable[[ConvertOptions, Columns], WrittenSummary]] = {
    "pool": _pool,
    "unjudged": _unjudged,
    "qrels": _qrels,
    "train": _train,
    "run": _run,
    "beir": _beir,
}
