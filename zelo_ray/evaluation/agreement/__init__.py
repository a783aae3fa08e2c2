"""Agreement between raters: coefficients for two raters, and for many.

    ratings = ratings_of(grades, levels=4)
    agreement, confusions = agreements(ratings, COEFFICIENTS, thresholds=[1, 2, 3], resamples=1000,
    seed=0)

Every coefficient is a function of a table of counts that adds up over queries, so a bootstrap over
queries is a matrix product. A new coefficient is a module with the names of `Module` and a line in
``COEFFICIENTS``.

Conventions, for every coefficient:

* Two raters are compared on the items (query_id, doc_id) that both judged, and more raters on those
  that at least two of them judged. An item with one judgment is also left out of the agreement
  expected by chance.
* If all judgments are of one grade, every coefficient but the percent agreement is NaN, since
  agreement beyond chance is undefined. MCC is NaN as soon as one of the two raters gives one grade
  throughout, where kappa is 0.
* Several grades of a rater for an item count as their median; of two middle ones as their
  mean, where a half goes to the even grade.
* The categories are those of the scale, used or not.
"""

from collections.abc import Iterable

from zelo_ray.errors import OptionError
from zelo_ray.evaluation.agreement import alpha, fleiss, gwet, kappa, mcc, percent
from zelo_ray.evaluation.agreement.coefficients import (
    Agreement,
    Coefficient,
    ConfusionCell,
    measure_agreement,
    scale_name,
)
from zelo_ray.evaluation.agreement.counts import RatingMatrix, ratings_of
from zelo_ray.evaluation.agreement.intervals import FEWEST
from zelo_ray.names import did_you_mean

__all__ = [
    "COEFFICIENTS",
    "FEWEST",
    "Agreement",
    "Coefficient",
    "ConfusionCell",
    "RatingMatrix",
    "choose_coefficients",
    "measure_agreement",
    "ratings_of",
    "scale_name",
]

COEFFICIENTS = {
    "kappa": Coefficient(kappa, "two"),
    "kappa-linear": Coefficient(kappa, "two", "linear"),
    "kappa-quadratic": Coefficient(kappa, "two", "quadratic"),
    "pi": Coefficient(fleiss, "two"),
    "fleiss": Coefficient(fleiss, "many"),
    "alpha-nominal": Coefficient(alpha, "any"),
    "alpha-ordinal": Coefficient(alpha, "any", "ordinal"),
    "alpha-interval": Coefficient(alpha, "any", "quadratic"),
    "ac1": Coefficient(gwet, "any"),
    "ac2-linear": Coefficient(gwet, "any", "linear"),
    "ac2-quadratic": Coefficient(gwet, "any", "quadratic"),
    "agreement": Coefficient(percent, "any"),
    "mcc": Coefficient(mcc, "two"),
}
"""By name. Fleiss' kappa of two raters is Scott's pi, and is reported as that."""


def choose_coefficients(names: Iterable[str]) -> dict[str, Coefficient]:
    """Return the coefficients of these names; all if no name is given.

    Raises:
        OptionError: a name is unknown.
    """
    wanted = tuple(names) or tuple(COEFFICIENTS)
    if unknown := [name for name in wanted if name not in COEFFICIENTS]:
        choices, near = ", ".join(COEFFICIENTS), did_you_mean(unknown[0], COEFFICIENTS)
        raise OptionError(f"unknown coefficient {unknown[0]!r}{near}; there are {choices}")
    return {name: COEFFICIENTS[name] for name in wanted}
