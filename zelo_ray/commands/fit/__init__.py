"""``fit``: rate items by comparisons from any source."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, log
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from zelo_ray.command_options import FitOptions, format_of_file
from zelo_ray.commands.fit.comparisons import COMPARISONS, Comparisons, read_comparisons
from zelo_ray.errors import InputError
from zelo_ray.files.schema import split_columns
from zelo_ray.files.storage import open_for_writing
from zelo_ray.files.tables import table_of_rows
from zelo_ray.files.wording import counted, guard_formula
from zelo_ray.fitting.battles import Ints
from zelo_ray.fitting.ratings import FittedRatings, Games, Unrated, UnratedReason, rate

_POINTS = {"logits": 1.0, "elo": 400 / log(10)}
"""Points per logit; on Elo's scale 400 points are odds of 10 to 1."""
_OFFSETS = {"logits": 0.0, "elo": 1000.0}
_TEXTS, _NUMBERS = ("query_id", "first", "second", "judge"), ("won", "lost", "tied")
_SCORES = pa.schema(
    [
        *(("query_id", pa.string()), ("doc_id", pa.string())),
        *(("score", pa.float64()), ("std_error", pa.float64())),
        *(("comparisons", pa.float64()), ("rank", pa.int64()), ("wins", pa.float64())),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Scores that were fitted to comparisons."""

    scores: pa.Table
    """query_id (if the comparisons have any), doc_id, score, std_error, comparisons, rank and wins,
    best first; a tie is half a win"""
    unscored: Mapping[str, str]
    """by query without scores, the reason"""
    rows: int
    """number of comparisons that count"""
    notes: tuple[str, ...] = ()


def fit(options: FitOptions) -> Fitted:
    """Read comparisons, fit them, and write the scores if ``out`` is given.

    Raises:
        OptionError: an unknown role of a column.
        InputError: the comparisons cannot be read or used, or no query has scores.
    """
    columns = split_columns(options.columns)
    comparisons = read_comparisons(options.source, columns)
    columns.refuse_unused()
    left_out = f"{counted(comparisons.missing, 'row')} without an answer left out"
    fitted = fit_comparisons(comparisons, options, (left_out,) if comparisons.missing else ())
    if not len(fitted.scores):
        query_id, why = next(iter(fitted.unscored.items()), ("", "it has no comparisons"))
        of = f"query {query_id}: " if comparisons.queries and query_id else ""
        raise InputError(f"{options.source}: {of}{why}")
    if options.out:
        write(options.out, fitted.scores)
    return fitted


def fit_comparisons(
    comparisons: Comparisons, options: FitOptions, notes: tuple[str, ...] = ()
) -> Fitted:
    """Fit each query separately. The order of the rows does not matter, to the last bit.

    Where the comparisons are votes as `annotate` writes them, all judges' votes on a pair are one
    game; otherwise each row is a game.
    """
    queries = _queries(comparisons.table)
    prior_sd = inf if options.mle else options.prior_sd
    scores, unscored = list[Any](), dict[str, str]()
    for query in queries:
        games = _share_among_judges(query) if comparisons.votes else query.games
        rating = rate(games, prior_sd)
        if rating.reason:
            unscored[query.query_id] = _describe_reason(rating.reason, query.names)
        else:
            scores += _ranked(query, rating, options)
    table = _as_integers(table_of_rows(scores, _SCORES))
    return Fitted(
        scores=table if comparisons.queries else table.drop_columns(["query_id"]),
        unscored=unscored,
        rows=len(comparisons.table),
        notes=notes,
    )


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
    games: Games
    judge: Ints


def _queries(table: pa.Table) -> Iterator[_Query]:
    """Yield the queries, in ascending order."""
    table = table.sort_by([(name, "ascending") for name in COMPARISONS.names])
    ids, first, second, judge = (table[n].to_numpy(zero_copy_only=False) for n in _TEXTS)
    won, lost, tied = (table[n].to_numpy() for n in _NUMBERS)
    ends = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1), len(ids)] if len(ids) else [0]
    for start, end in pairwise(ends):
        at = slice(start, end)
        names, place = np.unique(np.concatenate([first[at], second[at]]), return_inverse=True)
        first_places, second_places = place.reshape(2, -1)
        games = Games(
            items=len(names),
            first=first_places,
            second=second_places,
            won=won[at],
            lost=lost[at],
            tied=tied[at],
        )
        judges = np.unique(judge[at], return_inverse=True)[1]
        yield _Query(ids[start], names.tolist(), games, judges)


def _share_among_judges(query: _Query) -> Games:
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
    infinite = reason.code is UnratedReason.INFINITE
    more = "; use the prior (no --mle)" if infinite else ""
    if reason.groups is None:
        return f"{reason.message}{more}"
    parts = [
        [name for name, group in zip(names, reason.groups, strict=True) if group == part]
        for part in dict.fromkeys(reason.groups.tolist())
    ]
    return f"{reason.message}: {'; '.join(_few([', '.join(_few(part)) for part in parts]))}{more}"


def _few(names: list[str]) -> list[str]:
    return names if len(names) <= 4 else [*names[:3], "…"]


def _ranked(query: _Query, ratings: FittedRatings, options: FitOptions) -> list[tuple[Any, ...]]:
    """Return the rows of a query's scores: best first, ties by name."""
    games, size = query.games, query.games.items
    places = np.concatenate([games.first, games.second])
    counts = np.tile(games.won + games.lost + games.tied, 2)
    won = np.concatenate([games.won, games.lost]) + np.tile(games.tied, 2) / 2
    points, offset = _POINTS[options.scale], _OFFSETS[options.scale]
    # Rounding errors must not break ties, so keep 12 digits. Adding 0 turns -0 into 0.
    scores = (np.round(ratings.scores, 12) + 0.0) * points + offset
    errors = (np.round(ratings.std_errors, 12) + 0.0) * points
    columns = (scores, errors, np.bincount(places, counts, size), np.bincount(places, won, size))
    rows = zip(query.names, *(column.tolist() for column in columns), strict=True)
    ordered = sorted(rows, key=lambda row: (-row[1], row[0]))
    return [
        (query.query_id, name, score, error, comparisons, rank, wins)
        for rank, (name, score, error, comparisons, wins) in enumerate(ordered, 1)
    ]


def _as_integers(scores: pa.Table) -> pa.Table:
    """Convert the counts of comparisons to integers, if all are whole."""
    counts = scores["comparisons"].to_numpy()
    if (counts != np.rint(counts)).any():
        return scores
    at = scores.schema.get_field_index("comparisons")
    return scores.set_column(at, "comparisons", pa.array(counts, pa.int64()))
