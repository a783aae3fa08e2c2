"""Convert rows that name a winner to votes: of debates, of matches, of FastChat's judges."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.formats.tables import schema_of
from zelo_ray.records import Vote

VOTES = pa.schema([f for f in schema_of(Vote) if f.name not in ("reasoning", "key")])
"""``swapped`` is null if the source does not have it."""
HUMAN_VOTES = VOTES.append(pa.field("rater", pa.string()))
"""Votes of people, who are one judge; ``rater`` is the person."""

_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WinnerRowForm:
    """A form of rows that name a winner.

    ``words`` are what ``winner`` says of A and of B; it names them if None. ``rater``, a template
    of the row, is who says so. Of ``paired`` rows those of both orders are one vote. ``renamed``:
    a file's rows may be given another judge than they name.
    """

    query_id: str
    a: str
    b: str
    winner: str
    words: tuple[str, str] | None = ("model_a", "model_b")
    rater: str = "{judge}"
    more: tuple[str, ...] = ()
    paired: bool = False
    renamed: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that such rows must have: texts, or numbers that stand for texts."""
        return (self.query_id, self.a, self.b, self.winner, *self.more)


FORMS = (
    WinnerRowForm(
        *("query_id", "doc_id_a", "doc_id_b", "winner"),
        rater="{method} {judge}",
        more=("method", "judge"),
        paired=True,
    ),
    WinnerRowForm(
        *("query_id", "left_id", "right_id", "winner_id"),
        words=None,
        rater="best-of {judge}",
        more=("judge",),
    ),
    WinnerRowForm("question_id", "model_a", "model_b", "winner", renamed=True),
)
"""Verdicts and contests of annotate (`records.Verdict`, `records.Contest`), and FastChat's lines,
in which a winner may be ``tie (inconsistent)``, and which may have a judge and a turn."""


def votes_of(form: WinnerRowForm, table: pa.Table, place: Callable[[int], str]) -> pa.Table:
    """Convert rows that name a winner to the columns of ``VOTES``.

    Args:
        form: how they do.
        table: its columns; judge, turn and swapped where there are any.
        place: where a row stands.

    Raises:
        InputError: a winner is none of the two and no tie, or the two are one.
    """
    rows = table.to_pylist()
    votes = [_vote(form, row, place(i)) for i, row in enumerate(rows)]
    return pa.Table.from_pylist(_merge_orders(votes) if form.paired else votes, VOTES)


def _vote(form: WinnerRowForm, row: _Row, place: str) -> dict[str, Any]:
    a, b, winner = row[form.a], row[form.b], row[form.winner]
    if a == b:
        raise InputError(f"{place}: {form.a} and {form.b} are the same, {a}")
    words = form.words or (a, b)
    if winner in words:
        preference = (-1.0, 1.0)[words.index(winner)]
    elif winner.startswith("tie"):
        preference = 0.0
    else:
        raise InputError(
            f"{place}: the {form.winner} {winner!r} is neither {words[0]} nor {words[1]}, nor a tie"
        )
    turn = f"-{row['turn']}" if "turn" in row else ""
    return {
        "query_id": f"{row[form.query_id]}{turn}",
        "doc_id_a": a,
        "doc_id_b": b,
        "judge": form.rater.format_map(row),
        "preference": preference,
        "swapped": row.get("swapped"),
    }


def _merge_orders(votes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge votes that agree in both orders of a pair into one, without an order."""
    names = ("query_id", "doc_id_a", "doc_id_b", "judge")
    orders: dict[tuple[str, ...], set[bool | None]] = {}
    for vote in votes:
        orders.setdefault(tuple(vote[name] for name in names), set()).add(vote["swapped"])
    rows = []
    for vote in votes:
        in_both = orders[tuple(vote[name] for name in names)] >= {False, True}
        if not (in_both and vote["swapped"]):
            rows.append(vote | {"swapped": None} if in_both else vote)
    return rows
