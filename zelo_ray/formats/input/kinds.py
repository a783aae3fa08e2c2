"""Recognise the kind of an input file, and explain what is missing where it is not enough."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.columns import OF_QUERY, find_columns, find_list_column
from zelo_ray.formats.input.collection import guess_text_files
from zelo_ray.formats.input.wide import INSIDE
from zelo_ray.formats.probe import FileProbe, Form, is_number, short_run_error

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
_KINDS: Mapping[str, Kind] = {
    "broken": "pools",
    "pools": "pools",
    "mteb": "mteb",
    "conversations": "assistants",
    "run": "run",
    "trec run": "run",
    "grades": "qrels",
    "trec qrels": "qrels",
    "beir qrels": "qrels",
}
"""By kind of a probe, the kind of input."""
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
        return _WHAT.get(self.kind) or _FORMS.get(self.probe.form, "JSON lines")

    @property
    def missing_options(self) -> tuple[str, ...]:
        """Return the options that must say where the texts are, which the file does not hold."""
        if self.kind in ("run", "qrels"):
            return ("corpus", "queries")
        if self.kind != "long":
            return ()
        lacking = {"corpus": "content", "queries": "query"}
        return tuple(option for option, role in lacking.items() if role not in self.columns)


def detect_kind(source: FileProbe, user_columns: Mapping[str, str]) -> DetectedFile:
    """Return the kind of a probed file as an input of `annotate`, with its columns.

    Args:
        source: of the file.
        user_columns: by role, the name of a column, as the user said.

    Raises:
        InputError: it is no input, or its columns are ambiguous.
    """
    source = source.with_columns(user_columns)
    if source.kind == "short run":
        raise short_run_error(source)
    if source.kind == "wide" or (source.kind == "pools" and source.form != "lines"):
        return _detect_wide(source, user_columns)
    if source.kind in ("long", "table"):
        return _detect_long(source, user_columns)
    if kind := _KINDS.get(source.kind):
        return DetectedFile(source, kind, {})
    raise unknown_kind_error(source)


def _detect_wide(source: FileProbe, user_columns: Mapping[str, str]) -> DetectedFile:
    if source.kind == "pools":
        return DetectedFile(source, "wide", {"documents": "documents"})
    listed = find_list_column(source.names, user_columns) or "documents"
    fields = [name for name in source.names if name != listed]
    inside = {
        role: user_columns[role]
        for role in INSIDE
        if role in user_columns and user_columns[role] not in fields
    }
    columns = {
        role: name for role, name in user_columns.items() if role not in (*inside, "documents")
    }
    roles = find_columns(source.place, fields, columns, OF_QUERY)
    if "query" not in roles:
        raise _incomplete_error(source, "has documents, but no query")
    return DetectedFile(source, "wide", {**roles, **inside, "documents": listed})


def _detect_long(source: FileProbe, user_columns: Mapping[str, str]) -> DetectedFile:
    roles = find_columns(source.place, source.names, user_columns)
    asks, answers = {"query", "query_id"} & roles.keys(), {"content", "doc_id"} & roles.keys()
    if asks and answers and ("content" in roles or {"query_id", "doc_id"} <= roles.keys()):
        return DetectedFile(source, "long", roles)
    if "content" in roles:
        raise _incomplete_error(source, "has texts, but no column says which query they belong to")
    if asks and (free := _texts_among(source, roles)):
        raise _error_with_notes(
            f"{source.place}: which column is the document? Name it: --columns "
            f"{shlex.quote(f'content={free[0]}')}{_or(free[1:])}"
        )
    raise unknown_kind_error(source)


def _or(others: list[str]) -> str:
    return f"; others are {', '.join(others)}" if others else ""


def _texts_among(source: FileProbe, roles: Mapping[str, str]) -> list[str]:
    """Return the columns that may hold documents by the first row, the longest text first."""
    first = {
        name: value for name, value in (source.first_row or {}).items() if isinstance(value, str)
    }
    free = [name for name in first if name not in roles.values() and not is_number(first[name])]
    return sorted(free, key=lambda name: -len(first[name]))


def unknown_kind_error(source: FileProbe) -> InputError:
    """Build the error for a file of no known kind."""
    more = (_NAME_THEM,) if source.names else ()
    more = (_HEAD, *more) if source.form == "cells" else more
    return _error_with_notes(
        f"{source.place}: holds no pools, nor any other known kind of input, but {source.summary}",
        *more,
    )


def _incomplete_error(source: FileProbe, why: str) -> InputError:
    more = (
        "A corpus alone names no candidates: give a run, with --corpus and --queries.",
        _NAME_THEM,
    )
    return _error_with_notes(f"{source.place}: {why}; it has {source.summary}", *more)


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
    places = dict(zip(("corpus", "queries"), guess_text_files(detected.probe.place), strict=True))
    names = " and ".join(f"--{flag}" for flag in flags)
    held = "the texts of documents and queries"
    if len(flags) == 1:
        held = f"the texts of {'documents' if flags[0] == 'corpus' else 'queries'}"
    error = OptionError(
        f"{detected.probe.place} is {_article(detected)} without {held}: add {names}"
    )
    if command:
        error.add_note(f"  {command} {' '.join(f'--{flag} {places[flag]}' for flag in flags)}")
    return error


def _article(detected: DetectedFile) -> str:
    return {"run": "a TREC run", "qrels": "a file of judgments"}.get(detected.kind, "a table")
