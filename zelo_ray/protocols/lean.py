"""The lean protocol: the labels of many battles for a third of the calls.

Every document is graded once and meets others on two rings; judges take turns in both. Then some
more battles are asked where the top of the ranking is unsure (`zelo_ray.protocols.lean_plan`). A
few pairs are audits: all judges vote on them in both orders, which tells what they get wrong
together. How each judge answers is learned from all of a run at once, and grades put the scores of
all queries on one scale. Two or three rounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.files.tables import table_of
from zelo_ray.fitting import panel as judged
from zelo_ray.fitting.battles import battles_of, merge_copies, with_copies
from zelo_ray.fitting.bradley_terry import Fit
from zelo_ray.fitting.pairs import first_turn
from zelo_ray.protocols import Learned, Protocol, graded, shared_error, zelo
from zelo_ray.protocols.judgments import GRADES, VOTES
from zelo_ray.protocols.lean_plan import count, given_model, rounds
from zelo_ray.protocols.options import ANSWER, REASONED, LeanOptions
from zelo_ray.protocols.zelo_graded import absolute_kind
from zelo_ray.records import AbsoluteScore, Grade, Vote

_QUERIES = 240  # that tell how judges answer


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedJudges(Learned):
    """The model of the judges, as learned from all judgments of a run."""

    model: judged.PanelModel


def learn(tables: Mapping[str, pa.Table], options: LeanOptions) -> LearnedJudges:
    """Learn how the judges of a run answer, from some of its queries; or take what is given.

    Args:
        tables: ``votes`` and ``grades`` of all queries.
        options: of the job.
    """
    names = sorted(pc.unique(tables["votes"]["judge"]).to_pylist())
    if options.judges_from is not None:
        model = given_model(options, names)
    else:
        votes, grades = _some(tables, tables["votes"]["query_id"])
        battles = battles_of(votes, [[grade.doc_id for grade in pool] for pool in grades])
        model = judged.learn(battles, judged.grades_of(battles, grades)).for_judges(names)
    kept = model.to_json()
    if options.answer != REASONED:
        kept[ANSWER] = options.answer
    knowledge = LearnedJudges(model=model, notes=model.notes, kept=kept)
    human = tables.get("human")
    if human is None:
        return knowledge
    judged_here = pc.is_in(human["query_id"], pc.unique(tables["grades"]["query_id"]))
    votes, grades = _some(tables, human.filter(judged_here)["query_id"])
    fits = _fitted(votes, grades, knowledge)
    scores = table_of([score for fitted in fits for score in fitted.scores], AbsoluteScore)
    shared = shared_error.learn({"scores": scores, "human": human}, options)
    return replace(knowledge, shared=shared.shared, notes=(*knowledge.notes, *shared.notes))


def _some(
    tables: Mapping[str, pa.Table], queries: pa.ChunkedArray
) -> tuple[list[list[Vote]], list[list[Grade]]]:
    """Return votes and grades of enough queries to measure judges, chosen by hashes of IDs."""
    ids = pc.unique(queries).to_pylist()
    chosen = sorted(ids, key=lambda query_id: (first_turn(0, query_id, ""), query_id))[:_QUERIES]
    return _by_query(tables["votes"], chosen, Vote), _by_query(tables["grades"], chosen, Grade)


def _by_query(table: pa.Table, queries: Sequence[str], record: type[Any]) -> list[list[Any]]:
    """Return some queries' rows as records; texts that no model needs are left empty."""
    empty = {field.name: () if "facets" in field.name else "" for field in fields(record)}
    rows: dict[str, list[Any]] = {query_id: [] for query_id in queries}
    chosen = pc.is_in(table["query_id"], pa.array(queries, pa.string()))
    for row in table.filter(chosen).to_pylist():
        rows[row["query_id"]].append(record(**{**empty, **row}))
    return list(rows.values())


def fit(
    judgments: Sequence[Sequence[Vote | Grade]],
    options: LeanOptions,
    learned: LearnedJudges | None = None,
) -> list[Fit]:
    """Score documents by the learned model of the judges; no scores before it is learned."""
    del options
    if learned is None:
        return [Fit() for _ in judgments]
    votes = [[row for row in pool if isinstance(row, Vote)] for pool in judgments]
    grades = [[row for row in pool if isinstance(row, Grade)] for pool in judgments]
    return _fitted(votes, grades, learned)


def _fitted(
    votes: Sequence[Sequence[Vote]], grades: Sequence[Sequence[Grade]], judges: LearnedJudges
) -> list[Fit]:
    merged, copies = zip(*map(merge_copies, votes), strict=True) if votes else ((), ())
    votes, grades = merged, [*map(_merge_grades, grades, copies)]
    battles = battles_of(votes, [[grade.doc_id for grade in pool] for pool in grades])
    pools: list[list[Vote | Grade]] = [[*v, *g] for v, g in zip(votes, grades, strict=True)]
    ids = [next((row.query_id for row in pool), "") for pool in pools]
    marks = judged.grades_of(battles, grades)
    model = judges.model.for_judges(battles.judges)
    fits = judged.fit(battles, marks, model, ids, shared_error.shared_error(judges))
    return [
        replace(fitted, scores=with_copies(fitted.scores, of_query))
        for fitted, of_query in zip(fits, copies, strict=True)
    ]


def _merge_grades(grades: Sequence[Grade], copies: Mapping[str, str]) -> list[Grade]:
    """Return a query's grades with those of copies as of one document, each answer once."""
    if not copies:
        return [*grades]
    renamed = [replace(grade, doc_id=copies.get(grade.doc_id, grade.doc_id)) for grade in grades]
    return [*{(grade.key, grade.doc_id): grade for grade in renamed}.values()]


PROTOCOL = Protocol(
    name="lean",
    rounds=rounds,
    count=count,
    response_models=(*zelo.PROTOCOL.response_models, *graded.PROTOCOL.response_models),
    max_rounds=None,  # one, and those at the top
    min_documents=1,
    judgments={"votes": VOTES, "grades": GRADES},
    fit=fit,
    score=absolute_kind(lambda _: "the grades"),
    options=LeanOptions,
    learn=learn,
    fits_from=("votes", "grades"),
)
