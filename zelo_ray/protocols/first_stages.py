"""Ask rankers about the candidates of several first stages, each document as rarely as possible.

A pool holds the documents of all first stages; `FIRST_STAGES` in a document's metadata has its
place in the order of each stage that found it. Where a ranker's score of a document does not depend
on the other documents, all are scored together, and each stage takes its own. Other rankers see
each stage's documents as they are; equal requests have equal keys, and are sent once.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from zelo_ray.protocols.progress import Parallel, Rounds
from zelo_ray.protocols.protocol import Ranker
from zelo_ray.records import Pool, Ranked

FIRST_STAGES = "first_stages"
"""The field of a document's metadata: by the name of a first stage, a place in its order."""


def view_of_stage(pool: Pool, stage: str) -> Pool:
    """Return the pool with the documents of one first stage, in its order."""
    places = {
        document.id: document.metadata[FIRST_STAGES][stage]
        for document in pool.documents
        if stage in document.metadata.get(FIRST_STAGES, {})
    }
    documents = [document for document in pool.documents if document.id in places]
    return replace(pool, documents=tuple(sorted(documents, key=lambda d: places[d.id])))


def _stages_of(pool: Pool) -> list[str]:
    places = (document.metadata.get(FIRST_STAGES, {}) for document in pool.documents)
    return sorted({stage for by_stage in places for stage in by_stage})


def _united(pool: Pool, limit: int | None) -> Pool:
    """Return the pool with what its stages have among their first documents."""
    documents = [
        document
        for document in pool.documents
        if limit is None or min(document.metadata[FIRST_STAGES].values()) < limit
    ]
    return replace(pool, documents=tuple(documents))


def count_united(pool: Pool, limit: int | None) -> int:
    """Count the documents of a pool that its stages have among their first ones."""
    return len(_united(pool, limit).documents)


def _of_stage(ranker: Ranker, stage: str) -> Ranker:
    """Return the ranker of one first stage's documents."""

    def rounds(pool: Pool, panel: Any, options: Any) -> Rounds:
        return ranker.rounds(view_of_stage(pool, stage), panel, options)

    def count(pool: Pool, panel: Any, options: Any) -> dict[str, int]:
        return ranker.count(view_of_stage(pool, stage), panel, options)

    return replace(ranker, rounds=rounds, count=count)


def _of_each_stage(ranker: Ranker, _: str) -> Ranker:
    """Return the ranker that asks about each first stage's documents, side by side."""

    def rounds(pool: Pool, panel: Any, options: Any) -> Rounds:
        views = [view_of_stage(pool, stage) for stage in _stages_of(pool)]
        results = yield Parallel([ranker.rounds(view, panel, options) for view in views])
        return [row for rows in results for row in rows]

    def count(pool: Pool, panel: Any, options: Any) -> dict[str, int]:
        views = [view_of_stage(pool, stage) for stage in _stages_of(pool)]
        counts = [ranker.count(view, panel, options) for view in views]
        return {judge.name: sum(c.get(judge.name, 0) for c in counts) for judge in panel}

    return replace(ranker, rounds=rounds, count=count)


def _of_union(ranker: Ranker, _: str) -> Ranker:
    """Return the ranker that asks about the documents of all first stages together."""

    def rounds(pool: Pool, panel: Any, options: Any) -> Rounds:
        return ranker.rounds(_united(pool, options.document_limit), panel, _unlimited(options))

    def count(pool: Pool, panel: Any, options: Any) -> dict[str, int]:
        return ranker.count(_united(pool, options.document_limit), panel, _unlimited(options))

    return replace(ranker, rounds=rounds, count=count)


def _cut_to_stage(ranker: Ranker, stage: str) -> Ranker:
    """Return the ranker that asks as `_of_union`, and ranks one first stage's documents."""
    united = _of_union(ranker, "")

    def rounds(pool: Pool, panel: Any, options: Any) -> Rounds:
        rows = yield from united.rounds(pool, panel, options)
        documents = view_of_stage(pool, stage).documents[: options.document_limit]
        wanted = {document.id for document in documents}
        return [row for row in rows if not isinstance(row, Ranked) or row.doc_id in wanted]

    return replace(united, rounds=rounds)


def _unlimited(options: Any) -> Any:
    return options.model_copy(update={"document_limit": None})


_WAYS: Mapping[str, Callable[[Ranker, str], Ranker]] = {
    "of-stage": _of_stage,
    "of-each-stage": _of_each_stage,
    "of-union": _of_union,
    "cut-to-stage": _cut_to_stage,
}


def name_staged(view: str, protocol: str, stage: str = "") -> str:
    """Return the name of a ranker that is asked about first stages in one of the ways."""
    return f"{view}:{stage}:{protocol}"


def find_staged(name: str, find: Callable[[str], Ranker]) -> Ranker | None:
    """Return the ranker of a name by `name_staged`; None for all other names.

    Args:
        name: the name.
        find: finds the ranker that is asked.
    """
    view, _, staged = name.partition(":")
    if view not in _WAYS:
        return None
    stage, _, protocol = staged.partition(":")
    return _WAYS[view](find(protocol), stage)
