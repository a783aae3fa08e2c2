"""Show what people's labels change in a bake-off, and how many more would settle it."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from zelo_ray.commands.bakeoff.rows import against, comparisons_of, forest, means_of, rankers_of
from zelo_ray.evaluation.significance import significance_of
from zelo_ray.files.wording import counted
from zelo_ray.records import Comparison
from zelo_ray.report.model import Cell, Part, Section, Value, chart, estimate, table
from zelo_ray.report.results import Results
from zelo_ray.report.significance import compare_leader, significance_cell

_NAMES = {"panel": "panel alone", "graded": "panel's grades", "people": "people alone"}
"""What estimates beside the corrected one are called."""
_DESIGNS = {
    "drawn": "drawn at random, with known probabilities",
    "complete": "which are all that distinguish the rankers",
    "queries": "all that distinguish the rankers in {:,} queries, which are taken as a random "
    "sample",
}
_difference = estimate("difference", "+z.3f")


def people_lead(results: Results) -> str:
    """Say which ranker leads by the corrected measure; empty if people correct nothing."""
    people, leading = results.record.get("people") or {}, results.record["measures"][0]
    if not people.get("design"):
        return ""
    measure, leader = people["measures"][0], people["leader"]
    rows = against(leader, comparisons_of(results, "corrected")[measure])
    others = compare_leader("It", {row.run_b: significance_of(row) for row in rows})
    text = f"Corrected by people's labels, {leader} leads by {measure}. {others}"
    if people["on_panel_scale"].get(measure, measure) == leading:
        return text.strip()
    why = people["left_out"].get(leading, "the panel gives scores, and people grades")
    return f"{text} The leaderboard is by {leading}, which people do not correct: {why}."


def people_section(results: Results) -> Iterator[Section]:
    """Show means and differences by the panel, by people, and by both together."""
    people = results.record.get("people")
    if not people:
        return
    parts: list[Part] = [*_remarks(people)]
    if people["design"]:
        found = {name: comparisons_of(results, name) for name in ("corrected", *_NAMES)}
        pictures = {
            measure: forest(people["leader"], rows) for measure, rows in found["corrected"].items()
        }
        caption = (
            "By how much the ranker that leads is above each other one, corrected by people. A "
            "point is filled where the difference is significant after correction for all "
            "comparisons."
        )
        parts += [chart(pictures, caption, "measure"), _means(results, people["measures"][0])]
        parts.append(_comparisons(results, found))
    yield Section("people", "What people's labels change", parts)


def _remarks(people: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many labels there are, how they were drawn, and what a reader has to know."""
    if people["refused"]:
        yield f"People's labels correct nothing: {people['refused']}."
    if people["design"]:
        raters = counted(people["persons"], "person", "people") if people["persons"] else "People"
        design = _DESIGNS[people["design"]].format(people["queries"])
        yield f"{raters} labelled {counted(people['labels'], 'document')}, {design}."
    if people["stages"] > 1 or people["waiting"]:
        yield (
            f"The sample was drawn in {counted(people['stages'], 'stage')}, and "
            f"{counted(people['waiting'], 'document')} of it have no label yet: intervals are "
            "exact only for a number of labels that was fixed beforehand (docs/people.md)."
        )
    for name, measure in people["on_panel_scale"].items():
        yield (
            f"{name}: people's gains, divided by the best sum that the panel's grades allow. That "
            f"is not people's own {measure}, which only labels of all documents give."
        )
    for count, text in (
        (people["cannot_say"], "people could not say; these are taken as missing at random"),
        (people["out_of_turn"], "answers count only once all documents before are labelled"),
        (people["labels_outside"], "labels do not count, as no ranker has it among its first"),
    ):
        if count:
            yield f"Of {counted(count, 'document')} {text}."
    for name, why in people["left_out"].items():
        if why != people["refused"]:
            yield f"{name} is not corrected: {why}."


def _panel(found: Mapping[str, Mapping[str, Any]], measure: str) -> str:
    """Return the estimate of the panel that corrected figures are to be compared with."""
    return "graded" if measure in found["graded"] else "panel"


def _means(results: Results, measure: str) -> Part:
    """List the rankers by the corrected measure, beside what the panel alone says."""
    means = {name: means_of(results, name) for name in ("corrected", "graded", "panel")}
    corrected, alone = means["corrected"][measure], _panel(means, measure)
    rankers = sorted(rankers_of(results), key=lambda name: -corrected[name].mean)
    columns: dict[str, Callable[[str], Value]] = {
        "ranker": lambda name: name,
        f"{measure}, corrected by people": lambda name: corrected[name].mean,
        _NAMES[alone]: lambda name: means[alone][measure][name].mean,
    }
    return table(rankers, columns, file="means.parquet")


def _comparisons(results: Results, found: Mapping[str, Mapping[str, list[Comparison]]]) -> Part:
    """List every corrected comparison beside those of the panel and of people alone."""
    people, rows = results.record["people"], list[tuple[Comparison, Cell, Cell]]()
    forecasts = {
        (frozenset((row["run_a"], row["run_b"])), row["measure"]): row
        for row in results.rows("forecasts")
    }
    for measure, corrected in found["corrected"].items():
        ahead = against(people["leader"], corrected)
        others = [row for row in corrected if people["leader"] not in (row.run_a, row.run_b)]
        for row in (*ahead, *others):
            of = (found[name][measure] for name in (_panel(found, measure), "people"))
            both = [_difference(_pair(rows, row)) for rows in of]
            rows.append((row, both[0], both[1]))

    def more_labels(row: Comparison) -> str:
        forecast = forecasts.get((frozenset((row.run_a, row.run_b)), row.measure))
        if forecast is None:
            return ""
        if significance_of(row).is_significant:
            return "none"
        if forecast["labels"] is not None:
            return f"about {forecast['labels']:,}"
        return "more queries, not labels" if forecast["never"] else "not known yet"

    first = next(iter(found["corrected"]))
    columns: dict[str, Callable[[tuple[Comparison, Cell, Cell]], Value]] = {
        "A": lambda line: line[0].run_a,
        "B": lambda line: line[0].run_b,
        "significance": lambda line: significance_cell(line[0]),
        "A minus B": lambda line: _difference(line[0]),
        "more labels": lambda line: more_labels(line[0]),
        _NAMES[_panel(found, first)]: lambda line: line[1],
        _NAMES["people"]: lambda line: line[2],
        "p (Holm)": lambda line: Cell(line[0].p_holm, ".3g"),
    }
    if len(found["corrected"]) > 1:
        columns["measure"] = lambda line: line[0].measure
    caption = (
        "Differences corrected by people (prediction-powered: Angelopoulos et al. 2023; Oosterhuis "
        "et al. 2024). More labels: about how many (zelo-ray label --more) would make a difference "
        "to the leader significant if it stays as large."
    )
    return table(rows, columns, caption, file="comparisons.parquet", open_rows=30)


def _pair(rows: list[Comparison], like: Comparison) -> Comparison:
    """Return the comparison of the same two rankers, with the same one as A."""
    return next(row for row in against(like.run_a, rows) if row.run_b == like.run_b)
