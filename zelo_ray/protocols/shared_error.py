"""Learn the judges' common errors from human grades, for protocols that score by votes.

Without human grades nothing is learned, and a run takes one pass.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.files.wording import counted
from zelo_ray.fitting.truth_error import SHARE, SharedError, learn_share
from zelo_ray.protocols.anchors import example_query_ids
from zelo_ray.protocols.protocol import Learned


def has_human_grades(options: Any) -> bool:
    """Return whether there are human grades to learn from."""
    return getattr(options, "human", None) is not None


def learned_from(options: Any) -> tuple[str, ...]:
    """Return the tables to learn from: the scores, where there are human grades."""
    return ("scores",) if has_human_grades(options) else ()


def shown_example_queries(options: Mapping[str, Any]) -> frozenset[str]:
    """Return the ids of queries that judges saw in worked examples, by the options of a run.

    Battles alone and grades by criteria show none.

    Raises:
        OptionError: the examples cannot be read.
    """
    battles_alone = "calls_per_document" in options and options["calls_per_document"] is None
    if battles_alone or options.get("criteria") or not options.get("anchors"):
        return frozenset()
    return example_query_ids(str(options["anchors"]))


def without_example_queries(people: pa.Table, options: Any) -> pa.Table:
    """Return human grades without those of a query used in the judges' worked examples."""
    shown = shown_example_queries(dict(options))
    return people.filter(pc.invert(pc.is_in(people["query_id"], pa.array([*shown], pa.string()))))


def shared_error(learned: Learned | None) -> float:
    """Return the judges' common error, as a share of the spread of a query's scores."""
    return SHARE if learned is None or learned.shared is None else learned.shared


def learn(tables: Mapping[str, pa.Table], options: Any) -> Learned:
    """Learn from human grades how far scores of votes lie from people.

    Args:
        tables: ``scores``, with query_id, doc_id, score and std_error; perhaps ``human``, with
            query_id, doc_id and relevance.
        options: of the job.
    """
    if "human" not in tables:
        return Learned()
    human = without_example_queries(tables["human"], options)
    ids = ["query_id", "doc_id"]
    joined = (
        tables["scores"]
        .select([*ids, "score", "std_error"])
        .join(human.select([*ids, "relevance"]), ids, use_threads=False)
        .sort_by([(name, "ascending") for name in ids])
    )
    query = pc.rank(joined["query_id"], tiebreaker="dense").to_numpy().astype(np.int64) - 1
    names = ("score", "std_error", "relevance")
    columns = (pc.fill_null(joined[name], np.nan).to_numpy() for name in names)
    shared = learn_share(query, *columns)
    return Learned(
        shared=shared.value if shared.queries else None, notes=(_describe_share(shared),)
    )


LEARNING: Final[dict[str, Any]] = {"learn": learn, "learned_from": learned_from}
"""What a protocol that scores by votes says of this."""


def _describe_share(shared: SharedError) -> str:
    if not shared.queries:
        return "no query has human grades that order its documents: the usual error stands"
    queries = counted(shared.queries, "query", "queries")
    return (
        f"by human grades of {queries}, what judges get wrong together is {shared.found:.2f} of "
        f"the spread of a query's scores; {shared.value:.2f} is taken ({SHARE:g} without human "
        "grades)"
    )
