"""The pairwise protocol: battles between documents, Bradley-Terry scores.

Random rings decide which pairs meet; every judge votes once on each pair, or they take turns, and a
judge sees a pair in an order of its own. Where it is asked again, it sees the other. One round.

With so many calls a document (``--calls-per-document``), judges grade every document first, as far
as the calls reach beside a ring of battles; the others are battles, by judges in turn. Grades by
all judges hold where judges are of unequal quality, which turns do not; battles tell apart
documents of one grade (docs/protocols.md has the figures).
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from math import isfinite
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field

from zelo_ray.files.tables import table_of
from zelo_ray.files.wording import counted
from zelo_ray.fitting.battles import battles_of
from zelo_ray.fitting.bradley_terry import Fit, score_votes
from zelo_ray.fitting.grade_worth import (
    GradeWorth,
    learn_grade_worth,
    mark_documents,
    score_votes_and_grades,
)
from zelo_ray.fitting.pairs import Pair, count_pairs, first_turn, ring_pairs
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Learned, Protocol, Rounds, ScoreKind, shared_error, token_votes
from zelo_ray.protocols.grading import GradeRequest, Grading, grade_requests
from zelo_ray.protocols.judgments import GRADES, VOTES
from zelo_ray.protocols.options import ZeloOptions
from zelo_ray.protocols.protocol import plain_headline
from zelo_ray.protocols.texts import build_failure, build_request, read_verdict, shown_document
from zelo_ray.records import (
    AbsoluteScore,
    AnyRequest,
    Document,
    Failure,
    Grade,
    Judge,
    PlannedRequest,
    Pool,
    Reply,
    Score,
    SyntheticFeatures,
    Vote,
)

PROMPT = ZeloOptions.template_form.prompt
_QUERIES, _GRADES, _FEWEST = 240, 12_000, 8
"""Queries that tell what grades are worth, at most; fewer of many documents."""
LOGITS = (
    "A score is in logits, centred on the query's judged documents: a document one logit above "
    "another wins 73% of their {}. ± is the standard error if the same judges answered again; the "
    "error about people is larger, since judges share mistakes. Scores of different queries share "
    "no zero"
)
"""What a score of Bradley-Terry means, by the judgments that it rests on."""
_OF_TOKENS = (
    "A vote of one token is a share of a win: the probability of the letter. So scores lie closer "
    "together than by whole votes where a judge is unsure, and ± is that of whole votes: too large"
)


class Preference(BaseModel):
    """A judge's verdict on a pair."""

    model_config = ConfigDict(strict=True, extra="forbid")

    reasoning: str = Field(description="considerations on A, then on B, then the decision")
    preference: float = Field(
        ge=-1,
        le=1,
        allow_inf_nan=False,
        description="-1.0: A more relevant ... 1.0: B more relevant",
    )

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge."""
        return cls(reasoning=seen.words, preference=seen.preference)


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """A request to one judge for a battle, which can read its reply."""

    query_id: str
    pair: tuple[str, str]
    request: AnyRequest
    response_model: type[Preference | token_votes.LetterVote] = Preference

    def read(self, reply: Reply) -> list[Vote | Failure]:
        """Turn a reply into a vote, or into a failure."""
        judge, verdict = self.request.judge.name, read_verdict(reply, self.response_model)
        if isinstance(verdict, str):
            return [build_failure(self.query_id, self.pair, judge, reply, verdict)]
        swapped = self.request.swapped
        preference = -verdict.preference if swapped else verdict.preference
        about = (self.query_id, *self.pair, judge)
        return [Vote(*about, preference, swapped, verdict.reasoning, reply.key)]


def rounds(pool: Pool, panel: Sequence[Judge], options: ZeloOptions) -> Rounds:
    """Let judges grade documents, if there are calls for it, and vote on the pairs of the plan."""
    shown = shown_documents(pool, options)
    questions: list[GradeRequest | VoteRequest] = [
        question
        for document, judge in _graders(pool, panel, options)
        for question in grade_requests(pool, document, judge, options)
    ]
    questions += [
        vote_request(pool, (shown[pair.a], shown[pair.b]), judge, options, repeat)
        for pair, judge in _battles(pool, panel, options)
        for repeat in range(options.repeats)
    ]
    if not questions:
        return []
    replies = yield [question.request for question in questions]
    pairs = zip(questions, replies, strict=True)
    return [row for question, reply in pairs for row in question.read(reply)]


def count(pool: Pool, panel: Sequence[Judge], options: ZeloOptions) -> dict[str, int]:
    """Count one request for each grade, and for each vote and repeat."""
    doc_ids = [document.id for document in pool.documents[: options.document_limit]]
    if options.calls_per_document is None and options.votes == "all":
        pairs = count_pairs(len(doc_ids), options.cycles)
        return {judge.name: pairs * options.repeats for judge in panel}
    counts = Counter(judge.name for _, judge in _graders(pool, panel, options))
    for _, judge in _battles(pool, panel, options):
        counts[judge.name] += options.repeats
    return {judge.name: counts[judge.name] for judge in panel}


def _battles(
    pool: Pool, panel: Sequence[Judge], options: ZeloOptions
) -> Iterator[tuple[Pair, Judge]]:
    """Yield who votes on which pair: all judges, or one in turn where calls are counted."""
    doc_ids = [document.id for document in pool.documents[: options.document_limit]]
    _, rings = options.first_round(len(panel))
    in_turn = options.votes == "one" or options.calls_per_document is not None
    for pair in ring_pairs(options.seed, pool.query_id, doc_ids, rings):
        for judge in [judge_in_turn(panel, pair.turn)] if in_turn else panel:
            yield pair, judge


def _graders(
    pool: Pool, panel: Sequence[Judge], options: ZeloOptions
) -> Iterator[tuple[Document, Judge]]:
    """Yield who grades which document: the judges after those of its pairs on the rings.

    Documents of one text have the same judges, so that their answers are the same.
    """
    documents = pool.documents[: options.document_limit]
    grades, rings = options.first_round(len(panel))
    ids: dict[str, str] = {}
    for document in documents:
        ids[document.content] = min(document.id, ids.get(document.content, document.id))
    for document in documents if len(documents) >= PROTOCOL.min_documents else ():
        first = first_turn(options.seed, pool.query_id, ids[document.content]) + rings
        for turn in range(grades):
            yield document, judge_in_turn(panel, first + turn)


def judge_in_turn(panel: Sequence[Judge], turn: int) -> Judge:
    """Return the judge whose turn it is, whatever the order of the panel."""
    return sorted(panel, key=lambda judge: judge.name)[turn % len(panel)]


def shown_documents(pool: Pool, options: AnnotateOptions) -> dict[str, Document]:
    """Return the documents that take part, as judges see them, by ID."""
    return {
        document.id: shown_document(document, pool, options)
        for document in pool.documents[: options.document_limit]
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedWorth(Learned):
    """What the grades of a run's judges are worth, beside the votes."""

    worth: GradeWorth


def learn(tables: Mapping[str, pa.Table], options: ZeloOptions) -> Learned:
    """Learn what grades are worth, from some queries of a run, and how far judges err together."""
    if options.calls_per_document is None:
        return shared_error.learn(tables, options)
    names = {name for table in tables.values() for name in _judges(table)}
    grades, rings = options.first_round(len(names))  # a judge that answered nothing was asked, too
    several = " by different judges" if grades > 1 else ""
    note = (
        f"of {options.calls_per_document} calls a document, {counted(grades, 'grade')}{several} "
        f"and {counted(rings, 'ring')} of battles were asked, as far as a query has so many pairs"
    )
    tables = {"grades": table_of([], Grade), **tables}  # without one there is no table
    judges = sorted(pc.unique(tables["grades"]["judge"]).to_pylist())
    votes, marks = _some(tables, tables["votes"]["query_id"])
    battles = battles_of(votes, [[grade.doc_id for grade in pool] for pool in marks])
    worth = learn_grade_worth(battles, mark_documents(battles, marks, judges), judges)
    learned = LearnedWorth(worth=worth, notes=(note,))
    human = tables.get("human")
    if human is None:
        return learned
    judged = pc.is_in(human["query_id"], pc.unique(tables["grades"]["query_id"]))
    fits = _fit_with_grades(*_some(tables, human.filter(judged)["query_id"]), options, learned)
    scores = table_of([score for fitted in fits for score in fitted.scores], AbsoluteScore)
    shared = shared_error.learn({"scores": scores, "human": human}, options)
    return replace(learned, shared=shared.shared, notes=(*learned.notes, *shared.notes))


def _judges(table: pa.Table) -> list[str]:
    return pc.unique(table["judge"]).to_pylist() if "judge" in table.column_names else []


def _some(
    tables: Mapping[str, pa.Table], queries: pa.ChunkedArray
) -> tuple[list[list[Vote]], list[list[Grade]]]:
    """Return votes and grades of enough queries to learn from, chosen by hashes of their ids."""
    ids = pc.unique(queries).to_pylist()
    drawn = sorted(ids, key=lambda query_id: (first_turn(0, query_id, ""), query_id))[:_QUERIES]
    rows = {
        row["values"]: row["counts"]
        for row in tables["grades"]["query_id"].value_counts().to_pylist()
    }
    sums = accumulate(rows.get(query_id, 0) for query_id in drawn)
    chosen = [
        query_id
        for n, (query_id, sum_) in enumerate(zip(drawn, sums, strict=True))
        if n < _FEWEST or sum_ <= _GRADES
    ]
    return _by_query(tables["votes"], chosen, Vote), _by_query(tables["grades"], chosen, Grade)


def _by_query(table: pa.Table, queries: Sequence[str], record: type[Any]) -> list[list[Any]]:
    """Return some queries' rows as records; texts that no fit needs are left empty."""
    empty = {field.name: () if "facets" in field.name else "" for field in fields(record)}
    rows: dict[str, list[Any]] = {query_id: [] for query_id in queries}
    chosen = pc.is_in(table["query_id"], pa.array(queries, pa.string()))
    for row in table.filter(chosen).to_pylist():
        rows[row["query_id"]].append(record(**{**empty, **row}))
    return list(rows.values())


def fit(
    judgments: Sequence[Sequence[Vote | Grade]],
    options: ZeloOptions,
    learned: Learned | None = None,
) -> list[Fit]:
    """Fit Bradley-Terry scores, many queries at once; with grades, once their worth is learned.

    A vote of one token is a share of a win, by its probabilities; any other is a win by its sign.
    """
    votes = [[row for row in pool if isinstance(row, Vote)] for pool in judgments]
    if options.calls_per_document is None:
        by_size = options.answer == "token"
        share = shared_error.shared_error(learned)
        return score_votes(votes, options.prior_sd, share, by_size=by_size)
    if not isinstance(learned, LearnedWorth):
        return [Fit() for _ in judgments]
    grades = [[row for row in pool if isinstance(row, Grade)] for pool in judgments]
    return _fit_with_grades(votes, grades, options, learned)


def _fit_with_grades(
    votes: Sequence[Sequence[Vote]],
    grades: Sequence[Sequence[Grade]],
    options: ZeloOptions,
    learned: LearnedWorth,
) -> list[Fit]:
    share = shared_error.shared_error(learned)
    return score_votes_and_grades(votes, grades, learned.worth, options.prior_sd, share)


def _explain(options: Mapping[str, Any]) -> str:
    """Return the meaning of a score, by the options of a run."""
    meaning = LOGITS.format("battles")
    if options.get("calls_per_document"):
        return (
            f"{meaning}; absolute scores do: each is the score, shifted by what the grades of each "
            "query tell of where it stands"
        )
    return f"{meaning}. {_OF_TOKENS}" if options.get("answer") == "token" else meaning


def _headline(score: Score, documents: int, noun: str) -> str:
    headline = plain_headline(score, documents, noun)
    if not isinstance(score, AbsoluteScore):
        return headline
    if not isfinite(score.absolute_score):
        return f"{headline}; no absolute score: its query has no grades"
    return f"{headline}; absolute {score.absolute_score:+.2f} ± {score.absolute_error:.2f}"


def _score_kind(options: ZeloOptions) -> ScoreKind:
    if options.calls_per_document is None:
        return _SCORE
    return replace(_SCORE, record=AbsoluteScore, shown=("score", "absolute_score"))


def _learned_from(options: ZeloOptions) -> tuple[str, ...]:
    if options.calls_per_document is not None:
        return ("votes", "grades", "failures")
    return shared_error.learned_from(options)


def vote_request(
    pool: Pool,
    pair: tuple[Document, Document],
    judge: Judge,
    options: AnnotateOptions,
    repeat: int = 0,
) -> VoteRequest:
    """Build one judge's battle of two documents, given as shown, in ascending order of IDs.

    The order in which the judge sees them is drawn; every other repeat has the other one.
    """
    ids = (pair[0].id, pair[1].id)
    in_a_token = getattr(options, "answer", "reasoned") == "token"
    response_model = token_votes.LetterVote if in_a_token else Preference
    if planned := PlannedRequest.find(pool, judge, *ids, repeat):
        return VoteRequest(pool.query_id, ids, planned, response_model)
    order = random.Random(f"{options.seed}:{pool.query_id}:{ids[0]}:{ids[1]}:{judge.name}")
    swapped = (order.random() < 0.5) != (repeat % 2 == 1)
    first, second = (pair[1], pair[0]) if swapped else pair
    request = build_request(
        token_votes.PROMPT if in_a_token else PROMPT,
        pool,
        judge,
        options,
        response_model,
        documents=(first, second),
        texts={"a": first.content, "b": second.content},
        repeat=repeat // 2,  # two repeats show the two orders; after them the same prompts return
        item=(*ids, repeat),
        swapped=swapped,
        choices=token_votes.LETTERS if in_a_token else (),
    )
    return VoteRequest(pool.query_id, ids, request, response_model)


_SCORE = ScoreKind(unit="logits", explain=_explain, headline=_headline)
PROTOCOL = Protocol(
    name="zelo",
    rounds=rounds,
    count=count,
    response_models=(Preference, token_votes.LetterVote, Grading),
    min_documents=2,
    judgments={"votes": VOTES, "grades": replace(GRADES, optional=True)},
    fit=fit,
    score=_SCORE,
    score_under=_score_kind,
    options=ZeloOptions,
    judges_are_independent=lambda options: bool(
        options.votes == "all" and options.calls_per_document is None
    ),
    learn=learn,
    learned_from=_learned_from,
)
