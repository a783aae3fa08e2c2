"""Draw documents over all queries, change them, and write the pools that judges are asked about.

With graded, a query's pool has the drawn documents and their changed copies, under the query's own
id: so the originals are asked about exactly as `annotate` does, and a shared ledger pays for them
once. With zelo, every pair is a pool of its own.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from zelo_ray.command_options import ProbeOptions
from zelo_ray.errors import InputError
from zelo_ray.evaluation.probes import ProbeKind, Subject
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.files.storage import open_for_writing
from zelo_ray.files.wording import counted
from zelo_ray.protocols.texts import shown_document
from zelo_ray.records import Document, Pool

LARGEST = 2**16
"""Bytes of a document that is changed; a longer one is left out, as its copies would fill lines."""
LARGEST_LINE = 3 * 2**20
"""Bytes of a query's texts; a longer line would be rejected."""
_BETWEEN = "~"  # stands in the id of a copy, between the document's and the probe's


@dataclass(frozen=True, slots=True)
class ProbedPair:
    """A document and its changed copy; for the probe `order`, another document.

    ``pool_id`` is the id of the query in the pools that are judged.
    """

    probe: str
    query_id: str
    doc_id: str
    pool_id: str
    original_id: str
    changed_id: str


@dataclass(frozen=True, slots=True)
class ProbeSample:
    """The pairs to judge, the file of their pools, and what was left out."""

    pairs: Sequence[ProbedPair]
    place: str
    queries: int
    documents: int
    rejected: int
    notes: Sequence[str]


def draw_sample(
    options: ProbeOptions, kinds: Sequence[ProbeKind], shards: Sequence[str], folder: str
) -> ProbeSample:
    """Draw documents, change them, and write pools to a file of a folder.

    Args:
        options: of the command.
        kinds: the probes.
        shards: the files of the input.
        folder: the directory or URL to write to.

    Raises:
        InputError: the input holds no document, or none can be changed.
    """
    counts, rejected = count_documents(shards, options.document_limit)
    chosen = draw_documents(counts, options.documents, options.seed)
    if not chosen:
        raise InputError("the input holds no pool with documents")
    builder = _Builder(options, kinds, _Names({*counts}))
    place = f"{folder.rstrip('/')}/pools.jsonl"
    with open_for_writing(place) as file:
        for pool in read_chosen_pools(shards, chosen):
            for line in builder.build(pool, chosen[pool.query_id]):
                file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
    if not builder.pairs:
        raise InputError(f"no document can be probed: {'; '.join(builder.describe_left_out())}")
    return ProbeSample(
        pairs=builder.pairs,
        place=place,
        queries=len({pair.query_id for pair in builder.pairs}),
        documents=len({(pair.query_id, pair.doc_id) for pair in builder.pairs}),
        rejected=rejected,
        notes=[*builder.describe_left_out()],
    )


def draw_documents(counts: Mapping[str, int], documents: int, seed: int) -> dict[str, list[int]]:
    """Draw documents over all queries: one of each query, then a second one, and so on.

    Args:
        counts: by query id, how many documents it has.
        documents: how many to draw.
        seed: of the draw.

    Returns:
        By query id, the places of its drawn documents; those that come first are drawn first.
    """
    queries = sorted(counts)
    Random(f"{seed}:probe").shuffle(queries)
    orders = {
        query_id: Random(f"{seed}:probe:{query_id}").sample(
            range(counts[query_id]), counts[query_id]
        )
        for query_id in queries[:documents]
    }
    chosen = dict[str, list[int]]()
    remaining = documents
    for turn in range(max((len(order) for order in orders.values()), default=0)):
        for query_id, order in orders.items():
            if turn < len(order) and remaining:
                chosen.setdefault(query_id, []).append(order[turn])
                remaining -= 1
    return chosen


def count_documents(shards: Iterable[str], limit: int | None) -> tuple[dict[str, int], int]:
    """Return by query id how many documents it has, and how many lines are rejected."""
    counts, rejected = dict[str, int](), 0
    for pool in (line.pool for shard in shards for line in read_lines(shard, LineLimits())):
        if pool is None or pool.query_id in counts:
            rejected += 1
        else:
            counts[pool.query_id] = len(pool.documents[:limit])
    return {query_id: count for query_id, count in counts.items() if count}, rejected


def read_chosen_pools(shards: Iterable[str], chosen: Mapping[str, object]) -> Iterator[Pool]:
    """Yield the pools of the drawn queries, the first of each id."""
    unread = {*chosen}
    for line in (line for shard in shards for line in read_lines(shard, LineLimits())):
        if line.pool and line.pool.query_id in unread:
            unread.remove(line.pool.query_id)
            yield line.pool


class _Names:
    """Gives names that no other has."""

    def __init__(self, names: set[str]) -> None:
        self._taken = names

    def unused(self, *parts: str) -> str:
        name = _BETWEEN.join(parts)
        while name in self._taken:
            name += _BETWEEN
        self._taken.add(name)
        return name


class _Builder:
    """Changes documents, and builds the lines of pools with originals and copies."""

    def __init__(
        self, options: ProbeOptions, kinds: Sequence[ProbeKind], pool_names: _Names
    ) -> None:
        self._options, self._kinds, self._pool_names = options, kinds, pool_names
        self.pairs = list[ProbedPair]()
        self._left_out = Counter[tuple[str, str]]()

    def build(self, pool: Pool, places: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Yield the lines of one query."""
        names = _Names({document.id for document in pool.documents})
        pairs = [
            (kind, document, changed)
            for document in (pool.documents[at] for at in places)
            for kind in self._kinds
            if (changed := self._change(kind, document, pool, names))
        ]
        if self._options.protocol == "graded":
            yield from self._one_pool(pool, pairs)
        else:
            for kind, document, changed in pairs:
                pool_id = self._pool_names.unused(pool.query_id, kind.name, document.id)
                self._add(kind, pool, document, changed, pool_id)
                yield pool_line(pool, pool_id, (document, changed))

    def describe_left_out(self) -> Iterator[str]:
        """Yield how many documents were left out, by probe and reason."""
        for (probe, why), count in sorted(self._left_out.items()):
            yield f"{probe}: {counted(count, 'document')} left out, {why}"

    def _one_pool(
        self, pool: Pool, pairs: Iterable[tuple[ProbeKind, Document, Document]]
    ) -> Iterator[dict[str, Any]]:
        documents, size = dict[str, Document](), 0
        for kind, document, changed in pairs:
            size += len((document.content + changed.content).encode())
            if size > LARGEST_LINE:
                self._left_out[kind.name, "whose query has too many long texts"] += 1
                continue
            documents |= {document.id: document, changed.id: changed}
            self._add(kind, pool, document, changed, pool.query_id)
        if documents:
            yield pool_line(pool, pool.query_id, documents.values())

    def _add(
        self, kind: ProbeKind, pool: Pool, document: Document, changed: Document, pool_id: str
    ) -> None:
        ids = (document.id, changed.id)
        self.pairs.append(ProbedPair(kind.name, pool.query_id, document.id, pool_id, *ids))

    def _change(
        self, kind: ProbeKind, document: Document, pool: Pool, names: _Names
    ) -> Document | None:
        """Return the changed copy, or why not is counted."""
        seed = f"{self._options.seed}:probe:{kind.name}:{pool.query_id}:{document.id}"
        luck = Random(seed)
        if len(document.content.encode()) > LARGEST:
            self._left_out[kind.name, f"longer than {LARGEST:,} bytes"] += 1
            return None
        if kind.change is None:
            others = [d for d in pool.documents if d.content != document.content]
            others = [d for d in others if len(d.content.encode()) <= LARGEST]
            if not others:
                self._left_out[kind.name, "alone in their pool"] += 1
                return None
            return luck.choice(others)
        text = kind.change(Subject(document.content, pool.query, luck))
        changed = replace(document, content=text)
        shown = [shown_document(d, pool, self._options).content for d in (document, changed)]
        if shown[0] == shown[1]:
            self._left_out[kind.name, "as judges would not see the change (--document-tokens)"] += 1
            return None
        return replace(changed, id=names.unused(document.id, kind.name))


def pool_line(pool: Pool, pool_id: str, documents: Iterable[Document]) -> dict[str, Any]:
    """Return an input line of a pool with other documents."""
    return {
        "query": {**pool.about, "id": pool_id, "query": pool.query},
        "documents": [
            {"id": document.id, "content": document.content, "metadata": dict(document.metadata)}
            for document in documents
        ],
    }
