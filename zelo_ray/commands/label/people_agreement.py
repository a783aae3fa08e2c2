"""Measure how far people agree on the documents or pairs that two of them judged."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from zelo_ray.evaluation.agreement import Agreement, measure_agreement, scale_name
from zelo_ray.evaluation.coefficients import choose_coefficients, ratings_of
from zelo_ray.files.labels import DOCUMENT, LABEL_COLUMNS, CurrentAnswers, LabelUnit, valid_answers
from zelo_ray.files.tables import table_of_rows
from zelo_ray.files.wording import counted

_WEIGHTED, _EQUAL = "kappa-quadratic", "agreement"
_MOST = 101  # grades from 0 to 100; tables of more are too large


@dataclass(frozen=True, slots=True)
class PairOfPeople:
    """Agreement of two people on what both judged; NaN where it is undefined."""

    person_a: str
    person_b: str
    documents: int
    """of documents, or of pairs"""
    kappa: Agreement
    """quadratic, with its interval over queries"""
    equal: Agreement
    """the share with the same answer"""


def compare_people(rows: pa.Table, top: float) -> list[PairOfPeople]:
    """Compare each two people who graded the same documents; most documents first.

    With more than 101 grades nobody is compared.

    Args:
        rows: query_id, doc_id, person and grade, such as those of `labels.PeoplesLabels`.
        top: the highest grade; grades are rounded to whole numbers.
    """
    names = ["query_id", "doc_id", "judge", "grade"]
    levels = int(top) + 1
    if levels > _MOST:
        return []
    table = rows.select(["query_id", "doc_id", "person", "grade"]).rename_columns(names)
    grades = np.clip(np.rint(table["grade"].to_numpy()), 0, top)
    table = table.set_column(3, "grade", pa.array(grades))
    coefficients, _ = measure_agreement(
        ratings_of(table, levels),
        {},
        choose_coefficients([_WEIGHTED, _EQUAL]),
    )
    by_pair: dict[tuple[str, str], dict[str, Agreement]] = {}
    for agreement in coefficients:
        if agreement.items and agreement.scale == scale_name(levels):
            by_pair.setdefault((agreement.rater_a, agreement.rater_b), {})[
                agreement.coefficient
            ] = agreement
    pairs = [
        PairOfPeople(*pair, of[_EQUAL].items, of[_WEIGHTED], of[_EQUAL])
        for pair, of in by_pair.items()
    ]
    return sorted(pairs, key=lambda pair: -pair.documents)


def compare_answers(answers: CurrentAnswers, unit: LabelUnit) -> list[PairOfPeople]:
    """Compare each two people who judged the same documents or pairs, as `compare_people`."""
    lowest, highest = min(unit.values), max(unit.values)
    rows = [
        (each.ids[0], "\n".join(each.ids[1:]), each.person, each.value - lowest, None)
        for each in valid_answers(answers)
        if each.value is not None
    ]
    return compare_people(table_of_rows(rows, LABEL_COLUMNS), highest - lowest)


def describe_agreement(between: Iterable[PairOfPeople], unit: LabelUnit = DOCUMENT) -> list[str]:
    """Return a sentence for every two people."""
    lines = []
    for pair in between:
        low, high = pair.kappa.low, pair.kappa.high
        reach = "" if np.isnan(low) else f" [{low:.2f}, {high:.2f}]"
        kappa = "" if np.isnan(pair.kappa.value) else f", weighted kappa {pair.kappa.value:.2f}"
        judged = counted(pair.documents, unit.name)
        lines.append(
            f"{pair.person_a} and {pair.person_b} on {judged}: the same {unit.answer} on "
            f"{pair.equal.value:.0%}{kappa}{reach if kappa else ''}"
        )
    return lines
