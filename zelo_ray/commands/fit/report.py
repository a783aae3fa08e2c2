"""Report the scores fitted to comparisons."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import isnan
from typing import Any

from zelo_ray.commands.fit import Fitted
from zelo_ray.formats.wording import counted
from zelo_ray.options import FitOptions
from zelo_ray.reports.parts import Cells, Report, ReportTable, Section, Sentences, TextCell
from zelo_ray.reports.wording import format_number

_QUERIES, _REASONS = 3, 10
_COLUMNS = ("rank", "item", "score", "error", "comparisons", "wins")
_CONTROLLED = ("length", "length-controlled", "its error")
_NUMBERS = frozenset({*_COLUMNS, *_CONTROLLED}) - {"item"}
_UNITS = {"logits": "logits", "elo": "Elo points"}
Row = Mapping[str, Any]


def build_report(fitted: Fitted, options: FitOptions) -> Report:
    """Build the report of `fit`: the scores of the first queries, and queries without scores."""
    effects = {query: [*rows] for query, rows in groupby(fitted.effects.to_pylist(), _query_of)}
    queries = [(query, [*rows]) for query, rows in groupby(fitted.scores.to_pylist(), _query_of)]
    effects[""] = [row for row in effects.get("", ()) if row["effect"] != "length"]
    sections = [
        _scores_section(query, rows, effects.get(query, ()), options)
        for query, rows in queries[:_QUERIES]
    ]
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
        lead=[*_describe_control(fitted)],
        sections=[*sections, _unscored_section(fitted.unscored)],
        notes=notes,
    )


def _describe_control(fitted: Fitted) -> Iterator[str]:
    """Say what length is worth, and what a length-controlled score is not."""
    if fitted.control is None:
        return
    fit = fitted.control.fit
    queries = counted(fit.queries, "query", "queries")
    if fit.separated:
        yield (
            "Length orders every comparison of documents that are not equally long, so no finite "
            "coefficient exists, and no length-controlled score."
        )
        return
    if isnan(fit.coefficient):
        yield "Documents that met are equally long, or nearly so: there is nothing to control."
        return
    yield (
        f"A doubling of length goes with {fit.coefficient:+.4f} ± {fit.std_error:.4f} logits, "
        f"by {queries}. A length-controlled score is what remains."
    )
    yield (
        "Whether judges favour length, or longer documents are more relevant, these votes cannot "
        "tell: in the second case the control takes away what is true."
    )


def _query_of(row: Row) -> str:
    return str(row.get("query_id", ""))


def _title(options: FitOptions) -> str:
    method = f"a prior of sd {options.prior_sd:g}"
    method = "maximum likelihood" if options.mle else method
    method = "Firth's correction" if options.firth else method
    zero = f", differences to {options.reference}" if options.reference else ""
    return f"Bradley-Terry with {method}, in {_UNITS[options.scale]}{zero}"


def _scores_section(
    query: str, rows: Sequence[Row], effects: Sequence[Row], options: FitOptions
) -> Section:
    form = ".4f" if options.scale == "logits" else ".1f"
    cells: list[Cells] = [
        [
            f"{row['rank']}",
            TextCell(row["doc_id"]),
            format_number(row["score"], form),
            format_number(row["std_error"], form),
            format_number(row["comparisons"], ",.10g"),
            format_number(row["wins"], ",.10g"),
            *_controlled(row, form),
        ]
        for row in rows
    ]
    columns = (*_COLUMNS, *(_CONTROLLED if options.control else ()))
    table = ReportTable(columns, cells, numbers=_NUMBERS, file=options.out or "--out FILE")
    title = f"Query {query}" if "query_id" in rows[0] else "Scores"
    return Section("scores", title, (table, Sentences([_effect(effect) for effect in effects])))


def _controlled(row: Row, form: str) -> Iterator[str]:
    """Yield the cells of a length-controlled score, where there is one."""
    if "length" in row:
        yield format_number(row["length"], ",.0f")
        yield format_number(row["score_length_controlled"], form)
        yield format_number(row["std_error_length_controlled"], form)


def _effect(effect: Row) -> str:
    error = "" if isnan(effect["std_error"]) else f" ± {effect['std_error']:.4f}"
    value = f"{effect['value']:.4f}{error} logits"
    if effect["effect"] == "order":
        return f"Being first is worth {value}."
    return f"Log of Davidson's nu (how often two equal items tie): {value}."


def _unscored_section(reasons: Mapping[str, str]) -> Section | None:
    if not reasons:
        return None
    rows: list[Cells] = [[TextCell(query), TextCell(reason)] for query, reason in reasons.items()]
    table = ReportTable(("query", "reason"), rows, open_rows=_REASONS)
    return Section("unscored", "Queries without scores", (table,))
