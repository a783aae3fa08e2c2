"""``fit``: rate items by comparisons from any source."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from zelo_ray.files.votes import VoteRows, read_vote_rows
from zelo_ray.files.wording import counted, guard_formula
from zelo_ray.fitting.battles import Floats, Ints
from zelo_ray.fitting.ratings import Comparisons, Unrated, rate
from zelo_ray.fitting.scores import name_parts
from zelo_ray.report.command_lines import repeat_with, sibling_path
from zelo_ray.report.model import Cell, Report, Section, table
from zelo_ray.report.results import Results

_SCALES = {"logits": (1.0, 0.0, ".4f"), "elo": (400 / log(10), 1000.0, ".1f")}
"""Points per logit, the points of 0, and a format; of Elo 400 points are odds of 10 to 1."""
_SHOWN = 3
"""Queries whose scores the terminal shows."""
_COMPARISONS = ("query_id", "a", "b", "judge", "won", "lost", "tied")
_SCORES = pa.schema(
    [
        *(("query_id", pa.string()), ("doc_id", pa.string())),
        *(("score", pa.float64()), ("std_error", pa.float64())),
        *(("comparisons", pa.float64()), ("rank", pa.int64()), ("wins", pa.float64())),
    ]
)


@dataclass(frozen=True, slots=True)
class _Query:
    """The comparisons of one query, in a fixed order; items are their places in ``names``."""

    query_id: str
    names: list[str]
    games: Comparisons
    judge: Ints


def run(options: FitOptions, _watch: Watch) -> Results:
    """Read comparisons, fit them, and write the scores if ``out`` is given.

    Each query is fitted by itself. The order of the rows does not matter, to the last bit. Where
    they are votes as `annotate` writes them, all judges' votes on a pair are one game; otherwise
    each row is a game.
    """
    columns = split_columns(options.columns)
    rows = _read(options.source, columns)
    columns.refuse_unused()
    scores, unscored = list[Any](), dict[str, str]()
    for query in _queries(rows):
        games = _share_among_judges(query) if rows.of_documents else query.games
        rating = rate(games, inf if options.mle else options.prior_sd)
        if isinstance(rating, Unrated):
            unscored[query.query_id] = _describe_reason(rating, query.names)
        else:
            scores += _ranked(query, *rating, options)
    if not scores:
        query_id, why = next(iter(unscored.items()), ("", "it has no comparisons"))
        of = f"query {query_id}: " if query_id else ""
        raise InputError(f"{options.source}: {of}{why}")
    score_table = _with_whole_counts(table_of_rows(scores, _SCORES))
    score_table = score_table if _names_queries(rows) else score_table.drop_columns(["query_id"])
    if options.out:
        _write(options.out, score_table)
    counts = {"comparisons": int(rows.is_answered.sum())}
    record = {**counts, "scores": score_table.to_pylist(), "unscored": unscored}
    report = _build_report(record, rows, options)
    next_out = sibling_path(options.source, "ratings.csv")
    return Results(
        record,
        build=lambda _: report,
        tables={"scores": score_table},
        status=ExitStatus.INCOMPLETE if unscored else ExitStatus.COMPLETE,
        next_command="" if options.out else repeat_with(options, out=next_out),
        files=[options.out] if options.out else [],
    )


def _read(place: str, columns: Mapping[str, str]) -> VoteRows:
    """Read comparisons from a file, or the votes of a run."""
    refuse_unfinished(place)
    names = list_directory(place)
    if names is not None:
        if "votes.parquet" not in names:
            raise InputError(f"{place}: is a directory without votes.parquet; name a file")
        place = f"{place.rstrip('/')}/votes.parquet"
    return read_vote_rows(open_source(place, columns), by_query=False)


def _names_queries(rows: VoteRows) -> bool:
    return "query_id" in rows.columns or rows.of_documents


def _queries(rows: VoteRows) -> Iterator[_Query]:
    """Yield the queries, in ascending order; rows that name none are of one, the empty text."""
    texts = {name: pc.fill_null(rows[name], "") for name in ("query_id", "judge")}
    if not _names_queries(rows):
        texts["query_id"] = pa.array([""] * len(rows.table))
    every = pa.table([texts.get(name, rows[name]) for name in _COMPARISONS], names=_COMPARISONS)
    every = every.filter(pa.array(rows.is_answered))
    every = every.sort_by([(name, "ascending") for name in _COMPARISONS])
    ids, first, second, judge, *weights = (
        every[name].to_numpy(zero_copy_only=False) for name in _COMPARISONS
    )
    ends = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1), len(ids)] if len(ids) else [0]
    for start, end in pairwise(ends):
        at = slice(start, end)
        names, place = np.unique(np.concatenate([first[at], second[at]]), return_inverse=True)
        sides, (won, lost, tied) = place.reshape(2, -1), (each[at] for each in weights)
        half = tied / 2
        games = Comparisons(len(names), sides[0], sides[1], won + half, lost + half)
        judges = np.unique(judge[at], return_inverse=True)[1]
        yield _Query(ids[start], names.tolist(), games, judges)


def _share_among_judges(query: _Query) -> Comparisons:
    """Return the games with each pair weighted as one game, shared equally by its judges."""
    games = query.games
    low, high = np.minimum(games.first, games.second), np.maximum(games.first, games.second)
    _, pair = np.unique(low * games.items + high, return_inverse=True)
    codes, voice = np.unique(pair * (query.judge.max() + 1) + query.judge, return_inverse=True)
    spoken = np.bincount(voice, games.won + games.lost)
    judges = np.bincount(codes[spoken > 0] // (query.judge.max() + 1), minlength=pair.max() + 1)
    weight = 1 / np.maximum(spoken[voice] * judges[pair], np.finfo(float).tiny)
    return games._replace(won=games.won * weight, lost=games.lost * weight)


def _describe_reason(reason: Unrated, names: Sequence[str]) -> str:
    """Describe the reason, with the unconnected groups of items, and what to do."""
    more = "; use the prior (no --mle)" if reason.is_infinite else ""
    if reason.groups is None:
        return f"{reason.message}{more}"
    return f"{reason.message}: {name_parts(names, reason.groups.tolist())}{more}"


def _ranked(
    query: _Query, rated: Floats, std_errors: Floats, options: FitOptions
) -> list[tuple[Any, ...]]:
    """Return the rows of a query's scores: best first, ties by name."""
    games, size = query.games, query.games.items
    places = np.concatenate([games.first, games.second])
    counts, won = np.tile(games.won + games.lost, 2), np.concatenate([games.won, games.lost])
    points, zero, _ = _SCALES[options.scale]
    # Rounding errors must not break ties, so keep 12 digits. Adding 0 turns -0 into 0.
    scores = (np.round(rated, 12) + 0.0) * points + zero
    errors = (np.round(std_errors, 12) + 0.0) * points
    columns = (scores, errors, np.bincount(places, counts, size), np.bincount(places, won, size))
    rows = zip(query.names, *(column.tolist() for column in columns), strict=True)
    ordered = sorted(rows, key=lambda row: (-row[1], row[0]))
    return [(query.query_id, *row[:4], rank, row[4]) for rank, row in enumerate(ordered, 1)]


def _with_whole_counts(scores: pa.Table) -> pa.Table:
    """Convert the counts of comparisons to integers, if all are whole."""
    counts = scores["comparisons"].to_numpy()
    if (counts != np.rint(counts)).any():
        return scores
    at = scores.schema.get_field_index("comparisons")
    return scores.set_column(at, "comparisons", pa.array(counts, pa.int64()))


def _write(url: str, scores: pa.Table) -> None:
    """Write scores in the format of the file's extension."""
    kind = format_of_file(url)
    with open_for_writing(url) as file:
        if kind == ".parquet":
            pq.write_table(scores, file)
        elif kind in (".csv", ".tsv"):
            for name in {"query_id", "doc_id"} & {*scores.column_names}:
                names = pa.array(map(guard_formula, scores[name].to_pylist()), pa.string())
                scores = scores.set_column(scores.column_names.index(name), name, names)
            mark = "\t" if kind == ".tsv" else ","
            how = pa.csv.WriteOptions(delimiter=mark, quoting_style="needed")
            pa.csv.write_csv(scores, file, how)
        elif kind == ".json":
            file.write(orjson.dumps(scores.to_pylist(), option=orjson.OPT_INDENT_2) + b"\n")
        else:
            file.writelines(orjson.dumps(row) + b"\n" for row in scores.to_pylist())


def _build_report(record: Mapping[str, Any], rows: VoteRows, options: FitOptions) -> Report:
    """Build the report: the scores of the first queries, and queries without scores."""
    by_query = groupby(record["scores"], lambda row: str(row.get("query_id", "")))
    queries = [(query, [*scores]) for query, scores in by_query]
    form, method = _SCALES[options.scale][2], f"a prior of sd {options.prior_sd:g}"
    columns: Mapping[str, Any] = {
        "rank": "rank",
        "item": "doc_id",
        "score": lambda row: Cell(row["score"], form),
        "error": lambda row: Cell(row["std_error"], form),
        "comparisons": lambda row: Cell(row["comparisons"], ",.10g"),
        "wins": lambda row: Cell(row["wins"], ",.10g"),
    }
    sections, file = list[Section](), options.out or "--out FILE"
    for query, scores in queries[:_SHOWN]:
        title = f"Query {query}" if _names_queries(rows) else "Scores"
        sections.append(Section("scores", title, [table(scores, columns, file=file, open_rows=40)]))
    if reasons := record["unscored"]:
        part = table(reasons.items(), {"query": lambda row: row[0], "reason": lambda row: row[1]})
        sections.append(Section("unscored", "Queries without scores", [part]))
    missing, more = int((~rows.is_answered).sum()), len(queries) - _SHOWN
    notes = [f"{counted(missing, 'row')} without an answer left out"] if missing else []
    if more > 0:
        notes.append(f"{counted(more, 'more query', 'more queries')}: --out FILE has all.")
    notes += [f"results: {options.out}"] if options.out else []
    tiles = {"comparisons": record["comparisons"]}
    tiles |= {"queries": len(queries)} if len(queries) > 1 else {}
    unit = {"logits": "logits", "elo": "Elo points"}[options.scale]
    title = f"Bradley-Terry with {'maximum likelihood' if options.mle else method}, in {unit}"
    return Report(title, tiles, sections=sections, notes=notes)
