"""Coefficients of agreement between raters, as functions of tables of counts.

Every coefficient compares how far judgments of one item are apart with how far they would be by
chance. Tables add up over queries, so a bootstrap over queries is a matrix product.

If all judgments are of one grade, every coefficient but the percent agreement is NaN; MCC is NaN as
soon as one of the two gives one grade throughout, where kappa is 0. The categories are those of the
scale, used or not.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

import numpy as np

from zelo_ray.errors import OptionError
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.names import did_you_mean

Kind = Literal["confusion", "by_items", "by_ratings"]
"""What a table [..., levels, levels] counts.

* ``confusion``: items, by the grade of rater A (rows) and of rater B; for two raters only.
* ``by_items``: ordered pairs of judgments of one item, those of each item summing to 1.
* ``by_ratings``: the same, those of an item with r judgments summing to r (Krippendorff's
  coincidences), so that the whole sums to the number of judgments.
"""
_SMALL = 1e-12
_POWER = {"nominal": 0, "linear": 1, "quadratic": 2}


def _by_margins(a: Floats, b: Floats, distance: Floats) -> Floats:
    """Return the distance of raters who grade at random, each with its own shares of grades."""
    square = np.broadcast_to(distance, (*a.shape, a.shape[-1]))
    return np.asarray(np.einsum("...i,...ij,...j->...", a, square, b))


def _by_guessing(a: Floats, b: Floats, distance: Floats) -> Floats:  # noqa: ARG001 - as its like
    """Return the distance on items that raters can only guess (Gwet 2008)."""
    levels = a.shape[-1]
    shared = (1 - distance).sum() / (levels * (levels - 1))
    return np.asarray(1 - shared * (a * (1 - a)).sum(axis=-1))


class Coefficient(NamedTuple):
    """A coefficient: of which table, and how.

    ``chance`` gives the distance by chance from the shares of grades (of A and B) and the
    distances of grades; None: it is not corrected for chance. ``without_replacement`` it is of
    two of the judgments that there are; a correlation is divided by the spreads of both raters.
    """

    table: Kind
    weights: Literal["nominal", "linear", "quadratic", "ordinal"] = "nominal"
    chance: Callable[[Floats, Floats, Floats], Floats] | None = _by_margins
    without_replacement: bool = False
    is_correlation: bool = False

    def compute(self, tables: Mapping[Kind, Floats]) -> Floats:
        """Return its value for each table of its kind: [..., levels, levels] to [...]."""
        table = tables[self.table]
        rows, columns = table.sum(axis=-1), table.sum(axis=-2)
        n = rows.sum(axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            a, b = rows / n[..., np.newaxis], columns / n[..., np.newaxis]
            distance = self._distance(a)
            observed = (table * distance).sum(axis=(-2, -1)) / n
            if self.chance is None:
                return np.where(n > 0, 1 - observed, np.nan)
            chance = self.chance(a, b, distance)
            chance = scale = chance * n / (n - 1) if self.without_replacement else chance
            if self.is_correlation:
                scale = np.sqrt((1 - (a**2).sum(axis=-1)) * (1 - (b**2).sum(axis=-1)))
            value = (chance - observed) / scale
        defined = ((a + b > 0).sum(axis=-1) > 1) & (scale > _SMALL)
        return np.where(defined, value, np.nan)

    def _distance(self, shares: Floats) -> Floats:
        """Return the distances of grades, at most 1: of all tables, or of each for ordinal ones."""
        if self.weights == "ordinal":  # squared numbers of judgments between, half of the ends
            ranks = np.cumsum(shares, axis=-1) - shares / 2
            return np.asarray((ranks[..., :, np.newaxis] - ranks[..., np.newaxis, :]) ** 2)
        levels = np.arange(shares.shape[-1])
        steps = np.abs(np.subtract.outer(levels, levels)).astype(np.float64)
        return np.where(steps > 0, (steps / steps.max()) ** _POWER[self.weights], 0.0)


COEFFICIENTS: dict[str, Coefficient] = {
    # Cohen 1960, Educ. Psychol. Meas. 20:37; weighted 1968, Psychol. Bull. 70:213
    "kappa": Coefficient("confusion"),
    "kappa-linear": Coefficient("confusion", "linear"),
    "kappa-quadratic": Coefficient("confusion", "quadratic"),
    # Fleiss 1971, Psychol. Bull. 76:378; of two raters Scott's pi (1955, Public Opin. Q. 19:321)
    "fleiss": Coefficient("by_items"),
    # Krippendorff 2011, Computing Krippendorff's Alpha-Reliability
    "alpha-nominal": Coefficient("by_ratings", "nominal", without_replacement=True),
    "alpha-ordinal": Coefficient("by_ratings", "ordinal", without_replacement=True),
    "alpha-interval": Coefficient("by_ratings", "quadratic", without_replacement=True),
    # Gwet 2008, Br. J. Math. Stat. Psychol. 61:29: not near 0 if almost all grades are one
    "ac1": Coefficient("by_items", "nominal", _by_guessing),
    "ac2-linear": Coefficient("by_items", "linear", _by_guessing),
    "ac2-quadratic": Coefficient("by_items", "quadratic", _by_guessing),
    "agreement": Coefficient("by_items", chance=None),
    # Matthews 1975, BBA 405:442; of many grades Gorodkin 2004, Comput. Biol. Chem. 28:367
    "mcc": Coefficient("confusion", is_correlation=True),
}
"""By name. Those of confusions are of two raters only."""


def choose_coefficients(names: Iterable[str]) -> dict[str, Coefficient]:
    """Return the coefficients of these names, all if none is given; refuse an unknown one."""
    wanted = tuple(names) or tuple(COEFFICIENTS)
    if unknown := [name for name in wanted if name not in COEFFICIENTS]:
        choices, near = ", ".join(COEFFICIENTS), did_you_mean(unknown[0], COEFFICIENTS)
        raise OptionError(f"unknown coefficient {unknown[0]!r}{near}; there are {choices}")
    return {name: COEFFICIENTS[name] for name in wanted}
