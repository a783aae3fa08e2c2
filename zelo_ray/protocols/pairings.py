"""Ask one judge about two answers, and give one verdict: for debate and its baselines.

Every judge sees every pair, in an order that is drawn, or in both; all of them in parallel.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from typing import Any, TypeVar

from pydantic import BaseModel

from zelo_ray.fitting.pairs import count_pairs, ring_pairs
from zelo_ray.fitting.scores import Fit, score_votes
from zelo_ray.protocols import Learned, Parallel, Protocol, Rounds, ScoreKind, shared_error, zelo
from zelo_ray.protocols.judgments import VERDICTS
from zelo_ray.protocols.options import PairingOptions
from zelo_ray.protocols.protocol import always
from zelo_ray.protocols.questions import Question, ask, cut_pool
from zelo_ray.protocols.texts import ShownDocuments, build_request
from zelo_ray.records import Failure, Judge, Pool, Request, Verdict, Vote

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pairing:
    """Comparison of two answers, A and B, by one judge in one order."""

    documents: ShownDocuments
    pair: tuple[str, str]
    """the ids of A and B"""
    judge: Judge
    swapped: bool

    @property
    def shown(self) -> tuple[str, str]:
        """Return the ids of Answer 1 and Answer 2."""
        return self._turn(self.pair)

    def _turn(self, two: tuple[T, T]) -> tuple[T, T]:
        """Swap two values between the orders of A and B and of Answer 1 and 2, if they differ."""
        return two[::-1] if self.swapped else two

    def request(
        self,
        prompt: str,
        verdict: type[BaseModel],
        *,
        answers: Sequence[int] = (0, 1),
        more: Mapping[str, str] = {},
        fields: Mapping[str, str | int] = {},
        repeat: int = 0,
    ) -> Request:
        """Render a prompt, with Answer 1 (0) and 2 (1) in some order.

        ``more`` is what judges said so far, by the name of its markers; ``fields`` is what else the
        prompt's file names, no text from outside.
        """
        first, second = (self.shown[place] for place in answers)
        return build_request(
            prompt,
            self.documents,
            self.judge,
            verdict,
            (first, second),
            texts={"first": self.documents[first].content},
            blocks={f"Answer {answers[1] + 1}": self.documents[second].content, **more},
            fields={"place": answers[0] + 1, **fields},
            written=tuple(more.values()),
            repeat=repeat,
        )

    def ask(self, requests: Sequence[Request]) -> Rounds:
        """Ask all at once, and return the answer to each, or its `Failure`."""
        about = self.documents.pool.query_id, self.pair
        return ask(Question(*about, r, r.response_model, lambda a, _: [a]) for r in requests)

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
        history = [self._turn(pair) for pair in scores]
        a, b = (mean_score(column) for column in zip(*history, strict=True))
        b = a if round(a - b, 9) == 0 else b
        return Verdict(
            query_id=self.documents.pool.query_id,
            doc_id_a=self.pair[0],
            doc_id_b=self.pair[1],
            method=method,
            judge=self.judge.name,
            winner="tie" if a == b else "model_a" if a > b else "model_b",
            average_scores=(a, b),
            rounds=len(history),
            score_history=tuple(history),
            arguments=tuple(self._turn(pair) for pair in arguments),
            feedback=tuple(feedback),
            reasoning=tuple(reasoning),
            swapped=self.swapped,
            flipped=False,
            keys=tuple(keys),
        )


Method = Callable[[Pairing], Rounds]
"""Judges one pairing; returns a list with its verdict, if there is one, and its failures."""


def pairing_protocol(
    name: str, method: Method, most_calls: Callable[[Any], int], **more: Any
) -> Protocol:
    """Return a protocol by which every judge judges every pair of the plan.

    ``most_calls`` is how many requests a judge takes for a pair in one order at most.
    """

    def rounds(pool: Pool, panel: Sequence[Judge], options: PairingOptions) -> Rounds:
        pool = cut_pool(pool, options)
        shown, parts = ShownDocuments(pool, options), list[Rounds]()
        place = {document.id: n for n, document in enumerate(pool.documents)}
        for pair in ring_pairs(options.seed, pool.query_id, place, options.cycles):
            a, b = sorted((pair.a, pair.b), key=place.__getitem__)
            parts += [_judge_pair(shown, (a, b), judge, method) for judge in panel]
        groups = (yield Parallel(parts)) if parts else []
        return [row for group in groups for row in group]

    def count(pool: Pool, panel: Sequence[Judge], options: PairingOptions) -> dict[str, int]:
        pairs = count_pairs(len(cut_pool(pool, options).documents), options.cycles)
        orders = 2 if options.both_orders else 1
        return {judge.name: pairs * orders * most_calls(options) for judge in panel}

    meaning = (
        f"{zelo.LOGITS.format('verdicts')}. They rest on who won which pair; what a judge scored "
        "stands in verdicts.parquet"
    )
    return Protocol(
        name=name,
        rounds=rounds,
        count=count,
        judges_are_independent=always,
        min_documents=2,
        judgments={"verdicts": VERDICTS},
        fit=fit,
        score=ScoreKind(unit="logits", explain=meaning),
        coverage_key=_coverage_key,
        **shared_error.learning(fit),
        **more,
    )


def _judge_pair(
    shown: ShownDocuments, pair: tuple[str, str], judge: Judge, method: Method
) -> Rounds:
    """Ask one judge about one pair, in the order drawn for them, or in both.

    A is the one that the pool names first; what is drawn does not depend on that. In both orders
    there is no verdict unless each gave one, and a tie if they differ; failures are kept.
    """
    (low, high), options, query_id = sorted(pair), shown.options, shown.pool.query_id
    turned = Random(f"{options.seed}:{query_id}:{low}:{high}:{judge.name}").random() < 0.5
    orders = (False, True) if options.both_orders else (turned != (pair[0] == high),)
    pairings = [Pairing(shown, pair, judge, swapped) for swapped in orders]
    outcomes = yield Parallel([method(pairing) for pairing in pairings])
    rows = [row for outcome in outcomes for row in outcome]
    verdicts = [row for row in rows if isinstance(row, Verdict)]
    if len(verdicts) < len(orders):
        return failures_in(rows)
    if len({verdict.winner for verdict in verdicts}) > 1:
        verdicts = [replace(verdict, winner="tie", flipped=True) for verdict in verdicts]
    return [*verdicts, *failures_in(rows)]


def _coverage_key(row: Verdict | Failure) -> tuple[str, ...]:
    """Return the pair and the judge, which count once for coverage, however often asked."""
    pair = (row.doc_id_a, row.doc_id_b) if isinstance(row, Verdict) else row.doc_ids
    return (*pair, row.judge)


def fit(
    judgments: Sequence[Sequence[Verdict]],
    options: PairingOptions,
    learned: Learned | None = None,
) -> list[Fit]:
    """Fit Bradley-Terry scores; a judge's verdicts on a pair in both orders are one vote."""
    votes = list[list[Vote]]()
    for verdicts in judgments:
        last = {(v.query_id, v.doc_id_a, v.doc_id_b, v.judge): v for v in verdicts}
        votes.append(
            [Vote(*ids, v.preference, v.swapped, "", v.keys[-1]) for ids, v in last.items()]
        )
    return score_votes(votes, options.prior_sd, shared_error.share_of(learned))


def failures_in(judgments: Sequence[Any]) -> list[Failure]:
    """Return the failures among judgments."""
    return [row for row in judgments if isinstance(row, Failure)]


def mean_score(scores: Sequence[float]) -> float:
    """Return the mean of scores as they are written, such as 7.1, which no float can hold."""
    return float(sum(Fraction(repr(score)) for score in scores) / len(scores))
