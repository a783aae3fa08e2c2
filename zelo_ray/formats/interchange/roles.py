"""Find the columns of comparisons that name the two items, and those that say who won."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from zelo_ray.errors import InputError, OptionError

Answer = Literal["preference", "a_wins", "winner"]

_NAMES: Mapping[str, tuple[str, ...]] = {
    "query_id": ("query_id",),
    "judge": ("judge",),
    "a": (),
    "b": (),
    "winner": ("winner",),
    "loser": ("loser",),
    "preference": ("preference",),
    "a_wins": ("win", "won"),
    "b_wins": (),
    "ties": ("ties", "tie", "draws"),
    "weight": ("weight", "count", "freq"),
    "swapped": ("swapped",),
}
"""By role, what a column of it is called; points and capitals do not count."""
ROLES = tuple(_NAMES)
_VOTES = ("doc_id_a", "doc_id_b")
_SIDES = (
    *(_VOTES, ("a", "b"), ("left", "right"), ("model_a", "model_b")),
    *(("home", "away"), ("home_team", "away_team")),
)
"""What the two items are called; ``home_wins`` and ``away_wins`` say how often each won."""
_ANSWERS: tuple[Answer, ...] = ("preference", "a_wins", "winner")
_KNOWN = (
    "known are winner and loser; or two of a and b, left and right, home and away, model_a and "
    "model_b, doc_id_a and doc_id_b with preference, winner, or a_wins and b_wins; name others by "
    "columns, such as a=team1 b=team2 a_wins=score1 b_wins=score2"
)


@dataclass(frozen=True, slots=True)
class Roles:
    """The names of columns by their roles, and what they amount to."""

    columns: Mapping[str, str]
    items: tuple[str, str]
    """the roles of those that name the two items"""
    answer: Answer
    """the role of the one that says who won"""
    votes: bool
    """whether they are called as the votes of `annotate` are"""

    @property
    def ordered(self) -> bool:
        """Return whether the columns say which item stood first."""
        return self.items == ("a", "b")


def find_roles(what: str, names: Sequence[str], given: Mapping[str, str]) -> Roles:
    """Find the columns of comparisons.

    Args:
        what: what is read, for messages.
        names: of the columns that there are.
        given: by role, the name of a column that is not called as is usual.

    Raises:
        OptionError: ``given`` has a role that there is not.
        InputError: there is no column of that name; or the columns do not say who won.
    """
    header = ", ".join(names) or "none"
    for role, name in given.items():
        if role not in ROLES:
            raise OptionError(f"columns: no role {role!r}; roles are {', '.join(ROLES)}")
        if name not in names:
            raise InputError(f"{what}: has no column {name!r}; it has {header}")
    columns = {**_usual(names), **given}
    if answer_roles := [role for role in (*_ANSWERS, "loser") if role in given]:
        spare = {*_ANSWERS, "loser"} - {*answer_roles}
        columns = {role: name for role, name in columns.items() if role not in spare}
    answers = [role for role in _ANSWERS if role in columns]
    if len(answers) > 1:
        twice = " and ".join(columns[role] for role in answers)
        raise InputError(f"{what}: {twice} both say who won; name one by columns: winner=NAME")
    items = ("a", "b") if {"a", "b"} <= columns.keys() else ("winner", "loser")
    if not answers or not columns.keys() >= {*items}:
        raise InputError(f"{what}: its columns do not say who won ({header}); {_KNOWN}")
    votes = items == ("a", "b") and (columns["a"], columns["b"]) == _VOTES
    return Roles(columns, items, answers[0], votes)


def normalize_name(name: str) -> str:
    """Normalise the name of a column: ``Home.Team`` becomes ``home_team``."""
    return name.strip().lower().replace(".", "_").replace(" ", "_").replace("-", "_")


def _usual(names: Sequence[str]) -> dict[str, str]:
    plain_names = {normalize_name(name): name for name in reversed(names)}
    columns = {}
    for role, usual in _NAMES.items():
        if matches := [plain_names[name] for name in usual if name in plain_names]:
            columns[role] = matches[0]
    for a, b in _SIDES:
        if a in plain_names and b in plain_names:
            columns |= {"a": plain_names[a], "b": plain_names[b]}
            break
    for role, side in (("a_wins", 0), ("b_wins", 1)):
        for pair in (("a", "b"), *_SIDES):
            if (name := f"{pair[side]}_wins") in plain_names:
                columns[role] = plain_names[name]
    return columns
