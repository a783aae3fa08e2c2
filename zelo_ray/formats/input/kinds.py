"""Recognise the kind of an input file, and explain what is missing where it is not enough."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.input.assistants import is_conversation
from zelo_ray.formats.input.collection import guess_text_files
from zelo_ray.formats.input.columns import OF_QUERY, find_columns, find_list_column
from zelo_ray.formats.input.probe import FileProbe, Form, is_number
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

    probe: FileProbe
    kind: Kind
    columns: Mapping[str, str]

    @property
    def kind_name(self) -> str:
        """Return the name of the kind, for a message."""
        return _WHAT.get(self.kind) or _FORMS[self.probe.form]

    @property
    def missing_options(self) -> tuple[str, ...]:
        """Return the options that must say where the texts are, which the file does not hold."""
        if self.kind in ("run", "qrels"):
            return ("corpus", "queries")
        if self.kind != "long":
            return ()
        lacking = {"corpus": "content", "queries": "query"}
        return tuple(option for option, role in lacking.items() if role not in self.columns)


def detect_kind(sight: FileProbe, given: Mapping[str, str]) -> DetectedFile:
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
    if sight.first_row is None:
        raise unknown_kind_error(sight)
    return _of_rows(sight, given)


def _of_rows(sight: FileProbe, given: Mapping[str, str]) -> DetectedFile:
    first, names = sight.first_row or {}, sight.names
    if not given and is_pool(first):  # which may have any other keys
        return DetectedFile(
            sight, "pools" if sight.form == "lines" else "wide", {"documents": "documents"}
        )
    if is_conversation(first):
        return DetectedFile(sight, "assistants", {})
    if set(names) >= mteb.COLUMNS and not given:
        return DetectedFile(sight, "mteb", {})
    listed = find_list_column(names, given)
    if is_wide(first, listed) and listed:
        columns = {role: name for role, name in given.items() if role != "documents"}
        fields = [name for name in names if name != listed]
        roles = find_columns(sight.url, fields, columns, OF_QUERY)
        if "query" in roles:
            return DetectedFile(sight, "wide", {**roles, "documents": listed})
        raise _incomplete_error(sight, "has documents, but no query")
    for kind, forms in _TABLES.items() if not given else ():
        if any(form <= set(names) for form in forms) and not _has_text(sight, names):
            return DetectedFile(sight, kind, {})
    roles = find_columns(sight.url, names, given)
    asks, answers = {"query", "query_id"} & roles.keys(), {"content", "doc_id"} & roles.keys()
    if asks and answers and ("content" in roles or {"query_id", "doc_id"} <= roles.keys()):
        return DetectedFile(sight, "long", roles)
    if "content" in roles:
        raise _incomplete_error(sight, "has texts, but no column says which query they belong to")
    if asks and (free := _texts_among(sight, roles)):
        raise _error_with_notes(
            f"{sight.url}: which column is the document? Name it: --columns "
            f"{shlex.quote(f'content={free[0]}')}{_or(free[1:])}"
        )
    raise unknown_kind_error(sight)


def _or(others: list[str]) -> str:
    return f"; others are {', '.join(others)}" if others else ""


def _texts_among(sight: FileProbe, roles: Mapping[str, str]) -> list[str]:
    """Return the columns that may hold documents by the first row, the longest text first."""
    first = {
        name: value for name, value in (sight.first_row or {}).items() if isinstance(value, str)
    }
    free = [name for name in first if name not in roles.values() and not is_number(first[name])]
    return sorted(free, key=lambda name: -len(first[name]))


def _has_text(sight: FileProbe, names: tuple[str, ...]) -> bool:
    return "content" in find_columns(sight.url, names, {})


def unknown_kind_error(sight: FileProbe) -> InputError:
    """Build the error for a file of no known kind."""
    more = (_NAME_THEM,) if sight.names else ()
    more = (_HEAD, *more) if sight.form == "cells" else more
    return _error_with_notes(
        f"{sight.url}: holds no pools, nor any other known kind of input, but {sight.summary}",
        *more,
    )


def _incomplete_error(sight: FileProbe, why: str) -> InputError:
    more = (
        "A corpus alone names no candidates: give a run, with --corpus and --queries.",
        _NAME_THEM,
    )
    return _error_with_notes(f"{sight.url}: {why}; it has {sight.summary}", *more)


def _error_with_notes(message: str, *more: str) -> InputError:
    error = InputError(message)
    for line in (_KNOWN, *more):
        error.add_note(line)
    return error


def missing_texts_error(
    detected: DetectedFile, flags: tuple[str, ...], command: str
) -> OptionError:
    """Build the error for missing options that say where texts are.

    Args:
        detected: a file.
        flags: the options that are missing.
        command: the command line as it was, without them.
    """
    places = dict(zip(("corpus", "queries"), guess_text_files(detected.probe.url), strict=True))
    names = " and ".join(f"--{flag}" for flag in flags)
    held = "the texts of documents and queries"
    if len(flags) == 1:
        held = f"the texts of {'documents' if flags[0] == 'corpus' else 'queries'}"
    error = OptionError(f"{detected.probe.url} is {_article(detected)} without {held}: add {names}")
    if command:
        error.add_note(f"  {command} {' '.join(f'--{flag} {places[flag]}' for flag in flags)}")
    return error


def _article(detected: DetectedFile) -> str:
    return {"run": "a TREC run", "qrels": "a file of judgments"}.get(detected.kind, "a table")
