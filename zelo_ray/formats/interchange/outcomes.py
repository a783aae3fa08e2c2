"""Read the outcomes of rows of comparisons: how often the first won, lost and tied."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zelo_ray.errors import InputError
from zelo_ray.formats.interchange.roles import Roles, normalize_name
from zelo_ray.formats.lossy_ids import refuse_lossy_id

Outcome = tuple[float, float, float]
_MISSING = frozenset(("", "na", "nan", "null", "none"))
_WORDS = {"true": 1, "false": 0}
_TIES = ("tie", "draw")
_BOTH = 2
_GAMES: tuple[Outcome, ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
"""One game each: the first won, the second did, or neither."""


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Rows as columns of plain values, with the place of each for messages."""

    what: str
    columns: Mapping[str, Sequence[Any]]
    place: Callable[[int], str]

    def texts(self, name: str) -> list[str]:
        """Return a column of names as texts; whole numbers may stand for names.

        Raises:
            InputError: a row has none.
        """
        return [self._text(name, row, value) for row, value in enumerate(self.columns[name])]

    def numbers(self, name: str) -> list[float | None]:
        """Return a column as numbers, parsed if they are texts; None for a missing value.

        Raises:
            InputError: something else is there.
        """
        return [self._number(name, row, value) for row, value in enumerate(self.columns[name])]

    def _text(self, name: str, row: int, value: object) -> str:
        refuse_lossy_id(self.place(row), name, value)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if is_missing(value):
            raise InputError(f"{self.place(row)}: has no {name}")
        raise InputError(f"{self.place(row)}: {name} cannot be {value!r}")

    def _number(self, name: str, row: int, value: Any) -> float | None:
        if is_missing(value):
            return None
        try:
            number = float(_WORDS.get(str(value).lower(), value))
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"{self.place(row)}: {name} cannot be {value!r}")
        return number


def is_missing(value: object) -> bool:
    """Return whether a cell is missing: null, NaN, or a text such as NA."""
    if isinstance(value, str):
        return value.strip().lower() in _MISSING
    return value is None or (isinstance(value, float) and math.isnan(value))


def read_outcomes(rows: PlainRows, roles: Roles) -> list[Outcome | None]:
    """Return the outcome of each row; None where an answer is missing.

    Raises:
        InputError: a row says something that is no answer.
    """
    columns = roles.columns
    if roles.items == ("winner", "loser"):
        results = _lost(rows, columns)
    elif roles.answer == "winner":
        results = _named(rows, columns)
    elif roles.answer == "preference":
        results = _preferred(rows, columns["preference"])
    else:
        results = (_counted if "b_wins" in columns else _scored)(rows, columns)
    weights = rows.numbers(columns["weight"]) if "weight" in columns else [1.0] * len(results)
    return [
        _weighed(rows, row, *pair) for row, pair in enumerate(zip(results, weights, strict=True))
    ]


def _weighed(
    rows: PlainRows, row: int, outcome: Outcome | None, weight: float | None
) -> Outcome | None:
    if outcome is None or weight is None:
        return None
    if min(weight, *outcome) < 0:
        raise InputError(f"{rows.place(row)}: a count or weight is below 0")
    won, lost, tied = outcome
    return won * weight, lost * weight, tied * weight


def _preferred(rows: PlainRows, name: str) -> list[Outcome | None]:
    results = list[Outcome | None]()
    for row, value in enumerate(rows.numbers(name)):
        if value is not None and not -1 <= value <= 1:
            raise InputError(f"{rows.place(row)}: the {name} {value:g} is not in -1 to 1")
        results.append(None if value is None else _GAMES[0 if value < 0 else 1 if value else _BOTH])
    return results


def _counted(rows: PlainRows, columns: Mapping[str, str]) -> list[Outcome | None]:
    """Return the outcomes of rows that count the wins of each item."""
    a, b = (rows.numbers(columns[role]) for role in ("a_wins", "b_wins"))
    ties = rows.numbers(columns["ties"]) if "ties" in columns else [0.0] * len(a)
    return [
        None if won is None or lost is None else (won, lost, tied or 0.0)
        for won, lost, tied in zip(a, b, ties, strict=True)
    ]


def _scored(rows: PlainRows, columns: Mapping[str, str]) -> list[Outcome | None]:
    """Return the outcomes of rows of one game: 1 is a win of the first, 0 a loss, 0.5 a tie."""
    name, sides = columns["a_wins"], {1.0: 0, 0.0: 1, 0.5: _BOTH}
    results = list[Outcome | None]()
    for row, value in enumerate(rows.numbers(name)):
        if value is not None and value not in sides:
            raise InputError(
                f"{rows.place(row)}: {name} is {value:g}; without b_wins it is 1, 0, or 0.5 for a "
                "tie"
            )
        results.append(None if value is None else _GAMES[sides[value]])
    return results


def _lost(rows: PlainRows, columns: Mapping[str, str]) -> list[Outcome | None]:
    """Return the outcomes of rows of a winner and a loser; ``ties`` may mark a tie."""
    rows_there = len(rows.columns[columns["winner"]])
    ties = rows.numbers(columns["ties"]) if "ties" in columns else [0.0] * rows_there
    return [_GAMES[_BOTH if tied else 0] for tied in ties]


def _named(rows: PlainRows, columns: Mapping[str, str]) -> list[Outcome | None]:
    """Return the outcomes of rows that name a winner, itself or by the name of its column."""
    name, a, b = (columns[role] for role in ("winner", "a", "b"))
    words = {normalize_name(a): 0, "a": 0, normalize_name(b): 1, "b": 1}
    by_name, by_word = list[int | None](), list[int | None]()
    cells = rows.columns[name]
    for value, first, second in zip(cells, rows.texts(a), rows.texts(b), strict=True):
        text = str(value)
        tie = _BOTH if text.lower().startswith(_TIES) else None
        by_name.append(0 if text == first else 1 if text == second else tie)
        by_word.append(words.get(normalize_name(text), tie))
    numbers = [row for row, value in enumerate(cells) if not is_missing(value)]
    sides = by_name if all(by_name[row] is not None for row in numbers) else by_word
    for row in numbers:
        if sides[row] is None:
            raise InputError(
                f"{rows.place(row)}: the {name} {cells[row]!r} is neither {a} nor {b}, nor what "
                "they name, nor a tie"
            )
        if sides is by_name and by_word[row] not in (None, by_name[row]):
            raise InputError(
                f"{rows.place(row)}: the {name} {cells[row]!r} may be a column or what one names: "
                "rename the columns"
            )
    answered = {*numbers}
    return [
        None if row not in answered or side is None else _GAMES[side]
        for row, side in enumerate(sides)
    ]
