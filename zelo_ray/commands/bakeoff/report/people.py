"""Show what people's labels change in a bake-off, and how many more would settle it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from zelo_ray.commands.bakeoff.report.leaderboard import (
    compare_with_others,
    lead_sentence,
    significance_text,
)
from zelo_ray.commands.bakeoff.report.results import (
    BakeoffResults,
    closest_first,
    comparisons_by_rival,
)
from zelo_ray.commands.bakeoff.significance import significance_of, swap_rankers
from zelo_ray.files.wording import counted
from zelo_ray.records import Comparison, Estimate
from zelo_ray.reports.charts.figures import intervals
from zelo_ray.reports.parts import Cells, Chart, Figure, ReportTable, Section, Sentences, TextCell
from zelo_ray.reports.wording import format_estimate, format_number

_NAMES: dict[Estimate, str] = {
    "corrected": "corrected by people",
    "panel": "panel alone",
    "graded": "panel's scores as grades",
    "people": "people alone",
}


def _name(estimate: Estimate, results: BakeoffResults) -> str:
    """Name an estimate; the panel's grades, by a measure that people correct, are the panel's."""
    is_graded = estimate == "graded" and results.summary["truth"]["kind"] != "scores"
    return _NAMES["panel" if is_graded else estimate]


_OPEN = 30
_WAYS = {
    "drawn": "drawn at random, with known probabilities",
    "complete": "which are all that distinguish the rankers",
    "queries": "all that distinguish the rankers in {queries:,} queries, which are treated as a "
    "random sample",
}
_BY_PAIR = dict[frozenset[str], Comparison]


def people_lead(results: BakeoffResults) -> str:
    """Say which ranker leads by the corrected measure; empty where people correct nothing."""
    people = results.people
    if not people.get("way"):
        return ""
    measure, leader = people["measures"][0], people["leader"]
    corrected = _by_estimate(results, measure).get("corrected", ())
    others = compare_with_others("It", closest_first(leader, corrected), results)
    lead = f"Corrected by people's labels, {leader} leads by {measure}. {others}".strip()
    return f"{lead} {_other_measure(results)}".strip()


def panel_lead(results: BakeoffResults) -> str:
    """Say which ranker leads by the panel alone, by the measure that people correct."""
    measure = results.people["measures"][0]
    groups, means = _by_estimate(results, measure), _means_by(results, measure)
    alone = _panels_estimate(groups)
    if _base(measure, results) == results.leading or alone not in groups:
        return f"By the panel alone: {lead_sentence(results)}"
    best = max(results.rankers, key=lambda ranker: means[ranker, alone])
    others = compare_with_others("It", closest_first(best, groups[alone]), results)
    return f"By the panel alone, {best} has the highest {measure}. {others}".strip()


def _other_measure(results: BakeoffResults) -> str:
    """Say why people's labels do not correct the measure of the leaderboard; empty if they do."""
    measure, leading = _base(results.people["measures"][0], results), results.leading
    if measure == leading:
        return ""
    why = (results.people["left_out"] or {}).get(leading)
    if why is None:
        return f"The leaderboard is by {leading}: the panel gives scores, and people grades."
    return f"The leaderboard is by {leading}, which people's labels do not correct: {why}."


def _base(measure: str, results: BakeoffResults) -> str:
    """Return the measure that a corrected one stands for, as the report writes it."""
    base: str = (results.people.get("on_panel_scale") or {}).get(measure, measure)
    return base


def _panels_estimate(groups: Mapping[Estimate, Sequence[Comparison]]) -> Estimate:
    """Return the estimate of the panel that corrected figures are to be compared with."""
    return "graded" if "graded" in groups else "panel"


def _means_by(results: BakeoffResults, measure: str) -> dict[tuple[str, str], float]:
    """Return means by one measure, by ranker and estimate."""
    return {
        (row["run"], row["estimate"]): row["mean"]
        for row in results.source.rows("means")
        if row["measure"] == measure
    }


def people_section(results: BakeoffResults) -> Section | None:
    """Show means and differences by the panel, by people, and by both together."""
    people = results.people
    if not people:
        return None
    remarks = Sentences([*_remarks(people)])
    if not people["way"]:
        return Section("people", "What people's labels change", (remarks,))
    measures = {measure: _by_estimate(results, measure) for measure in people["measures"]}
    chart = Chart(
        {name: _forest(results, groups, name) for name, groups in measures.items()},
        "By how much the ranker that leads by the corrected measure is above each other one, with "
        "intervals. A corrected point is filled where the difference is significant after "
        "correction for all comparisons.",
        "measure",
    )
    tables = _means_table(results, people["measures"][0]), _comparisons_table(results, measures)
    return Section("people", "What people's labels change", (remarks, chart, *tables))


def _by_estimate(results: BakeoffResults, measure: str) -> dict[Estimate, list[Comparison]]:
    """Group comparisons by one measure by their estimate; drop ``panel`` if there is ``graded``."""
    groups: dict[Estimate, list[Comparison]] = {}
    for row in results.all_comparisons:
        if row.measure == measure:
            groups.setdefault(row.estimate, []).append(row)
    if "graded" in groups:
        groups.pop("panel", None)
    return groups


def _remarks(people: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many labels there are, how they were drawn, and what a reader has to know."""
    if people["refused"]:
        yield f"People's labels correct nothing: {people['refused']}."
    if people["way"]:
        raters = people["persons"]
        labelled = f"{counted(raters, 'person', 'people')} labelled" if raters else "Labelled:"
        way = _WAYS[people["way"]].format(queries=people["queries"])
        yield f"{labelled} {counted(people['labels'], 'document')}, {way}."
    looks = [f"the sample was made larger {counted(people['stages'] - 1, 'time')}"]
    looks = looks if people["stages"] > 1 else []
    if people["waiting"]:
        documents = counted(people["waiting"], "drawn document is", "drawn documents are")
        looks.append(f"{documents} not labelled yet")
    if looks:
        text = " and ".join(looks)
        yield (
            f"{text[0].upper()}{text[1:]}: intervals are exact only for a number of labels that "
            "was fixed beforehand (docs/people.md)."
        )
    if scaled := people.get("on_panel_scale"):
        yield (
            f"{', '.join(scaled)}: people's gains, divided by the best sum that the panel's grades "
            f"allow. That is not people's own {', '.join(scaled.values())}, which only labels of "
            "all documents give."
        )
    yield from people["between"]
    if people["unsure"]:
        documents = counted(people["unsure"], "document")
        yield f"People could not say of {documents}; these are treated as missing at random."
    if people["ahead"]:
        answers = counted(people["ahead"], "answer")
        yield f"{answers} came out of turn, and will count once all documents before are labelled."
    if people["strangers"]:
        documents = counted(people["strangers"], "labelled document is", "labelled documents are")
        yield f"{documents} not among the first of any ranker."
    omissions = {
        name: why for name, why in (people["left_out"] or {}).items() if why != people["refused"]
    }
    for why in dict.fromkeys(omissions.values()):
        names = [name for name, reason in omissions.items() if reason == why]
        yield f"Not corrected: {', '.join(names)}: {why}."


def _forest(
    results: BakeoffResults, groups: Mapping[Estimate, Sequence[Comparison]], measure: str
) -> Figure:
    best = results.people["leader"]
    rivals = closest_first(best, groups.get("corrected", ()))
    series = {}
    for name in _NAMES:
        if by_rival := comparisons_by_rival(best, groups.get(name, ())):
            rows = [by_rival[rival.run_b] for rival in rivals]
            ends = ([getattr(row, end) for row in rows] for end in ("difference", "low", "high"))
            value, low, high = (np.array(end, dtype=float) for end in ends)
            series[_name(name, results)] = (value, low, high)
    hollow = {i for i, row in enumerate(rivals) if not significance_of(row).is_significant}
    title = f"{best} minus the other, {measure}"
    return intervals([row.run_b for row in rivals], series, title, 0.0, hollow=hollow)


def _means_table(results: BakeoffResults, measure: str) -> ReportTable:
    """List the rankers by the corrected measure, beside what the panel alone says."""
    means = _means_by(results, measure)
    alone = _panels_estimate(_by_estimate(results, measure))
    rankers = sorted(results.rankers, key=lambda ranker: -means[ranker, "corrected"])
    columns = [f"{measure}, {_NAMES['corrected']}", _name(alone, results)]
    cells: list[Cells] = [
        [TextCell(ranker), *(format_number(means[ranker, name]) for name in ("corrected", alone))]
        for ranker in rankers
    ]
    return ReportTable(
        ["ranker", *columns], cells, numbers=frozenset(columns), file="means.parquet"
    )


def _comparisons_table(
    results: BakeoffResults, measures: Mapping[str, Mapping[Estimate, Sequence[Comparison]]]
) -> ReportTable:
    """List every corrected comparison beside those of the panel and of people alone."""
    people = results.people
    forecasts = {
        (frozenset((row["run_a"], row["run_b"])), row["measure"]): row["outlook"]
        for row in people["forecasts"]
    }
    leader, cells = people["leader"], list[Cells]()
    for measure, groups in measures.items():
        alone = _panels_estimate(groups)
        of = {name: _by_pair(groups.get(name, ())) for name in (alone, "people")}
        corrected = groups.get("corrected", ())
        ahead = closest_first(leader, corrected)
        others = [
            swap_rankers(row) if row.difference < 0 else row
            for row in corrected
            if leader not in (row.run_a, row.run_b)
        ]
        for row in (*ahead, *others):
            pair = frozenset((row.run_a, row.run_b))
            beside = [
                comparisons_by_rival(row.run_a, [rows[pair]])[row.run_b] for rows in of.values()
            ]
            cells.append(
                [
                    TextCell(row.run_a),
                    TextCell(row.run_b),
                    significance_text(row),
                    _difference(row),
                    _more_labels(row, forecasts.get((pair, measure))),
                    *map(_difference, beside),
                    format_number(row.p_holm, ".3g"),
                    *([measure] if len(measures) > 1 else []),
                ]
            )
    alone = _panels_estimate(next(iter(measures.values())))
    numbers = ["A minus B", "more labels", _name(alone, results), _NAMES["people"], "p (Holm)"]
    caption = (
        "Differences corrected by people (prediction-powered: Angelopoulos et al. 2023; "
        "Oosterhuis et al. 2024). More labels: about how many (zelo-ray label --more) would make a "
        "difference to the leader significant if it stays as large."
    )
    columns = ["A", "B", "significance", *numbers, *(["measure"] if len(measures) > 1 else [])]
    return ReportTable(
        columns, cells, caption, frozenset(numbers), _OPEN, file="comparisons.parquet"
    )


def _by_pair(rows: Sequence[Comparison]) -> _BY_PAIR:
    return {frozenset((row.run_a, row.run_b)): row for row in rows}


def _difference(comparison: Comparison) -> str:
    return format_estimate(comparison.difference, comparison.low, comparison.high, "+z.3f")


def _more_labels(comparison: Comparison, outlook: Mapping[str, Any] | None) -> str:
    """Return how many more labels would settle a difference, or why there is no number."""
    if outlook is None:
        return format_number(None)
    if significance_of(comparison).is_significant:
        return "none"
    if outlook["labels"] is not None:
        return f"about {outlook['labels']:,}"
    return "more queries, not labels" if outlook["never"] else "not known yet"
