"""What columns are called and what they hold: one table of names, one conversion a type.

A role is what a column is for, such as ``doc_id``. Capitals, blanks, points, hyphens and
underscores in names do not count.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Literal

import pyarrow as pa

from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.wording import text_for_judges
from zelo_ray.names import did_you_mean

Type = Literal["id", "text", "number", "flag", "object", "field"]
_TYPES: Mapping[Type, str] = {
    "id": "query_id doc_id session_id run judge winner loser a b turn method",
    "text": "query content title",
    "number": "score rank grade probability preference a_wins b_wins ties weight std_error "
    "truth_error",
    "flag": "swapped",
    "object": "metadata documents",
}
"""By type of its values, the roles of columns."""
_SYNONYMS = {
    "query_id": "qid q_id question_id topic_id topic",
    "query": "query_text question search_query q user_query",
    "doc_id": "docno document_id did pid passage_id corpus_id chunk_id product_id candidate_id",
    "content": "contents text document document_text doc doc_text passage passage_text body chunk "
    "snippet segment answer response",
    "title": "doc_title document_title",
    "documents": "passages candidates docs results hits ctxs contexts",
    "rank": "position",
    "grade": "relevance rating label rel judgment judgement",
    "judge": "person rater annotator assessor",
    "winner": "winner_id",
    "loser": "loser_id",
    "a_wins": "win won",
    "ties": "tie draws winner_tie",
    "weight": "count freq",
}
"""By role, what its columns are called besides."""
_TYPE_OF: Mapping[str, Type] = {
    role: type_ for type_, roles in _TYPES.items() for role in roles.split()
}
ARROW: Mapping[Type, pa.DataType] = {
    **dict.fromkeys(("id", "object", "field"), pa.string()),
    "text": pa.large_string(),
    "number": pa.float64(),
    "flag": pa.bool_(),
}
SIDES = (
    ("doc_id_a", "doc_id_b"),
    ("a", "b"),
    ("left", "right"),
    ("left_id", "right_id"),
    ("model_a", "model_b"),
    ("home", "away"),
    ("home_team", "away_team"),
)
"""What the two items of a comparison are called; ``home_wins`` and ``away_wins``, or
``winner_home`` and ``winner_away``, say how often each won, or whether it did."""
IDS = ("_id", "id")
"""What names a document or a query where no column says so better."""
ERRORS = ("std_error", "truth_error")
_MISSING = frozenset(("", "na", "nan", "null", "none"))
_YES_NO = {"true": True, "1": True, "false": False, "0": False}
_IGNORED = re.compile(r"[\W_]+")
FLOAT = r"[+-]?(\d([.,]\d+)?[eE]\+\d+|\d{16,}\.0*)"
"""A text that was a large number once, as pandas, Arrow and spreadsheets write it."""
_COMMA, _THOUSANDS = re.compile(r"[+-]?\d+,\d+"), re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_EXACT = 2.0**53
LOST_DIGITS = (
    "may have lost digits as a floating-point number: write ids as texts (in pandas dtype=str, in "
    "a spreadsheet a column of text)"
)


def normalize_name(name: str) -> str:
    """Normalise the name of a column: ``Home.Team`` and ``home_team`` become ``hometeam``."""
    return _IGNORED.sub("", name).lower()


_ROLE_OF = {
    normalize_name(name): role
    for role in _TYPE_OF
    for name in (role, *_SYNONYMS.get(role, "").split())
    if role not in ("a", "b", "b_wins")
}
_PLACES = {name: place for place, name in enumerate(_ROLE_OF)}


@lru_cache(4096)
def role_of(name: str) -> str:
    """Return the role of a column by its name; "" if it has none."""
    return _ROLE_OF.get(normalize_name(name), "")


class Columns(dict[str, str]):
    """The names of columns that a user gave, by role; remembers which files have been read."""

    def __init__(self, names: Mapping[str, str] | None = None, **more: str) -> None:
        super().__init__(names or {}, **more)
        self.files: dict[str, Collection[str]] = {}

    def refuse_unused(self) -> None:
        """Refuse a name that is no column of any file that was read."""
        every = {name for names in self.files.values() for name in names}
        for role, name in self.items():
            if self.files and name not in every:
                files = ((file, ", ".join(dict.fromkeys(n))) for file, n in self.files.items())
                has = "; ".join(f"{file} has {names}" for file, names in files)
                near = did_you_mean(name, every)
                raise OptionError(f"columns: no file has a column {name!r} ({role}): {has}{near}")


def split_columns(texts: Iterable[str]) -> Columns:
    """Parse ``ROLE=NAME`` to names of columns by role."""
    columns = Columns()
    for text in texts:
        role, _, name = text.partition("=")
        if not name or role not in _TYPE_OF:
            roles = f"roles are {', '.join(_TYPE_OF)}{did_you_mean(role, _TYPE_OF)}"
            raise OptionError(f"columns: {text!r} is not ROLE=NAME; {roles}")
        if columns.get(role, name) != name:
            raise OptionError(f"columns: {role} is {columns[role]!r} and {name!r}; name one")
        columns[role] = name
    return columns


def find_roles(
    place: str, names: Sequence[str], user: Mapping[str, str], wanted: Iterable[str]
) -> dict[str, str]:
    """Return the columns of some roles; a role's own name comes before its synonyms."""
    wanted = [*wanted]
    found = {role: user[role] for role in wanted if user.get(role) in names}
    by_role: dict[str, list[str]] = {}
    for name in names:
        if name not in found.values():
            by_role.setdefault(role_of(name), []).append(name)
    for role in (role for role in wanted if role not in found):
        named = by_role.get(role, [])
        exact = [name for name in named if normalize_name(name) == normalize_name(role)]
        if len(named) > 1 and len(exact) != 1:
            every, which = " and ".join(map(repr, named)), f"--columns {role}={named[0]}"
            raise InputError(f"{place}: {every} may all be the {role}: say which by {which}")
        if named:
            found[role] = (exact or named)[0]
    if "doc_id" in wanted and "doc_id" not in found:
        free = [name for name in reversed(IDS) if name in names and name not in found.values()]
        found |= {"doc_id": free[0]} if free else {}
    return found


def find_sides(names: Sequence[str], user: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of the two items of a comparison, and of how often each won."""
    by_name = {normalize_name(name): name for name in reversed(names)}
    sides: dict[str, str] = {}
    for pair in SIDES:
        if {*map(normalize_name, pair)} <= by_name.keys():
            sides = {role: by_name[normalize_name(n)] for role, n in zip("ab", pair, strict=True)}
            break
    for pair in (("a", "b"), *SIDES):
        for role, side in zip(("a_wins", "b_wins"), pair, strict=True):
            for usual in (f"{side}_wins", f"winner_{side}"):
                if name := by_name.get(normalize_name(usual)):
                    sides[role] = name
    return sides | {r: user[r] for r in ("a", "b", "a_wins", "b_wins") if user.get(r) in names}


def value_of(row: Mapping[str, Any], role: str, columns: Mapping[str, str]) -> Any:
    """Return the value of an object under the name of a role: the user's, the role's, a usual."""
    if columns.get(role) in row:
        return row[columns[role]]
    named = {name: value for name, value in row.items() if value is not None}
    if usual := [name for name in named if role_of(name) == role]:
        return named[min(usual, key=lambda name: _PLACES[normalize_name(name)])]
    return own_id(named) if role == "doc_id" else None


def convert(role: str, value: Any) -> Any:
    """Return a value with the type of a role; a ValueError names the role."""
    try:
        return None if value is None else converter(role)(value)
    except ValueError as error:
        raise ValueError(f"the {role} {error}") from None


def own_id(row: Mapping[str, Any]) -> Any:
    """Return what names an object where no column says so better: its ``id``, else its ``_id``."""
    names = [name for name in row if row[name] is not None and normalize_name(name) == "id"]
    return row[min(names, key=lambda name: (name != "id", name.startswith("_")))] if names else None


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: null, NaN, or a text such as NA."""
    if isinstance(value, str):
        return value.strip().lower() in _MISSING
    return value is None or (isinstance(value, float) and math.isnan(value))


def to_id(value: Any) -> str | None:
    """Return an id as text; ValueError for one that was a float too large to be exact."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float):
        if abs(value) >= _EXACT:
            raise ValueError(f"{value!r} {LOST_DIGITS}")
        if value.is_integer():  # a whole number beside a missing one
            value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"cannot be {value!r}: it is no id")  # noqa: TRY004 - one error for a value
    text = str(value)
    was_float = ("+" in text or "." in text) and re.fullmatch(FLOAT, text)
    if was_float and ("+" in text[1:] or float(text) >= _EXACT):
        raise ValueError(f"{value!r} {LOST_DIGITS}")
    return text.encode("utf-8", "replace").decode()  # no half of a character


def to_number(value: Any, separator: str = "") -> float | None:
    """Return a finite number, or None where it is missing; where ";" parts cells, 1,5 is 1.5."""
    if value is None or (isinstance(value, str) and is_missing(value)):
        return None
    plain = value
    if isinstance(value, str):
        plain = value.strip()
        if separator == ";" and _COMMA.fullmatch(plain):
            if _THOUSANDS.fullmatch(plain):
                raise ValueError(f"{plain!r} may be a fraction or thousands: write no comma")
            plain = plain.replace(",", ".")
    is_odd = isinstance(value, bool) or (isinstance(plain, str) and "_" in plain)
    try:
        number = float("" if is_odd else plain)
    except (TypeError, ValueError):
        raise ValueError(f"cannot be {value!r}: it is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"is {number}: write null where an answer is missing")
    return number


def to_text(value: Any) -> str | None:
    """Return a text, or several joined line by line."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        value = "\n".join(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if not isinstance(value, str):
        kind = type(value).__name__
        raise ValueError(f"is a {kind}; write a text")  # noqa: TRY004 - one error for a value
    return value.encode("utf-8", "replace").decode()


def _to_flag(value: Any) -> bool | None:
    if is_missing(value) or isinstance(value, bool):
        return None if is_missing(value) else value
    flag = _YES_NO.get(str(value).strip().lower())
    if flag is None:
        raise ValueError(f"cannot be {value!r}: write true or false")
    return flag


def without_nulls(value: Any) -> Any:
    """Return a row without null fields, which exist only because other rows have them, and NaN."""
    if isinstance(value, Mapping):
        parts = {name: without_nulls(part) for name, part in value.items()}
        return {name: part for name, part in parts.items() if part is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _to_object(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return None
    return json.dumps(without_nulls(value), ensure_ascii=False, default=str)


def _to_field(value: Any) -> str | None:
    return text_for_judges(value) or None


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "id": to_id,
    "text": to_text,
    "flag": _to_flag,
    "object": _to_object,
    "field": _to_field,
}
_COUNTS = frozenset(("a_wins", "b_wins", "ties"))


def _to_float(is_count: bool, is_error: bool, separator: str, value: Any) -> float | None:
    """Return a number, a win that is written as yes or no, or an error, which may be unknown."""
    if is_count and (word := str(value).strip().lower()) in ("true", "false"):
        return float(word == "true")
    is_unknown = is_error and isinstance(value, float) and math.isnan(value)
    return None if is_unknown else to_number(value, separator)


@lru_cache(256)
def converter(role: str, separator: str = "") -> Callable[[Any], Any]:
    """Return the function that gives the values of a role their type; it raises ValueError.

    ``separator``: what parts cells under a header, in which blanks around an id or a query do not
    count. A role that is not known is a field that judges may be shown.
    """
    type_ = type_of(role)
    if type_ == "number":
        return partial(_to_float, role in _COUNTS, role in ERRORS, separator)
    to = _CONVERTERS[type_]
    if separator and (type_ == "id" or role == "query"):
        return lambda value: to(value.strip() if isinstance(value, str) else value)
    return to


def type_of(role: str) -> Type:
    """Return the type of the values of a role."""
    return _TYPE_OF.get(role, "field")
