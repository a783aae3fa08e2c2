"""Warn of what a bake-off cannot decide, and of where it is unfair."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from statistics import NormalDist

from zelo_ray.commands.bakeoff.outcome import Caution
from zelo_ray.commands.bakeoff.report.results import BakeoffResults, closest_first
from zelo_ray.commands.bakeoff.significance import (
    ALPHA,
    Significance,
    count_tested,
    significance_of,
)
from zelo_ray.evaluation.significance import FEWEST, share_interval
from zelo_ray.files.wording import counted
from zelo_ray.records import Comparison
from zelo_ray.reports.demonstration import warn_of_demonstration
from zelo_ray.reports.warning import RankedWarnings, ResultWarning, rank_warnings
from zelo_ray.reports.warning_codes import Value, WarningCode

JUDGED = 0.9
"""Below this share of judged documents among the first ten, a ranker's mean is a lower bound: each
unjudged document counts as not relevant, and one in ten may move nDCG@10 as far as two differ."""
POWER = 0.8
"""The share of repetitions in which the test should find the difference."""
DEPTH = 10
"""Unjudged documents are counted among so many first ones."""
_NORMAL = NormalDist()
_MOST = 1_000_000
_NAMED = 3


@dataclass(frozen=True, slots=True)
class RankerFigures:
    """Figures of a bake-off.

    Attributes:
        queries: of the truth.
        leading: the measure of the leaderboard.
        rivals: the ranker that leads, as A, against each other one, by that measure.
        missing: by ranker, how many queries it did not rank.
        unjudged: by ranker, documents among its first `DEPTH` that nobody judged.
        ranked: by ranker, how many documents its first `DEPTH` are in all; where that is not known,
            `DEPTH` for each query that it ranked.
        compared: how many comparisons p is corrected for.
        confidence: of the intervals of the rivals.
        any_significant: whether any two rankers are significantly different.
        cautions: reasons why scores or grades may mislead.
        asked: the rankers that were asked, not read from run files: they can be asked again.
        has_gate: whether a gate decides about a baseline.
        few_labels: rankers whose difference to the leader too few of people's labels bear on.
    """

    queries: int
    leading: str = ""
    rivals: Sequence[Comparison] = ()
    missing: Mapping[str, int] = field(default_factory=dict)
    unjudged: Mapping[str, int] = field(default_factory=dict)
    ranked: Mapping[str, int] = field(default_factory=dict)
    compared: int = 1
    confidence: float = 0.95
    any_significant: bool = False
    cautions: Sequence[Caution] = ()
    asked: Collection[str] = ()
    has_gate: bool = False
    few_labels: Sequence[str] = ()


def warn_of_rankers(figures: RankerFigures) -> Iterator[ResultWarning]:
    """Yield a warning for everything that speaks against a decision by the leaderboard."""
    for caution in figures.cautions:
        yield _caution(caution)
    if figures.few_labels:
        others = {"others": _listed(figures.few_labels)}
        yield ResultWarning(WarningCode.TOO_FEW_LABELS, others)
    yield from _unsure_lead(figures)
    yield from _missing(figures)
    yield from _unjudged(figures)


_CAUTIONS = {
    "equal_scores": WarningCode.EQUAL_SCORES,
    "reversed_ranks": WarningCode.REVERSED_RANKS,
    "own_query": WarningCode.QUERY_IN_ITS_POOL,
    "own_id": WarningCode.DOCUMENT_WITH_QUERY_ID,
    "new_truth": WarningCode.TRUTH_CHANGED,
}


def _caution(caution: Caution) -> ResultWarning:
    values: dict[str, Value] = {
        "run": caution.run,
        "among": f"the first {caution.depth}" if caution.depth else "all",
        "queries": f"{caution.queries:,} of {counted(caution.of_queries, 'query', 'queries')}",
    }
    return ResultWarning(_CAUTIONS[caution.code], values)


def _unsure_lead(figures: RankerFigures) -> Iterator[ResultWarning]:
    if not figures.rivals:
        return
    significances = [significance_of(rival) for rival in figures.rivals]
    best = figures.rivals[0].run_a
    few, unsure = Significance.TOO_FEW_QUERIES, Significance.NOT_SIGNIFICANT
    if set(significances) == {few}:
        queries = counted(figures.queries, "query is", "queries are")
        values: dict[str, Value] = {"queries": queries, "fewest": FEWEST}
        yield ResultWarning(WarningCode.TOO_FEW_QUERIES, values)
    elif set(significances) <= {few, unsure}:
        until = "; until then take the cheapest"
        if figures.has_gate:
            until = "; whether one may replace the baseline, the gate says by itself"
        values = {
            "lead": f"The leader {best} is not significantly above any other ranker"
            if len(figures.rivals) > 1
            else f"{best} and {figures.rivals[0].run_b} are not significantly different",
            "best": best,
            "measure": figures.leading,
            "advice": _describe_needed_queries(figures)
            + ("" if figures.any_significant else until),
        }
        yield ResultWarning(WarningCode.NO_SIGNIFICANT_LEAD, values)
    for significance, code in (
        (Significance.LABELS_COULD_TURN_IT, WarningCode.LEAD_UNSURE_BY_LABELS),
        (Significance.ONLY_BY_OWN_FAMILY, WarningCode.LEAD_ONLY_BY_KIN),
    ):
        others = [
            rival.run_b
            for rival, verdict in zip(figures.rivals, significances, strict=True)
            if verdict is significance
        ]
        if others:
            yield ResultWarning(code, {"best": best, "others": _listed(others)})


def _describe_needed_queries(figures: RankerFigures) -> str:
    """Say how many queries would make the difference nearest to significance significant."""
    nearest = min(figures.rivals, key=lambda rival: rival.p if isfinite(rival.p) else 1.0)
    case = f"If {nearest.run_a} stays {abs(nearest.difference):.3f} above {nearest.run_b}"
    if nearest.p < ALPHA:
        return (
            f"{nearest.run_a} above {nearest.run_b} has p = {nearest.p:.2g} before the correction "
            f"for {counted(figures.compared, 'comparison')}: name fewer measures or rankers, or "
            "add queries"
        )
    needed = _count_needed_queries(nearest, figures.compared, figures.confidence)
    if not isfinite(needed) or needed > _MOST:
        return "No realistic number of queries would make it significant"
    rounded = int(float(f"{needed:.2g}"))
    if rounded <= nearest.queries:
        return "More queries would make it significant"
    return (
        f"{case}, about {rounded:,} queries would show it in {POWER:.0%} of bake-offs with as many "
        f"comparisons (here there are {nearest.queries:,})"
    )


def _count_needed_queries(comparison: Comparison, compared: int, confidence: float) -> float:
    """Count the queries that find such a difference with `POWER`, each test at .05 / compared."""
    if not comparison.difference:
        return inf
    error = (comparison.high - comparison.low) / 2 / _NORMAL.inv_cdf((1 + confidence) / 2)
    reach = _NORMAL.inv_cdf(1 - ALPHA / 2 / max(compared, 1)) + _NORMAL.inv_cdf(POWER)
    return comparison.queries * (reach * error / comparison.difference) ** 2


def _missing(figures: RankerFigures) -> Iterator[ResultWarning]:
    for ranker, count in figures.missing.items():
        if count and count == figures.queries:
            queries = counted(figures.queries, "query", "queries")
            yield ResultWarning(WarningCode.RANKED_NOTHING, {"ranker": ranker, "queries": queries})
        elif count:
            advice = (
                "Run the same command again: it asks for these alone"
                if ranker in figures.asked
                else "They are not in its run: rank them as well, and run the same command again"
            )
            values: dict[str, Value] = {"ranker": ranker, "ranked": figures.queries - count}
            values |= {"queries": figures.queries, "advice": advice}
            yield ResultWarning(WarningCode.RANKED_SOME, values, count / figures.queries)


def _unjudged(figures: RankerFigures) -> Iterator[ResultWarning]:
    counts = dict.fromkeys(figures.missing, 0) | dict(figures.unjudged)
    shares = {}
    for ranker, count in counts.items():
        at_most = DEPTH * (figures.queries - figures.missing.get(ranker, 0))
        ranked = figures.ranked.get(ranker, at_most)
        if ranked:
            shares[ranker] = 1 - count / ranked, share_interval(max(ranked - count, 0), ranked)[1]
    poor = sorted(
        (ranker for ranker in shares if shares[ranker][1] < JUDGED),
        key=lambda ranker: shares[ranker][0],
    )
    if poor:
        shown = ", ".join(f"{ranker} {shares[ranker][0]:.2f}" for ranker in poor[:_NAMED])
        values: dict[str, Value] = {"depth": DEPTH, "shares": shown}
        yield ResultWarning(WarningCode.UNJUDGED_DOCUMENTS, values, 1 - shares[poor[0]][0])


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def rank_bakeoff_warnings(results: BakeoffResults) -> RankedWarnings:
    """Rank the warnings of a bake-off."""
    judges = [*results.families.get("judges", {})]
    return rank_warnings(
        [
            *warn_of_rankers(_ranker_figures(results)),
            *warn_of_demonstration(judges, "judges", "of the truth", "Annotate again with"),
        ],
        f"differences by {results.leading}, errors of the labels, queries that were not ranked, "
        "equal scores, ranks that scores reverse, and unjudged documents were looked at",
    )


def _ranker_figures(results: BakeoffResults) -> RankerFigures:
    """Collect the figures; by people's labels where these are enough for a test."""
    measure, people = results.leading, results.people
    rivals = results.rivals(measure, results.rankers[0]) if results.rankers else []
    rows = [row for rows_of_measure in results.comparisons.values() for row in rows_of_measure]
    few_labels = list[str]()
    if people.get("way"):
        corrected = [row for row in results.all_comparisons if row.estimate == "corrected"]
        by_first = [row for row in corrected if row.measure == people["measures"][0]]
        others = closest_first(people["leader"], by_first)
        few_labels = [
            rival.run_b for rival in others if significance_of(rival) is Significance.TOO_FEW_LABELS
        ]
        if told := [rival for rival in others if rival.run_b not in few_labels]:
            measure, rivals, rows = people["measures"][0], told, corrected
    unjudged = Counter[str]()
    if results.unjudged is not None:
        unjudged.update(results.unjudged["run"].to_pylist())
    return RankerFigures(
        results.queries,
        measure,
        rivals,
        missing=results.unanswered,
        unjudged=unjudged,
        ranked=results.documents(DEPTH),
        compared=count_tested(rows),
        confidence=results.run["options"]["confidence"],
        any_significant=any(
            significance_of(row).is_significant for row in rows if row.measure == measure
        ),
        cautions=[Caution(**fields) for fields in results.summary.get("warnings", ())],
        asked=results.run.get("judges", ()),
        has_gate=bool(results.summary.get("gate")),
        few_labels=few_labels,
    )
