"""Ask one judge about two answers, and give one verdict: for debate and its baselines.

Every judge sees every pair, in an order that is drawn, or in both; all of them in parallel.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from typing import Any, TypeVar

from pydantic import BaseModel

from zelo_ray.fitting.bradley_terry import Fit, score_votes
from zelo_ray.fitting.pairs import count_pairs, ring_pairs
from zelo_ray.protocols import Learned, Parallel, Protocol, Rounds, ScoreKind, shared_error, zelo
from zelo_ray.protocols.judgments import VERDICTS
from zelo_ray.protocols.options import PairingOptions
from zelo_ray.protocols.protocol import always
from zelo_ray.protocols.questions import Question, ShownDocuments, ask, cut_pool
from zelo_ray.protocols.texts import build_request
from zelo_ray.records import Document, Failure, Judge, Pool, Request, Side, Verdict, Vote

NUMBER = r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
"""A score as a text may give it: 7 or 7.5, without sign or exponent."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pairing:
    """Comparison of two answers, A and B, by one judge in one order."""

    pool: Pool
    pair: tuple[Document, Document]
    judge: Judge
    swapped: bool
    options: PairingOptions

    @property
    def query_id(self) -> str:
        """Return the ID of the query."""
        return self.pool.query_id

    @property
    def shown(self) -> tuple[Document, Document]:
        """Return Answer 1 and Answer 2, as the judge sees them."""
        return self.swap_if_turned(self.pair)

    def swap_if_turned(self, two: tuple[T, T]) -> tuple[T, T]:
        """Swap two values between the orders of A and B and of Answer 1 and 2, if they differ."""
        return two[::-1] if self.swapped else two

    def request(
        self,
        prompt: str,
        verdict: type[BaseModel],
        *,
        answers: Sequence[int] = (0, 1),
        more: Mapping[str, str] | None = None,
        fields: Mapping[str, str | int] | None = None,
        repeat: int = 0,
    ) -> Request:
        """Render a prompt."""
        first, second = (self.shown[place] for place in answers)
        statements = more or {}
        return build_request(
            prompt,
            self.pool,
            self.judge,
            self.options,
            verdict,
            documents=(first, second),
            texts={"first": first.content},
            blocks={f"Answer {answers[1] + 1}": second.content, **statements},
            fields={"place": answers[0] + 1, **(fields or {})},
            written=tuple(statements.values()),
            repeat=repeat,
        )

    def ask(self, requests: Sequence[Request]) -> Rounds:
        """Ask all at once, and return the answer to each, or its `Failure`."""
        ids = [document.id for document in self.pair]
        return ask(
            Question(
                self.query_id, ids, request, request.response_model, lambda answer, _: [answer]
            )
            for request in requests
        )

    def verdict(
        self,
        method: str,
        scores: Sequence[tuple[float, float]],
        keys: Sequence[str],
        *,
        arguments: Sequence[tuple[str, str]] = (),
        feedback: Sequence[str] = (),
        reasoning: Sequence[str] = (),
    ) -> Verdict:
        """Build the verdict by the mean of scores; each entry is a round, for Answer 1 and 2.

        Means that differ by no more than rounding are a tie.
        """
        history = [self.swap_if_turned(pair) for pair in scores]
        a, b = (mean_score(column) for column in zip(*history, strict=True))
        b = a if round(a - b, 9) == 0 else b
        winner: Side = "tie" if a == b else "model_a" if a > b else "model_b"
        return Verdict(
            query_id=self.query_id,
            doc_id_a=self.pair[0].id,
            doc_id_b=self.pair[1].id,
            method=method,
            judge=self.judge.name,
            winner=winner,
            average_scores=(a, b),
            rounds=len(history),
            score_history=tuple(history),
            arguments=tuple(self.swap_if_turned(pair) for pair in arguments),
            feedback=tuple(feedback),
            reasoning=tuple(reasoning),
            swapped=self.swapped,
            flipped=False,
            keys=tuple(keys),
        )


Method = Callable[[Pairing, Any], Rounds]
"""Judges one pairing; returns a list with its verdict, if there is one, and its failures."""


def pairing_protocol(
    name: str, method: Method, most_calls: Callable[[Any], int], **more: Any
) -> Protocol:
    """Return a protocol by which every judge judges every pair of the plan."""

    def rounds(pool: Pool, panel: Sequence[Judge], options: PairingOptions) -> Rounds:
        pool = cut_pool(pool, options)
        shown = ShownDocuments(pool, options)
        order = {document.id: place for place, document in enumerate(pool.documents)}
        parts = [
            _orders(pool, (shown[a], shown[b]), judge, options, method)
            for pair in ring_pairs(options.seed, pool.query_id, order, options.cycles)
            for a, b in [sorted((pair.a, pair.b), key=order.__getitem__)]
            for judge in panel
        ]
        groups = (yield Parallel(parts)) if parts else []
        return [row for group in groups for row in group]

    def count(pool: Pool, panel: Sequence[Judge], options: PairingOptions) -> dict[str, int]:
        pairs = count_pairs(len(cut_pool(pool, options).documents), options.cycles)
        orders = 2 if options.both_orders else 1
        return {judge.name: pairs * orders * most_calls(options) for judge in panel}

    return Protocol(
        name=name,
        rounds=rounds,
        count=count,
        title="Verdicts on the answers to",
        judges_are_independent=always,
        min_documents=2,
        judgments={"verdicts": VERDICTS},
        fit=fit,
        score=ScoreKind(
            unit="logits",
            explain=lambda _: (
                f"{zelo.LOGITS.format('verdicts')}. They rest on who won which pair; what a judge "
                "scored stands in verdicts.parquet"
            ),
        ),
        coverage_key=coverage_key,
        **shared_error.learning(fit),
        **more,
    )


def coverage_key(row: Verdict | Failure) -> tuple[str, ...]:
    """Return the pair and the judge, which count once for coverage, however often asked."""
    pair = (row.doc_id_a, row.doc_id_b) if isinstance(row, Verdict) else row.doc_ids
    return (*pair, row.judge)


def fit(
    judgments: Sequence[Sequence[Verdict]],
    options: PairingOptions,
    learned: Learned | None = None,
) -> list[Fit]:
    """Fit Bradley-Terry scores; a judge's verdicts on a pair in both orders are one vote."""
    votes = [_votes(verdicts) for verdicts in judgments]
    return score_votes(votes, options.prior_sd, shared_error.shared_error(learned))


def failures_in(judgments: Sequence[Any]) -> list[Failure]:
    """Return the failures among the replies."""
    return [row for row in judgments if isinstance(row, Failure)]


def free_judge_scores(lean: float, low: int, high: int) -> tuple[float, float]:
    """Return a free judge's scores of Answer 1 and Answer 2, on a scale, from its preference."""
    middle, more = (low + high) / 2, (high - low) / 4 * lean
    return round(middle - more, 2), round(middle + more, 2)


def mean_score(scores: Sequence[float]) -> float:
    """Return the mean of scores as they are written, such as 7.1, which no float can hold."""
    return float(sum(Fraction(repr(score)) for score in scores) / len(scores))


def score_text(score: float) -> str:
    """Return a score as text in the form of `NUMBER`."""
    return repr(float(score)).removesuffix(".0")


def _orders(
    pool: Pool,
    pair: tuple[Document, Document],
    judge: Judge,
    options: PairingOptions,
    method: Method,
) -> Rounds:
    """Ask one judge about one pair, in the order drawn for them, or in both.

    A is the one that the pool names first; what is drawn does not depend on that.
    """
    low, high = sorted(document.id for document in pair)
    turned = Random(f"{options.seed}:{pool.query_id}:{low}:{high}:{judge.name}").random() < 0.5
    orders = (False, True) if options.both_orders else (turned != (pair[0].id == high),)
    pairings = [Pairing(pool, pair, judge, swapped, options) for swapped in orders]
    outcomes = yield Parallel([method(pairing, options) for pairing in pairings])
    return _combine_orders(outcomes)


def _combine_orders(judgments: Sequence[Sequence[Verdict | Failure]]) -> list[Verdict | Failure]:
    """Combine all orders: no verdict unless each order gave one, and a tie if they differ.

    Failures are kept.
    """
    verdicts = [row for rows in judgments for row in rows if isinstance(row, Verdict)]
    failures = [failure for rows in judgments for failure in failures_in(rows)]
    if len(verdicts) < len(judgments):
        return [*failures]
    if len({verdict.winner for verdict in verdicts}) > 1:
        verdicts = [replace(verdict, winner="tie", flipped=True) for verdict in verdicts]
    return [*verdicts, *failures]


def _votes(verdicts: Sequence[Verdict]) -> list[Vote]:
    """Return one vote for each judge and pair."""
    votes = {
        (v.doc_id_a, v.doc_id_b, v.judge): Vote(
            query_id=v.query_id,
            doc_id_a=v.doc_id_a,
            doc_id_b=v.doc_id_b,
            judge=v.judge,
            preference=v.preference,
            swapped=v.swapped,
            reasoning="",
            key=v.keys[-1],
        )
        for v in verdicts
    }
    return list(votes.values())
