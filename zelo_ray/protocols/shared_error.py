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
from zelo_ray.protocols.anchors import load_anchors
from zelo_ray.protocols.protocol import Evidence, Learned

if TYPE_CHECKING:
    from zelo_ray.fitting.scores import Fit


def shown_example_queries(options: Mapping[str, Any]) -> frozenset[str]:
    """Return the ids of queries that judges saw in worked examples, by the options of a run.

    Battles alone and grades by criteria show none.
    """
    battles_alone = "calls_per_document" in options and options["calls_per_document"] is None
    if battles_alone or options.get("criteria") or not options.get("anchors"):
        return frozenset()
    sets = load_anchors(str(options["anchors"]))
    return frozenset(anchor.query_id for anchor in sets if anchor.query_id)


def people_grades(people: pa.Table | None, options: Any) -> dict[tuple[str, str], float]:
    """Return people's grades by query and document, but of queries that judges were shown."""
    if people is None:
        return {}
    shown = shown_example_queries(dict(options))
    columns = (people[name].to_pylist() for name in ("query_id", "doc_id", "relevance"))
    rows = zip(*columns, strict=True)
    return {(query, doc): grade for query, doc, grade in rows if query not in shown}


def share_of(learned: Learned | None) -> float:
    """Return the judges' common error, as a share of the spread of a query's scores."""
    return SHARE if learned is None or learned.shared is None else learned.shared


def learn(fits: Iterable["Fit"], human: pa.Table | None, options: Any, learned: Learned) -> Learned:
    """Add what human grades tell of how far scores of votes lie from people."""
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
    if not shared.queries:
        note = "no query has human grades that order its documents: the usual error stands"
        return replace(learned, notes=(*learned.notes, note))
    note = (
        f"by human grades of {counted(shared.queries, 'query', 'queries')}, what judges get wrong "
        f"together is {shared.found:.2f} of the spread of a query's scores; {shared.value:.2f} is "
        f"taken ({SHARE:g} without human grades)"
    )
    return replace(learned, shared=shared.value, notes=(*learned.notes, note))


def learning(fit: Callable[..., "list[Fit]"]) -> dict[str, Any]:
    """Return what a protocol that scores by votes says of its learning, by its fit."""

    def learn_it(judgments: Sequence[Sequence[Any]], evidence: Evidence, options: Any) -> Learned:
        return learn(fit(judgments, options), evidence.human, options, Learned())

    return {"learn": learn_it, "learns": lambda options: options.human is not None}
