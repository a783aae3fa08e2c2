"""Warn of what a bake-off cannot tell, and of where it is unfair."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from statistics import NormalDist

from zelo_ray.commands.bakeoff.outcome import Caution
from zelo_ray.commands.bakeoff.report.people import leading
from zelo_ray.commands.bakeoff.report.results import Contest
from zelo_ray.commands.bakeoff.significance import SURE, Significance, significance_of
from zelo_ray.evaluation.significance import FEWEST
from zelo_ray.evaluation.wilson import wilson_of
from zelo_ray.formats.interchange.doubts import SHARE
from zelo_ray.formats.wording import counted
from zelo_ray.records import Comparison
from zelo_ray.report.demonstration import warn_of_demonstration
from zelo_ray.report.warning import RankedWarnings, ResultWarning, rank_warnings
from zelo_ray.report.warning_codes import Value, WarningCode

JUDGED = 0.9
"""Below this share of judged documents among the first ten, an arm's mean is a lower bound: each
unjudged document counts as not relevant, and one in ten may move nDCG@10 as far as arms differ."""
POWER = 0.8
"""In which share of repetitions so many queries shall find the difference."""
_NORMAL = NormalDist()
_MOST = 1_000_000
_NAMED = 3


@dataclass(frozen=True, slots=True)
class RankerFigures:
    """Figures of a bake-off.

    Attributes:
        queries: of the truth.
        leading: the measure by which arms stand.
        rivals: the arm that leads, as A, against each other one, by that measure.
        missing: by arm, how many queries it did not rank.
        unjudged: by arm, documents among its first `depth` that nobody judged.
        ranked: by arm, how many documents its first `depth` are in all; where that is not known,
            `depth` for each query that it ranked.
        depth: how deep unjudged documents are counted.
        compared: how many comparisons p is corrected for.
        sure: whether any two arms are significantly different.
        cautions: why scores or grades may not mean what they seem to.
        asked: the arms that models answer, and not files of runs: these can be asked again.
    """

    queries: int
    leading: str = ""
    rivals: Sequence[Comparison] = ()
    missing: Mapping[str, int] = field(default_factory=dict)
    unjudged: Mapping[str, int] = field(default_factory=dict)
    ranked: Mapping[str, int] = field(default_factory=dict)
    depth: int = 10
    compared: int = 1
    sure: bool = False
    cautions: Sequence[Caution] = ()
    asked: Collection[str] = ()


def warn_of_rankers(arms: RankerFigures) -> Iterator[ResultWarning]:
    """Yield a warning for all that stands between the leaderboard and a decision."""
    for caution in arms.cautions:
        yield _caution(caution)
    yield from _unsure_lead(arms)
    yield from _missing(arms)
    yield from _unjudged(arms)


_CAUTIONS = {
    "reversed_ranks": WarningCode.REVERSED_RANKS,
    "negative_grades": WarningCode.NEGATIVE_GRADES,
    "own_query": WarningCode.QUERY_IN_ITS_POOL,
    "own_id": WarningCode.DOCUMENT_WITH_QUERY_ID,
    "new_truth": WarningCode.TRUTH_CHANGED,
    "old_labels": WarningCode.LABELS_OF_OLD_TRUTH,
}


def _caution(caution: Caution) -> ResultWarning:
    grades = counted(caution.documents, "grade of the truth lies", "grades of the truth lie")
    values: dict[str, Value] = {
        "run": caution.run,
        "among": f"the first {caution.depth}" if caution.depth else "all",
        "queries": f"{caution.queries:,} of {counted(caution.of_queries, 'query', 'queries')}",
        "grades": grades,
    }
    if code := _CAUTIONS.get(caution.code):
        return ResultWarning(code, values)
    if caution.queries >= SHARE * caution.of_queries:
        return ResultWarning(WarningCode.EQUAL_SCORES, values)
    share = caution.pairs / caution.of_pairs
    return ResultWarning(WarningCode.MANY_EQUAL_SCORES, {**values, "share": share}, share)


def _unsure_lead(arms: RankerFigures) -> Iterator[ResultWarning]:
    if not arms.rivals:
        return
    significances = [significance_of(rival) for rival in arms.rivals]
    best = arms.rivals[0].run_a
    few, unsure = Significance.TOO_FEW_QUERIES, Significance.NOT_SIGNIFICANT
    if set(significances) == {few}:
        queries = counted(arms.queries, "query is", "queries are")
        values: dict[str, Value] = {"queries": queries, "fewest": FEWEST}
        yield ResultWarning(WarningCode.TOO_FEW_QUERIES, values)
    elif set(significances) <= {few, unsure}:
        values = {
            "lead": f"The leader {best} is not significantly above any other arm"
            if len(arms.rivals) > 1
            else f"{best} and {arms.rivals[0].run_b} are not significantly different",
            "best": best,
            "measure": arms.leading,
            "advice": _more(arms) + ("" if arms.sure else "; until then take the cheapest"),
        }
        yield ResultWarning(WarningCode.NO_SIGNIFICANT_LEAD, values)
    for significance, code in (
        (Significance.LABELS_COULD_TURN_IT, WarningCode.LEAD_UNSURE_BY_LABELS),
        (Significance.ONLY_BY_KIN, WarningCode.LEAD_ONLY_BY_KIN),
    ):
        others = [
            rival.run_b
            for rival, verdict in zip(arms.rivals, significances, strict=True)
            if verdict is significance
        ]
        if others:
            yield ResultWarning(code, {"best": best, "others": _listed(others)})


def _more(arms: RankerFigures) -> str:
    """Say what would settle it, if the difference that is nearest to it stays as it looks."""
    nearest = min(arms.rivals, key=lambda rival: rival.p if isfinite(rival.p) else 1.0)
    case = f"If {nearest.run_a} stays {abs(nearest.difference):.3f} above {nearest.run_b}"
    if nearest.p < SURE:
        return (
            f"{nearest.run_a} above {nearest.run_b} has p = {nearest.p:.2g} before the correction "
            f"for {counted(arms.compared, 'comparison')}: name fewer measures or arms, or add "
            "queries"
        )
    needed = _needed(nearest, arms.compared)
    if not isfinite(needed) or needed > _MOST:
        return "No number of queries that anybody has would settle it"
    rounded = int(float(f"{needed:.2g}"))
    if rounded <= nearest.queries:
        return "More queries would settle it"
    return (
        f"{case}, about {rounded:,} queries would show it in {POWER:.0%} of contests with as many "
        f"comparisons (here are {nearest.queries:,})"
    )


def _needed(comparison: Comparison, compared: int) -> float:
    """Count the queries that find such a difference with `POWER`, each test at .05 / compared."""
    if not comparison.difference:
        return inf
    error = (comparison.high - comparison.low) / 2 / _NORMAL.inv_cdf(0.975)
    reach = _NORMAL.inv_cdf(1 - SURE / 2 / max(compared, 1)) + _NORMAL.inv_cdf(POWER)
    return comparison.queries * (reach * error / comparison.difference) ** 2


def _missing(arms: RankerFigures) -> Iterator[ResultWarning]:
    for arm, count in arms.missing.items():
        if count and count == arms.queries:
            queries = counted(arms.queries, "query", "queries")
            yield ResultWarning(WarningCode.RANKED_NOTHING, {"arm": arm, "queries": queries})
        elif count:
            advice = (
                "Run the same command again: it asks for these alone"
                if arm in arms.asked
                else "They are not in its run: rank them as well, and run the same command again"
            )
            values: dict[str, Value] = {"arm": arm, "ranked": arms.queries - count}
            values |= {"queries": arms.queries, "advice": advice}
            yield ResultWarning(WarningCode.RANKED_SOME, values, count / arms.queries)


def _unjudged(arms: RankerFigures) -> Iterator[ResultWarning]:
    counts = dict.fromkeys(arms.missing, 0) | dict(arms.unjudged)
    shares = {}
    for arm, count in counts.items():
        at_most = arms.depth * (arms.queries - arms.missing.get(arm, 0))
        ranked = arms.ranked.get(arm, at_most)
        if ranked:
            shares[arm] = 1 - count / ranked, wilson_of(max(ranked - count, 0), ranked)[1]
    poor = sorted(
        (arm for arm in shares if shares[arm][1] < JUDGED), key=lambda arm: shares[arm][0]
    )
    if poor:
        shown = ", ".join(f"{arm} {shares[arm][0]:.2f}" for arm in poor[:_NAMED])
        values: dict[str, Value] = {"depth": arms.depth, "shares": shown}
        yield ResultWarning(WarningCode.UNJUDGED_DOCUMENTS, values, 1 - shares[poor[0]][0])


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def rank_of_bakeoff(contest: Contest) -> RankedWarnings:
    """Rank the warnings of a bake-off."""
    summary, measure = contest.summary, contest.summary["leading"]
    judges = [*(summary.get("kin") or {}).get("judges", {})]
    return rank_warnings(
        [
            *warn_of_rankers(_ranker_figures(contest)),
            *warn_of_demonstration(judges, "kin", "of the truth", "Annotate again with"),
        ],
        f"differences by {measure}, errors of the labels, queries that arms did not rank, equal "
        "scores, ranks that scores reverse, and unjudged documents were looked at",
    )


def _ranker_figures(contest: Contest) -> RankerFigures:
    summary, measure = contest.summary, contest.summary["leading"]
    unjudged = Counter[str]()
    if contest.source.has("holes.parquet"):
        unjudged.update(contest.source.table("holes")["run"].to_pylist())
    rivals = contest.rivals(measure, contest.arms[0]) if contest.arms else []
    rows = [row for rows_of_arm in contest.comparisons.values() for row in rows_of_arm]
    if people := _by_people(contest):
        measure, rivals, rows = people
    figures = RankerFigures(
        summary["truth"]["queries"], measure, rivals, contest.unanswered, unjudged
    )
    return replace(
        figures,
        ranked=contest.documents(figures.depth),
        compared=len(rows),
        sure=any(significance_of(row).is_significant for row in rows if row.measure == measure),
        cautions=[Caution(**fields) for fields in summary.get("warnings", ())],
        asked=contest.run.get("judges", ()),
    )


def _by_people(contest: Contest) -> tuple[str, list[Comparison], list[Comparison]] | None:
    """Return the measure, the leader against the others, and all rows, corrected by people.

    None where there are no labels of people, or too few for a test.
    """
    people = contest.summary.get("people")
    if not (people and people["way"]):
        return None
    measure, best = people["measures"][0], people["leader"]
    rows = [row for row in contest.every_comparison if row.estimate == "corrected"]
    rivals = leading([row for row in rows if row.measure == measure], best)
    tested = rivals and all(isfinite(rival.p_holm) for rival in rivals)
    return (measure, rivals, rows) if tested else None
