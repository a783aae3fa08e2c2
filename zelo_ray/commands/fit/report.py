"""Show the scores fitted to comparisons on the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from zelo_ray.commands.fit import Fitted
from zelo_ray.formats.wording import counted
from zelo_ray.options import FitOptions

_ROWS, _QUERIES, _REASONS = 100, 3, 10
_HEAD = ("rank", "item", "score", "error", "comparisons", "wins")


def told(fitted: Fitted, options: FitOptions) -> list[str]:
    """Return all lines to print."""
    effects = {query: [*group] for query, group in groupby(fitted.effects.to_pylist(), _query_of)}
    queries = [(query, [*group]) for query, group in groupby(fitted.scores.to_pylist(), _query_of)]
    lines = [_heading(options)]
    for query, rows in queries[:_QUERIES]:
        lines += [f"query {query}"] if "query_id" in rows[0] else []
        lines += _items(rows, options)
        lines += [_effect(effect) for effect in effects.get(query, [])]
        lines.append("")
    lines += _left_out(len(queries) - _QUERIES, "query", "queries")
    for query, why in [*fitted.unscored.items()][:_REASONS]:
        lines.append(f"query {query} has no scores: {why}")
    if len(fitted.unscored) > _REASONS:
        more = counted(len(fitted.unscored) - _REASONS, "more query has", "more queries have")
        lines.append(f"… and {more} no scores")
    of = f", {counted(len(queries), 'query', 'queries')}" if len(queries) > 1 else ""
    lines.append(f"{counted(fitted.rows, 'row')} of comparisons{of}")
    lines += [options.out] if options.out else []
    return lines + [f"note: {note}" for note in fitted.notes]


def _query_of(row: Mapping[str, Any]) -> str:
    return str(row.get("query_id", ""))


def _heading(options: FitOptions) -> str:
    how = f"a prior of sd {options.prior_sd:g}"
    how = "maximum likelihood" if options.mle else how
    how = "Firth's correction" if options.firth else how
    units = {"logits": "logits", "elo": "Elo points"}[options.scale]
    zero = f", differences to {options.reference}" if options.reference else ""
    return f"Bradley-Terry with {how}, in {units}{zero}"


def _items(rows: Sequence[Mapping[str, Any]], options: FitOptions) -> Iterator[str]:
    digits = 4 if options.scale == "logits" else 1
    shown = [
        (
            *(f"{row['rank']}", row["doc_id"]),
            *(f"{row[name]:.{digits}f}" for name in ("score", "std_error")),
            *(f"{row[name]:,.10g}" for name in ("comparisons", "wins")),
        )
        for row in rows[:_ROWS]
    ]
    yield from table([_HEAD, *shown], "><>>>>")
    yield from _left_out(len(rows) - _ROWS, "item", "items")


def _effect(effect: Mapping[str, Any]) -> str:
    value = f"{effect['value']:.4f} ± {effect['std_error']:.4f} logits"
    if effect["effect"] == "order":
        return f"standing first is worth {value}"
    return f"log of Davidson's nu, which says how often two alike tie: {value}"


def _left_out(number: int, singular: str, plural: str) -> list[str]:
    return [f"… and {counted(number, singular, plural)} more: --out has all"] if number > 0 else []


def table(rows: Sequence[Sequence[str]], sides: str) -> Iterator[str]:
    """Yield rows in columns, two blanks apart; ``sides`` has < (left) or > (right) per column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, sides, widths, strict=True)
        yield "  ".join(f"{cell:{side}{width}}" for cell, side, width in cells).rstrip()
