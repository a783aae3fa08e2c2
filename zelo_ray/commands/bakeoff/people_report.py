"""Show what people's labels change in a bake-off."""

from collections.abc import Iterator, Mapping
from itertools import chain
from math import inf
from statistics import NormalDist
from typing import Any

from zelo_ray.commands.bakeoff.comparisons import (
    FOREST,
    against,
    both_ways,
    compare_leader,
    comparison_table,
    comparisons_of,
    difference,
    forest,
    means_of,
)
from zelo_ray.evaluation.significance import ALPHA, significance_of
from zelo_ray.files.wording import counted
from zelo_ray.records import Comparison
from zelo_ray.report.figures import best_first, pick
from zelo_ray.report.model import Part, Section, chart, table
from zelo_ray.report.results import Results

_PANEL = "panel alone"
_MOST = 100_000  # labels
_DESIGNS = {
    "drawn": "drawn at random, with known probabilities",
    "complete": "which are all that distinguish the rankers",
    "queries": "all that distinguish the rankers in {:,} queries, which are taken as a random "
    "sample",
}


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
        found, measure = comparisons_of(results, "corrected"), people["measures"][0]
        pictures = {name: forest(people["leader"], rows) for name, rows in found.items()}
        parts += [chart(pictures, FOREST, "measure"), _means(results, measure)]
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
    if people["cannot_say"]:
        unsure = counted(people["cannot_say"], "document")
        yield f"People could not say of {unsure}, which are taken as missing at random."
    reasons: dict[str, list[str]] = {}
    for name, why in people["left_out"].items():
        reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        if why != people["refused"]:
            yield f"Not corrected: {', '.join(names)}: {why}."


def _means(results: Results, measure: str) -> Part:
    """List the rankers by the corrected measure, beside what the panel alone says."""
    rows = pick(means_of(results, "corrected"), what=measure)
    panel = pick([*means_of(results), *means_of(results, "graded")], what=measure)
    by_panel, corrected = ({row["of"]: row["value"] for row in each} for each in (panel, rows))
    columns: dict[str, Any] = {
        "ranker": lambda name: name,
        f"{measure}, corrected by people": corrected.get,
        _PANEL: by_panel.get,
    }
    return table(best_first(rows), columns, file="means.parquet")


def _comparisons(results: Results, found: Mapping[str, list[Comparison]]) -> Part:
    """List every corrected comparison beside those of the panel and of people alone."""
    people = results.record["people"]
    leader, is_drawn = people["leader"], people["design"] == "drawn"
    rows = list[Comparison]()
    for each in found.values():
        rows += against(leader, each)
        rows += [row for row in each if leader not in (row.run_a, row.run_b)]
    panel, alone = (
        both_ways(chain.from_iterable(side.values()))
        for side in (
            comparisons_of(results) | comparisons_of(results, "graded"),
            comparisons_of(results, "people"),
        )
    )

    def labels(row: Comparison) -> str:
        if significance_of(row).is_significant or leader not in (row.run_a, row.run_b):
            return ""
        normal = NormalDist()
        strictest = normal.inv_cdf(1 - ALPHA / 2 / len(found[row.measure]))
        ratio = strictest / normal.inv_cdf(1 - row.p / 2) if row.p < 1 else inf
        more = people["labels"] * (ratio**2 - 1)
        return f"at least {max(more, 1):,.0f}" if more < _MOST else ""

    columns: dict[str, Any] = {
        _PANEL: lambda row: difference(panel[row.measure, row.run_a, row.run_b]),
        "people alone": lambda row: difference(alone[row.measure, row.run_a, row.run_b]),
        **({"more labels": labels} if is_drawn else {}),
        **({"measure": "measure"} if len(found) > 1 else {}),
    }
    caption = (
        "Differences corrected by people (prediction-powered: Angelopoulos et al. 2023; Oosterhuis "
        "et al. 2024)."
    )
    if is_drawn:
        caption += (
            " More labels: how many would make a difference to the leader significant if it stays "
            "as large and queries do not differ; more, as they do (zelo-ray label --more)."
        )
    return comparison_table(rows, columns, caption)
