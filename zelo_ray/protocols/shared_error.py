"""Learn the judges' common errors from human grades, for protocols that score by votes.

Without human grades nothing is learned.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from zelo_ray.files.wording import counted
from zelo_ray.fitting.truth_error import SHARE, learn_share
from zelo_ray.protocols.anchors import example_query_ids
from zelo_ray.protocols.protocol import Evidence, Learned

if TYPE_CHECKING:
    from zelo_ray.fitting.bradley_terry import Fit


def shown_example_queries(options: Mapping[str, Any]) -> frozenset[str]:
    """Return the ids of queries that judges saw in worked examples, by the options of a run.

    Battles alone and grades by criteria show none.
    """
    battles_alone = "calls_per_document" in options and options["calls_per_document"] is None
    if battles_alone or options.get("criteria") or not options.get("anchors"):
        return frozenset()
    return example_query_ids(str(options["anchors"]))


def people_grades(people: pa.Table | None, options: Any) -> dict[tuple[str, str], float]:
    """Return people's grades by query and document, but of queries that judges were shown."""
    if people is None:
        return {}
    shown = shown_example_queries(dict(options))
    columns = (people[name].to_pylist() for name in ("query_id", "doc_id", "relevance"))
    return {
        (query, doc): grade
        for query, doc, grade in zip(*columns, strict=True)
        if query not in shown
    }


def shared_error(learned: Learned | None) -> float:
    """Return the judges' common error, as a share of the spread of a query's scores."""
    return SHARE if learned is None or learned.shared is None else learned.shared


def learn_from_scores(
    fits: Iterable["Fit"], human: pa.Table | None, options: Any, learned: Learned | None = None
) -> Learned:
    """Learn from human grades how far scores of votes lie from people; without any, nothing."""
    learned = Learned() if learned is None else learned
    if human is None:
        return learned
    people = people_grades(human, options)
    scores = sorted(
        (score for fit in fits for score in fit.scores if (score.query_id, score.doc_id) in people),
        key=lambda score: (score.query_id, score.doc_id),
    )
    ids = {query_id: n for n, query_id in enumerate(dict.fromkeys(s.query_id for s in scores))}
    columns = [
        (ids[s.query_id], s.score, s.std_error, people[s.query_id, s.doc_id]) for s in scores
    ]
    query, *numbers = np.array(columns, np.float64).reshape(-1, 4).T
    shared = learn_share(query.astype(np.int64), *numbers)
    note = "no query has human grades that order its documents: the usual error stands"
    if shared.queries:
        queries = counted(shared.queries, "query", "queries")
        note = (
            f"by human grades of {queries}, what judges get wrong together is {shared.found:.2f} "
            f"of the spread of a query's scores; {shared.value:.2f} is taken ({SHARE:g} without "
            "human grades)"
        )
    share = shared.value if shared.queries else None
    return replace(learned, shared=share, notes=(*learned.notes, note))


def learning(fit: Callable[..., "list[Fit]"]) -> dict[str, Any]:
    """Return what a protocol that scores by votes says of its learning, by its fit."""

    def learn(judgments: Sequence[Sequence[Any]], evidence: Evidence, options: Any) -> Learned:
        return learn_from_scores(fit(judgments, options), evidence.human, options)

    return {"learn": learn, "learns": lambda options: options.human is not None}
