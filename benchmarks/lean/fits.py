"""The fit under test, behind a few functions: learn a panel, believe, choose pairs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zelo_ray.fitting import panel
from zelo_ray.fitting.battles import Battles, Floats, Ints

Model = panel.PanelModel


@dataclass(frozen=True, slots=True)
class Graded:
    """Grades as columns: which query, which of its documents, by which judge, what."""

    query: Ints
    document: Ints
    judge: Ints
    grade: Ints


@dataclass(frozen=True, slots=True)
class Belief:
    """What votes and grades say of the documents of each query, in logits of winning."""

    means: list[Floats]
    covariances: list[Floats]
    shifts: Floats
    """what puts all queries on one scale: [queries]"""

    @property
    def scores(self) -> Floats:
        """[queries, documents], where all pools have one size."""
        return np.stack(self.means)

    def errors(self, su: float | None = None) -> list[Floats]:
        """Of scores: about the judges' consensus, or about people if su is given.

        Args:
            su: sd, in logits, of what all judges get wrong about a document.
        """
        return [
            np.sqrt(np.maximum(c.diagonal() + (su or 0.0) ** 2 * (1 - 1 / len(c)), 0))
            for c in self.covariances
        ]


def learn(votes: Battles, grades: Graded | None) -> Model:
    """What the judges are like."""
    return panel.learn(votes, _grades(grades))


def untaught(votes: Battles) -> Model:
    """What is taken for granted of judges of whom nothing is known."""
    return panel.default_model(votes.judges)


def signs(votes: Battles) -> Battles:
    """The votes without their sizes."""
    return replace(votes, preference=np.sign(votes.preference))


def believe(votes: Battles, grades: Graded | None, model: Model) -> Belief:
    """Posterior of the scores of all queries."""
    own = _grades(grades)
    means: list[Any] = [None] * len(votes.documents)
    covariances: list[Any] = [None] * len(means)
    shifts = np.zeros(len(means))
    for posterior in panel.posteriors(votes, own, model):
        moved, _ = panel.absolute_shifts(posterior, model)
        for row, place in enumerate(posterior.places.tolist()):
            means[place], covariances[place] = posterior.mean[row], posterior.covariance[row]
            shifts[place] = moved[row]
    return Belief(means, covariances, shifts)


def choose(votes: Battles, belief: Belief, pairs: int) -> tuple[Ints, Ints, Ints]:
    """Pairs at the top of each query that are worth asking: query, one document, the other."""
    rows = [
        (query, i, j)
        for query, met in enumerate(_met(votes))
        for i, j in panel.choose_pairs(
            belief.means[query],
            belief.covariances[query],
            met,
            count=pairs,
            most_per_document=2 * pairs // len(met) + 2,
            seed=f"top:{query}",
        )
    ]
    query, one, other = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return query, one, other


def described(model: Model) -> str:
    """A model in a few words."""
    kind = "sizes" if model.sizes else "signs"
    return f"{kind}, own {model.own_sd:.2f}, rho {model.rho:.2f}, grade {model.grade_sd:.2f}"


def _met(votes: Battles) -> Iterator[Any]:
    for query, ids in enumerate(votes.documents):
        own = votes.query == query
        met = np.zeros((len(ids), len(ids)), dtype=bool)
        met[votes.a[own], votes.b[own]] = met[votes.b[own], votes.a[own]] = True
        yield met


def _grades(grades: Graded | None) -> Any:
    if grades is None:
        return None
    return panel.Grades(
        query=grades.query, document=grades.document, judge=grades.judge, grade=grades.grade
    )


def with_own(model: Model, own_sd: float) -> Model:
    """The same judges with another spread of what each alone sees in a document."""
    return replace(model, own_sd=own_sd)
