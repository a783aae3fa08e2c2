"""Measure agreement coefficients: of judges with people, with each other, and of the panel."""

import pyarrow as pa

from zelo_ray.command_options import AgreeOptions
from zelo_ray.commands.agree.measured_tables import MeasuredTables
from zelo_ray.evaluation.agreement import Agreement, ConfusionCell, measure_agreement
from zelo_ray.evaluation.coefficients import COEFFICIENTS, ratings_of
from zelo_ray.files.judges import HUMAN, PANEL, WITH_HUMAN, AllJudgments, weights_of
from zelo_ray.files.tables import table_of


def measure_raters(verdicts: AllJudgments, options: AgreeOptions) -> MeasuredTables:
    """Measure the agreement of every two raters, and of the panel as a whole."""
    people = len(verdicts.human) > 0
    weights = weights_of(verdicts.human, verdicts.weights) if verdicts.weights and people else None
    table = pa.concat_tables([verdicts.human, verdicts.grades])
    ratings = ratings_of(table, verdicts.levels, weights)
    coefficients, confused = measure_agreement(
        ratings,
        {PANEL: verdicts.panel, WITH_HUMAN: (HUMAN, *verdicts.panel) if people else ()},
        {name: COEFFICIENTS[name] for name in options.coefficients},
        thresholds=options.positive_thresholds,
    )
    tables = {
        "agreement": table_of(coefficients, Agreement),
        "confusion": table_of(confused, ConfusionCell),
    }
    pairs = [row for row in coefficients if people and row.rater_a == HUMAN and not row.items]
    judges = dict.fromkeys(row.rater_b for row in pairs)
    missing = [f"{judge} and {HUMAN} judged no document in common" for judge in judges]
    if not coefficients and len(ratings.raters) > 1:
        names = ", ".join(options.coefficients)
        missing = [f"{names}: needs three or more raters"]
    return MeasuredTables(tables, missing)
