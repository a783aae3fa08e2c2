"""Read comparisons of two items of any origin: votes on documents, games, debates, matches.

Rows name two items and which of them won: by a preference, by its name or its column's, by how
often each won, or as winner and loser.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.errors import InputError
from zelo_ray.files.rows import Floats, Rows, Source
from zelo_ray.files.schema import find_sides, is_missing, normalize_name
from zelo_ray.files.tables import schema_of
from zelo_ray.records import Vote

VOTES = pa.schema([f for f in schema_of(Vote) if f.name not in ("reasoning", "key")])
"""``swapped`` is null if the source does not have it."""
HUMAN_VOTES = VOTES.append(pa.field("rater", pa.string()))
"""Votes of people, who are one judge; ``rater`` is the person."""
Answer = Literal["preference", "a_wins", "winner"]
_ANSWERS: tuple[Answer, ...] = ("preference", "a_wins", "winner")
_BESIDE = ("judge", "swapped", "turn", "method", "weight", "probability")
_PAIR = ("query_id", "doc_id_a", "doc_id_b", "judge")
_TIES = ("tie", "draw")
_MATCH = ("left_id", "right_id")
"""The items of annotate's matches, whose judge is that of a tournament."""
_KNOWN_VOTES = (
    "known are winner and loser; or two of a and b, left and right, home and away, model_a and "
    "model_b, doc_id_a and doc_id_b with preference, winner, or a_wins and b_wins; name others by "
    "--columns, such as a=team1 b=team2 a_wins=score1 b_wins=score2"
)


def _vote_roles(source: Source) -> dict[str, str]:
    """Return the columns of the two items and of what says who won, whichever there are."""
    user, said = source.columns, (*_ANSWERS, "loser")
    roles = find_sides(source.names, user)
    for role in (*said, "ties"):
        if role not in roles:
            roles |= source.roles(role)
    if named := [role for role in said if user.get(role) in source.names]:
        roles = {role: n for role, n in roles.items() if role not in said or role in named}
    return roles


def has_votes(source: Source) -> bool:
    """Return whether the columns of a place name two items, and which of them won."""
    if source.kind != "table":
        return False
    roles = _vote_roles(source)
    sides = {"winner", "loser"} <= roles.keys() or {"a", "b"} <= roles.keys()
    return sides and not {*_ANSWERS}.isdisjoint(roles)


@dataclass(frozen=True, slots=True)
class VoteRows(Rows):
    """Comparisons as they stand in one place, a row each.

    ``table`` has query_id, a, b, judge, turn and method (texts; null where rows have none),
    swapped, and preference (float64, negative: a is better). ``won``, ``lost`` and ``tied`` say how
    often a did so; these and the preference are null where an answer is missing.
    """

    columns: Mapping[str, str]
    """the names of the columns, by role"""
    place: str

    @property
    def is_answered(self) -> NDArray[np.bool_]:
        """Return which rows have an answer."""
        return ~self.is_null("won")

    @property
    def of_documents(self) -> bool:
        """Return whether the items are called as the documents of annotate's votes are."""
        return (self.columns.get("a"), self.columns.get("b")) == ("doc_id_a", "doc_id_b")


def read_vote_rows(source: Source, *, by_query: bool = True) -> VoteRows:
    """Read the comparisons of a place.

    ``by_query``: each vote is on a query, whatever its column is called; else only a column
    ``query_id`` counts, and turns and methods do not.
    """
    if not has_votes(source):
        source.refuse("comparisons that say who won", _KNOWN_VOTES)
    roles = _vote_roles(source)
    answers = [role for role in _ANSWERS if role in roles]
    if len(answers) > 1:
        twice = " and ".join(roles[role] for role in answers)
        raise InputError(f"{source.place}: {twice} both say who won: --columns winner=NAME")
    beside = _BESIDE if by_query else ("judge", "swapped", "weight")
    query = source.roles("query_id")
    if by_query or normalize_name(query.get("query_id", "")) == "queryid":
        roles |= query
    roles = {**source.roles(*beside), **roles}
    rows = source.table(roles, (*_ANSWERS, "loser", "b_wins", *beside))
    rows = rows.with_nulls("query_id", *_BESIDE, *_ANSWERS, "loser", "b_wins", "ties")
    rows = _with_outcomes(rows, roles, answers[0])
    is_answered = ~rows.is_null("won")
    items = ("a", "b") if {"a", "b"} <= roles.keys() else ("winner", "loser")
    rows.require({role: roles[role] for role in items}, is_answered)
    a, b = (rows[role] for role in items)
    same = pc.fill_null(pc.equal(a, b), False).to_numpy() & is_answered
    rows.refuse(same, "is compared with itself", values=a.to_pylist() if same.any() else None)
    rows = rows.with_column("a", a).with_column("b", b)
    return VoteRows(rows.table, rows.where, roles, source.place)


def as_votes(rows: VoteRows, judge: str) -> pa.Table:
    """Return the rows as votes of judges, in the columns of ``VOTES``; null without an answer.

    ``judge`` votes where rows name nobody. A turn of a conversation is a query of its own.
    """
    games = rows.floats("won") + rows.floats("lost") + rows.floats("tied")
    is_odd = rows.is_answered & (games != 1)
    rows.refuse(is_odd, "games; a vote is one", "counts ", games)
    names = {role: rows.columns.get(role, role) for role in ("turn", "query_id", "judge")}
    if "turn" in rows.columns:
        ids = pc.binary_join_element_wise(rows["query_id"], rows["turn"], "-")
        rows = rows.with_column("query_id", ids)
    else:
        del names["turn"]
    if "judge" in rows.columns:
        rows = rows.with_column("judge", _judges(rows))
    else:
        rows = rows.with_column("judge", pa.array([judge] * len(rows), pa.string()))
    if rows["query_id"].null_count == len(rows):
        raise InputError(f"{rows.place}: no column is the query; name it: --columns query_id=NAME")
    rows.require(names, rows.is_answered)
    table = rows.table.rename_columns({"a": "doc_id_a", "b": "doc_id_b"})
    return table.select(VOTES.names).cast(VOTES)


def merge_orders(votes: pa.Table) -> pa.Table:
    """Merge votes of debates that agree in both orders of a pair into one, without an order."""
    rows = votes.to_pylist()
    orders: dict[tuple[str, ...], set[bool | None]] = {}
    for vote in rows:
        orders.setdefault(tuple(vote[name] for name in _PAIR), set()).add(vote["swapped"])
    merged = []
    for vote in rows:
        in_both = orders[tuple(vote[name] for name in _PAIR)] >= {False, True}
        if not (in_both and vote["swapped"]):
            merged.append(vote | {"swapped": None} if in_both else vote)
    return pa.Table.from_pylist(merged, VOTES)


def _judges(rows: VoteRows) -> pa.ChunkedArray:
    """Return the judges of rows, with the method of a debate or match before the name."""
    if (rows.columns.get("a"), rows.columns.get("b")) == _MATCH:
        return pc.binary_join_element_wise("best-of", rows["judge"], " ")
    if rows.is_null("method").all():
        return rows["judge"]
    return pc.binary_join_element_wise(rows["method"], rows["judge"], " ")


def _with_outcomes(rows: Rows, roles: Mapping[str, str], answer: Answer) -> Rows:
    """Add how often the first item of each row won, lost and tied, and its preference."""
    ties = np.nan_to_num(rows.floats("ties"))
    if {"a", "b", "b_wins"} <= roles.keys() and answer == "a_wins":
        won, lost = rows.floats("a_wins"), rows.floats("b_wins")
        # One-hot rows without a mark, as of answers that are both bad, have no answer.
        is_one_hot = normalize_name(roles["a_wins"]).startswith("winner")
        is_unmarked = is_one_hot & (won + lost + ties == 0)
        preference = np.where(is_unmarked, np.nan, np.sign(lost - won))
        games = [won, lost, ties]
    else:
        if not {"a", "b"} <= roles.keys():  # winner and loser
            is_blank = rows.is_null("winner") & rows.is_null("loser")
            preference = np.where(ties != 0, 0.0, np.where(is_blank, np.nan, -1.0))
        elif answer == "winner":
            preference = _named_sides(rows, roles)
        elif answer == "preference":
            preference = rows.floats("preference")
            what = f"the {roles['preference']} "
            rows.refuse(np.abs(preference) > 1, "is not in -1 to 1", what, preference)
        else:
            score = rows.floats("a_wins")
            is_odd = ~np.isnan(score) & ~np.isin(score, (0.0, 0.5, 1.0))
            how = "is no outcome: without b_wins it is 1, 0, or 0.5 for a tie"
            rows.refuse(is_odd, how, f"{roles['a_wins']} ", score)
            preference = 1.0 - 2.0 * score
        sides = (preference < 0, preference > 0, preference == 0)
        games = [side.astype(np.float64) for side in sides]
    weights = rows.floats("weight") if "weight" in roles else np.ones(len(rows))
    if np.isnan(weights).all():
        weights = np.ones(len(rows))
    is_missing_row = np.isnan(preference + weights)
    lowest = np.minimum.reduce([weights, *games])
    rows.refuse(~is_missing_row & (lowest < 0), "a count or weight is below 0")
    for name, values in zip(("won", "lost", "tied"), games, strict=True):
        rows = rows.with_column(name, pa.array(values * weights, mask=is_missing_row))
    return rows.with_column("preference", pa.array(preference, mask=is_missing_row))


def _named_sides(rows: Rows, roles: Mapping[str, str]) -> Floats:
    """Return the preferences of rows that name a winner, itself or by the name of its column."""
    name, a, b = (roles[role] for role in ("winner", "a", "b"))
    sides = dict.fromkeys((normalize_name(a), "a", "modela", "first", "1"), -1.0)
    sides |= dict.fromkeys((normalize_name(b), "b", "modelb", "second", "2"), 1.0)
    cells = [None if is_missing(cell) else cell for cell in rows["winner"].to_pylist()]
    first, second = (rows[role].to_pylist() for role in ("a", "b"))
    by_name, by_word = list[float | None](), list[float | None]()
    for cell, item_a, item_b in zip(cells, first, second, strict=True):
        tie = 0.0 if (cell or "").lower().startswith(_TIES) else None
        by_name.append(-1.0 if cell == item_a else 1.0 if cell == item_b else tie)
        by_word.append(sides.get(normalize_name(cell or ""), tie))
    is_answered = np.array([cell is not None for cell in cells], np.bool_)
    names, words = (np.array(each, np.float64) for each in (by_name, by_word))  # None is NaN
    named, worded = (int(np.sum(np.abs(np.nan_to_num(each)))) for each in (names, words))
    unnamed = int(np.sum(is_answered & np.isnan(names)))
    # As most rows read: one odd row must not turn the others round.
    chosen, other = (names, words) if named > min(unnamed, worded) else (words, names)
    is_lost, word = is_answered & np.isnan(chosen), f"the {name} "
    neither = f"is neither {a} nor {b}, nor what they name, nor a tie"
    unlike = f"is not what {a} or {b} names, as in most other rows: write all in one way"
    rows.refuse(is_lost & np.isnan(other), neither, word, cells)
    rows.refuse(is_lost, unlike, word, cells)
    is_both = is_answered & ~np.isnan(names + words) & (names != words)
    both = "may be a column or what one names: rename the columns"
    rows.refuse(is_both, both, word, cells)
    return np.where(is_answered, chosen, np.nan)
