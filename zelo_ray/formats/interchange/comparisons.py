"""Read comparisons of two items of any origin, from a file or from memory, in one form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.formats.interchange.outcomes import Outcome, PlainRows, is_missing, read_outcomes
from zelo_ray.formats.interchange.roles import Roles, find_roles
from zelo_ray.formats.run_record import refuse_unfinished
from zelo_ray.formats.stored import parquet_table, read_column_names, read_table_rows

COMPARISONS = pa.schema(
    [
        *((name, pa.string()) for name in ("query_id", "first", "second", "judge")),
        *((name, pa.float64()) for name in ("won", "lost", "tied")),
    ]
)


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Comparisons with the columns of ``COMPARISONS``.

    ``won``, ``lost`` and ``tied`` are how often the first did so, or how much that weighs.
    """

    table: pa.Table
    ordered: bool
    """whether it is known which of the two stood first"""
    votes: bool
    """whether they are votes as `annotate` writes them: several may be on one pair"""
    queries: bool
    """whether they name their query; if not, it is the empty text"""
    missing: int
    """how many rows without an answer were left out"""


def read_comparisons(url: str, columns: Mapping[str, str]) -> Comparisons:
    """Read comparisons from Parquet, JSON, or a head and lines with commas or tabs.

    Args:
        url: path or URL; ``.gz`` and ``.zst`` are unpacked.
        columns: by role, the name of a column that is not called as is usual (see `roles`).

    Raises:
        OptionError: ``columns`` has a role that there is not.
        InputError: it cannot be read, is of a run that is not finished, its columns do not say who
            won, or a row makes no sense.
    """
    refuse_unfinished(url)
    if url.endswith(".parquet"):
        return comparisons_in_rows(_arrow(parquet_table(url), f"{url}: row {{}}", url, 1), columns)
    held = [*read_table_rows(url)]
    names = dict.fromkeys([*read_column_names(url), *(name for _, row in held for name in row)])
    cells = {name: [row.get(name) for _, row in held] for name in names}
    return comparisons_in_rows(PlainRows(url, cells, lambda row: held[row][0]), columns)


def comparisons_in_table(table: pa.Table, columns: Mapping[str, str], what: str) -> Comparisons:
    """Return the comparisons of a table in memory, called ``what`` in messages.

    Raises:
        OptionError: as `read_comparisons`.
        InputError: as `read_comparisons`; or an answer is missing.
    """
    held = _arrow(table, f"{what}: row {{}}", what, 1)
    return comparisons_in_rows(held, columns, strict=True)


def comparisons_in_rows(
    held: PlainRows, columns: Mapping[str, str], *, strict: bool = False
) -> Comparisons:
    """Return the comparisons of some rows; if ``strict``, a missing answer is an error."""
    roles = find_roles(held.what, list(held.columns), columns)
    results = read_outcomes(held, roles)
    lacking = [row for row, outcome in enumerate(results) if outcome is None]
    if strict and lacking:
        cells = {name: held.columns[name][lacking[0]] for name in roles.columns.values()}
        name, value = next(cell for cell in cells.items() if is_missing(cell[1]))
        raise InputError(
            f"{held.place(lacking[0])}: the {name} {value} is not an answer: leave such rows out"
        )
    turned = _read_swapped(held, roles)
    rows = _answered_rows(held, roles, results, turned or [False] * len(results))
    by_column = zip(*rows, strict=True) if rows else [()] * len(COMPARISONS)
    return Comparisons(
        pa.table(dict(zip(COMPARISONS.names, by_column, strict=True)), schema=COMPARISONS),
        ordered=roles.ordered and turned is not None,
        votes=roles.votes,
        queries="query_id" in roles.columns,
        missing=len(lacking),
    )


def _answered_rows(
    held: PlainRows, roles: Roles, counts: Sequence[Outcome | None], turned: Sequence[bool]
) -> list[tuple[Any, ...]]:
    """Build a row of ``COMPARISONS`` for each row that has an answer."""
    optional = (
        held.texts(roles.columns[role]) if role in roles.columns else [""] * len(counts)
        for role in ("query_id", "judge")
    )
    a, b = (held.texts(roles.columns[role]) for role in roles.items)
    rows = []
    for row, (query_id, judge, first, second) in enumerate(zip(*optional, a, b, strict=True)):
        if (outcome := counts[row]) is None:
            continue
        if first == second:
            raise InputError(f"{held.place(row)}: {first!r} is compared with itself")
        won, lost, tied = outcome
        rows.append(
            (query_id, second, first, judge, lost, won, tied)
            if turned[row]
            else (query_id, first, second, judge, won, lost, tied)
        )
    return rows


def _read_swapped(held: PlainRows, roles: Roles) -> list[bool] | None:
    """Return which rows were shown with their first item second; None where that is not known."""
    if "swapped" not in roles.columns:
        return [False] * len(held.columns[roles.columns[roles.answer]])
    marks = held.columns[roles.columns["swapped"]]
    words = {True: True, False: False, "true": True, "false": False, "1": True, "0": False}
    turned = [words.get(mark.lower() if isinstance(mark, str) else mark) for mark in marks]
    return None if None in turned else [bool(mark) for mark in turned]


def _arrow(table: pa.Table, place: str, what: str, first: int) -> PlainRows:
    columns = {name: table[name].to_pylist() for name in table.column_names}
    return PlainRows(what, columns, lambda row: place.format(row + first))
