"""The section on precision: how often judges are right in what they say, and what they miss."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from zelo_ray.commands.agree.section import Section, laid_out, with_interval
from zelo_ray.commands.agree.spoken import spoken
from zelo_ray.evaluation.agreement import ratings_of
from zelo_ray.evaluation.agreement.counts import of_pair
from zelo_ray.evaluation.agreement.measured import scale_name, scales
from zelo_ray.evaluation.agreement.pairs import A_BETTER, B_BETTER, TIE, WITH_TIES
from zelo_ray.evaluation.agreement.precision import MEASURES, Precision, precisions
from zelo_ray.formats.interchange.verdicts import HUMAN, Verdicts
from zelo_ray.formats.tables import table_of
from zelo_ray.options import AgreeOptions

_WORDS = {A_BETTER: "A is better", TIE: "a tie", B_BETTER: "B is better"}
_JUDGES = 3  # for which there is room
_NAME = 14  # characters of a name, for which there is room beside a label


def precision(verdicts: Verdicts, options: AgreeOptions) -> Section:
    """Measure precision, recall and F1 beside the people, by verdict and by grade."""
    verdict = [*_of_words(verdicts, options)]
    cuts = options.cuts if verdicts.levels > 2 else ()
    graded = [*_of_grades(verdicts, cuts, options)]
    full_scale = scale_name(verdicts.levels)
    # Of grades the cuts are what is asked most; the grades themselves where there are no cuts.
    short = [row for row in graded if (row.scale == full_scale) != bool(cuts)]
    parts = [[*_lines("verdict", verdict)], [*_lines("grade", short)]]
    lines = [line for part in parts if part for line in ["", *part]][1:]
    return Section(lines, {"precision": table_of([*verdict, *graded], Precision)})


def _of_words(verdicts: Verdicts, options: AgreeOptions) -> Iterator[Precision]:
    if not len(verdicts.voices):
        return
    ratings = spoken(verdicts, options).ratings
    for row, judge in enumerate(ratings.raters[1:], 1):
        if (counts := of_pair(ratings, 0, row)).items:
            yield from precisions(judge, WITH_TIES, counts, _WORDS, **options.chance)


def _of_grades(
    verdicts: Verdicts, cuts: Sequence[int], options: AgreeOptions
) -> Iterator[Precision]:
    if not len(verdicts.human):
        return
    ratings = ratings_of(pa.concat_tables([verdicts.human, verdicts.grades]), verdicts.levels)
    grade_labels = {grade: str(grade) for grade in range(verdicts.levels)}
    for row, judge in enumerate(ratings.raters[1:], 1):
        if (counts := of_pair(ratings, 0, row)).items:
            for scale, table in scales(counts, verdicts.levels, cuts):
                labels = grade_labels if scale == scale_name(verdicts.levels) else {1: scale}
                yield from precisions(judge, scale, table, labels, **options.chance)


def _lines(what: str, found: Sequence[Precision]) -> Iterator[str]:
    """Yield the lines of the judges that are right most often."""
    of = {(row.judge, row.label, row.measure): row for row in found}
    labels = [*dict.fromkeys(row.label for row in found)]
    judges = [*dict.fromkeys(row.judge for row in found)]
    if not judges:
        return

    def place(judge: str) -> float:
        scores = [of[judge, label, "f1"].value for label in labels]
        return -float(np.nan_to_num(scores).mean())

    rows, shown = [], sorted(judges, key=place)[:_JUDGES]
    numbered = max(map(len, shown)) > _NAME
    for number, judge in enumerate(shown, 1):
        name = str(number) if numbered else judge
        for label in labels:
            figures = [of[judge, label, measure] for measure in MEASURES]
            cells = [with_interval(figure.value, figure.low, figure.high) for figure in figures]
            rows.append(
                [f"{name}: {label}", *cells, f"{figures[0].said:,}", f"{figures[0].right:,}"]
            )
    yield f"Right by {HUMAN}, by {what}"
    if numbered:
        yield from (f"  {number}: {judge}" for number, judge in enumerate(shown, 1))
    yield from laid_out([f"judge: {what}", "precision", "recall", "F1", "said", "right"], rows)
    if len(judges) > _JUDGES:
        yield f"… and {len(judges) - _JUDGES:,} more judges"
