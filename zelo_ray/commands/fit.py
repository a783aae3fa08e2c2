"""``fit``: rate items by comparisons from any source."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from math import inf, log
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from zelo_ray.command_options import FitOptions, format_of_file
from zelo_ray.engine.job import Watch
from zelo_ray.errors import ExitStatus, InputError
from zelo_ray.files.rows import open_source
from zelo_ray.files.run_record import refuse_unfinished
from zelo_ray.files.schema import split_columns
from zelo_ray.files.storage import list_directory, open_for_writing
from zelo_ray.files.tables import table_of_rows
from zelo_ray.files.votes import read_vote_rows
from zelo_ray.files.wording import counted, guard_formula
from zelo_ray.fitting import ratings
from zelo_ray.fitting.battles import Floats, Ints
from zelo_ray.fitting.ratings import Unrated, rate
from zelo_ray.report.command_lines import repeat_with, sibling_path
from zelo_ray.report.model import Cell, Report, Section, table
from zelo_ray.report.results import Results

_POINTS = {"logits": 1.0, "elo": 400 / log(10)}
"""Points per logit; on Elo's scale 400 points are odds of 10 to 1."""
_OFFSETS = {"logits": 0.0, "elo": 1000.0}
_SHOWN = 3
"""Queries whose scores the terminal shows."""
COMPARISONS = pa.schema(
    [
        *((name, pa.string()) for name in ("query_id", "first", "second", "judge")),
        *((name, pa.float64()) for name in ("won", "lost", "tied")),
    ]
)
_SCORES = pa.schema(
    [
        *(("query_id", pa.string()), ("doc_id", pa.string())),
        *(("score", pa.float64()), ("std_error", pa.float64())),
        *(("comparisons", pa.float64()), ("rank", pa.int64()), ("wins", pa.float64())),
    ]
)


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Comparisons with the columns of ``COMPARISONS``.

    ``won``, ``lost`` and ``tied`` are how often the first did so, or how much that weighs.
    """

    table: pa.Table
    votes: bool
    """whether they are votes as `annotate` writes them: several may be on one pair"""
    queries: bool
    """whether they name their query; if not, it is the empty text"""
    missing: int
    """how many rows without an answer were left out"""


def run(options: FitOptions, _watch: Watch) -> Results:
    """Read comparisons, fit them, and write the scores if ``out`` is given."""
    columns = split_columns(options.columns)
    comparisons = read_comparisons(options.source, columns)
    columns.refuse_unused()
    scores, unscored = fit_comparisons(comparisons, options)
    if not len(scores):
        query_id, why = next(iter(unscored.items()), ("", "it has no comparisons"))
        of = f"query {query_id}: " if comparisons.queries and query_id else ""
        raise InputError(f"{options.source}: {of}{why}")
    step = ""
    if options.out:
        write(options.out, scores)
    else:
        step = repeat_with(options, out=sibling_path(options.source, "ratings.csv"))
    record = {
        "comparisons": len(comparisons.table),
        "scores": scores.to_pylist(),
        "unscored": unscored,
    }
    report = _build_report(record, comparisons, options)
    return Results(
        record,
        build=lambda _: report,
        tables={"scores": scores},
        status=ExitStatus.INCOMPLETE if unscored else ExitStatus.COMPLETE,
        next_command=step,
        files=[options.out] if options.out else [],
    )


def read_comparisons(place: str, columns: Mapping[str, str]) -> Comparisons:
    """Read comparisons from a file, or the votes of a run."""
    refuse_unfinished(place)
    names = list_directory(place)
    if names is not None:
        if "votes.parquet" not in names:
            raise InputError(f"{place}: is a directory without votes.parquet; name a file")
        place = f"{place.rstrip('/')}/votes.parquet"
    rows = read_vote_rows(open_source(place, columns), by_query=False)
    names_queries = "query_id" in rows.columns or rows.of_documents
    size = len(rows.table)
    every = pa.table(
        [
            pc.fill_null(rows["query_id"], "") if names_queries else pa.array([""] * size),
            rows["a"],
            rows["b"],
            pc.fill_null(rows["judge"], ""),
            rows["won"],
            rows["lost"],
            rows["tied"],
        ],
        schema=COMPARISONS,
    )
    return Comparisons(
        every.filter(pa.array(rows.is_answered)),
        votes=rows.of_documents,
        queries=names_queries,
        missing=int((~rows.is_answered).sum()),
    )


def fit_comparisons(
    comparisons: Comparisons, options: FitOptions
) -> tuple[pa.Table, dict[str, str]]:
    """Fit each query separately. The order of the rows does not matter, to the last bit.

    Where the comparisons are votes as `annotate` writes them, all judges' votes on a pair are one
    game; otherwise each row is a game.

    Returns:
        The scores (query_id if the comparisons have any, doc_id, score, std_error, comparisons,
        rank and wins), best first, where a tie is half a win; and by query without scores the
        reason.
    """
    prior_sd = inf if options.mle else options.prior_sd
    scores, unscored = list[Any](), dict[str, str]()
    for query in _queries(comparisons.table):
        games = _share_among_judges(query) if comparisons.votes else query.games
        rating = rate(games, prior_sd)
        if isinstance(rating, Unrated):
            unscored[query.query_id] = _describe_reason(rating, query.names)
        else:
            scores += _ranked(query, *rating, options)
    found = _with_whole_counts(table_of_rows(scores, _SCORES))
    return found if comparisons.queries else found.drop_columns(["query_id"]), unscored


def write(url: str, scores: pa.Table) -> None:
    """Write scores in the format of the file's extension."""
    kind = format_of_file(url)
    with open_for_writing(url) as file:
        if kind == ".parquet":
            pq.write_table(scores, file)
        elif kind in (".csv", ".tsv"):
            mark = "\t" if kind == ".tsv" else ","
            for name in {"query_id", "doc_id"} & {*scores.column_names}:
                names = pa.array(map(guard_formula, scores[name].to_pylist()), pa.string())
                scores = scores.set_column(scores.column_names.index(name), name, names)
            how = pa.csv.WriteOptions(delimiter=mark, quoting_style="needed")
            pa.csv.write_csv(scores, file, how)
        elif kind == ".json":
            file.write(orjson.dumps(scores.to_pylist(), option=orjson.OPT_INDENT_2) + b"\n")
        else:
            for row in scores.to_pylist():
                file.write(orjson.dumps(row) + b"\n")


@dataclass(frozen=True, slots=True)
class _Query:
    """The comparisons of one query, in a fixed order; items are their places in ``names``."""

    query_id: str
    names: list[str]
    games: ratings.Comparisons
    judge: Ints


def _queries(rows: pa.Table) -> Iterator[_Query]:
    """Yield the queries, in ascending order."""
    rows = rows.sort_by([(name, "ascending") for name in COMPARISONS.names])
    ids, first, second, judge, *weights = (
        rows[name].to_numpy(zero_copy_only=False) for name in COMPARISONS.names
    )
    ends = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1), len(ids)] if len(ids) else [0]
    for start, end in pairwise(ends):
        at = slice(start, end)
        names, place = np.unique(np.concatenate([first[at], second[at]]), return_inverse=True)
        won, lost, tied = (each[at] for each in weights)
        sides = place.reshape(2, -1)
        games = ratings.Comparisons(
            items=len(names), first=sides[0], second=sides[1], won=won, lost=lost, tied=tied
        )
        judges = np.unique(judge[at], return_inverse=True)[1]
        yield _Query(ids[start], names.tolist(), games, judges)


def _share_among_judges(query: _Query) -> ratings.Comparisons:
    """Return the games with each pair weighted as one game, shared equally by its judges."""
    games = query.games
    low, high = np.minimum(games.first, games.second), np.maximum(games.first, games.second)
    _, pair = np.unique(low * games.items + high, return_inverse=True)
    codes, voice = np.unique(pair * (query.judge.max() + 1) + query.judge, return_inverse=True)
    spoken = np.bincount(voice, games.won + games.lost + games.tied)
    judges = np.bincount(codes[spoken > 0] // (query.judge.max() + 1), minlength=pair.max() + 1)
    weight = 1 / np.maximum(spoken[voice] * judges[pair], np.finfo(float).tiny)
    return replace(
        games, won=games.won * weight, lost=games.lost * weight, tied=games.tied * weight
    )


def _describe_reason(reason: Unrated, names: Sequence[str]) -> str:
    """Describe the reason, with the unconnected groups of items, and what to do."""
    more = "; use the prior (no --mle)" if reason.is_infinite else ""
    if reason.groups is None:
        return f"{reason.message}{more}"
    parts = [
        [name for name, group in zip(names, reason.groups, strict=True) if group == part]
        for part in dict.fromkeys(reason.groups.tolist())
    ]
    return f"{reason.message}: {'; '.join(_few([', '.join(_few(part)) for part in parts]))}{more}"


def _few(names: list[str]) -> list[str]:
    return names if len(names) <= 4 else [*names[:3], "…"]


def _ranked(
    query: _Query, rated: Floats, errors: Floats, options: FitOptions
) -> list[tuple[Any, ...]]:
    """Return the rows of a query's scores: best first, ties by name."""
    games, size = query.games, query.games.items
    places = np.concatenate([games.first, games.second])
    counts = np.tile(games.won + games.lost + games.tied, 2)
    won = np.concatenate([games.won, games.lost]) + np.tile(games.tied, 2) / 2
    points, offset = _POINTS[options.scale], _OFFSETS[options.scale]
    # Rounding errors must not break ties, so keep 12 digits. Adding 0 turns -0 into 0.
    scores = (np.round(rated, 12) + 0.0) * points + offset
    errors = (np.round(errors, 12) + 0.0) * points
    columns = (scores, errors, np.bincount(places, counts, size), np.bincount(places, won, size))
    rows = zip(query.names, *(column.tolist() for column in columns), strict=True)
    ordered = sorted(rows, key=lambda row: (-row[1], row[0]))
    return [
        (query.query_id, name, score, error, comparisons, rank, wins)
        for rank, (name, score, error, comparisons, wins) in enumerate(ordered, 1)
    ]


def _with_whole_counts(scores: pa.Table) -> pa.Table:
    """Convert the counts of comparisons to integers, if all are whole."""
    counts = scores["comparisons"].to_numpy()
    if (counts != np.rint(counts)).any():
        return scores
    at = scores.schema.get_field_index("comparisons")
    return scores.set_column(at, "comparisons", pa.array(counts, pa.int64()))


def _build_report(
    record: Mapping[str, Any], comparisons: Comparisons, options: FitOptions
) -> Report:
    """Build the report: the scores of the first queries, and queries without scores."""
    queries = [
        (query, [*rows])
        for query, rows in groupby(record["scores"], lambda row: str(row.get("query_id", "")))
    ]
    form = ".4f" if options.scale == "logits" else ".1f"
    columns: Mapping[str, Any] = {
        "rank": "rank",
        "item": "doc_id",
        "score": lambda row: Cell(row["score"], form),
        "error": lambda row: Cell(row["std_error"], form),
        "comparisons": lambda row: Cell(row["comparisons"], ",.10g"),
        "wins": lambda row: Cell(row["wins"], ",.10g"),
    }
    sections = [
        Section(
            "scores",
            f"Query {query}" if comparisons.queries else "Scores",
            [table(rows, columns, file=options.out or "--out FILE", open_rows=40)],
        )
        for query, rows in queries[:_SHOWN]
    ]
    if reasons := record["unscored"]:
        rows = table(reasons.items(), {"query": lambda row: row[0], "reason": lambda row: row[1]})
        sections.append(Section("unscored", "Queries without scores", [rows]))
    notes = []
    if comparisons.missing:
        notes.append(f"{counted(comparisons.missing, 'row')} without an answer left out")
    if (more := len(queries) - _SHOWN) > 0:
        notes.append(f"{counted(more, 'more query', 'more queries')}: --out FILE has all.")
    notes += [f"results: {options.out}"] if options.out else []
    method = "maximum likelihood" if options.mle else f"a prior of sd {options.prior_sd:g}"
    unit = {"logits": "logits", "elo": "Elo points"}[options.scale]
    tiles = {"comparisons": record["comparisons"]}
    tiles |= {"queries": len(queries)} if len(queries) > 1 else {}
    return Report(f"Bradley-Terry with {method}, in {unit}", tiles, sections=sections, notes=notes)
