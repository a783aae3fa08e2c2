"""Make pools of queries with unjudged documents, for annotation."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.formats.interchange.pooling import Candidates, columns, fuse_ranks
from zelo_ray.formats.interchange.texts import (
    document_row,
    has_visible_text,
    index_by_id,
    make_filled_pools,
    pool_line,
)
from zelo_ray.formats.pools import LineLimits, read_lines
from zelo_ray.records import Document, Pool


class UnjudgedPools:
    """The queries with unjudged documents, each of which becomes a pool to annotate.

    A pool holds the unjudged documents, and the judged ones to compare them with.

    Attributes:
        wanted: the documents that may have to be looked up: see `add_texts`.
        notes: in words, what had to be left out.
    """

    def __init__(self, truth: pa.Table, unjudged: pa.Table) -> None:
        """Take columns of `records.Qrel`, and the result of `pooling.find_unjudged` for runs."""
        self._unjudged: Candidates = {}
        for query_id, doc_id, run, rank in columns(unjudged, "query_id", "doc_id", "run", "rank"):
            self._unjudged.setdefault(query_id, {}).setdefault(doc_id, {})[run] = rank
        self._judged: dict[str, set[str]] = {query_id: set() for query_id in self._unjudged}
        for query_id, doc_id in columns(truth, "query_id", "doc_id"):
            if query_id in self._judged:
                self._judged[query_id].add(doc_id)
        self.wanted = {doc_id for ids in self._unjudged.values() for doc_id in ids}
        self.wanted.update(*self._judged.values())
        self._texts: dict[str, Document] = {}
        self._lacking: list[str] = []
        self.notes: list[str] = []

    def add_texts(self, texts: Iterable[Document]) -> None:
        """Add the texts of documents that pools may lack."""
        self._texts |= index_by_id(
            document for document in texts if has_visible_text(document.content)
        )

    def lines(
        self, pools: Iterable[tuple[bytes, Pool]], queries: Mapping[str, Document], everything: bool
    ) -> Iterator[bytes]:
        """Yield pools with unjudged documents as input lines: those that exist, then new ones.

        Args:
            pools: the pools that there are, and their lines.
            queries: by id, those that have no pool.
            everything: pass on the lines of pools without any, too.

        Raises:
            InputError: a query or an unjudged document has no text, and no other texts are known.
        """
        unjudged = dict(self._unjudged)
        for raw, pool in pools:
            if ranks := unjudged.pop(pool.query_id, None):
                yield self._extend_pool(raw, pool.query_id, ranks)
            elif everything:
                yield raw
        if unjudged:
            yield from map(pool_line, self._new_pools(unjudged, queries))
        if self._lacking:
            self.notes.append(f"left out {self._without_text()}")

    def _extend_pool(self, raw: bytes, query_id: str, ranks: dict[str, dict[str, int]]) -> bytes:
        """Return a pool's line without documents that nobody asks about, with all unjudged ones."""
        line: dict[str, Any] = json.loads(raw)
        doc_ids = ranks.keys() | self._judged[query_id]
        old = [document for document in line.get("documents", []) if document["id"] in doc_ids]
        missing = ranks.keys() - {document["id"] for document in old}
        self._lacking += sorted(missing - self._texts.keys())
        if self._lacking and not self._texts:
            raise InputError(f"{self._without_text()}: give --corpus")
        new_ranks = {doc_id: ranks[doc_id] for doc_id in missing & self._texts.keys()}
        new = [document_row(self._texts[doc_id]) for doc_id in fuse_ranks(query_id, new_ranks)]
        return json.dumps({**line, "documents": old + new}, ensure_ascii=False).encode()

    def _new_pools(self, left: Candidates, queries: Mapping[str, Document]) -> list[Pool]:
        if not (queries and self._texts):
            raise InputError(
                f"{len(left):,} queries with unjudged documents have no pool, such as "
                f"{next(iter(left))!r}: give --pools, or --corpus and --queries"
            )
        candidates = {
            query_id: fuse_ranks(
                query_id, {d: ranks.get(d, {}) for d in {*self._judged[query_id], *ranks}}
            )
            for query_id, ranks in left.items()
        }
        filled = make_filled_pools(candidates, queries, self._texts.values())
        self.notes += filled.notes
        return filled.pools

    def _without_text(self) -> str:
        first = repr(self._lacking[0])
        return f"unjudged documents without a text: {len(self._lacking):,}, such as {first}"


def pool_lines(files: Iterable[str]) -> Iterator[tuple[bytes, Pool]]:
    """Yield the lines of files of pools, and the pools.

    Raises:
        InputError: a line is bad.
    """
    for file in files:
        for line in read_lines(file, LineLimits()):
            if line.pool is None:
                raise InputError(f"{file}:{line.number}: {line.reason}")
            yield line.raw, line.pool
