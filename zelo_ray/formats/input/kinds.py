"""Recognise the kind of an input file, and explain what is missing where it is not enough."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.input.assistants import is_conversation
from zelo_ray.formats.input.collection import beside
from zelo_ray.formats.input.columns import OF_QUERY, columns_of, list_column
from zelo_ray.formats.input.sight import FileProbe, Form, is_number
from zelo_ray.formats.input.wide import is_pool, is_wide
from zelo_ray.formats.interchange import mteb

Kind = Literal["pools", "mteb", "assistants", "wide", "long", "run", "qrels"]
_FORMS: Mapping[Form, str] = {
    "parquet": "Parquet rows",
    "array": "JSON rows",
    "object": "JSON rows",
    "lines": "JSON rows",
    "cells": "CSV rows",
}
_WHAT: Mapping[Kind, str] = {
    "mteb": "MTEB reranking rows",
    "assistants": "conversations of assistants",
    "run": "TREC run",
    "qrels": "judgments",
}
_TABLES: Mapping[Kind, tuple[frozenset[str], ...]] = {
    "run": (frozenset({"query_id", "doc_id", "score"}),),
    "qrels": (
        frozenset({"query_id", "doc_id", "relevance"}),
        frozenset({"query_id", "doc_id", "grade"}),
        frozenset({"query-id", "corpus-id", "score"}),
    ),
}
_KNOWN = (
    "Known are: rows of queries and documents (CSV, TSV, JSON, Parquet); pools as JSON lines; a "
    "BEIR, MTEB or ir_datasets folder; a TREC run or qrels with --corpus and --queries."
)
_NAME_THEM = "Name columns that have other names: --columns query=NAME content=NAME"
_HEAD = "If the first line does not name the columns, put one above that does, such as query,text."


@dataclass(frozen=True, slots=True)
class DetectedFile:
    """A file, the kind of its content, and its columns by role."""

    sight: FileProbe
    kind: Kind
    columns: Mapping[str, str]

    @property
    def what(self) -> str:
        """Return the name of the kind, for a message."""
        return _WHAT.get(self.kind) or _FORMS[self.sight.form]

    @property
    def lacks(self) -> tuple[str, ...]:
        """Return the options that must say where the texts are, which the file does not hold."""
        if self.kind in ("run", "qrels"):
            return ("corpus", "queries")
        if self.kind != "long":
            return ()
        lacking = {"corpus": "content", "queries": "query"}
        return tuple(option for option, role in lacking.items() if role not in self.columns)


def known(sight: FileProbe, given: Mapping[str, str]) -> DetectedFile:
    """Recognise the kind of a file.

    Args:
        sight: of the file.
        given: by role, the name of a column, as the user said.

    Raises:
        InputError: nothing that is known, or its columns are ambiguous.
    """
    if sight.form == "broken":
        return DetectedFile(sight, "pools", {})
    if sight.form in ("run", "qrels"):
        return DetectedFile(sight, "run" if sight.form == "run" else "qrels", {})
    if sight.first is None:
        raise unknown(sight)
    return _of_rows(sight, given)


def _of_rows(sight: FileProbe, given: Mapping[str, str]) -> DetectedFile:
    first, names = sight.first or {}, sight.names
    if not given and is_pool(first):  # which may have any other keys
        return DetectedFile(
            sight, "pools" if sight.form == "lines" else "wide", {"documents": "documents"}
        )
    if is_conversation(first):
        return DetectedFile(sight, "assistants", {})
    if set(names) >= mteb.COLUMNS and not given:
        return DetectedFile(sight, "mteb", {})
    listed = list_column(names, given)
    if is_wide(first, listed) and listed:
        columns = {role: name for role, name in given.items() if role != "documents"}
        fields = [name for name in names if name != listed]
        roles = columns_of(sight.url, fields, columns, OF_QUERY)
        if "query" in roles:
            return DetectedFile(sight, "wide", {**roles, "documents": listed})
        raise _incomplete(sight, "has documents, but no query")
    for kind, forms in _TABLES.items() if not given else ():
        if any(form <= set(names) for form in forms) and not _has_text(sight, names):
            return DetectedFile(sight, kind, {})
    roles = columns_of(sight.url, names, given)
    asks, answers = {"query", "query_id"} & roles.keys(), {"content", "doc_id"} & roles.keys()
    if asks and answers and ("content" in roles or {"query_id", "doc_id"} <= roles.keys()):
        return DetectedFile(sight, "long", roles)
    if "content" in roles:
        raise _incomplete(sight, "has texts, but no column says which query they belong to")
    if asks and (free := _texts_among(sight, roles)):
        raise _told(
            f"{sight.url}: which column is the document? Name it: --columns "
            f"{shlex.quote(f'content={free[0]}')}{_or(free[1:])}"
        )
    raise unknown(sight)


def _or(others: list[str]) -> str:
    return f"; others are {', '.join(others)}" if others else ""


def _texts_among(sight: FileProbe, roles: Mapping[str, str]) -> list[str]:
    """Return the columns that may hold documents by the first row, the longest text first."""
    first = {name: value for name, value in (sight.first or {}).items() if isinstance(value, str)}
    free = [name for name in first if name not in roles.values() and not is_number(first[name])]
    return sorted(free, key=lambda name: -len(first[name]))


def _has_text(sight: FileProbe, names: tuple[str, ...]) -> bool:
    return "content" in columns_of(sight.url, names, {})


def unknown(sight: FileProbe) -> InputError:
    """Build the error for a file of no known kind."""
    more = (_NAME_THEM,) if sight.names else ()
    more = (_HEAD, *more) if sight.form == "cells" else more
    return _told(
        f"{sight.url}: holds no pools, nor any other known kind of input, but {sight.said}", *more
    )


def _incomplete(sight: FileProbe, why: str) -> InputError:
    more = (
        "A corpus alone names no candidates: give a run, with --corpus and --queries.",
        _NAME_THEM,
    )
    return _told(f"{sight.url}: {why}; it has {sight.said}", *more)


def _told(message: str, *more: str) -> InputError:
    error = InputError(message)
    for line in (_KNOWN, *more):
        error.add_note(line)
    return error


def lacking(detected: DetectedFile, flags: tuple[str, ...], command: str) -> OptionError:
    """Build the error for missing options that say where texts are.

    Args:
        detected: a file.
        flags: the options that are missing.
        command: the command line as it was, without them.
    """
    places = dict(zip(("corpus", "queries"), beside(detected.sight.url), strict=True))
    names = " and ".join(f"--{flag}" for flag in flags)
    held = "the texts of documents and queries"
    if len(flags) == 1:
        held = f"the texts of {'documents' if flags[0] == 'corpus' else 'queries'}"
    error = OptionError(f"{detected.sight.url} is {_article(detected)} without {held}: add {names}")
    if command:
        error.add_note(f"  {command} {' '.join(f'--{flag} {places[flag]}' for flag in flags)}")
    return error


def _article(detected: DetectedFile) -> str:
    return {"run": "a TREC run", "qrels": "a file of judgments"}.get(detected.kind, "a table")
