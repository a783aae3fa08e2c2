"""Show a grid of first stages and rerankers: every pair, main effects, and the best pair."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zelo_ray.commands.bakeoff.report.results import BakeoffResults, comparisons_by_rival
from zelo_ray.commands.bakeoff.significance import Significance, significance_of
from zelo_ray.reports.parts import Cells, ReportTable, Section, Sentences, TextCell
from zelo_ray.reports.wording import Quantity, format_estimate, format_number

_MEAN = "mean"
_PHRASES = {
    Significance.ABOVE: "it is significantly better than the next, {}",
    Significance.BELOW: "the next, {}, is significantly better on the queries that both ranked",
    Significance.NOT_SIGNIFICANT: "it does not differ significantly from the next, {}",
    Significance.LABELS_COULD_TURN_IT: "other answers of the judges could put the next, {}, ahead",
    Significance.ONLY_BY_OWN_FAMILY: "only judges of a ranker's family put it above the next, {}",
    Significance.TOO_FEW_QUERIES: "too few queries compare it with the next, {}",
}
"""How the best pair compares with the next."""
_BY_PLACE = Mapping[tuple[str, str], Mapping[str, Any]]


def grid_section(results: BakeoffResults) -> Section | None:
    """Show the pairs of first stages and rerankers; None if there is no grid."""
    rows = results.with_titles(results.source.rows("grid"))
    cells = {(r["first_stage"], r["reranker"]): r for r in rows if r["measure"] == results.leading}
    stages = [*dict.fromkeys(stage for stage, _ in cells if stage)]
    rerankers = [*dict.fromkeys(reranker for _, reranker in cells if reranker)]
    if not (stages and rerankers):
        return None
    sentences = [*_describe_best(results, cells), *_describe_effects(cells, stages, rerankers)]
    return Section(
        "grid",
        "First stages and rerankers",
        [Sentences(sentences), _table(results, cells, stages, rerankers)],
    )


def _describe_best(results: BakeoffResults, cells: _BY_PLACE) -> Iterator[str]:
    """Name the best pair, and say whether it is significantly better than the next."""
    runs = {cell["run"]: cell for cell in cells.values() if cell["run"]}
    ordered = [run for run in results.rankers if run in runs]
    if len(ordered) < 2:
        return
    best, following = ordered[:2]
    rows = comparisons_by_rival(best, results.comparisons.get(results.leading, ()))
    names = f"{best} ({runs[best]['mean']:.3f})", f"{following} ({runs[following]['mean']:.3f})"
    if following not in rows:
        yield f"The best pair is {names[0]}; the next is {names[1]}."
        return
    phrase = _PHRASES[significance_of(rows[following])].format(names[1])
    yield f"The best pair is {names[0]}; {phrase}."


def _describe_effects(
    cells: _BY_PLACE, stages: Sequence[str], rerankers: Sequence[str]
) -> Iterator[str]:
    """Say of each factor how far its levels are from the mean of all pairs."""
    factors = {
        "First stages": [(stage, cells.get((stage, ""))) for stage in stages],
        "Rerankers": [(reranker, cells.get(("", reranker))) for reranker in rerankers],
    }
    for title, levels in factors.items():
        measured = [(name, cell) for name, cell in levels if cell]
        if len(measured) < 2:
            continue
        measured.sort(key=lambda level: -level[1]["effect"])
        effects = (
            f"{name} {format_estimate(c['effect'], c['effect_low'], c['effect_high'], '+.3f')}"
            for name, c in measured
        )
        yield f"{title}, against the mean of all pairs: {', '.join(effects)}."


def _table(
    results: BakeoffResults, cells: _BY_PLACE, stages: Sequence[str], rerankers: Sequence[str]
) -> ReportTable:
    columns, lines = [*rerankers, _MEAN], [*stages, _MEAN]
    rows: list[Cells] = [
        [
            TextCell(line),
            *(_cell(cells, "" if line == _MEAN else line, reranker) for reranker in rerankers),
            _cell(cells, "" if line == _MEAN else line, ""),
        ]
        for line in lines
    ]
    caption = (
        f"{results.leading} of each first stage (rows) with each reranker (columns), and their "
        "means over the other factor, with intervals over samples of queries."
    )
    return ReportTable(
        ["first stage", *columns], rows, caption, frozenset(columns), file="grid.parquet"
    )


def _cell(cells: _BY_PLACE, stage: str, reranker: str) -> Quantity:
    cell = cells.get((stage, reranker))
    if cell is None:
        return format_number(None)
    return format_estimate(cell["mean"], cell["low"], cell["high"])
