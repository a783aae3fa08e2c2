"""Read comparisons of two items of any origin: votes on documents, games, debates, matches.

Rows name two items and which of them won: by a preference, by its name or its column's, by how
often each won, or as winner and loser.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.errors import InputError
from zelo_ray.files.rows import Source, refuse
from zelo_ray.files.schema import find_sides, is_missing, normalize_name
from zelo_ray.files.tables import schema_of
from zelo_ray.records import Vote

VOTES = pa.schema([f for f in schema_of(Vote) if f.name not in ("reasoning", "key")])
"""``swapped`` is null if the source does not have it."""
HUMAN_VOTES = VOTES.append(pa.field("rater", pa.string()))
"""Votes of people, who are one judge; ``rater`` is the person."""

Floats = NDArray[np.float64]
Answer = Literal["preference", "a_wins", "winner"]
_ANSWERS: tuple[Answer, ...] = ("preference", "a_wins", "winner")
_BESIDE = ("judge", "swapped", "turn", "method", "weight")
_TIES = ("tie", "draw")
_MATCH = ("left_id", "right_id")
"""The items of annotate's matches, whose judge is that of a tournament."""
KNOWN_VOTES = (
    "known are winner and loser; or two of a and b, left and right, home and away, model_a and "
    "model_b, doc_id_a and doc_id_b with preference, winner, or a_wins and b_wins; name others by "
    "--columns, such as a=team1 b=team2 a_wins=score1 b_wins=score2"
)


def vote_roles(names: Sequence[str], user: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of the two items and of what says who won, whichever there are."""
    place = Source("", "table", tuple(names), columns=user)
    roles = {**find_sides(names, user)}
    for role in (*_ANSWERS, "loser", "ties"):
        if role not in roles:
            roles |= place.roles(role)
    if said := [role for role in (*_ANSWERS, "loser") if user.get(role) in names]:
        roles = {r: n for r, n in roles.items() if r not in (*_ANSWERS, "loser") or r in said}
    return roles


def has_votes(source: Source) -> bool:
    """Return whether the columns of a place name two items, and which of them won."""
    if source.kind != "table":
        return False
    roles = vote_roles(source.names, source.columns)
    sides = {"winner", "loser"} <= roles.keys() or {"a", "b"} <= roles.keys()
    return sides and not {*_ANSWERS}.isdisjoint(roles)


@dataclass(frozen=True, slots=True)
class VoteRows:
    """Comparisons as they stand in one place, a row each.

    ``table`` has query_id, a, b, judge, turn and method (texts; null where rows have none),
    swapped, and preference (float64, negative: a is better). ``won``, ``lost`` and ``tied`` say how
    often a did so; all are NaN, and the preference null, where an answer is missing.
    """

    table: pa.Table
    won: Floats
    lost: Floats
    tied: Floats
    where: Callable[[int], str]
    columns: Mapping[str, str]
    """the names of the columns, by role"""
    place: str

    @property
    def is_answered(self) -> NDArray[np.bool_]:
        """Return which rows have an answer."""
        return ~np.isnan(self.won)

    @property
    def names_judges(self) -> bool:
        """Return whether rows name their judges."""
        return "judge" in self.columns

    @property
    def of_documents(self) -> bool:
        """Return whether the items are called as the documents of annotate's votes are."""
        return (self.columns.get("a"), self.columns.get("b")) == ("doc_id_a", "doc_id_b")

    @property
    def is_of_debates(self) -> bool:
        """Return whether the rows are decisions of debates, of which both orders may be there."""
        return "method" in self.columns


def read_vote_rows(source: Source, *, by_query: bool = True) -> VoteRows:
    """Read the comparisons of a place.

    ``by_query``: each vote is on a query, whatever its column is called; else only a column
    ``query_id`` counts, and turns and methods do not.
    """
    if not has_votes(source):
        raise refuse(source, "comparisons that say who won", KNOWN_VOTES)
    roles = vote_roles(source.names, source.columns)
    answers = [role for role in _ANSWERS if role in roles]
    if len(answers) > 1:
        twice = " and ".join(roles[role] for role in answers)
        raise InputError(
            f"{source.place}: {twice} both say who won: name one, such as --columns winner=NAME"
        )
    beside = _BESIDE if by_query else ("judge", "swapped", "weight")
    query = source.roles("query_id")
    if not by_query and normalize_name(query.get("query_id", "")) != "queryid":
        query = {}
    roles = {**query, **source.roles(*beside), **roles}
    required = [role for role in (answers[0], "b_wins") if role in roles]
    table, where = source.table(roles, required)
    for role, type_ in _TYPES.items():
        if role not in roles:
            table = table.append_column(role, pa.nulls(len(table), type_))
    won, lost, tied, preference = _read_outcomes(table, roles, answers[0], where)
    is_answered = ~np.isnan(won)
    items = ("a", "b") if {"a", "b"} <= roles.keys() else ("winner", "loser")
    for role in items:
        empty = pc.is_null(table[role]).to_numpy(zero_copy_only=False) & is_answered
        if empty.any():
            raise InputError(f"{where(int(empty.argmax()))}: has no {roles[role]}")
    a, b = (table[role] for role in items)
    same = pc.fill_null(pc.equal(a, b), False).to_numpy(zero_copy_only=False) & is_answered
    if same.any():
        row = int(same.argmax())
        raise InputError(f"{where(row)}: {a[row].as_py()!r} is compared with itself")
    kept = {role: table[role] for role in ("query_id", "judge", "turn", "method", "swapped")}
    preference = np.where(is_answered, preference, np.nan)
    rows = pa.table({**kept, "a": a, "b": b, "preference": pa.array(preference, from_pandas=True)})
    return VoteRows(rows, won, lost, tied, where, roles, source.place)


_TYPES: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("query_id", "judge", "turn", "method", "winner", "loser"), pa.string()),
    **dict.fromkeys(("preference", "a_wins", "b_wins", "ties", "weight"), pa.float64()),
    "swapped": pa.bool_(),
}


def as_votes(rows: VoteRows, judge: str) -> pa.Table:
    """Return the rows as votes of judges, in the columns of ``VOTES``; null without an answer.

    ``judge`` votes where rows name nobody. A turn of a conversation is a query of its own.
    """
    games = rows.won + rows.lost + rows.tied
    if (odd := np.flatnonzero(rows.is_answered & (games != 1))).size:
        count = games[odd[0]]
        raise InputError(f"{rows.where(int(odd[0]))}: counts {count:g} games; a vote is one")
    table = rows.table
    query_ids = table["query_id"]
    if "turn" in rows.columns:
        query_ids = pc.binary_join_element_wise(query_ids, table["turn"], "-")
    judges = _judges(rows) if rows.names_judges else pa.array([judge] * len(table), pa.string())
    if query_ids.null_count == len(table):
        raise InputError(
            f"{rows.place}: no column says which query a vote is on; name it: --columns "
            "query_id=NAME"
        )
    checked = {"turn": table["turn"]} if "turn" in rows.columns else {}
    for role, column in {**checked, "query_id": query_ids, "judge": judges}.items():
        is_empty = pc.is_null(column).to_numpy(zero_copy_only=False) & rows.is_answered
        if is_empty.any():
            name = rows.columns.get(role, role)
            raise InputError(f"{rows.where(int(is_empty.argmax()))}: has no {name}")
    columns = [query_ids, table["a"], table["b"], judges, table["preference"], table["swapped"]]
    names = ["query_id", "doc_id_a", "doc_id_b", "judge", "preference", "swapped"]
    return pa.table(columns, names=names).select(VOTES.names).cast(VOTES)


def merge_orders(votes: pa.Table) -> pa.Table:
    """Merge votes of debates that agree in both orders of a pair into one, without an order."""
    names = ("query_id", "doc_id_a", "doc_id_b", "judge")
    rows = votes.to_pylist()
    orders: dict[tuple[str, ...], set[bool | None]] = {}
    for vote in rows:
        orders.setdefault(tuple(vote[name] for name in names), set()).add(vote["swapped"])
    merged = []
    for vote in rows:
        in_both = orders[tuple(vote[name] for name in names)] >= {False, True}
        if not (in_both and vote["swapped"]):
            merged.append(vote | {"swapped": None} if in_both else vote)
    return pa.Table.from_pylist(merged, VOTES)


def _judges(rows: VoteRows) -> pa.ChunkedArray:
    """Return the judges of rows, with the method of a debate or match before the name."""
    judges, methods = rows.table["judge"], rows.table["method"]
    if (rows.columns.get("a"), rows.columns.get("b")) == _MATCH:
        return pc.binary_join_element_wise("best-of", judges, " ")
    if methods.null_count == len(methods):
        return judges
    return pc.binary_join_element_wise(methods, judges, " ")


_Outcomes = tuple[Floats, Floats, Floats, Floats]


def _read_outcomes(
    table: pa.Table, roles: Mapping[str, str], answer: Answer, where: Callable[[int], str]
) -> _Outcomes:
    """Return how often the first item of each row won, lost and tied, and its preference.

    All are NaN where an answer is missing. A preference keeps its size; others are -1, 0 or 1.
    """
    if not {"a", "b"} <= roles.keys():  # winner and loser
        ties = np.nan_to_num(_floats(table["ties"])) != 0
        is_blank = pc.and_(pc.is_null(table["winner"]), pc.is_null(table["loser"]))
        preference = np.where(ties, 0.0, np.where(is_blank.to_numpy(), np.nan, -1.0))
    elif answer == "winner":
        preference = _named_sides(table, roles, where)
    elif answer == "preference":
        preference = _floats(table["preference"])
        if (odd := np.flatnonzero(np.abs(preference) > 1)).size:
            row = int(odd[0])
            raise InputError(
                f"{where(row)}: the {roles['preference']} {preference[row]:g} is not in -1 to 1"
            )
    elif "b_wins" in roles:
        return _counted_games(table, roles, where)
    else:
        preference = _scored_games(table, roles, where)
    missing = np.where(np.isnan(preference), np.nan, 0.0)
    won, lost, tied = (
        side.astype(np.float64) + missing
        for side in (preference < 0, preference > 0, preference == 0)
    )
    return (*_weigh(won, lost, tied, table, where), preference)


def _weigh(
    won: Floats, lost: Floats, tied: Floats, table: pa.Table, where: Callable[[int], str]
) -> tuple[Floats, Floats, Floats]:
    """Multiply games with the weights of rows; a row without its weight has no answer."""
    weighted = table["weight"].null_count < len(table)
    weight = _floats(table["weight"]) if weighted else np.ones(len(table))
    lowest = np.fmin.reduce([weight, won, lost, tied])
    if (odd := np.flatnonzero((lowest < 0) & ~np.isnan(weight + won))).size:
        raise InputError(f"{where(int(odd[0]))}: a count or weight is below 0")
    return won * weight, lost * weight, tied * weight


def _counted_games(
    table: pa.Table, roles: Mapping[str, str], where: Callable[[int], str]
) -> _Outcomes:
    """Return the outcomes of rows that count the wins of each item.

    One-hot rows without a mark, as of answers that are both bad, have no answer.
    """
    is_one_hot = normalize_name(roles["a_wins"]).startswith("winner")
    won, lost = _floats(table["a_wins"]), _floats(table["b_wins"])
    tied = np.nan_to_num(_floats(table["ties"]))
    is_missing_row = np.isnan(won + lost) | (is_one_hot & (won + lost + tied == 0))
    missing = np.where(is_missing_row, np.nan, 0.0)
    weighed = _weigh(won + missing, lost + missing, tied + missing, table, where)
    return (*weighed, np.sign(lost - won))


def _scored_games(table: pa.Table, roles: Mapping[str, str], where: Callable[[int], str]) -> Floats:
    """Return the preferences of rows of one game: 1 is a win of the first, 0 a loss, 0.5 a tie."""
    score = _floats(table["a_wins"])
    if (odd := np.flatnonzero(~np.isnan(score) & ~np.isin(score, (0.0, 0.5, 1.0)))).size:
        row = int(odd[0])
        raise InputError(
            f"{where(row)}: {roles['a_wins']} is {score[row]:g}; without b_wins it is 1, 0, or 0.5 "
            "for a tie"
        )
    return 1.0 - 2.0 * score


def _named_sides(table: pa.Table, roles: Mapping[str, str], where: Callable[[int], str]) -> Floats:
    """Return the preferences of rows that name a winner, itself or by the name of its column."""
    name, a, b = (roles[role] for role in ("winner", "a", "b"))
    sides = dict.fromkeys((normalize_name(a), "a", "modela", "first", "1"), -1.0)
    sides |= dict.fromkeys((normalize_name(b), "b", "modelb", "second", "2"), 1.0)
    cells = [None if is_missing(cell) else cell for cell in table["winner"].to_pylist()]
    first, second = (table[role].to_pylist() for role in ("a", "b"))
    by_name, by_word = list[float | None](), list[float | None]()
    for cell, item_a, item_b in zip(cells, first, second, strict=True):
        tie = 0.0 if (cell or "").lower().startswith(_TIES) else None
        by_name.append(-1.0 if cell == item_a else 1.0 if cell == item_b else tie)
        by_word.append(sides.get(normalize_name(cell or ""), tie))
    answered = [row for row, cell in enumerate(cells) if cell is not None]
    names, words = (sum(bool(side) for side in each) for each in (by_name, by_word))
    unnamed = sum(by_name[row] is None for row in answered)
    # As most rows read: one odd row must not turn the others round.
    chosen = by_name if names > min(unnamed, words) else by_word
    preference = np.full(len(cells), np.nan)
    for row in answered:
        if (side := chosen[row]) is None:
            other = by_word[row] is not None or by_name[row] is not None
            raise InputError(
                f"{where(row)}: the {name} {cells[row]!r} is not what {a} or {b} names, as in most "
                "other rows: write all in one way"
                if other
                else f"{where(row)}: the {name} {cells[row]!r} is neither {a} nor {b}, nor what "
                "they name, nor a tie"
            )
        preference[row] = side
    for row in answered:
        if None not in (by_name[row], by_word[row]) and by_name[row] != by_word[row]:
            raise InputError(
                f"{where(row)}: the {name} {cells[row]!r} may be a column or what one names: "
                "rename the columns"
            )
    return preference


def _floats(column: pa.ChunkedArray) -> Floats:
    values: Floats = pc.fill_null(column, np.nan).to_numpy()
    return values
