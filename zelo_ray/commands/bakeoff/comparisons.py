"""Read a bake-off's rankers, means and comparisons from its tables, and say what they show."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import nan
from typing import Any

from markupsafe import Markup

from zelo_ray.evaluation.significance import Significance, significance_of, swap_rankers
from zelo_ray.records import Comparison
from zelo_ray.report import charts
from zelo_ray.report.figures import Figure, Row
from zelo_ray.report.model import Cell, Table, estimate, name_some, table
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
    found: dict[str, list[Comparison]] = {}
    for row in results.records("comparisons", Comparison, estimate=estimate):
        is_behind = (-row.difference, places[row.run_a]) > (0, places[row.run_b])
        found.setdefault(row.measure, []).append(swap_rankers(row) if is_behind else row)
    return found


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
    rows: Sequence[Comparison],
    more: Mapping[str, Any],
    caption: str,
    total: int = 0,
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
        names = [name for name, found in rivals.items() if found is significance]
        if names:
            everyone = len(names) == len(rivals) > _NAMED
            others = f"all {len(names)} others" if everyone else name_some(names, _NAMED)
            clauses.append(clause.format(others))
    return f"{leader} {'; it '.join(clauses)}." if clauses else ""
