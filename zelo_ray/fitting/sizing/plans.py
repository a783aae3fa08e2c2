"""Simulate plans of calls: the cost of each, and the quality of its scores."""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np

from zelo_ray.fitting.battles import Battles, Bools, Floats, Ints
from zelo_ray.fitting.bradley_terry import score_battles
from zelo_ray.fitting.pairs import audit_share, ring_pairs
from zelo_ray.fitting.panel.columns import Grades
from zelo_ray.fitting.panel.model import PanelModel
from zelo_ray.fitting.panel.next_round import choose_pairs
from zelo_ray.fitting.panel.posterior import PanelPosterior, posteriors
from zelo_ray.fitting.sizing.synthetic import SyntheticAnswers

DEPTH = 10
RINGS = 2
"""The fewest rings of a lean plan."""
AUDITS = 0.02
"""Share of a lean plan's pairs that all judges see in both orders, if there are calls for it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of the questions to ask on a query.

    ``zelo``: ``much`` cycles, with all judges or one of them voting on a pair. ``lean``: ``much``
    calls per document, one of which is a grade. The others go to rings on which judges take turns,
    with audits of some pairs, and the rest to a round of pairs at the top of the ranking.
    """

    protocol: Literal["zelo", "lean"]
    amount: int
    """cycles for zelo; calls per document for lean"""
    votes: Literal["all", "one"] = "one"

    @property
    def rings(self) -> int:
        """Count the rings, each of which gives a document two battles."""
        return self.amount if self.protocol == "zelo" else max(RINGS, self.amount - 2)

    def __str__(self) -> str:
        if self.protocol == "lean":
            return f"lean --calls-per-document {self.amount} --rings {self.rings}"
        return f"zelo --cycles {self.amount} --votes {self.votes}"


@dataclass(frozen=True, slots=True)
class PlanSize:
    """The results of a plan, as means over queries."""

    plan: str
    calls: float
    """per query"""
    calls_a_document: float
    loss: float
    """1 - nDCG@10 against the truth, gains being exp(score)"""
    std_error: float
    """mean standard error that the fit reports, in logits"""
    rmse: float
    """of its scores from those of all pairs judged by all judges, in logits"""
    largest: float
    """the largest such distance of a query"""
    tau: float
    """Kendall's tau with the order of those scores"""


@dataclass(frozen=True, slots=True)
class _FittedScores:
    scores: Floats
    errors: Floats
    covariances: Floats
    """of the scores; empty for a Bradley-Terry fit"""


class PlanSimulator:
    """Simulate plans on the same answers, and compare their scores with those of all pairs."""

    def __init__(self, imagined: SyntheticAnswers, model: PanelModel) -> None:
        self.answers, self.model = imagined, model
        self.queries: int = imagined.truth.shape[0]
        self.documents: int = imagined.truth.shape[1]

    @property
    def most_cycles(self) -> int:
        """Return the number of cycles that cover all pairs."""
        return max(1, self.documents // 2)

    def simulate(self, plan: Plan) -> PlanSize:
        """Simulate one plan."""
        if plan.protocol == "zelo":
            asks = self._rings(plan.rings, everybody=plan.votes == "all")
            fit, reference, calls = (
                _fit_counts(self.answers.answer(asks)),
                self._reference_by_counts,
                len(asks),
            )
        else:
            asks = self._lean(plan)
            fit, reference = self._fit_panel(self.answers.answer(asks)), self._reference_by_model
            calls = len(asks) + self.answers.truth.size
        apart = np.abs(fit.scores - reference.scores)
        return PlanSize(
            plan=str(plan),
            calls=calls / self.queries,
            calls_a_document=calls / self.answers.truth.size,
            loss=float(1 - ndcg(fit.scores, self.answers.truth).mean()),
            std_error=float(fit.errors.mean()),
            rmse=float(np.sqrt((apart**2).mean())),
            largest=float(apart.max(axis=1).mean()),
            tau=float(tau(fit.scores, reference.scores).mean()),
        )

    @cached_property
    def _reference_by_counts(self) -> _FittedScores:
        return _fit_counts(self._every_vote)

    @cached_property
    def _reference_by_model(self) -> _FittedScores:
        return self._fit_panel(self._every_vote)

    @cached_property
    def _every_vote(self) -> Battles:
        """Return the votes of all judges on all pairs, with the order alternating."""
        judges = range(len(self.answers.judges))
        pairs = list(combinations(range(self.documents), 2))
        rows = [
            (*((i, j) if (place + judge) % 2 else (j, i)), judge)
            for place, (i, j) in enumerate(pairs)
            for judge in judges
        ]
        return self.answers.answer(_for_each(self.queries, np.array(rows, dtype=np.int64)))

    def _rings(self, cycles: int, *, everybody: bool, audits: float = 0.0) -> Ints:
        judges = len(self.answers.judges)
        rows: list[tuple[int, int, int, int]] = []
        for query in range(self.queries):
            for pair in ring_pairs(0, str(query), self.answers.doc_ids, cycles):
                i, j = int(pair.a), int(pair.b)
                if pair.draw < audits:
                    orders = ((i, j), (j, i))
                    rows += [(query, *shown, judge) for judge in range(judges) for shown in orders]
                    continue
                for judge in range(judges) if everybody else [pair.turn % judges]:
                    turned = (int(pair.draw * 2**20) + judge) % 2
                    rows.append((query, *((j, i) if turned else (i, j)), judge))
        return np.array(rows, dtype=np.int64).reshape(-1, 4)

    def _lean(self, plan: Plan) -> Ints:
        """Return the questions on rings, then on pairs at the top with the remaining calls."""
        judges = len(self.answers.judges)
        audits = audit_share(AUDITS, plan.rings, judges, plan.amount - 1 - plan.rings)
        asks = self._rings(plan.rings, everybody=False, audits=audits)
        votes = self.answers.answer(asks)
        spent = np.bincount(asks[:, 0], minlength=self.queries) + self.documents
        room = plan.amount * self.documents - spent
        if plan.rings >= self.most_cycles or room.max() <= 0:
            return asks
        fit = self._fit_panel(votes)
        more = [
            (query, *((j, i) if place % 2 else (i, j)), (query + place) % judges)
            for query in np.flatnonzero(room > 0).tolist()
            for place, (i, j) in enumerate(
                self._choose_uncertain_pairs(votes, fit, query, int(room[query]))
            )
        ]
        return np.concatenate([asks, np.array(more, dtype=np.int64).reshape(-1, 4)])

    def _choose_uncertain_pairs(
        self, votes: Battles, posterior: _FittedScores, query: int, count: int
    ) -> list[tuple[int, int]]:
        """Choose pairs at the top of a query's ranking whose order is uncertain."""
        return choose_pairs(
            posterior.scores[query],
            posterior.covariances[query],
            _met(votes, query, self.documents),
            count=count,
            most_per_document=2 * count // self.documents + 2,
            seed=query,
        )

    @cached_property
    def _grades(self) -> Grades:
        """Return one grade of each document, by judges in turn."""
        judges = len(self.answers.judges)
        query, document = (grid.ravel() for grid in np.indices(self.answers.truth.shape))
        judge = (query + document) % judges
        grades = self.answers.grades[query, judge, document]
        return Grades(query=query, document=document, judge=judge, grade=grades)

    def _fit_panel(self, votes: Battles) -> _FittedScores:
        """Fit votes and grades with the model of the panel."""
        return _joined(list(posteriors(votes, self._grades, self.model)))


def _joined(posteriors: list[PanelPosterior]) -> _FittedScores:
    order = np.argsort(np.concatenate([posterior.places for posterior in posteriors]))
    covariances = np.concatenate([posterior.covariance for posterior in posteriors])[order]
    errors = np.sqrt(np.maximum(covariances.diagonal(axis1=1, axis2=2), 0))
    return _FittedScores(
        np.concatenate([posterior.mean for posterior in posteriors])[order], errors, covariances
    )


def _fit_counts(votes: Battles) -> _FittedScores:
    """Fit votes as zelo does: a pair is one game, shared by the judges that voted on it."""
    fits = score_battles(votes)
    scores, errors = np.zeros((2, len(votes.documents), len(votes.documents[0])))
    scores[fits.query, fits.doc] = fits.score
    errors[fits.query, fits.doc] = fits.std_error
    return _FittedScores(scores, errors, np.zeros(0))


def _for_each(queries: int, questions: Ints) -> Ints:
    """Repeat the same questions for every query."""
    query = np.repeat(np.arange(queries), len(questions))[:, np.newaxis]
    return np.hstack([query, np.tile(questions, (queries, 1))])


def _met(votes: Battles, query: int, documents: int) -> Bools:
    rows = votes.query == query
    matrix = np.zeros((documents, documents), dtype=np.bool_)
    matrix[votes.a[rows], votes.b[rows]] = True
    adjacency: Bools = matrix | matrix.T
    return adjacency


def ndcg(scores: Floats, truth: Floats) -> Floats:
    """Compute each query's nDCG@10, gains exp(truth) (Järvelin & Kekäläinen 2002, TOIS 20:422)."""
    depth = min(DEPTH, scores.shape[1])
    discount = 1 / np.log2(np.arange(depth) + 2)
    gains = np.exp(truth - truth.max(axis=1, keepdims=True))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    dcg = np.take_along_axis(gains, order, axis=1) @ discount
    ideal: Floats = -np.sort(-gains, axis=1)[:, :depth] @ discount
    quality: Floats = dcg / ideal
    return quality


def tau(first: Floats, second: Floats) -> Floats:
    """Compute Kendall's tau-b of each query (Kendall 1945, Biometrika 33:239)."""
    signs = [np.sign(s[:, :, np.newaxis] - s[:, np.newaxis]) for s in (first, second)]
    size = np.sqrt((signs[0] ** 2).sum(axis=(1, 2)) * (signs[1] ** 2).sum(axis=(1, 2)))
    agreed: Floats = (signs[0] * signs[1]).sum(axis=(1, 2)) / np.maximum(size, 1)
    return agreed
