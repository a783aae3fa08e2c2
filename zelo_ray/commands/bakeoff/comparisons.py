"""Say what comparisons of rankers show, and what people's labels change."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from math import nan
from typing import Any

from markupsafe import Markup

from zelo_ray.evaluation.significance import Significance, significance_of, swap_rankers
from zelo_ray.files.wording import counted
from zelo_ray.records import Comparison
from zelo_ray.report import charts
from zelo_ray.report.figures import Figure, Row, best_first, pick
from zelo_ray.report.model import Cell, Part, Section, Table, chart, estimate, name_some, table
from zelo_ray.report.results import Results

FOREST = """By how much the ranker with the highest mean is above each other one, on the queries
that both ranked, with the interval of each pair. A point is filled where the difference is
significant after correction for all comparisons."""
_NAMED = 5
_WORDS = {
    Significance.BELOW: ("significant", "is significantly below {} where both ranked"),
    Significance.NOT_SIGNIFICANT: ("not significant", "does not differ significantly from {}"),
    Significance.LABELS_COULD_TURN_IT: (
        "labels unsure",
        "differs from {}, but other answers of the judges could turn that",
    ),
    Significance.ONLY_BY_OWN_FAMILY: (
        "own family only",
        "differs from {}, but only by judges of a ranker's own model family",
    ),
    Significance.TOO_FEW_QUERIES: ("too few queries", "cannot be compared with {}"),
    Significance.TOO_FEW_LABELS: ("too few labels", "cannot be compared with {} by so few labels"),
    Significance.ABOVE: ("significant", "is significantly above {}"),
}
"""The cell of a table, and the clause with the names of others, in the order of a sentence."""
difference = estimate("difference", "+z.3f")


def rankers_of(results: Results) -> list[str]:
    """Return the rankers that took part, best first by the leading measure."""
    return [row["run"] for row in results.rows("leaderboard") if row["ranked"]]


def means_of(results: Results, estimate: str = "panel") -> list[Row]:
    """Return means as figures, those of the best ranker first."""
    places = {name: n for n, name in enumerate(rankers_of(results))}
    rows = sorted(results.rows("means", estimate=estimate), key=lambda row: places[row["run"]])
    return [
        asdict(
            Figure(
                *(row["run"], "", row["measure"], "", row["mean"], row["low"], row["high"], nan),
                *(row["queries"], row["queries"]),
            )
        )
        for row in rows
    ]


def comparisons_of(results: Results, estimate: str = "panel") -> dict[str, list[Comparison]]:
    """Return comparisons by measure, the better ranker as A; of equal ones, the leader."""
    places = {name: n for n, name in enumerate(rankers_of(results))}
    by_measure: dict[str, list[Comparison]] = {}
    for row in results.records("comparisons", Comparison, estimate=estimate):
        is_behind = (-row.difference, places[row.run_a]) > (0, places[row.run_b])
        by_measure.setdefault(row.measure, []).append(swap_rankers(row) if is_behind else row)
    return by_measure


def both_ways(rows: Iterable[Comparison]) -> dict[tuple[str, str, str], Comparison]:
    """Return comparisons by measure, A and B, each also with A and B exchanged."""
    pairs = (each for row in rows for each in (row, swap_rankers(row)))
    return {(row.measure, row.run_a, row.run_b): row for row in pairs}


def against(ranker: str, rows: Iterable[Comparison]) -> list[Comparison]:
    """Return a ranker's comparisons by one measure, with it as A, the smallest lead first."""
    own = [row for row in both_ways(rows).values() if row.run_a == ranker]
    return sorted(own, key=lambda row: row.difference)


def forest(best: str, rows: Iterable[Comparison]) -> Markup:
    """Draw by how much a ranker is above each other one; a ring is not significant."""
    shown = against(best, rows)
    return charts.intervals(
        [row.run_b for row in shown],
        {"": [[getattr(row, end) for row in shown] for end in ("difference", "low", "high")]},
        f"{best} minus the other",
        0.0,
        hollow={n for n, row in enumerate(shown) if not significance_of(row).is_significant},
        form="+.3f",
    )


def comparison_table(
    rows: Sequence[Comparison], more: Mapping[str, Any], caption: str, total: int = 0
) -> Table:
    """List comparisons, with further columns."""
    columns: dict[str, Any] = {
        "A": "run_a",
        "B": "run_b",
        "significance": lambda row: (
            _WORDS[significance_of(row)][0] + (f" ({row.family})" if row.family else "")
        ),
        "A minus B": difference,
        "p (Holm)": lambda row: Cell(row.p_holm, ".3g"),
    }
    file = "comparisons.parquet"
    return table(rows, {**columns, **more}, caption, file=file, total=total, open_rows=30)


def compare_leader(leader: str, rivals: Mapping[str, Significance]) -> str:
    """Say how a leader, who is A, compares with others, by their names; empty without any."""
    clauses = []
    for significance, (_, clause) in _WORDS.items():
        names = [name for name, verdict in rivals.items() if verdict is significance]
        if names:
            everyone = len(names) == len(rivals) > _NAMED
            others = f"all {len(names)} others" if everyone else name_some(names, _NAMED)
            clauses.append(clause.format(others))
    return f"{leader} {'; it '.join(clauses)}." if clauses else ""


_PANEL = "panel alone"
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
        by_measure, measure = comparisons_of(results, "corrected"), people["measures"][0]
        pictures = {name: forest(people["leader"], rows) for name, rows in by_measure.items()}
        parts += [chart(pictures, FOREST, "measure"), _means(results, measure)]
        parts.append(_comparisons(results, by_measure))
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


def _comparisons(results: Results, by_measure: Mapping[str, list[Comparison]]) -> Part:
    """List every corrected comparison beside those of the panel and of people alone."""
    leader = results.record["people"]["leader"]
    rows = list[Comparison]()
    for each in by_measure.values():
        rows += against(leader, each)
        rows += [row for row in each if leader not in (row.run_a, row.run_b)]
    panel, alone = (
        both_ways(chain.from_iterable(side.values()))
        for side in (
            comparisons_of(results) | comparisons_of(results, "graded"),
            comparisons_of(results, "people"),
        )
    )
    columns: dict[str, Any] = {
        _PANEL: lambda row: difference(panel[row.measure, row.run_a, row.run_b]),
        "people alone": lambda row: difference(alone[row.measure, row.run_a, row.run_b]),
        **({"measure": "measure"} if len(by_measure) > 1 else {}),
    }
    caption = (
        "Differences corrected by people (prediction-powered: Angelopoulos et al. 2023; Oosterhuis "
        "et al. 2024)."
    )
    return comparison_table(rows, columns, caption)
