"""Warn of what a bake-off cannot decide, and of where it is unfair."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf, isfinite
from statistics import NormalDist

from zelo_ray.commands.bakeoff.comparisons import against, comparisons_of, rankers_of
from zelo_ray.evaluation.significance import (
    ALPHA,
    FEWEST,
    Significance,
    count_tested,
    share_interval,
    significance_of,
)
from zelo_ray.files.tables import iter_rows
from zelo_ray.files.wording import counted
from zelo_ray.records import Comparison
from zelo_ray.report.model import Severity, Warn, name_some, warn_of_demonstration
from zelo_ray.report.results import Results

JUDGED = 0.9
"""Below this share of judged documents among the first ten, a ranker's mean is a lower bound: each
unjudged document counts as not relevant, and one in ten may move nDCG@10 as far as two differ."""
POWER = 0.8
"""The share of repetitions in which the test should find the difference."""
DEPTH = 10
"""Unjudged documents are counted among so many first ones."""
_NORMAL = NormalDist()
_MOST = 1_000_000


def find_warnings(results: Results) -> Iterator[Warn]:
    """Yield a warning for everything that speaks against a decision by the leaderboard."""
    yield from _doubts(results)
    yield from _unsure_lead(results)
    for row in results.rows("leaderboard"):
        if row["missing"]:
            queries = counted(row["ranked"] + row["missing"], "query", "queries")
            can_ask = row["run"] in results.record["judges"]
            advice = "Run the same command again" if can_ask else "Rank the others as well"
            text = f"{row['run']} ranked {row['ranked']:,} of {queries}"
            severity: Severity = "doubtful" if row["ranked"] else "wrong"
            yield Warn("not_ranked", severity, text, advice, "failures")
    yield from _unjudged(results)
    yield from warn_of_demonstration(results.record["truth"]["judges"], "leaderboard")


def _doubts(results: Results) -> Iterator[Warn]:
    """Warn of scores that order nothing or the wrong way round, own queries, and a new truth."""
    where = "leaderboard"
    for row in results.record["doubts"]:
        some = f"{row['queries']:,} of {counted(row['of_queries'], 'query', 'queries')}"
        if row["code"] == "equal_scores":
            text = f"The first scores of {row['run']} are equal in {some}"
            advice = "Check that its server or model scores each document, with all digits"
            yield Warn("equal", "wrong", text, advice, where)
        elif row["code"] == "reversed_ranks":
            text = f"The ranks of {row['run']} are the reverse of its scores in {some}"
            advice = "Negate distances: a run is ordered by its scores, the highest first"
            yield Warn("reversed", "wrong", text, advice, where)
        elif row["code"] == "own_query":
            text = f"The query itself was removed from its candidates in {some}"
            advice = "Remove it from the runs, too, if others measure them"
            yield Warn("own_query", "note", text, advice, where)
        else:
            text = f"A document with the id of its query, and another text, stays in {some}"
            advice = "Name --corpus and --queries, so that texts can be compared"
            yield Warn("own_query", "note", text, advice, where)
    if results.record["truth"]["changed"]:
        text = "The truth has changed since the last bake-off in this folder"
        yield Warn("truth_changed", "doubtful", text, "Do not compare with earlier figures", where)


def _unsure_lead(results: Results) -> Iterator[Warn]:
    """Warn where the leader's lead is not significant; by people's labels if these correct it."""
    rankers, measure = rankers_of(results), results.record["measures"][0]
    by_measure, people = comparisons_of(results), results.record.get("people") or {}
    best, section = rankers[0], "differences"
    if people.get("design"):
        own, name = comparisons_of(results, "corrected"), people["measures"][0]
        rows = against(people["leader"], own[name])
        few = [row for row in rows if significance_of(row) is Significance.TOO_FEW_LABELS]
        if few:
            text = f"Too few of people's labels bear on the difference to {_names(few)}"
            advice = "Label more documents: zelo-ray label --out LABELS --more N"
            yield Warn("few_labels", "doubtful", text, advice, "people")
        if len(few) < len(rows):
            best, measure, by_measure, section = people["leader"], name, own, "people"
    rivals: dict[Significance, list[Comparison]] = {}
    for row in against(best, by_measure.get(measure, ())):
        rivals.setdefault(significance_of(row), []).append(row)
    rivals.pop(Significance.TOO_FEW_LABELS, None)
    if rivals.keys() == {Significance.TOO_FEW_QUERIES}:
        queries = results.record["summary"]["queries"]
        text = f"{counted(queries, 'query is', 'queries are')} too few to compare rankers"
        advice = f"Use at least {FEWEST} queries, and about fifty to see differences of .05"
        yield Warn("few_queries", "doubtful", text, advice, section)
    elif rivals and rivals.keys() <= {Significance.TOO_FEW_QUERIES, Significance.NOT_SIGNIFICANT}:
        tested = count_tested(row for rows in by_measure.values() for row in rows)
        near = rivals[Significance.NOT_SIGNIFICANT]
        advice = _needed_queries(near, tested, results.record["options"]["confidence"])
        text = f"{best} is not significantly above any other ranker by {measure}"
        yield Warn("no_lead", "doubtful", text, advice, section)
    if unsure := rivals.get(Significance.LABELS_COULD_TURN_IT):
        text = f"Other answers of the judges could reverse the lead of {best} over {_names(unsure)}"
        yield Warn("labels_unsure", "doubtful", text, "Let people label some documents", section)
    if own_only := rivals.get(Significance.ONLY_BY_OWN_FAMILY):
        text = f"Only judges of a ranker's model family see {best} ahead of {_names(own_only)}"
        advice = "Ask judges of other model families, or let people label some documents"
        yield Warn("own_family", "doubtful", text, advice, section)


def _names(rows: Sequence[Comparison]) -> str:
    return name_some([row.run_b for row in rows])


def _needed_queries(rivals: Sequence[Comparison], tested: int, confidence: float) -> str:
    """Say how many queries would make the difference nearest to significance significant."""
    nearest = min(rivals, key=lambda row: row.p if isfinite(row.p) else 1.0)
    if nearest.p < ALPHA:
        return (
            f"{nearest.run_b} differs with p = {nearest.p:.2g} before the correction for "
            f"{counted(tested, 'comparison')}: name fewer measures or rankers, or add queries"
        )
    error = (nearest.high - nearest.low) / 2 / _NORMAL.inv_cdf((1 + confidence) / 2)
    reach = _NORMAL.inv_cdf(1 - ALPHA / 2 / max(tested, 1)) + _NORMAL.inv_cdf(POWER)
    lead, queries = nearest.difference, nearest.queries
    needed = queries * (reach * error / lead) ** 2 if lead else inf
    if not needed <= _MOST:
        return "No realistic number of queries would make it so"
    return (
        f"If it stays {abs(lead):.3f} above {nearest.run_b}, about {float(f'{needed:.2g}'):,.0f} "
        f"queries would show it in {POWER:.0%} of bake-offs like this (here are {queries:,})"
    )


def _unjudged(results: Results) -> Iterator[Warn]:
    """Warn of rankers with many unjudged documents among their first."""
    missing = Counter(row["run"] for row in results.rows("unjudged"))
    counts = results.part("runs", None).group_by(["run", "query_id"]).aggregate([([], "count_all")])
    totals = Counter[str]()
    for run, count in iter_rows(counts, "run", "count_all"):
        totals[run] += min(count, DEPTH)
    shares = {
        run: (total - missing[run]) / total
        for run, total in totals.items()
        if share_interval(max(total - missing[run], 0) / total, total)[1] < JUDGED
    }
    if shares:
        names = name_some([f"{n} {shares[n]:.2f}" for n in sorted(shares, key=shares.__getitem__)])
        text = f"Many of the first {DEPTH} documents are unjudged (share judged: {names})"
        advice = "They count as not relevant: judge what zelo-ray convert unjudged --all writes"
        yield Warn("unjudged", "doubtful", text, advice, "leaderboard")
