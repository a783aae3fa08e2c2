"""Find queries among their own candidates, as in ArguAna and Quora, whose queries are documents."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from zelo_ray.files.wording import counted
from zelo_ray.records import Document

_SHOWN = 3
_KEY = "left_out"
"""The field of a pool's line that says that its query was a candidate; runs may still hold it."""


def is_same_text(query: str, document: Document) -> bool:
    """Return whether a document has the same text as the query, with its title or without."""
    content, title = document.content, document.metadata.get("title")
    texts = [content, content.removeprefix(f"{title}\n")] if isinstance(title, str) else [content]
    plain = " ".join(query.split())
    return any(" ".join(text.split()) == plain for text in texts)


@dataclass(slots=True)
class OwnQueries:
    """The ids of queries that are among their own candidates.

    BEIR's evaluation leaves out a document that has the id of its query. Here it is left out only
    if the text is the same as well; a document with the same id or text alone is kept.
    """

    same: list[str] = field(default_factory=list)
    by_id: list[str] = field(default_factory=list)
    """with another text"""
    by_text: list[str] = field(default_factory=list)
    """with another id"""

    def check_candidate(self, query_id: str, query: str, document: Document) -> bool:
        """Record a candidate that is like its query; return whether it is the query itself."""
        if document.id == query_id:
            if is_same_text(query, document):
                self.same.append(query_id)
                return True
            self.by_id.append(query_id)
        elif document.content.endswith(query) and is_same_text(query, document):
            self.by_text.append(query_id)
        return False

    def notes(self, *, left_out: bool = True) -> list[str]:
        """Describe the queries; ``left_out``: whether they were left out of the candidates."""
        lines = []
        if self.same:
            lines.append(
                "left out the query itself from the candidates of "
                f"{_of(self.same)}: id and text are the same, as BEIR's evaluation does"
                if left_out
                else f"the query itself, by id and text, is a candidate of {_of(self.same)}: take "
                "it out of the pools, as BEIR's evaluation does"
            )
        if self.by_id:
            lines.append(
                "kept documents that have the id of their query but another text, of "
                f"{_of(self.by_id)}"
            )
        if self.by_text:
            lines.append(
                "kept documents that have the text of their query but another id, of "
                f"{_of(self.by_text)}"
            )
        return lines


def drop_own_queries(
    pools: Iterator[dict[str, Any]], notes: dict[str, None]
) -> Iterator[dict[str, Any]]:
    """Yield pools in the form of lines, without the queries themselves.

    Args:
        pools: some may be invalid, and are yielded unchanged.
        notes: a dict to whose keys notes are added at the end.
    """
    own_queries = OwnQueries()
    for pool in pools:
        query, documents = pool.get("query"), pool.get("documents")
        about = query if isinstance(query, Mapping) else {}
        id_, text = about.get("id"), about.get("query")
        if not (isinstance(id_, str) and isinstance(text, str) and isinstance(documents, list)):
            yield pool
            continue
        candidates = [row for row in documents if not is_own_query(own_queries, id_, text, row)]
        if len(candidates) == len(documents):
            yield pool
        elif candidates:
            yield {**pool, "documents": candidates, **left_out_field(id_, (id_,))}
    notes |= dict.fromkeys(own_queries.notes())


def queries_left_out(line: bytes) -> list[str]:
    """Return the ids of candidates that a pool's line says were left out as the query itself."""
    ids = json.loads(line).get(_KEY) if _KEY.encode() in line else None
    return [id_ for id_ in ids if isinstance(id_, str)] if isinstance(ids, list) else []


def left_out_field(query_id: str, own: Collection[str]) -> dict[str, list[str]]:
    """Return the field that says that a query was left out of its own candidates."""
    return {_KEY: [query_id]} if query_id in own else {}


def is_own_query(own_queries: OwnQueries, query_id: str, query: str, row: object) -> bool:
    """Record a candidate, in the form of lines, that is like its query; return if it is the query.

    Args:
        own_queries: gets the record.
        query_id: of the pool.
        query: its text.
        row: of the candidate; an invalid one is none.
    """
    if not isinstance(row, Mapping):
        return False
    id_, content = row.get("id"), row.get("content")
    if not (isinstance(id_, str) and isinstance(content, str)):
        return False
    if id_ != query_id and not content.endswith(query):  # as most are
        return False
    metadata = row.get("metadata")
    fields = metadata if isinstance(metadata, Mapping) else {}
    return own_queries.check_candidate(query_id, query, Document(id_, content, fields))


def _of(ids: list[str]) -> str:
    more = " ..." if len(ids) > _SHOWN else ""
    return f"{counted(len(ids), 'query', 'queries')} ({', '.join(ids[:_SHOWN])}{more})"
