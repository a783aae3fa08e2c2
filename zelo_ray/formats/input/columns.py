"""Find the columns of rows that hold the query and the document."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.interchange.roles import normalize_name
from zelo_ray.options.command import did_you_mean

NAMES: Mapping[str, tuple[str, ...]] = {
    "query_id": ("query_id", "qid", "queryid", "q_id", "question_id", "topic_id", "topic"),
    "query": ("query", "query_text", "question", "search_query", "q", "user_query"),
    "doc_id": (
        *("doc_id", "docid", "docno", "document_id", "did", "pid", "passage_id", "corpus_id"),
        *("chunk_id", "product_id", "candidate_id"),
    ),
    "content": (
        *("content", "contents", "text", "document", "document_text", "doc", "doc_text"),
        *("passage", "passage_text", "body", "chunk", "snippet", "answer", "response"),
    ),
    "title": ("title", "doc_title", "document_title"),
    "metadata": ("metadata",),
    "score": ("score",),
    "session_id": ("session_id",),
}
"""By role, what a column of it is called; hyphens, points and capitals do not count."""
_DOCUMENT_IDS = ("id", "_id")
"""What names a document where no column says so better."""
_ROLES = (*NAMES, "documents")
_SEVERAL = re.compile(rf"\s+(?=(?:{'|'.join(_ROLES)})=)")
IN_MEMORY = "inputs"
"""What a frame or a list is called in messages."""
LISTS = ("documents", "passages", "candidates", "docs", "results", "hits", "ctxs", "contexts")
"""What a column with all documents of a query is called."""
OF_QUERY = ("query_id", "query", "session_id")
"""The roles of rows that hold all documents of a query in one column."""


def split_columns(given: Iterable[str]) -> dict[str, str]:
    """Parse ``ROLE=NAME`` to names of columns by role; one text may hold several.

    Raises:
        OptionError: there is no such role.
    """
    columns, last = dict[str, str](), ""
    for pair in (part for text in given for part in _SEVERAL.split(text)):
        role, mark, name = pair.partition("=")
        if last and not mark:  # the rest of a name that a shell took apart
            quoted = f"--columns '{last}={columns[last]} {pair}'"
            raise OptionError(f"columns: {pair!r} is not ROLE=NAME; quote it: {quoted}")
        if not (mark and name) or role not in _ROLES:
            raise OptionError(
                f"columns: {pair!r} is not ROLE=NAME; roles are {', '.join(_ROLES)}"
                f"{did_you_mean(role, NAMES)}"
            )
        columns[role], last = name, role
    return columns


def column_hint(what: str, role: str, name: str) -> str:
    """Return how to name a column: on the command line, or for data in memory in Python."""
    return f'columns={{"{role}": "{name}"}}' if what == IN_MEMORY else f"--columns {role}={name}"


def find_columns(
    what: str, names: Sequence[str], given: Mapping[str, str], roles: Collection[str] = tuple(NAMES)
) -> dict[str, str]:
    """Find the columns of rows of queries and documents.

    Args:
        what: what is read, for messages.
        names: of the columns that there are.
        given: by role, the name of a column, as the user said.
        roles: those that count.

    Returns:
        By role, the name of its column. What is called as the role is taken before its synonyms.

    Raises:
        InputError: a given column is not there, or two columns may both be meant.
    """
    for name in given.values():
        if name not in names:
            have = ", ".join(names) or "none"
            raise InputError(
                f"{what}: has no column {name!r}; it has {have}{did_you_mean(name, names)}"
            )
    columns = dict(given)
    for role, usual in ((role, NAMES[role]) for role in roles):
        matches = [
            name for name in names if normalize_name(name) in usual and name not in columns.values()
        ]
        exact = [name for name in matches if normalize_name(name) == role]
        if role in columns or not matches:
            continue
        if len(matches) > 1 and not exact:
            raise InputError(
                f"{what}: has {_join_names(matches)}: say which is the "
                f"{_ROLE_NAMES.get(role, role)}: {column_hint(what, role, matches[0])}"
            )
        columns[role] = (exact or matches)[0]
    if "doc_id" in roles and "doc_id" not in columns:
        free = [name for name in names if name in _DOCUMENT_IDS and name not in columns.values()]
        columns |= {"doc_id": free[0]} if free else {}
    return columns


def find_list_column(names: Sequence[str], columns: Mapping[str, str]) -> str | None:
    """Return the column that holds all documents of a query; None if there is none."""
    if "documents" in columns:
        return columns["documents"]
    return next((name for name in names if normalize_name(name) in LISTS), None)


_ROLE_NAMES = {"content": "document's text", "query_id": "query's id", "doc_id": "document's id"}


def _join_names(names: Sequence[str]) -> str:
    *first, last = map(repr, names)
    return f"both {first[0]} and {last}" if len(first) == 1 else f"{', '.join(first)} and {last}"
