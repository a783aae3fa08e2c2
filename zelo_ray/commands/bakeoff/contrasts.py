"""Find the queries where two rankers differ most, with their documents side by side."""

from collections.abc import Mapping
from textwrap import shorten
from typing import Any

import numpy as np

from zelo_ray.commands.bakeoff.outcome import BakeoffOutcome
from zelo_ray.records import Pool

_RIVALS, _CONTRASTS, _SHOWN, _SNIPPET = 5, 5, 10, 280


def build_contrasts(outcome: BakeoffOutcome, pools: Mapping[str, Pool]) -> list[dict[str, Any]]:
    """Return the queries where the best ranker and its rivals differ most, with their documents.

    Args:
        outcome: of the bake-off.
        pools: by query id, those of the queries that `contrasting_queries` names, if any.
    """
    records = []
    for run_a, run_b, q in _find_contrasts(outcome):
        query_id = outcome.truth.query_ids[q]
        pool = pools.get(query_id)
        texts = {d.id: d.content for d in pool.documents} if pool else {}
        sides = [outcome.rankings[run].documents(q) for run in (run_a, run_b)]
        places = [{doc_id: n for n, doc_id in enumerate(side, start=1)} for side in sides]
        shown = dict.fromkeys(doc_id for side in sides for doc_id in side[:_SHOWN])
        relevance = outcome.truth.labels(q)
        values = outcome.values[outcome.leading]
        records.append(
            {
                "query_id": query_id,
                "query": pool.query if pool else "",
                "run_a": run_a,
                "run_b": run_b,
                "value_a": float(values[outcome.ranker_names.index(run_a), q]),
                "value_b": float(values[outcome.ranker_names.index(run_b), q]),
                "documents": [
                    {
                        "doc_id": doc_id,
                        "text": shorten(texts.get(doc_id, ""), _SNIPPET, placeholder=" …"),
                        "relevance": relevance.get(doc_id),
                        "rank_a": places[0].get(doc_id),
                        "rank_b": places[1].get(doc_id),
                    }
                    for doc_id in shown
                ],
            }
        )
    return records


def contrasting_queries(outcome: BakeoffOutcome) -> set[str]:
    """Return the ids of the queries that `contrasts` shows."""
    return {outcome.truth.query_ids[q] for _, _, q in _find_contrasts(outcome)}


def _find_contrasts(outcome: BakeoffOutcome) -> list[tuple[str, str, int]]:
    best, *others = outcome.leaderboard
    values, triples = outcome.values[outcome.leading], list[tuple[str, str, int]]()
    for rival in others[:_RIVALS]:
        a, b = outcome.ranker_names.index(best), outcome.ranker_names.index(rival)
        answered = outcome.answered[a] & outcome.answered[b]
        apart = np.where(answered, np.abs(np.nan_to_num(values[a] - values[b])), 0.0)
        widest = np.argsort(-apart, kind="stable")[:_CONTRASTS]
        triples.extend((best, rival, int(q)) for q in widest if apart[q] > 0)
    return triples
