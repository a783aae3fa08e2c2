"""Say what people's labels change in a contest, the same on the terminal and the page."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any

from zelo_ray.commands.bakeoff.significance import Significance, significance_of, turned
from zelo_ray.evaluation.people.corrected import FEWEST as FEWEST_LABELS
from zelo_ray.evaluation.significance import FEWEST
from zelo_ray.formats.wording import counted
from zelo_ray.records import Comparison, Estimate

By = Mapping[Estimate, Sequence[Comparison]]
_WHOSE: tuple[tuple[Estimate, str], ...] = (
    ("panel", "the panel said"),
    ("graded", "the panel's scores say, as grades,"),
    ("people", "people's labels alone say"),
)


def by_estimate(rows: Sequence[Comparison], measure: str) -> dict[Estimate, list[Comparison]]:
    """Group comparisons by one measure by their estimate; drop ``panel`` if there is ``graded``."""
    groups: dict[Estimate, list[Comparison]] = {}
    for row in rows:
        if row.measure == measure:
            groups.setdefault(row.estimate, []).append(row)
    if "graded" in groups:
        groups.pop("panel", None)
    return groups


def heading(people: Mapping[str, Any]) -> str:
    """Say in one sentence how many labels there are, by whom, and how they were drawn."""
    who = f"{counted(people['persons'], 'person', 'people')} labelled" if people["persons"] else ""
    ways = {
        "drawn": "drawn by chance, with known probabilities",
        "complete": "which are all that tell the arms apart",
        "queries": f"all that tell the arms apart in {people['queries']:,} queries, which are "
        "taken as drawn by chance",
    }
    what = counted(people["labels"], "document")
    return f"{who or 'Labelled:'} {what}, {ways[people['way']]}."


def sentences(estimates: By, people: Mapping[str, Any], confidence: float) -> Iterator[str]:
    """Compare the leader by the corrected estimate with each other arm.

    Args:
        estimates: of `by_estimate`, by the leading measure.
        people: of ``run.json``.
        confidence: of the intervals.
    """
    forecasts = {frozenset((f["run_a"], f["run_b"])): f["outlook"] for f in people["forecasts"]}
    of = {
        whose: {frozenset((row.run_a, row.run_b)): row for row in estimates.get(whose, ())}
        for whose, _ in _WHOSE
    }
    for comparison in leading(estimates.get("corrected", ()), people["leader"]):
        pair = frozenset((comparison.run_a, comparison.run_b))
        figures = [
            f"{name} {_amount(_seen(estimate, comparison.run_a))}"
            for whose, name in _WHOSE
            if (estimate := of[whose].get(pair)) and not isnan(estimate.difference)
        ]
        more = _next(comparison, forecasts.get(pair))
        sure = "" if isnan(comparison.low) else f" ({confidence:.0%})"
        yield f"{_claim(comparison)}{sure}; {', '.join(figures)}. {more}".rstrip()


def remarks(people: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a reader has to know of the labels."""
    if people["refused"]:
        yield f"People's labels correct nothing: {people['refused']}."
    looked = [f"the sample was made larger {counted(people['stages'] - 1, 'time')}"]
    looked = looked if people["stages"] > 1 else []
    if people["waiting"]:
        documents = counted(people["waiting"], "drawn document is", "drawn documents are")
        looked.append(f"{documents} still to be judged")
    if looked:
        text = " and ".join(looked)
        yield (
            f"{text[0].upper()}{text[1:]}: an interval holds at its level for a number of labels "
            "that was fixed beforehand. Who looks again and again, and stops as soon as a "
            "difference is sure, is wrong more often (docs/people.md)."
        )
    yield from people["between"]
    if people["unsure"]:
        yield (
            f"Of {counted(people['unsure'], 'document')} people could not say; they are taken as "
            "missing by chance."
        )
    if people["ahead"]:
        yield (
            f"{counted(people['ahead'], 'answer')} came out of turn, and will count as soon as "
            "those before have one."
        )
    if people["strangers"]:
        documents = counted(people["strangers"], "labelled document is", "labelled documents are")
        yield f"{documents} among no arm's first ones."
    omissions = people["left_out"] or {}
    for why in dict.fromkeys(omissions.values()):
        names = [name for name, reason in omissions.items() if reason == why]
        yield f"Not corrected: {', '.join(names)}: {why}."


def leading(corrected: Sequence[Comparison], best: str) -> list[Comparison]:
    """Return the comparisons of the leader, as A, with each other arm, the nearest first."""
    comparisons = [_seen(row, best) for row in corrected if best in (row.run_a, row.run_b)]
    return sorted(comparisons, key=lambda row: row.difference)


def _seen(comparison: Comparison, arm: str) -> Comparison:
    return comparison if comparison.run_a == arm else turned(comparison)


def _claim(comparison: Comparison) -> str:
    amount = _amount(comparison)
    match significance_of(comparison):
        case Significance.ABOVE:
            return f"{comparison.run_a} beats {comparison.run_b} by {amount}"
        case Significance.BELOW:
            return (
                f"{comparison.run_a} has the higher mean, but {comparison.run_b} beats it: {amount}"
            )
        case Significance.TOO_FEW_QUERIES:
            return f"{comparison.run_a} and {comparison.run_b} share too few queries: {amount}"
        case Significance.NOT_SIGNIFICANT if isnan(comparison.low):
            return (
                f"Fewer than {FEWEST_LABELS} labels, or of fewer than {FEWEST} queries, tell "
                f"{comparison.run_a} and {comparison.run_b} apart, and more are needed: {amount}"
            )
        case _:
            return (
                f"{comparison.run_a} and {comparison.run_b} do not differ significantly: {amount}"
            )


def _amount(comparison: Comparison) -> str:
    if isnan(comparison.low):
        return f"{comparison.difference:+.3f}"
    half = (comparison.high - comparison.low) / 2
    return f"{comparison.difference:+.3f} \N{PLUS-MINUS SIGN} {half:.3f}"


def _next(comparison: Comparison, outlook: Mapping[str, Any] | None) -> str:
    """Say what more labels would do."""
    if outlook is None:
        return ""
    if significance_of(comparison).is_significant:
        return "More labels are not needed."
    if outlook["labels"] is None and not outlook["never"]:
        return "Too early to say how many labels would settle it: some more will show it."
    if outlook["labels"] is None:
        return (
            f"Labels will not settle it: with all {outlook['most']:,} documents labelled the "
            f"standard error would still be {outlook['least']:.3f}, since queries differ; more "
            "queries would."
        )
    return (
        f"If it stays so large, about {outlook['labels']:,} more labels would settle it: they "
        f"bring the standard error from {outlook['error']:.3f} to {outlook['aim']:.3f} "
        f"(zelo-ray label --out LABELS --more {outlook['labels']})."
    )
