"""Find from which relevance on a document counts as relevant."""

from collections.abc import Sequence

from zelo_ray.evaluation.measures import Measure, Truth, default_measures, load_measure


def find_threshold(measures: Sequence[Measure], truth: Truth) -> float | None:
    """Return the least relevance that is relevant: that of the first measure which has one.

    Where no measure has one, it is that of the measures which suit the truth. None where the truth
    is zELO scores, whose 0 depends on the other documents of a query, and no measure names one.
    """
    for measure in (*measures, *default_measures(truth)):
        kind, parameters_given = load_measure(measure.name), dict(measure.parameters)
        has_rel = "rel" in parameters_given or not (kind.exclusive and parameters_given)
        if (
            "rel" in kind.parameters
            and has_rel
            and (truth.kind != "scores" or "rel" in parameters_given)
        ):
            return float(parameters_given.get("rel", kind.parameters["rel"].default))
    return None
