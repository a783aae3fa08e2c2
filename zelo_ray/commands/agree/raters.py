"""The section on coefficients: judges with people, all together, and with each other."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from math import isnan, nan

import pyarrow as pa

from zelo_ray.commands.agree.section import Section, laid_out, with_interval
from zelo_ray.evaluation.agreement import (
    COEFFICIENTS,
    FEWEST,
    Agreement,
    Confused,
    agreements,
    ratings_of,
    scale_name,
)
from zelo_ray.formats.interchange.verdicts import HUMAN, PANEL, WITH_HUMAN, Verdicts
from zelo_ray.formats.tables import table_of
from zelo_ray.formats.wording import counted
from zelo_ray.options import AgreeOptions

_OF_TWO = ("kappa", "kappa-quadratic", "alpha-ordinal")
_OF_MANY = ("fleiss", "alpha-ordinal", "ac2-quadratic")
_SHOWN = 3  # coefficients in a table
_JUDGES, _BINARISED, _MATRIX, _EXTREMES, _CONFUSIONS = 40, 10, 8, 5, 3  # what there is room for


def raters(verdicts: Verdicts, options: AgreeOptions) -> Section:
    """Compare every judge with the people and each other, and measure all together."""
    people = len(verdicts.human) > 0
    ratings = ratings_of(pa.concat_tables([verdicts.human, verdicts.grades]), verdicts.levels)
    coefficients, confused = agreements(
        ratings,
        {PANEL: verdicts.panel, WITH_HUMAN: (HUMAN, *verdicts.panel) if people else ()},
        {name: COEFFICIENTS[name] for name in options.coefficients},
        thresholds=options.cuts,
        resamples=options.resamples,
        seed=options.seed,
    )
    tables = {
        "agreement": table_of(coefficients, Agreement),
        "confusion": table_of(confused, Confused),
    }
    if not coefficients:
        names = ", ".join(options.coefficients)
        reason = f"{names}: for three raters or more, which are not here"
        return Section(tables=tables, missing=[reason] if len(ratings.raters) > 1 else [])
    findings = _Findings(verdicts, options, coefficients, confused)
    parts = [
        findings.with_people(),
        findings.binarised(),
        findings.together(),
        findings.apart(),
        findings.confusions(),
    ]
    lines = [line for part in parts if part for line in [*part, ""]]
    return Section([*lines, *findings.meaning(lines)], tables, list(findings.missing()))


class _Findings:
    """The coefficients by raters, scale and name, and what there is to say of them."""

    def __init__(
        self,
        verdicts: Verdicts,
        options: AgreeOptions,
        found: Iterable[Agreement],
        confused: Sequence[Confused],
    ) -> None:
        self._options = options
        self._levels = verdicts.levels
        self._whole = scale_name(verdicts.levels)
        self._found = {(f.rater_a, f.rater_b, f.scale, f.coefficient): f for f in found}
        self._confused = confused
        self._judges = list(verdicts.judges)
        self._size = len(verdicts.panel)
        self._people = len(verdicts.human) > 0
        self._of_two = self._shown(_OF_TWO, "many")
        self._of_many = self._shown(_OF_MANY, "two")
        if self._people and self._of_two:
            self._judges.sort(key=lambda judge: self._order(HUMAN, judge))

    def _shown(self, preferred: Sequence[str], excluded: str) -> list[str]:
        names = [n for n in self._options.coefficients if COEFFICIENTS[n].raters != excluded]
        return [n for n in preferred if n in names] or names[:_SHOWN]

    def _order(self, a: str, b: str) -> float:
        value = self._of(a, b, self._of_two[0]).value
        return float("inf") if isnan(value) else -value

    def _of(self, a: str, b: str, name: str, scale: str = "") -> Agreement:
        scale = scale or self._whole
        return self._found.get((a, b, scale, name)) or self._found[b, a, scale, name]

    def _table(
        self, title: str, heads: Sequence[str], keys: Iterable[tuple[str, str, str, str]]
    ) -> list[str]:
        """Lay out coefficients, a row for each key; the title counts the items if all rows agree.

        Args:
            title: what stands above.
            heads: of the labels, then the names of the coefficients.
            keys: label, two raters (or a panel and ""), and scale.
        """
        rows, sizes = [], []
        for label, a, b, scale in keys:
            figures = [self._of(a, b, name, scale) for name in heads[1:]]
            rows.append(
                [
                    label,
                    *(with_interval(figure.value, figure.low, figure.high) for figure in figures),
                ]
            )
            sizes.append((figures[0].items, figures[0].queries))
        if len(set(sizes)) == 1:
            items, queries = sizes[0]
            title += f" ({counted(items, 'item')} of {counted(queries, 'query', 'queries')})"
        else:
            heads = [*heads, "items", "queries"]
            rows = [
                [*row, *(f"{n:,}" for n in size)] for row, size in zip(rows, sizes, strict=True)
            ]
        return [title, *laid_out(heads, rows)]

    def with_people(self) -> list[str]:
        """Return the table of the judges' agreement with the people."""
        if not (self._people and self._of_two):
            return []
        keys = [(judge, HUMAN, judge, self._whole) for judge in self._judges]
        title = f"Judges and {HUMAN} on the scale {self._whole}, by {self._of_two[0]}"
        lines = self._table(title, ["judge", *self._of_two], keys[:_JUDGES])
        return lines + _more(len(keys) - _JUDGES, "judges")

    def binarised(self) -> list[str]:
        """Return the table of agreement with people on binarised grades, by one coefficient."""
        scales = [scale_name(self._levels, cut) for cut in self._options.cuts][:_SHOWN]
        if not (self._people and self._of_two and scales and self._levels > 2):
            return []
        rows = []
        for judge in self._judges[:_BINARISED]:
            figures = [self._of(HUMAN, judge, self._of_two[0], scale) for scale in scales]
            rows.append(
                [
                    judge,
                    *(with_interval(figure.value, figure.low, figure.high) for figure in figures),
                ]
            )
        lines = [f"{self._of_two[0]} with {HUMAN}, binarised", *laid_out(["judge", *scales], rows)]
        return lines + _more(len(self._judges) - _BINARISED, "judges")

    def together(self) -> list[str]:
        """Return the table of each panel as a whole, on every scale."""
        keys = dict.fromkeys((a, scale) for a, b, scale, _ in self._found if not b)
        if not (keys and self._of_many):
            return []
        rows = [(f"{panel}, {scale}", panel, "", scale) for panel, scale in keys]
        suffix = "" if any(panel == PANEL for panel, _ in keys) else f" and {HUMAN}"
        title = f"{counted(self._size, 'judge')}{suffix} together, on what two or more judged"
        return self._table(title, ["panel", *self._of_many], rows)

    def apart(self) -> list[str]:
        """Return agreement between judges: a matrix of a few, the closest and farthest of many."""
        number, names = len(self._judges), self._of_two
        if number < 2 or not names:
            return []
        title = f"Judges with each other on the scale {self._whole}"
        pairs = [(f"{a}, {b}", a, b, self._whole) for a, b in combinations(self._judges, 2)]
        if number == 2:
            return self._table(title, ["judges", *names], pairs)
        if number <= _MATRIX:
            return [f"{title}: {names[0]}", *self._matrix()]
        pairs = [pair for pair in pairs if not isnan(self._of(*pair[1:3], names[0]).value)]
        pairs.sort(key=lambda pair: self._order(*pair[1:3]))
        far = pairs[: -_EXTREMES - 1 : -1]
        return [
            *self._table(
                f"{title}: the closest of {len(pairs):,}", ["judges", names[0]], pairs[:_EXTREMES]
            ),
            *self._table("and the farthest", ["judges", names[0]], far),
        ]

    def _matrix(self) -> list[str]:
        rows = []
        for n, judge in enumerate(self._judges):
            values = [self._of(rater, judge, self._of_two[0]).value for rater in self._judges[:n]]
            cells = [with_interval(value, nan, nan) for value in values]
            rows.append([f"{n + 1} {judge}", *cells, *[""] * (len(self._judges) - 1 - n)])
        return laid_out(["", *map(str, range(1, len(self._judges)))], rows)

    def confusions(self) -> list[str]:
        """Return the confusion matrices of the best judge, or of each of a few, with people."""
        few = self._judges if len(self._judges) <= _CONFUSIONS else self._judges[:1]
        pairs = [(HUMAN, judge) for judge in few] if self._people else []
        if not self._people and len(self._judges) == 2:
            pairs = [(self._judges[0], self._judges[1])]
        lines: list[str] = []
        for a, b in pairs:
            cells = {
                (c.grade_a, c.grade_b): c.items
                for c in self._confused
                if (c.rater_a, c.rater_b, c.scale) == (a, b, self._whole)
            }
            grades = range(self._levels)
            rows = [[f"{a} {i}", *(f"{cells[i, j]:,}" for j in grades)] for i in grades]
            lines += ["", f"Items by the grades of {a} (rows) and {b}"]
            lines += laid_out(["", *map(str, grades)], rows)
        return lines[1:]

    def missing(self) -> Iterator[str]:
        """Yield a line for each judge that cannot be compared with the people."""
        for judge in self._judges if self._people and self._of_two else ():
            if not self._of(HUMAN, judge, self._of_two[0]).items:
                yield f"{judge} and {HUMAN} judged no document in common"

    def meaning(self, shown: Iterable[str]) -> Iterator[str]:
        """Explain the figures of the lines, and say where the others are."""
        if any("-" in line.split() for line in shown):
            yield "A dash: not defined, since all grades (for mcc: of one of the two) are the same,"
            yield "or nothing was judged in common."
        if any(0 < figure.queries < FEWEST for figure in self._found.values()):
            yield f"Of fewer than {FEWEST} queries there is no interval."
        yield (
            "[95% intervals] are over samples of queries. All coefficients, pairs and scales: "
            f"{self._options.out or '--out DIR'}"
        )


def _more(number: int, what: str) -> list[str]:
    return [f"… and {number:,} more {what}"] if number > 0 else []
