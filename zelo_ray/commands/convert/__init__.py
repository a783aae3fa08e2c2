"""Convert pools, judgments and runs between formats, and collect unjudged documents."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa

from zelo_ray.commands.convert.train import write_training_data
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.columns import split_columns
from zelo_ray.formats.files import file_stem
from zelo_ray.formats.input import InputOptions, pools_of, read_pools
from zelo_ray.formats.input.long import ConversionNotes
from zelo_ray.formats.input.places import find_places
from zelo_ray.formats.input.stored_inputs import pool_to_line
from zelo_ray.formats.interchange import beir, trec
from zelo_ray.formats.interchange.pooling import columns, find_unjudged, pool_candidates
from zelo_ray.formats.interchange.suspicious_scores import describe_doubts
from zelo_ray.formats.interchange.texts import (
    FilledPools,
    make_filled_pools,
    pool_line,
    read_texts,
    write_lines,
)
from zelo_ray.formats.interchange.unjudged_pools import UnjudgedPools, pool_lines
from zelo_ray.formats.judgments.graded import (
    has_grades,
    has_logits,
    read_absolute,
    read_graded,
)
from zelo_ray.formats.judgments.qrels import (
    has_pools,
    pools_file_of_truth,
    read_qrels,
)
from zelo_ray.formats.pools import find_shards
from zelo_ray.formats.probe import probe, refuse_unused_columns
from zelo_ray.formats.runs import read_runs, without_ranks
from zelo_ray.formats.wording import WrittenSummary
from zelo_ray.options.files import ConvertOptions

_WITHOUT_TEXTS = ("run", "trec run", "grades", "trec qrels", "beir qrels")
_POOL_DEPTH, _UNJUDGED_DEPTH = 100, 10
_ONE_SCALE = "give the --out of annotate --protocol zelo+graded, lean, auto or graded"


def convert(options: ConvertOptions) -> WrittenSummary:
    """Convert one format into another; return a summary.

    Raises:
        OptionError: options conflict.
        InputError: an input cannot be read.
        Unwritable: the format cannot represent the data.
    """
    places = [options.source, options.truth, options.qrels, options.corpus, options.queries]
    files = find_places(options.pools, "").files if options.columns else ()
    refuse_unused_columns(_columns(options), [*filter(None, places), *options.runs, *files])
    return _MAKERS[options.what](options)


def _pool(options: ConvertOptions) -> WrittenSummary:
    if _is_other_input(options):
        return _convert_input(options)
    filled = _read_candidates(options)
    documents = sum(len(pool.documents) for pool in filled.pools)
    if not documents:
        raise InputError(f"no pool has documents: {'; '.join(filled.notes) or 'all are empty'}")
    number = write_lines(
        options.out, (pool_line(pool, filled.own_queries) for pool in filled.pools)
    )
    return WrittenSummary(
        f"{number:,} pools with {documents:,} documents: {options.out}",
        *filled.notes,
        pools=number,
        documents=documents,
    )


def _read_candidates(options: ConvertOptions) -> FilledPools:
    source = options.source
    if source and not options.runs:
        return read_pools(source, _columns(options))
    corpus, queries = options.corpus or source, options.queries or source
    judged = read_qrels(options.qrels, _columns(options)) if options.qrels else None
    if not (corpus and queries and (options.runs or options.qrels)):
        raise OptionError(
            "convert pool needs FROM (a collection), or --corpus, --queries and --runs or --qrels"
        )
    depth, runs = (
        options.depth or _POOL_DEPTH,
        read_runs(options.runs, ranks=True, columns=_columns(options)),
    )
    pools = pool_candidates(without_ranks(runs), depth, judged)
    wanted = {doc_id for ranks in pools.values() for doc_id in ranks}
    filled = make_filled_pools(
        pools, beir.read_queries(queries), read_texts(corpus, "corpus", wanted)
    )
    return replace(filled, notes=[*describe_doubts(runs, depth), *filled.notes])


def _is_other_input(options: ConvertOptions) -> bool:
    """Return whether the source is an input of annotate without judgments or without texts."""
    if not options.source or options.runs:
        return False
    return not has_pools(probe(options.source))


def _convert_input(options: ConvertOptions) -> WrittenSummary:
    """Convert any other input of `annotate` to pools; return a summary."""
    leftovers = ConversionNotes()
    settings = InputOptions(
        options.corpus, options.queries, _columns(options), options.command_line("what", "source")
    )
    _, pools = pools_of([options.source], settings, leftovers)
    first = next(pools, None)
    if first is None:
        raise InputError(
            "; ".join([f"{options.source}: no query has a document", *leftovers.to_lines()])
        )
    lines = (pool_to_line(pool).rstrip(b"\n") for pool in chain([first], pools))
    number = write_lines(options.out, lines)
    return WrittenSummary(f"{number:,} pools: {options.out}", *leftovers.to_lines(), pools=number)


def _unjudged(options: ConvertOptions) -> WrittenSummary:
    truth, runs = (
        read_qrels(options.truth, _columns(options)),
        read_runs(options.runs, columns=_columns(options)),
    )
    depth = options.depth or _UNJUDGED_DEPTH
    table = pa.concat_tables([find_unjudged(truth, name, run, depth) for name, run in runs.items()])
    work = UnjudgedPools(truth, table)
    if options.corpus:
        work.add_texts(read_texts(options.corpus, "corpus", work.wanted))
    truth_pools = pools_file_of_truth(options.truth)
    shards = find_shards(options.pools or ([truth_pools] if truth_pools else []))
    queries = beir.read_queries(options.queries) if options.queries else {}
    number = write_lines(options.out, work.lines(pool_lines(shards), queries, options.all))
    by_run = Counter(table["run"].to_pylist())
    counts = ", ".join(f"{name} {by_run[name]:,}" for name in runs)
    done = f"unjudged to depth {depth}: {counts}; {number:,} pools to annotate: {options.out}"
    return WrittenSummary(done, *work.notes, pools=number, unjudged=len(table))


def _qrels(options: ConvertOptions) -> WrittenSummary:
    if options.grades:
        labels, rule = read_graded(options.source), list[str]()
    else:
        labels, rule = _apply_rule(options, read_qrels(options.source, _columns(options)))
    qrels, note = _drop_ambiguous(options, labels)
    note += rule
    if not len(qrels):
        raise InputError(f"{options.source} has no judgments to write")
    trec.write_qrels(options.out, qrels)
    return WrittenSummary(f"{len(qrels):,} judgments: {options.out}", *note, judgments=len(qrels))


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
    """Return whole grades: one more at each of the cuts.

    Raises:
        InputError: scores are of battles without an anchor, whose 0 is each query's mean.
    """
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


def _train(options: ConvertOptions) -> WrittenSummary:
    filled, scores = _read_labelled_pools(options)
    absolute = read_absolute(options.source)
    scores, note = _drop_ambiguous(options, scores if absolute is None else absolute)
    with_text = {
        (pool.query_id, document.id) for pool in filled.pools for document in pool.documents
    }
    lacking = len({*columns(scores, "query_id", "doc_id")} - with_text)
    examples, done = write_training_data(options, filled.pools, scores)
    note += [f"left out judged documents without a text: {lacking:,}"] if lacking else []
    return WrittenSummary(*done, *filled.notes, *note, examples=examples)


def _drop_ambiguous(options: ConvertOptions, qrels: pa.Table) -> tuple[pa.Table, list[str]]:
    """Drop judgments of documents that the panel is split on, if the options say so."""
    if not options.without_ambiguous:
        return qrels, []
    graded = read_graded(options.source)
    split = set(columns(graded.filter(graded["ambiguous"]), "query_id", "doc_id"))
    mask = [pair not in split for pair in columns(qrels, "query_id", "doc_id")]
    return qrels.filter(pa.array(mask)), [f"left out ambiguous documents: {len(split):,}"]


def _run(options: ConvertOptions) -> WrittenSummary:
    source = options.source
    content = probe(source)
    if content.kind in ("trec run", "run"):
        runs = read_runs([source], columns=_columns(options))
    else:
        runs = {
            file_stem(source): read_qrels(source, _columns(options)).rename_columns(
                {"relevance": "score"}
            )
        }
    if len(runs) > 1:
        raise InputError(f"{source} holds several runs ({', '.join(runs)}), a TREC file holds one")
    ((name, table),) = runs.items()
    trec.write_run(options.out, name, table)
    return WrittenSummary(
        f"{len(table):,} lines of the run {name}: {options.out}", lines=len(table)
    )


def _beir(options: ConvertOptions) -> WrittenSummary:
    filled, judged = _read_labelled_pools(options)
    qrels, rule = _apply_rule(options, judged)
    beir.write_collection(options.out, filled.pools, qrels)
    done = f"{len(filled.pools):,} queries with {len(qrels):,} judgments: {options.out}"
    return WrittenSummary(
        done, *rule, *filled.notes, queries=len(filled.pools), judgments=len(qrels)
    )


def _read_labelled_pools(options: ConvertOptions) -> tuple[FilledPools, pa.Table]:
    """Read pools and judgments, from one place or two."""
    qrels = read_qrels(options.source, _columns(options))
    if not options.pools:
        source = probe(options.source)
        if source.kind in _WITHOUT_TEXTS:
            raise InputError(f"{options.source}: holds no texts: give --pools")
        return read_pools(options.source, _columns(options)), qrels
    filled = [read_pools(place, _columns(options)) for place in options.pools]
    pools = [pool for part in filled for pool in part.pools]
    return FilledPools(pools, [note for part in filled for note in part.notes]), qrels


def _columns(options: ConvertOptions) -> dict[str, str]:
    return split_columns(options.columns)


_MAKERS: Mapping[str, Callable[[ConvertOptions], WrittenSummary]] = {
    "pool": _pool,
    "unjudged": _unjudged,
    "qrels": _qrels,
    "train": _train,
    "run": _run,
    "beir": _beir,
}
