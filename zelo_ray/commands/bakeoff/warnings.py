"""Warn of what a bake-off cannot decide, and of where it is unfair."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf, isfinite
from statistics import NormalDist

import pyarrow.compute as pc

from zelo_ray.commands.bakeoff.rows import against, comparisons_of, rankers_of
from zelo_ray.evaluation.significance import (
    ALPHA,
    FEWEST,
    Significance,
    count_tested,
    share_interval,
    significance_of,
)
from zelo_ray.files.wording import counted
from zelo_ray.records import Comparison
from zelo_ray.report.demonstration import warn_of_demonstration
from zelo_ray.report.model import Severity, Warn, name_some
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
    yield from _not_ranked(results)
    yield from _unjudged(results)
    yield from warn_of_demonstration(results.record["truth"]["judges"], "leaderboard")


def _doubts(results: Results) -> Iterator[Warn]:
    """Warn of scores that order nothing or the wrong way round, own queries, and a new truth."""
    for row in results.record["doubts"]:
        some = f"{row['queries']:,} of {counted(row['of_queries'], 'query', 'queries')}"
        match row["code"]:
            case "equal_scores":
                yield Warn(
                    *("equal", "wrong", f"The first scores of {row['run']} are equal in {some}"),
                    "Check that its server or model scores each document, and that its scores are "
                    "written with all digits",
                    "leaderboard",
                )
            case "reversed_ranks":
                text = f"The ranks of {row['run']} are the reverse of its scores in {some}"
                advice = "Negate distances: a run is ordered by its scores, the highest first"
                yield Warn("reversed", "wrong", text, advice, "leaderboard")
            case "own_query":
                text = f"The query itself was removed from its candidates in {some}"
                advice = "Remove it from the runs, too, if others measure them"
                yield Warn("own query", "note", text, advice, "leaderboard")
            case _:
                text = f"A document with the id of its query, and another text, stays in {some}"
                advice = "Name --corpus and --queries, so that texts can be compared"
                yield Warn("own query", "note", text, advice, "leaderboard")
    if results.record["truth"]["changed"]:
        text = "The truth has changed since the last bake-off in this folder"
        advice = "Do not compare with earlier figures"
        yield Warn("truth changed", "doubtful", text, advice, "leaderboard")


def _unsure_lead(results: Results) -> Iterator[Warn]:
    """Warn where the leader's lead is not significant; by people's labels if these correct it."""
    rankers, measure = rankers_of(results), results.record["measures"][0]
    found, people = comparisons_of(results), results.record.get("people") or {}
    best, section = rankers[0], "differences"
    if people.get("design"):
        own = comparisons_of(results, "corrected")
        rows = against(people["leader"], own[people["measures"][0]])
        few = [row.run_b for row in rows if significance_of(row) is Significance.TOO_FEW_LABELS]
        if few:
            text = f"Too few of people's labels bear on the difference to {name_some(few)}"
            advice = "Label more documents: zelo-ray label --out LABELS --more N"
            yield Warn("few labels", "doubtful", text, advice, "people")
        if len(few) < len(rows):
            best, measure, found, section = people["leader"], people["measures"][0], own, "people"
    rivals = [
        row
        for row in against(best, found.get(measure, ()))
        if significance_of(row) is not Significance.TOO_FEW_LABELS
    ]
    if not rivals:
        return
    kinds = {significance_of(row) for row in rivals}
    if kinds == {Significance.TOO_FEW_QUERIES}:
        text = f"{counted(results.record['summary']['queries'], 'query is', 'queries are')} too few"
        advice = f"Use at least {FEWEST} queries, and about fifty to see differences of .05"
        yield Warn("few queries", "doubtful", f"{text} to compare rankers", advice, section)
    elif kinds <= {Significance.TOO_FEW_QUERIES, Significance.NOT_SIGNIFICANT}:
        tested = count_tested(row for rows in found.values() for row in rows)
        advice = _needed_queries(rivals, tested, results.record["options"]["confidence"])
        text = f"{best} is not significantly above any other ranker by {measure}"
        yield Warn("no lead", "doubtful", text, advice, section)
    for code, kind, why in (
        (
            *("labels unsure", Significance.LABELS_COULD_TURN_IT),
            "other answers of the judges could reverse it",
        ),
        (
            *("own family", Significance.ONLY_BY_OWN_FAMILY),
            "only judges of the model family of one of them say so",
        ),
    ):
        if others := [row.run_b for row in rivals if significance_of(row) is kind]:
            text = f"The lead of {best} over {name_some(others)} is significant, but {why}"
            advice = "Ask judges of other model families, or let people label some documents"
            yield Warn(code, "doubtful", text, advice, section)


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
    apart, queries = nearest.difference, nearest.queries
    needed = queries * (reach * error / apart) ** 2 if apart else inf
    if not needed <= _MOST:
        return "No realistic number of queries would make it so"
    return (
        f"If it stays {abs(apart):.3f} above {nearest.run_b}, about {float(f'{needed:.2g}'):,.0f} "
        f"queries would show it in {POWER:.0%} of bake-offs like this (here are {queries:,})"
    )


def _not_ranked(results: Results) -> Iterator[Warn]:
    """Warn of queries that a ranker did not rank."""
    for row in results.rows("leaderboard"):
        if row["missing"]:
            can_ask = row["run"] in results.record["judges"]
            text = f"{row['run']} ranked {row['ranked']:,} of "
            text += counted(row["ranked"] + row["missing"], "query", "queries")
            advice = "Run the same command again" if can_ask else "Rank the others as well"
            severity: Severity = "doubtful" if row["ranked"] else "wrong"
            yield Warn("not ranked", severity, text, advice, "failures")


def _unjudged(results: Results) -> Iterator[Warn]:
    """Warn of rankers with many unjudged documents among their first."""
    if "runs" not in results:
        return
    counts = Counter(row["run"] for row in results.rows("unjudged"))
    runs = results["runs"].to_arrow().group_by(["run", "query_id"]).aggregate([([], "count_all")])
    depths = runs.set_column(2, "first", pc.min_element_wise(runs["count_all"], DEPTH))
    totals = depths.group_by("run").aggregate([("first", "sum")]).to_pylist()
    shares = {}
    for row in totals:
        judged, total = max(row["first_sum"] - counts[row["run"]], 0), row["first_sum"]
        if share_interval(judged, total)[1] < JUDGED:
            shares[row["run"]] = judged / total
    if shares:
        names = [
            f"{name} {share:.2f}" for name, share in sorted(shares.items(), key=lambda n: n[1])
        ]
        text = (
            f"Many of the first {DEPTH} documents are unjudged (share judged: {name_some(names)})"
        )
        advice = (
            "They count as not relevant; zelo-ray convert unjudged --all writes pools with them to "
            "annotate on the --out of the truth"
        )
        yield Warn("unjudged", "doubtful", text, advice, "unjudged")
