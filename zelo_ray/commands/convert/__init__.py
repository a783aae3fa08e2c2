"""Pools, judgments and runs from one format into another, and holes in judgments as work."""

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from zelo_ray.commands.convert.flags import FLAGS, FROM
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.files import stem
from zelo_ray.formats.interchange import beir, fastchat, mteb, train, trec
from zelo_ray.formats.interchange.graded import read_absolute, read_graded
from zelo_ray.formats.interchange.pooling import columns, holes, pooled
from zelo_ray.formats.interchange.runs import read_runs
from zelo_ray.formats.interchange.texts import Filled, fill, pool_line, read_texts, write_lines
from zelo_ray.formats.interchange.truth import look, pools_of_truth, read_pools, read_truth
from zelo_ray.formats.interchange.work import Work, pool_lines
from zelo_ray.formats.pools import find_shards
from zelo_ray.formats.wording import printable
from zelo_ray.options.places import check_url

_Given = Mapping[str, Any]
_PLACES = (
    *("source", "out", "truth", "qrels", "corpus", "queries", "runs", "pools"),
    *("answers", "votes", "labels_out"),
)
_TREC_RUN_COLUMNS = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``convert`` can make, each with its flags."""
    kinds = parser.add_subparsers(dest="what", required=True)
    for name, command in _COMMANDS.items():
        kind = kinds.add_parser(name, help=command.help, description=command.help)
        for flag in (*command.flags.split(), "--out"):
            kind.add_argument(flag, **{**FLAGS[flag], **command.special.get(flag, {})})


def run(arguments: _Given) -> str:
    """Do what the arguments of `add_arguments` ask for; say what was done.

    Raises:
        OptionError: flags that do not go together, or a URL of an unknown kind.
        InputError: what is read is wrong.
        Unwritable: the format cannot hold what is to be written.
    """
    for name in _PLACES:
        given = arguments.get(name) or ()
        for url in [given] if isinstance(given, str) else given:
            try:
                check_url(url)
            except ValueError as error:
                raise OptionError(str(error)) from None
    if arguments.get("depth", 1) < 1:
        raise OptionError("--depth is at least 1")
    return _COMMANDS[arguments["what"]].make(arguments)


def _pool(given: _Given) -> str:
    filled = _candidates(given)
    documents = sum(len(pool.documents) for pool in filled.pools)
    if not documents:
        raise InputError(f"no pool has a document: {'; '.join(filled.notes) or 'all are empty'}")
    number = write_lines(given["out"], map(pool_line, filled.pools))
    return _lines(f"{number:,} pools with {documents:,} documents: {given['out']}", *filled.notes)


def _candidates(given: _Given) -> Filled:
    source = given["source"]
    if source and not given["runs"]:
        return read_pools(source)
    corpus, queries = given["corpus"] or source, given["queries"] or source
    judged = read_truth(given["qrels"]) if given["qrels"] else None
    if not (corpus and queries and (given["runs"] or given["qrels"])):
        raise OptionError(
            "convert pool wants FROM (a collection), or --corpus, --queries and --runs or --qrels"
        )
    found = pooled(read_runs(given["runs"] or ()), given["depth"], judged)
    wanted = {doc_id for ranks in found.values() for doc_id in ranks}
    return fill(found, beir.read_queries(queries), read_texts(corpus, "corpus", wanted))


def _holes(given: _Given) -> str:
    truth, runs, depth = read_truth(given["truth"]), read_runs(given["runs"] or ()), given["depth"]
    found = pa.concat_tables([holes(truth, name, run, depth) for name, run in runs.items()])
    work = Work(truth, found)
    if given["corpus"]:
        work.know(read_texts(given["corpus"], "corpus", work.wanted))
    beside = pools_of_truth(given["truth"])
    shards = find_shards(given["pools"] or ([beside] if beside else []))
    queries = beir.read_queries(given["queries"]) if given["queries"] else {}
    number = write_lines(given["out"], work.lines(pool_lines(shards), queries, given["all"]))
    by_run = Counter(found["run"].to_pylist())
    counts = ", ".join(f"{name} {by_run[name]:,}" for name in runs)
    done = f"holes to depth {depth}: {counts}; {number:,} pools to annotate: {given['out']}"
    return _lines(done, *work.notes)


def _qrels(given: _Given) -> str:
    read = read_graded if given["grades"] else read_truth
    qrels, note = _sure(given, read(given["source"]))
    if not len(qrels):
        raise InputError(f"{given['source']} holds no judgment to write")
    trec.write_qrels(given["out"], qrels, given["decimals"])
    return _lines(f"{len(qrels):,} judgments: {given['out']}", *note)


def _train(given: _Given) -> str:
    filled, scores = _material(given)
    absolute = read_absolute(given["source"])
    scores, note = _sure(given, scores if absolute is None else absolute)
    rows, lacking = train.rows(filled.pools, scores)
    number = write_lines(given["out"], rows)
    note += [f"left out judged documents without a text: {lacking:,}"] if lacking else []
    return _lines(f"{number:,} rows: {given['out']}", *filled.notes, *note)


def _sure(given: _Given, qrels: pa.Table) -> tuple[pa.Table, list[str]]:
    """Judgments without those that split the panel, where these are not wanted."""
    if not given["without_ambiguous"]:
        return qrels, []
    graded = read_graded(given["source"])
    split = set(columns(graded.filter(graded["ambiguous"]), "query_id", "doc_id"))
    kept = [pair not in split for pair in columns(qrels, "query_id", "doc_id")]
    return qrels.filter(pa.array(kept)), [f"left out ambiguous documents: {len(split):,}"]


def _run(given: _Given) -> str:
    source, name = given["source"], given["name"]
    sight = look(source)
    if len(sight.line.split()) >= _TREC_RUN_COLUMNS or "run" in sight.columns:
        runs = read_runs([source])
    else:
        runs = {stem(source): read_truth(source).rename_columns({"relevance": "score"})}
    if len(runs) > 1 and name not in runs:
        raise OptionError(f"{source} holds several runs; --name one of them: {', '.join(runs)}")
    own, table = (name, runs[name]) if name in runs else next(iter(runs.items()))
    trec.write_run(given["out"], name or own, table)
    return _lines(f"{len(table):,} lines of the run {name or own}: {given['out']}")


def _beir(given: _Given) -> str:
    filled, qrels = _material(given)
    beir.write(given["out"], filled.pools, qrels, given["decimals"])
    done = f"{len(filled.pools):,} queries with {len(qrels):,} judgments: {given['out']}"
    return _lines(done, *filled.notes)


def _mteb(given: _Given) -> str:
    filled, qrels = _material(given)
    number = mteb.write_rows(given["out"], filled.pools, qrels, given["positive"])
    if not number:
        least = f"a document of at least {given['positive']:g} and one below"
        raise InputError(f"{given['source']}: no query has both {least}")
    without = len(filled.pools) - number
    note = f"left out queries without a positive or without a negative document: {without:,}"
    return _lines(f"{number:,} rows: {given['out']}", *filled.notes, *([note] if without else []))


def _fastchat(given: _Given) -> str:
    source, answers, votes = given["source"], given["answers"], given["votes"]
    if not votes and (given["pairs"] or given["labels_out"]):
        raise OptionError("--pairs and --labels-out are of --votes: name these, too")
    if given["pairs"] < 0:
        raise OptionError("--pairs is how many to draw, or 0 for all")
    lines = []
    if votes:
        drawn = {"number": given["pairs"], "seed": given["seed"]}
        filled, labels = fastchat.pairs(source, answers, votes, **drawn)
        if out := given["labels_out"]:
            lines = [f"{write_lines(out, fastchat.label_lines(labels)):,} votes: {out}"]
    else:
        filled = fastchat.pools(source, answers)
    number = write_lines(given["out"], map(pool_line, filled.pools))
    return _lines(f"{number:,} pools: {given['out']}", *lines, *filled.notes)


def _material(given: _Given) -> tuple[Filled, pa.Table]:
    """Pools and judgments, from one place or two."""
    qrels = read_truth(given["source"])
    if not given["pools"]:
        return read_pools(given["source"]), qrels
    return Filled([pool for _, pool in pool_lines(find_shards(given["pools"]))], []), qrels


def _lines(*lines: str) -> str:
    return "\n".join(map(printable, lines))


@dataclass(frozen=True, slots=True)
class _Command:
    """What ``convert`` can make: how, what its help says, and its flags with what is special."""

    make: Callable[[_Given], str]
    help: str
    flags: str
    special: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


_COMMANDS = {
    "pool": _Command(
        _pool,
        "make pools to annotate: of a collection, or of several runs",
        "source --corpus --queries --runs --depth --qrels",
        {
            "source": {"nargs": "?", "help": "BEIR or MTEB data, or annotated.jsonl"},
            "--depth": {"default": 100},
        },
    ),
    "holes": _Command(
        _holes,
        "find unjudged documents at the top of runs, as pools to annotate",
        "--truth --runs --depth --pools --corpus --queries --all",
        {"--runs": {"required": True}, "--depth": {"default": 10}},
    ),
    "qrels": _Command(_qrels, "write TREC qrels", "source --grades --without-ambiguous --decimals"),
    "train": _Command(
        _train,
        "write query, document and score as JSON lines, to train a model on",
        "source --pools --without-ambiguous",
    ),
    "run": _Command(
        _run,
        "write a TREC run",
        "source --name",
        {"source": {"help": f"a Parquet or TREC run, or {FROM}"}},
    ),
    "beir": _Command(_beir, "write a BEIR directory", "source --pools --decimals"),
    "mteb": _Command(_mteb, "write MTEB reranking rows as JSON lines", "source --pools --positive"),
    "fastchat": _Command(
        _fastchat,
        "make pools of FastChat's questions and answers (MT-Bench)",
        "source answers --votes --pairs --seed --labels-out",
        {"source": {"metavar": "QUESTIONS", "help": "question.jsonl"}},
    ),
}
