"""Measure precision and recall of judges, with people as the truth."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from zelo_ray.commands.agree.measured_tables import MeasuredTables
from zelo_ray.commands.agree.pair_votes import collect_pair_votes
from zelo_ray.evaluation.agreement import ratings_of
from zelo_ray.evaluation.agreement.coefficients import binarised_scales, scale_name
from zelo_ray.evaluation.agreement.counts import count_pair
from zelo_ray.evaluation.agreement.pairs import A_BETTER, B_BETTER, TIE, WITH_TIES
from zelo_ray.evaluation.agreement.precision import Precision, compute_precision
from zelo_ray.formats.interchange.all_judgments import AllJudgments
from zelo_ray.formats.tables import table_of
from zelo_ray.options import AgreeOptions

_WORDS = {A_BETTER: "A is better", TIE: "a tie", B_BETTER: "B is better"}


def measure_precision(verdicts: AllJudgments, options: AgreeOptions) -> MeasuredTables:
    """Measure precision, recall and F1 of judges against people, by verdict and by grade."""
    verdict = [*_of_words(verdicts, options)]
    cuts = options.positive_thresholds if verdicts.levels > 2 else ()
    graded = [*_of_grades(verdicts, cuts, options)]
    return MeasuredTables({"precision": table_of([*verdict, *graded], Precision)})


def _of_words(verdicts: AllJudgments, options: AgreeOptions) -> Iterator[Precision]:
    if not len(verdicts.human_votes):
        return
    ratings = collect_pair_votes(verdicts, options).ratings
    for row, judge in enumerate(ratings.raters[1:], 1):
        if (counts := count_pair(ratings, 0, row)).items:
            yield from compute_precision(
                judge, WITH_TIES, counts, _WORDS, **options.interval_settings
            )


def _of_grades(
    verdicts: AllJudgments, cuts: Sequence[int], options: AgreeOptions
) -> Iterator[Precision]:
    if not len(verdicts.human):
        return
    ratings = ratings_of(pa.concat_tables([verdicts.human, verdicts.grades]), verdicts.levels)
    grade_labels = {grade: str(grade) for grade in range(verdicts.levels)}
    for row, judge in enumerate(ratings.raters[1:], 1):
        if (counts := count_pair(ratings, 0, row)).items:
            for scale, table in binarised_scales(counts, verdicts.levels, cuts):
                labels = grade_labels if scale == scale_name(verdicts.levels) else {1: scale}
                yield from compute_precision(
                    judge, scale, table, labels, **options.interval_settings
                )
