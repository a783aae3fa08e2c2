"""Find the columns of a table by what they are called: the one list of names for all files.

A role is what a column is for, such as ``doc_id``. Capitals, blanks, points, hyphens and
underscores in names do not count.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from zelo_ray.errors import InputError, OptionError
from zelo_ray.names import did_you_mean

NAMES: Mapping[str, tuple[str, ...]] = {
    "query_id": ("query_id", "qid", "q_id", "question_id", "topic_id", "topic"),
    "query": ("query", "query_text", "question", "search_query", "q", "user_query"),
    "doc_id": (
        *("doc_id", "docno", "document_id", "did", "pid", "passage_id", "corpus_id"),
        *("chunk_id", "product_id", "candidate_id"),
    ),
    "content": (
        *("content", "contents", "text", "document", "document_text", "doc", "doc_text"),
        *("passage", "passage_text", "body", "chunk", "snippet", "segment", "answer", "response"),
    ),
    "title": ("title", "doc_title", "document_title"),
    "metadata": ("metadata",),
    "session_id": ("session_id",),
    "documents": (
        *("documents", "passages", "candidates", "docs", "results", "hits", "ctxs", "contexts"),
    ),
    "score": ("score",),
    "rank": ("rank", "position"),
    "run": ("run",),
    "grade": ("grade", "relevance", "rating", "label", "rel", "judgment", "judgement"),
    "probability": ("probability",),
    "judge": ("judge", "person", "rater", "annotator", "assessor"),
    "winner": ("winner", "winner_id"),
    "loser": ("loser", "loser_id"),
    "preference": ("preference",),
    "a": (),
    "b": (),
    "a_wins": ("win", "won"),
    "b_wins": (),
    "ties": ("ties", "tie", "draws", "winner_tie"),
    "weight": ("weight", "count", "freq"),
    "swapped": ("swapped",),
    "turn": ("turn",),
    "method": ("method",),
}
"""By role, what a column of it is called."""
SIDES = (
    *(("doc_id_a", "doc_id_b"), ("a", "b"), ("left", "right"), ("left_id", "right_id")),
    *(("model_a", "model_b"), ("home", "away"), ("home_team", "away_team")),
)
"""What the two items of a comparison are called; ``home_wins`` and ``away_wins``, or
``winner_home`` and ``winner_away``, say how often each won, or whether it did."""
OF_POOLS = ("query_id", "query", "doc_id", "content", "title", "metadata", "score", "session_id")
"""The roles of rows that hold one document."""
OF_QUERY = ("query_id", "query", "session_id")
"""The roles of rows that hold all documents of a query in one column."""
OF_GRADES = ("query_id", "query", "doc_id", "grade", "score", "judge", "probability")
OF_RUNS = ("query_id", "query", "doc_id", "score", "rank", "run")
OF_VOTES = (
    *("query_id", "judge", "winner", "loser", "preference", "a_wins", "ties", "weight", "swapped"),
    *("turn", "method"),
)
IDS = ("_id", "id")
"""What names a document or a query where no column says so better."""
IN_MEMORY = "inputs"
"""What a frame or a list is called in messages."""
_SEVERAL = re.compile(rf"\s+(?=(?:{'|'.join(NAMES)})=)")
_IGNORED = re.compile(r"[\W_]+")
_SPOKEN = {
    "content": "document's text",
    "query_id": "query's id",
    "doc_id": "document's id",
    "judge": "judge or person",
}


def normalize_name(name: str) -> str:
    """Normalise the name of a column: ``Home.Team`` and ``home_team`` become ``hometeam``."""
    return _IGNORED.sub("", name).lower()


_NORMALIZED = {role: tuple(map(normalize_name, names)) for role, names in NAMES.items()}


def is_called(name: str, role: str) -> bool:
    """Return whether a column has one of the usual names of a role."""
    return normalize_name(name) in _NORMALIZED[role]


def split_columns(texts: Iterable[str]) -> dict[str, str]:
    """Parse ``ROLE=NAME`` to names of columns by role; one text may hold several.

    Raises:
        OptionError: there is no such role.
    """
    columns, last = dict[str, str](), ""
    for pair in (part for text in texts for part in _SEVERAL.split(text)):
        role, mark, name = pair.partition("=")
        if last and not mark:  # the rest of a name that a shell took apart
            quoted = f"--columns '{last}={columns[last]} {pair}'"
            raise OptionError(f"columns: {pair!r} is not ROLE=NAME; quote it: {quoted}")
        if not (mark and name) or role not in NAMES:
            raise OptionError(
                f"columns: {pair!r} is not ROLE=NAME; roles are {', '.join(NAMES)}"
                f"{did_you_mean(role, NAMES)}"
            )
        if columns.get(role, name) != name:
            raise OptionError(f"columns: {role} is {columns[role]!r} and {name!r}; name one")
        columns[role], last = name, role
    return columns


def columns_in(
    names: Collection[str],
    user_columns: Mapping[str, str],
    roles: Collection[str] = tuple(NAMES),
) -> dict[str, str]:
    """Return those of the named columns that a file has.

    Args:
        names: the columns of the file.
        user_columns: by role, the name of a column, as the user said.
        roles: those that count.
    """
    return {role: name for role, name in user_columns.items() if role in roles and name in names}


def column_hint(what: str, role: str, name: str) -> str:
    """Return how to name a column: on the command line, or for data in memory in Python."""
    if what == IN_MEMORY:
        return f'columns={{"{role}": "{name}"}}'
    is_file = "/" in what or "." in what
    return f"--columns {role}={name}" if is_file else f"call it {role}, and the others otherwise"


def refuse_missing(what: str, names: Sequence[str], wanted: Iterable[str]) -> None:
    """Refuse a name that is none of the columns.

    Raises:
        InputError: there is one.
    """
    for name in (name for name in wanted if name not in names):
        have = ", ".join(names) or "none"
        raise InputError(
            f"{what}: has no column {name!r}; it has {have}{did_you_mean(name, names)}"
        )


def find_columns(
    what: str,
    names: Sequence[str],
    user_columns: Mapping[str, str],
    roles: Collection[str] = OF_POOLS,
) -> dict[str, str]:
    """Find the columns of some roles.

    Args:
        what: what is read, for messages.
        names: of the columns that there are.
        user_columns: by role, the name of a column, as the user said.
        roles: those that count.

    Returns:
        By role, the name of its column. What is called as the role is taken before its synonyms.

    Raises:
        InputError: a given column is not there, or two columns may both be meant.
    """
    refuse_missing(what, names, user_columns.values())
    columns = dict(user_columns)
    for role in (role for role in roles if role not in columns):
        free = [name for name in names if name not in columns.values()]
        matches = [name for name in free if is_called(name, role)]
        exact = [name for name in matches if normalize_name(name) == normalize_name(role)]
        if len(matches) > 1 and not exact:
            raise InputError(
                f"{what}: has {_join_names(matches)}: say which is the "
                f"{_SPOKEN.get(role, role)}: {column_hint(what, role, matches[0])}"
            )
        if matches:
            columns[role] = (exact or matches)[0]
    if "doc_id" in roles and "doc_id" not in columns:
        free = [name for name in reversed(IDS) if name in names and name not in columns.values()]
        columns |= {"doc_id": free[0]} if free else {}
    return columns


Answer = Literal["preference", "a_wins", "winner"]
_ANSWERS: tuple[Answer, ...] = ("preference", "a_wins", "winner")
_VOTES = ("doc_id_a", "doc_id_b")
_ROLES_OF_VOTES = frozenset({*OF_VOTES, "a", "b", "b_wins"})
_KNOWN_VOTES = (
    "known are winner and loser; or two of a and b, left and right, home and away, model_a and "
    "model_b, doc_id_a and doc_id_b with preference, winner, or a_wins and b_wins; name others by "
    "columns, such as a=team1 b=team2 a_wins=score1 b_wins=score2"
)


@dataclass(frozen=True, slots=True)
class ComparisonColumns:
    """The names of the columns of comparisons by their roles, and what they amount to."""

    columns: Mapping[str, str]
    items: tuple[str, str]
    """the roles of those that name the two items"""
    answer: Answer
    """the role of the one that says who won"""

    @property
    def of_documents(self) -> bool:
        """Return whether the items are called as the documents of annotate's votes are."""
        a, b = (self.columns[role] for role in self.items)
        return self.items == ("a", "b") and (a, b) == _VOTES

    @property
    def answer_roles(self) -> tuple[str, ...]:
        """Return the roles of the columns that say who won."""
        return tuple(role for role in (self.answer, "b_wins") if role in self.columns)


def has_answer(names: Sequence[str], user_columns: Mapping[str, str]) -> bool:
    """Return whether columns name two items, and which of them won."""
    columns = {**_usual_of_votes(names), **user_columns}
    sides = {"winner", "loser"} <= columns.keys() or {"a", "b"} <= columns.keys()
    return sides and not {*_ANSWERS}.isdisjoint(columns)


def find_comparison_columns(
    what: str, names: Sequence[str], user_columns: Mapping[str, str]
) -> ComparisonColumns:
    """Find the columns of comparisons.

    Args:
        what: what is read, for messages.
        names: of the columns that there are.
        user_columns: by role, the name of a column that is not called as is usual.

    Raises:
        InputError: there is no column of that name; or the columns do not say who won.
    """
    refuse_missing(what, names, user_columns.values())
    user_columns = {role: name for role, name in user_columns.items() if role in _ROLES_OF_VOTES}
    columns = {**_usual_of_votes(names), **user_columns}
    if answer_roles := [role for role in (*_ANSWERS, "loser") if role in user_columns]:
        spare = {*_ANSWERS, "loser"} - {*answer_roles}
        columns = {role: name for role, name in columns.items() if role not in spare}
    answers = [role for role in _ANSWERS if role in columns]
    if len(answers) > 1:
        twice = " and ".join(columns[role] for role in answers)
        raise InputError(f"{what}: {twice} both say who won; name one by columns: winner=NAME")
    items = ("a", "b") if {"a", "b"} <= columns.keys() else ("winner", "loser")
    if not answers or not columns.keys() >= {*items}:
        header = ", ".join(names) or "none"
        raise InputError(f"{what}: its columns do not say who won ({header}); {_KNOWN_VOTES}")
    return ComparisonColumns(columns, items, answers[0])


def _usual_of_votes(names: Sequence[str]) -> dict[str, str]:
    by_name = {normalize_name(name): name for name in reversed(names)}
    columns = {"query_id": by_name["queryid"]} if "queryid" in by_name else {}
    for role in OF_VOTES[1:]:
        if matches := [by_name[name] for name in _NORMALIZED[role] if name in by_name]:
            columns[role] = matches[0]
    for a, b in SIDES:
        if {normalize_name(a), normalize_name(b)} <= by_name.keys():
            columns |= {"a": by_name[normalize_name(a)], "b": by_name[normalize_name(b)]}
            break
    for role, side in (("a_wins", 0), ("b_wins", 1)):
        for pair in (("a", "b"), *SIDES):
            for usual in (f"{pair[side]}_wins", f"winner_{pair[side]}"):
                if (name := normalize_name(usual)) in by_name:
                    columns[role] = by_name[name]
    return columns


def find_columns_by_query(
    what: str,
    names: Sequence[str],
    user_columns: Mapping[str, str],
    roles: Collection[str],
) -> dict[str, str]:
    """Find columns as `find_columns` does; that of the query's text only where none has its id."""
    columns = find_columns(what, names, user_columns, [role for role in roles if role != "query"])
    if "query_id" in columns or "query" in columns:
        return columns
    return columns | find_columns(what, names, {}, ("query",))


def find_list_column(names: Sequence[str], columns: Mapping[str, str]) -> str | None:
    """Return the column that holds all documents of a query; None if there is none."""
    if "documents" in columns:
        return columns["documents"]
    return next((name for name in names if is_called(name, "documents")), None)


def value_of(row: Mapping[str, object], role: str, *others: str) -> object:
    """Return the value that an object has under the first usual name of a role, or None.

    Args:
        row: the object.
        role: of the value.
        others: names that count before those of the role.
    """
    values = {normalize_name(name): value for name, value in row.items() if value is not None}
    usual = (*map(normalize_name, others), *_NORMALIZED[role])
    return next((values[name] for name in usual if name in values), None)


def _join_names(names: Sequence[str]) -> str:
    *first, last = map(repr, names)
    return f"both {first[0]} and {last}" if len(first) == 1 else f"{', '.join(first)} and {last}"
