"""Read comparisons of two items of any origin: votes on documents, games, debates, matches.

Rows name two items and which of them won: by a preference, by its name or its column's, by how
often each won, or as winner and loser.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.errors import InputError
from zelo_ray.files.tables import schema_of
from zelo_ray.formats.columns import (
    OF_VOTES,
    ComparisonColumns,
    column_hint,
    find_columns,
    find_comparison_columns,
    normalize_name,
)
from zelo_ray.formats.probe import FileProbe
from zelo_ray.formats.typed_columns import NAMING, Place, is_missing, read_columns
from zelo_ray.records import Vote

VOTES = pa.schema([f for f in schema_of(Vote) if f.name not in ("reasoning", "key")])
"""``swapped`` is null if the source does not have it."""
HUMAN_VOTES = VOTES.append(pa.field("rater", pa.string()))
"""Votes of people, who are one judge; ``rater`` is the person."""

Floats = NDArray[np.float64]
_TIES = ("tie", "draw")
_TEXTS = frozenset({*NAMING, "judge", "turn", "method"})
_MATCH = ("left_id", "right_id")
"""The items of annotate's matches, whose judge is that of a tournament."""


@dataclass(frozen=True, slots=True)
class VoteRows:
    """Comparisons as they are in one place, a row each, and where each stands.

    ``table`` has query_id, a, b, judge, turn and method (texts; null where rows have none),
    swapped, and preference (float64, negative: a is better). ``won``, ``lost`` and ``tied`` say how
    often a did so; all are NaN, and the preference null, where an answer is missing.
    """

    table: pa.Table
    won: Floats
    lost: Floats
    tied: Floats
    place: Place
    columns: ComparisonColumns
    source: str
    """the place, for messages"""

    @property
    def is_answered(self) -> NDArray[np.bool_]:
        """Return which rows have an answer."""
        return ~np.isnan(self.won)

    @property
    def names_judges(self) -> bool:
        """Return whether rows name their judges."""
        return self.has("judge")

    @property
    def is_of_matches(self) -> bool:
        """Return whether the rows are annotate's matches, each decided by one judge."""
        return (self.called("a"), self.called("b")) == _MATCH

    @property
    def is_of_debates(self) -> bool:
        """Return whether the rows are decisions of debates, of which both orders may be there."""
        return self.has("method")

    def has(self, role: str) -> bool:
        """Return whether there is a column of a role."""
        return role in self.columns.columns

    def called(self, role: str) -> str:
        """Return the name of the column of a role."""
        return self.columns.columns.get(role, role)


def read_vote_rows(
    source: FileProbe, user_columns: Mapping[str, str], *, by_query: bool = True
) -> VoteRows:
    """Read the comparisons of a place.

    Args:
        source: the place, probed.
        user_columns: by role, the name of a column that is not called as is usual.
        by_query: whether each vote is on a query, whatever its column is called; else only a column
            ``query_id`` counts, and turns and methods do not.

    Raises:
        InputError: its columns do not say who won, or a row makes no sense.
    """
    columns = find_comparison_columns(source.place, source.names, user_columns)
    query = find_columns(source.place, source.names, {}, ("query_id",) if by_query else ())
    by_role = {**query, **columns.columns}
    if not by_query:
        by_role = {role: n for role, n in by_role.items() if role not in ("turn", "method")}
    types = {role: _type_of(role) for role in (*OF_VOTES, "a", "b", "b_wins")}
    table, place = read_columns(source, by_role, types, columns.answer_roles)
    won, lost, tied, preference = _read_outcomes(table, columns, place)
    is_answered = ~np.isnan(won)
    a, b = (table[role] for role in columns.items)
    _refuse_without_items(table, columns, is_answered, place)
    rows = pa.table(
        {
            **{role: table[role] for role in ("query_id", "judge", "turn", "method", "swapped")},
            "a": a,
            "b": b,
            "preference": pa.array(np.where(is_answered, preference, np.nan), from_pandas=True),
        }
    )
    return VoteRows(rows, won, lost, tied, place, columns, source.place)


def as_votes(rows: VoteRows, judge: str) -> pa.Table:
    """Return the answered rows as votes of judges, in the columns of ``VOTES``.

    Debates that agree in both orders of a pair are one vote, without an order. A turn of a
    conversation is a query of its own.

    Args:
        rows: as read.
        judge: who votes where rows name nobody.

    Raises:
        InputError: a row has no query or judge, or counts several games.
    """
    _refuse_several_games(rows)
    table = rows.table
    ids = _query_ids(rows)
    judges = _judges(rows) if rows.names_judges else pa.array([judge] * len(table), pa.string())
    votes = pa.table(
        [ids, table["a"], table["b"], judges, table["preference"], table["swapped"]],
        names=["query_id", "doc_id_a", "doc_id_b", "judge", "preference", "swapped"],
    ).select(VOTES.names)
    if votes["query_id"].null_count == len(votes):
        raise InputError(
            f"{rows.source}: no column says which query a vote is on; name it: "
            f"{column_hint(rows.source, 'query_id', 'NAME')}"
        )
    checked = {"turn": table["turn"]} if rows.has("turn") else {}
    for role, column in {**checked, "query_id": ids, "judge": judges}.items():
        is_empty = pc.is_null(column).to_numpy(zero_copy_only=False) & rows.is_answered
        if is_empty.any():
            raise InputError(f"{rows.place(int(is_empty.argmax()))}: has no {rows.called(role)}")
    return votes.cast(VOTES)


def merge_orders(votes: pa.Table) -> pa.Table:
    """Merge votes that agree in both orders of a pair into one, without an order.

    Args:
        votes: of debates, in the columns of ``VOTES``: both orders have the same preference.
    """
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


def _type_of(role: str) -> pa.DataType:
    if role == "swapped":
        return pa.bool_()
    return pa.string() if role in _TEXTS else pa.float64()


def _query_ids(rows: VoteRows) -> pa.ChunkedArray:
    """Return the queries of rows; each turn of a conversation is one."""
    ids, turns = rows.table["query_id"], rows.table["turn"]
    if turns.null_count == len(turns):
        return ids
    return pc.binary_join_element_wise(ids, turns, "-")


def _judges(rows: VoteRows) -> pa.ChunkedArray:
    """Return the judges of rows, with the method of a debate or match before the name."""
    judges, methods = rows.table["judge"], rows.table["method"]
    if rows.is_of_matches:
        return pc.binary_join_element_wise("best-of", judges, " ")
    if methods.null_count == len(methods):
        return judges
    return pc.binary_join_element_wise(methods, judges, " ")


def _refuse_without_items(
    table: pa.Table, columns: ComparisonColumns, is_answered: NDArray[np.bool_], place: Place
) -> None:
    """Refuse an answered row without one of its items, or with two that are the same."""
    for role in columns.items:
        empty = pc.is_null(table[role]).to_numpy(zero_copy_only=False) & is_answered
        if empty.any():
            raise InputError(f"{place(int(empty.argmax()))}: has no {columns.columns[role]}")
    a, b = (table[role] for role in columns.items)
    same = pc.fill_null(pc.equal(a, b), False).to_numpy(zero_copy_only=False) & is_answered
    if same.any():
        row = int(same.argmax())
        raise InputError(f"{place(row)}: {a[row].as_py()!r} is compared with itself")


def _refuse_several_games(rows: VoteRows) -> None:
    games = rows.won + rows.lost + rows.tied
    odd = np.flatnonzero(rows.is_answered & (games != 1))
    if odd.size:
        raise InputError(
            f"{rows.place(int(odd[0]))}: counts {games[odd[0]]:g} games; a vote is one"
        )


_Outcomes = tuple[Floats, Floats, Floats, Floats]


def _read_outcomes(table: pa.Table, columns: ComparisonColumns, place: Place) -> _Outcomes:
    """Return how often the first item of each row won, lost and tied, and its preference.

    All are NaN where an answer is missing. A preference keeps its size; others are -1, 0 or 1.
    """
    if columns.items == ("winner", "loser"):
        ties = np.nan_to_num(_floats(table["ties"])) != 0
        is_blank = pc.and_(pc.is_null(table["winner"]), pc.is_null(table["loser"]))
        preference = np.where(ties, 0.0, np.where(is_blank.to_numpy(), np.nan, -1.0))
    elif columns.answer == "winner":
        preference = _named_sides(table, columns, place)
    elif columns.answer == "preference":
        preference = _floats(table["preference"])
        if (odd := np.flatnonzero(np.abs(preference) > 1)).size:
            name, row = columns.columns["preference"], int(odd[0])
            raise InputError(f"{place(row)}: the {name} {preference[row]:g} is not in -1 to 1")
    elif "b_wins" in columns.columns:
        is_one_hot = normalize_name(columns.columns["a_wins"]).startswith("winner")
        return _counted_games(table, place, is_one_hot=is_one_hot)
    else:
        preference = _scored_games(table, columns, place)
    return (*_weigh(*_by_sign(preference), table, place), preference)


def _by_sign(preference: Floats) -> tuple[Floats, Floats, Floats]:
    """Return games won, lost and tied by the sign of preferences; NaN where one is missing."""
    missing = np.where(np.isnan(preference), np.nan, 0.0)
    won, lost, tied = (
        side.astype(np.float64) + missing
        for side in (preference < 0, preference > 0, preference == 0)
    )
    return won, lost, tied


def _weigh(
    won: Floats, lost: Floats, tied: Floats, table: pa.Table, place: Place
) -> tuple[Floats, Floats, Floats]:
    """Multiply games with the weights of rows; a row without its weight has no answer."""
    weighted = table["weight"].null_count < len(table)
    weight = _floats(table["weight"]) if weighted else np.ones(len(table))
    lowest = np.fmin.reduce([weight, won, lost, tied])
    if (odd := np.flatnonzero((lowest < 0) & ~np.isnan(weight + won))).size:
        raise InputError(f"{place(int(odd[0]))}: a count or weight is below 0")
    return won * weight, lost * weight, tied * weight


def _counted_games(table: pa.Table, place: Place, *, is_one_hot: bool) -> _Outcomes:
    """Return the outcomes of rows that count the wins of each item.

    One-hot rows without a mark, as of answers that are both bad, have no answer.
    """
    won, lost = _floats(table["a_wins"]), _floats(table["b_wins"])
    tied = np.nan_to_num(_floats(table["ties"]))
    is_missing_row = np.isnan(won + lost) | (is_one_hot & (won + lost + tied == 0))
    missing = np.where(is_missing_row, np.nan, 0.0)
    weighed = _weigh(won + missing, lost + missing, tied + missing, table, place)
    return (*weighed, np.sign(lost - won))


def _scored_games(table: pa.Table, columns: ComparisonColumns, place: Place) -> Floats:
    """Return the preferences of rows of one game: 1 is a win of the first, 0 a loss, 0.5 a tie."""
    score = _floats(table["a_wins"])
    if (odd := np.flatnonzero(~np.isnan(score) & ~np.isin(score, (0.0, 0.5, 1.0)))).size:
        row, name = int(odd[0]), columns.columns["a_wins"]
        raise InputError(
            f"{place(row)}: {name} is {score[row]:g}; without b_wins it is 1, 0, or 0.5 for a tie"
        )
    return 1.0 - 2.0 * score


def _named_sides(table: pa.Table, columns: ComparisonColumns, place: Place) -> Floats:
    """Return the preferences of rows that name a winner, itself or by the name of its column."""
    name, a, b = (columns.columns[role] for role in ("winner", "a", "b"))
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
    names, words = (sum(bool(side) for side in sides) for sides in (by_name, by_word))
    unnamed = sum(by_name[row] is None for row in answered)
    chosen = by_name if names > min(unnamed, words) else by_word  # as most rows read: one odd row
    preference = np.full(len(cells), np.nan)  # must not turn the others round
    for row in answered:
        if (side := chosen[row]) is None:
            raise InputError(
                f"{place(row)}: the {name} {cells[row]!r} is neither {a} nor {b}, nor what they "
                "name, nor a tie"
                if by_word[row] is None
                else f"{place(row)}: the {name} {cells[row]!r} is not what {a} or {b} names, as in "
                "most other rows: write all in one way"
            )
        preference[row] = side
    for row in answered:
        if None not in (by_name[row], by_word[row]) and by_name[row] != by_word[row]:
            raise InputError(
                f"{place(row)}: the {name} {cells[row]!r} may be a column or what one names: "
                "rename the columns"
            )
    return preference


def _floats(column: pa.ChunkedArray) -> Floats:
    values: Floats = pc.fill_null(column, np.nan).to_numpy()
    return values
