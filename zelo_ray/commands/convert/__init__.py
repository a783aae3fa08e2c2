"""Convert pools, judgments and runs between formats, and collect unjudged documents."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain

import pyarrow as pa

from zelo_ray.commands.convert.train import write_training_data
from zelo_ray.commands.convert.whole_grades import (
    WholeGrades,
    are_whole,
    describe_rules,
    describe_span,
    make_whole_grades,
)
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats import fastchat
from zelo_ray.formats.columns import split_columns
from zelo_ray.formats.files import file_stem
from zelo_ray.formats.input import InputOptions, pools_of, read_pools
from zelo_ray.formats.input.long import ConversionNotes
from zelo_ray.formats.input.places import find_places
from zelo_ray.formats.input.stored_inputs import pool_to_line
from zelo_ray.formats.interchange import beir, llamahub, mteb, trec
from zelo_ray.formats.interchange.compared_pairs import label_lines
from zelo_ray.formats.interchange.letor import letor_lines, name_features
from zelo_ray.formats.interchange.pooling import columns, find_unjudged, pool_candidates
from zelo_ray.formats.interchange.search_tools import SearchIndex, rate_queries, write_judgments
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
from zelo_ray.formats.wording import WrittenSummary, counted
from zelo_ray.options import ConvertOptions

_WITHOUT_TEXTS = ("run", "trec run", "grades", "trec qrels", "beir qrels")
_POOL_DEPTH, _UNJUDGED_DEPTH = 100, 10


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
    qrels = trec.quote_ids(qrels) if options.quote_ids else qrels
    trec.write_qrels(options.out, qrels, options.decimals)
    return WrittenSummary(f"{len(qrels):,} judgments: {options.out}", *note, judgments=len(qrels))


def _tool(options: ConvertOptions) -> WrittenSummary:
    """Write judgments for a tool of search teams, with whole grades."""
    filled, qrels = _read_labelled_pools(options)
    whole = make_whole_grades(options, qrels)
    rated = rate_queries(filled.pools, whole.qrels)
    if not rated:
        raise InputError(f"{options.source}: no query with a text is judged")
    index = SearchIndex(options.index or "", options.field)
    write_judgments(options.out, options.what, rated, index)
    number = sum(len(grades) for _, grades in rated)
    queries = counted(len(rated), "query", "queries")
    done = f"{counted(number, 'judgment')} of {queries}: {options.out}"
    return WrittenSummary(done, *_rule(whole), *filled.notes, judgments=number, queries=len(rated))


def _letor(options: ConvertOptions) -> WrittenSummary:
    filled, qrels = _read_labelled_pools(options)
    whole = make_whole_grades(options, qrels)
    runs = without_ranks(read_runs(options.runs, columns=_columns(options)))
    scores = {
        name: {(q, d): score for q, d, score in columns(run, "query_id", "doc_id", "score")}
        for name, run in runs.items()
    }
    rated = rate_queries(filled.pools, whole.qrels)
    number = write_lines(options.out, letor_lines(rated, scores))
    queries = counted(len(rated), "query", "queries")
    done = f"{counted(number, 'row')} of {queries}: {options.out}"
    return WrittenSummary(
        done,
        f"features: {name_features([*scores])}",
        *_rule(whole),
        *filled.notes,
        rows=number,
        queries=len(rated),
    )


def _rule(whole: WholeGrades) -> list[str]:
    return [f"grades: {whole.rule}"] if whole.rule else []


def _apply_rule(options: ConvertOptions, qrels: pa.Table) -> tuple[pa.Table, list[str]]:
    """Make whole grades if a rule is named; else say so if the tools that read them need that."""
    if options.levels or options.cut or options.human:
        whole = make_whole_grades(options, qrels)
        return whole.qrels, _rule(whole)
    if are_whole(qrels, options.decimals):
        return qrels, []
    if has_grades(options.source) and options.what == "qrels":
        return qrels, ["relevance is the panel's mean grade; --grades writes whole grades"]
    why = "where trec_eval, BEIR and MTEB hold whole grades from 0"
    rules = describe_rules(options.source)
    return qrels, [f"relevance is {describe_span(qrels)}, {why}; {rules}"]


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
    source, name = options.source, options.name
    content = probe(source)
    if content.kind in ("trec run", "run"):
        runs = read_runs([source], columns=_columns(options))
    else:
        runs = {
            file_stem(source): read_qrels(source, _columns(options)).rename_columns(
                {"relevance": "score"}
            )
        }
    if len(runs) > 1 and name not in runs:
        raise OptionError(f"{source} holds several runs; --name one of them: {', '.join(runs)}")
    run_name, table = (name, runs[name]) if name in runs else next(iter(runs.items()))
    table = trec.quote_ids(table) if options.quote_ids else table
    trec.write_run(options.out, name or run_name, table)
    return WrittenSummary(
        f"{len(table):,} lines of the run {name or run_name}: {options.out}", lines=len(table)
    )


def _beir(options: ConvertOptions) -> WrittenSummary:
    filled, judged = _read_labelled_pools(options)
    qrels, rule = _apply_rule(options, judged)
    beir.write_collection(options.out, filled.pools, qrels, options.decimals)
    done = f"{len(filled.pools):,} queries with {len(qrels):,} judgments: {options.out}"
    return WrittenSummary(
        done, *rule, *filled.notes, queries=len(filled.pools), judgments=len(qrels)
    )


def _mteb(options: ConvertOptions) -> WrittenSummary:
    filled, judged = _read_labelled_pools(options)
    qrels, rule = _apply_rule(options, judged)
    number = mteb.write_rows(options.out, filled.pools, qrels, options.positive)
    if not number:
        pair = f"a document of at least {options.positive:g} and one below"
        raise InputError(f"{options.source}: no query has both {pair}")
    without = len(filled.pools) - number
    note = f"left out queries without a positive or without a negative document: {without:,}"
    notes = [*rule, *filled.notes, *([note] if without else [])]
    return WrittenSummary(f"{number:,} rows: {options.out}", *notes, rows=number)


def _fastchat(options: ConvertOptions) -> WrittenSummary:
    source, answers, votes = options.source, options.answers, options.votes
    if not votes:
        return _write_compared(options, fastchat.make_turn_pools(source, answers))
    drawn = {"number": options.pairs, "seed": options.seed}
    return _write_compared(options, *fastchat.make_pair_pools(source, answers, votes, **drawn))


def _llamahub(options: ConvertOptions) -> WrittenSummary:
    pairs = llamahub.make_example_pools(options.source, number=options.pairs, seed=options.seed)
    return _write_compared(options, *pairs)


def _write_compared(
    options: ConvertOptions, filled: FilledPools, labels: pa.Table | None = None
) -> WrittenSummary:
    """Write the pools that people compared, and their votes if asked for."""
    lines, counts, out = list[str](), dict[str, int](), options.labels_out
    if labels is not None and out:
        counts["votes"] = write_lines(out, label_lines(labels))
        lines = [f"{counts['votes']:,} votes: {out}"]
    number = write_lines(options.out, map(pool_line, filled.pools))
    return WrittenSummary(
        f"{number:,} pools: {options.out}", *lines, *filled.notes, pools=number, **counts
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
    "mteb": _mteb,
    "opensearch": _tool,
    "rank-eval": _tool,
    "quepid": _tool,
    "letor": _letor,
    "fastchat": _fastchat,
    "llamahub": _llamahub,
}
