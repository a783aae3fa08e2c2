"""The model of a panel's judges.

A vote's preference has a level k: 0 for a tie, else its sign times 1 + the number of the judge's
cut points that its size reaches. For documents i and j, where x = t_i - t_j and o is 1 if i was
shown first, else -1, judge m gives level k with

    log P_m(k | x, o) = a_m|k| sign(k) (x + b_m o) + c_m|k| - log Z.

One level without ties is the model of Bradley & Terry (1952, Biometrika 39:324); level 0 is the
tie of Davidson (1970, JASA 65:317). More levels are an adjacent-categories model of graded
comparisons (Agresti 1992, Applied Statistics 41:287) with a slope for each level. Equal slopes
make the size of a preference worth nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf, isfinite
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from zelo_ray.fitting.battles import Floats

TIE = 0.025
"""A preference of at most this size is a tie."""

UNUSED_LEVEL_TERM = -30.0
"""The term of a level that a judge never gives, whose chance becomes 1e-13."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """The habits of one judge: how it answers."""

    cuts: tuple[float, ...] = ()
    """cut points of the sizes of preferences, ascending; empty: only signs count"""
    slopes: tuple[float, ...]
    """a of the levels 1, 2, ...: one more than there are cuts, not decreasing"""
    terms: tuple[float, ...]
    """c of the levels 0, 1, ...; that of level 1 is 0"""
    bias: float = 0.0
    """b: the advantage of being shown first, on the scale of t"""
    grade_means: tuple[float, float, float, float]
    """mean of s of the documents to which it gives the grades 0 to 3"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelModel:
    """A small model of how the judges of a panel answer, learned once for many queries.

    Its own scale is that on which scores of documents without a grade spread with sd 1;
    `win_scale` turns it into logits of winning.
    """

    judges: tuple[str, ...]
    habits: tuple[Habits, ...]
    """of each judge"""
    own_sd: float
    """sd of a judge's own view w of a document: it sees t = s + w, w ~ N(0, own_sd^2)"""
    rho: float
    """correlation of two judges' errors on a pair: each of n votes on it weighs 1/(1+(n-1)rho)"""
    grade_sd: float
    """tau: sd of s around the mean of the document's grade"""
    grade_slope: float
    """change of a query's mean grade when all its documents are better by 1"""
    grade_noise: float
    """sd of a document's mean of grade around the value that its s predicts"""
    pool_sd: float
    """sd over queries of the mean s of a query's documents"""
    sizes: bool
    """whether the sizes of preferences count, and not only their signs"""
    notes: tuple[str, ...] = ()
    """how the model was learned, for a report"""

    @property
    def win_scale(self) -> float:
        """Return the factor from the model's scale to logits of winning.

        It is 4 times the slope, at 0, of the chance that a judge of the panel prefers a document,
        a tie being half a win, and the order of the two left to chance.
        """
        scales = [_win_scale(habits) for habits in self.habits]
        return float(np.mean(scales)) if scales else _win_scale(_CAREFUL)

    def for_judges(self, judges: Sequence[str]) -> "PanelModel":
        """Return the model for another panel; unknown judges get the average habits of this one."""
        habits_by_judge = dict(zip(self.judges, self.habits, strict=True))
        usual = _average(self.habits) if self.habits else _CAREFUL
        return replace(
            self,
            judges=tuple(judges),
            habits=tuple(habits_by_judge.get(judge, usual) for judge in judges),
        )

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict of numbers, texts, lists and dicts, for `from_json`."""
        record = asdict(self)
        record["judges"], record["notes"] = list(self.judges), list(self.notes)
        record["habits"] = [
            {
                name: list(value) if isinstance(value, tuple) else value
                for name, value in habits.items()
            }
            for habits in record["habits"]
        ]
        return record

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> "PanelModel":
        """Build the model from a dict of `to_json`.

        Raises:
            ValueError: it is not a model; pydantic's error says where.
        """
        model = TypeAdapter(cls).validate_python(told)
        spreads = (model.grade_sd, model.grade_noise, model.pool_sd)
        if len(model.habits) != len(model.judges) or not model.habits:
            raise ValueError(f"{len(model.judges)} judges, but habits of {len(model.habits)}")
        if not (all(0 < spread < inf for spread in spreads) and 0 <= model.own_sd < inf):
            raise ValueError("a spread is not positive and finite")
        for habits in model.habits:
            levels = len(habits.slopes)
            numbers = (
                *habits.cuts,
                *habits.slopes,
                *habits.terms,
                habits.bias,
                *habits.grade_means,
            )
            if not levels or len(habits.cuts) != levels - 1 or len(habits.terms) != levels + 1:
                raise ValueError("cuts, slopes and terms of a judge do not fit each other")
            if not all(map(isfinite, numbers)):
                raise ValueError("a number of a judge is not finite")
        return model


_CAREFUL = Habits(slopes=(0.65,), terms=(-2.0, 0.0), grade_means=(-0.7, 0.0, 0.8, 1.5))


def default_model(judges: Sequence[str]) -> PanelModel:
    """Return the model of unknown judges: signs of preferences count, and sizes do not.

    The numbers are near those that `learn` finds for simulated panels of three. Judges that are
    right on .71 to .75 of all pairs have slopes of .65 to .96, judges that are right on .64 to .71
    of .42 to .63; for both the means of the grades are -.7, 0, 1 and 1.8, the spread around them is
    .55, and the spread of judges' own views is near 0. The means and spreads here are more
    cautious, since recorded grades of one model spread wider around its battles. The correlation of
    errors is .3 for simulated judges, and .47 to .60 for recorded ones of different models.
    """
    return PanelModel(
        judges=tuple(judges),
        habits=(_CAREFUL,) * len(judges),
        own_sd=0.15,
        rho=0.3,
        grade_sd=0.8,
        grade_slope=0.5,
        grade_noise=0.45,
        pool_sd=0.5,
        sizes=False,
        notes=("Nothing is known of the judges: signs of preferences count, sizes do not.",),
    )


def level_parameters(habits: Sequence[Habits]) -> tuple[Floats, Floats]:
    """Return slopes (odd in the level) and terms (even) of levels -L to L: [judges, 2 L + 1].

    A judge with fewer levels than others never gives the higher ones.
    """
    width = max((len(judge_habits.slopes) for judge_habits in habits), default=1)
    slopes, terms = (
        np.zeros((len(habits), width + 1)),
        np.full((len(habits), width + 1), UNUSED_LEVEL_TERM),
    )
    for row, habit in enumerate(habits):
        levels = len(habit.slopes)
        slopes[row, 1 : levels + 1], slopes[row, levels + 1 :] = habit.slopes, habit.slopes[-1]
        terms[row, : levels + 1] = habit.terms
    signed_slopes = np.concatenate([-slopes[:, :0:-1], slopes], 1)
    return signed_slopes, np.concatenate([terms[:, :0:-1], terms], 1)


def _chances(habits: Habits) -> tuple[Floats, float]:
    """Return the chances of winning at each level, and of a tie, between equal documents."""
    weights = np.exp(np.array(habits.terms))
    total = weights[0] + 2 * weights[1:].sum()
    return weights[1:] / total, float(weights[0] / total)


def _win_scale(habits: Habits) -> float:
    """Return a judge's factor from the model's scale to logits: the slope as a covariance."""
    won, _ = _chances(habits)
    return 4 * float(won @ np.array(habits.slopes))


def _average(habits: Sequence[Habits]) -> Habits:
    """Return the habits of a judge as good as these on average, who gives signs alone."""
    won, tied = np.mean(
        [(_chances(habit)[0].sum(), _chances(habit)[1]) for habit in habits], axis=0
    )
    slope = np.mean([_win_scale(habit) for habit in habits]) / (4 * won)
    means = np.mean([habit.grade_means for habit in habits], axis=0)
    return Habits(
        slopes=(float(slope),),
        terms=(float(np.log(tied / won)), 0.0),
        bias=float(np.mean([habit.bias for habit in habits])),
        grade_means=(float(means[0]), float(means[1]), float(means[2]), float(means[3])),
    )
