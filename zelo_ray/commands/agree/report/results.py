"""Read the tables of ``agree``, each once, when a section first asks for it."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from math import isnan, nan
from typing import Any

from zelo_ray.evaluation.coefficients import COEFFICIENTS
from zelo_ray.files.judges import HUMAN
from zelo_ray.reports.source import Source
from zelo_ray.reports.wording import Quantity, format_estimate, format_number

Row = Mapping[str, Any]
_LEADING = ("kappa-quadratic", "kappa", "alpha-ordinal")


class AgreementTables:
    """The tables of `agree`, in which people are the rater `HUMAN`."""

    def __init__(self, source: Source, record: Mapping[str, Any]) -> None:
        self.source, self.record, self.rows = source, record, source.rows
        self.judges: list[str] = list(record["judges"])
        self.panel = [judge for judge in self.judges if judge not in record.get("pooled", ())]

    @cached_property
    def _agreement(self) -> dict[tuple[str, str, str, str], Row]:
        keys = ("rater_a", "rater_b", "scale", "coefficient")
        by_pair = {}
        for row in self.rows("agreement"):
            a, b, scale, coefficient = (row[key] for key in keys)
            by_pair[a, b, scale, coefficient] = by_pair[b, a, scale, coefficient] = row
        return by_pair

    @cached_property
    def has_people(self) -> bool:
        """Return whether judges were compared with human grades."""
        return any(HUMAN in key[:2] for key in self._agreement)

    @cached_property
    def panels(self) -> list[str]:
        """Return the names of the panels measured as a whole."""
        return list(dict.fromkeys(a for a, b, *_ in self._agreement if a and not b))

    @cached_property
    def scales(self) -> list[str]:
        """Return the names of the whole scale and of its cuts in two."""
        return list(dict.fromkeys(key[2] for key in self._agreement))

    def coefficients(self, excluded: str) -> list[str]:
        """Return the computed coefficients, without those of ``two`` raters, or of ``many``."""
        names = dict.fromkeys(key[3] for key in self._agreement)
        return sorted(
            (name for name in names if COEFFICIENTS[name].raters != excluded),
            key=lambda name: _LEADING.index(name) if name in _LEADING else len(_LEADING),
        )

    @cached_property
    def leading(self) -> str:
        """Return the coefficient of two raters by which judges are put in order."""
        return next(iter(self.coefficients("many")), "")

    def agreement_of(self, a: str, b: str, scale: str, coefficient: str) -> Row:
        """Return the measured agreement of two raters, or of a panel; NaN if there is none."""
        unknown = {"value": nan, "low": nan, "high": nan, "items": 0, "queries": 0}
        return self._agreement.get((a, b, scale, coefficient), unknown)

    def ordered(self, scale: str, coefficient: str) -> list[str]:
        """Return the judges, best first by a coefficient with people, else in their given order."""

        def place(judge: str) -> float:
            value = self.agreement_of(HUMAN, judge, scale, coefficient)["value"]
            return float("inf") if isnan(value) else -value

        return sorted(self.judges, key=place) if self.has_people else self.judges

    @cached_property
    def best_first(self) -> list[str]:
        """Return the judges in order of the leading coefficient, on the whole scale."""
        return self.ordered(self.scales[0], self.leading) if self.scales else self.judges


def rows_by(rows: Iterable[Row], *columns: str) -> dict[tuple[str, ...], list[Row]]:
    """Group rows by some of their columns."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return groups


def estimate_of(row: Row, form: str = "z.3f") -> Quantity:
    """Format a value and its interval, for a table."""
    return format_estimate(row["value"], row["low"], row["high"], form)


def two_decimals(value: float) -> str:
    """Format a coefficient, for a matrix."""
    return format_number(value, ".2f")
