"""Report the scores fitted to comparisons."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from zelo_ray.command_options import FitOptions
from zelo_ray.commands.fit import Fitted
from zelo_ray.files.wording import counted
from zelo_ray.reports.parts import Cells, Report, ReportTable, Section, TextCell
from zelo_ray.reports.wording import format_number

_QUERIES, _REASONS = 3, 10
_COLUMNS = ("rank", "item", "score", "error", "comparisons", "wins")
_NUMBERS = frozenset(_COLUMNS) - {"item"}
_UNITS = {"logits": "logits", "elo": "Elo points"}
Row = Mapping[str, Any]


def build_report(fitted: Fitted, options: FitOptions) -> Report:
    """Build the report of `fit`: the scores of the first queries, and queries without scores."""
    queries = [(query, [*rows]) for query, rows in groupby(fitted.scores.to_pylist(), _query_of)]
    sections = [_scores_section(query, rows, options) for query, rows in queries[:_QUERIES]]
    notes = [*fitted.notes]
    if (more := len(queries) - _QUERIES) > 0:
        notes.append(f"{counted(more, 'more query', 'more queries')}: --out FILE has all.")
    if options.out:
        notes.append(f"results: {options.out}")
    tiles = [("comparisons", f"{fitted.rows:,}")]
    if len(queries) > 1:
        tiles.append(("queries", f"{len(queries):,}"))
    return Report(
        title=_title(options),
        tiles=tiles,
        lead=(),
        sections=[*sections, _unscored_section(fitted.unscored)],
        notes=notes,
    )


def _query_of(row: Row) -> str:
    return str(row.get("query_id", ""))


def _title(options: FitOptions) -> str:
    method = "maximum likelihood" if options.mle else f"a prior of sd {options.prior_sd:g}"
    return f"Bradley-Terry with {method}, in {_UNITS[options.scale]}"


def _scores_section(query: str, rows: Sequence[Row], options: FitOptions) -> Section:
    form = ".4f" if options.scale == "logits" else ".1f"
    cells: list[Cells] = [
        [
            f"{row['rank']}",
            TextCell(row["doc_id"]),
            format_number(row["score"], form),
            format_number(row["std_error"], form),
            format_number(row["comparisons"], ",.10g"),
            format_number(row["wins"], ",.10g"),
        ]
        for row in rows
    ]
    table = ReportTable(_COLUMNS, cells, numbers=_NUMBERS, file=options.out or "--out FILE")
    title = f"Query {query}" if "query_id" in rows[0] else "Scores"
    return Section("scores", title, (table,))


def _unscored_section(reasons: Mapping[str, str]) -> Section | None:
    if not reasons:
        return None
    rows: list[Cells] = [[TextCell(query), TextCell(reason)] for query, reason in reasons.items()]
    table = ReportTable(("query", "reason"), rows, open_rows=_REASONS)
    return Section("unscored", "Queries without scores", (table,))
