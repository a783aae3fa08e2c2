"""Count what judges answered, and show it: numbers, cost, preferences, grades and agreement."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from math import nan
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.engine.replies import format_dollars
from zelo_ray.evaluation.significance import share_interval
from zelo_ray.families import FAMILIES, families_of
from zelo_ray.files.wording import counted
from zelo_ray.protocols import Judgments, protocol_of_record
from zelo_ray.protocols.judgments import VOTES
from zelo_ray.reasons import Disabled, StopReason, judges_by_reason
from zelo_ray.report import charts
from zelo_ray.report.model import Cell, Part, Section, Table, Value, chart
from zelo_ray.report.results import Results

MOST = 500_000
"""If there are more judgments, votes are counted in about so many."""
LEVELS = len(charts.GRADES)
_SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)b(?![a-z0-9])")  # 32b, in billions of weights


def judgments_of(results: Results) -> dict[str, Judgments]:
    """Return the kinds of judgments that have a table, by its name, single documents first."""
    kinds = protocol_of_record(results.record).counted.items()
    tables = [(name, kind) for name, kind in kinds if name in results]
    return dict(sorted(tables, key=lambda each: len(each[1].documents)))


@dataclass(slots=True)
class Counts:
    """Counts of votes and grades, by judge.

    Two judges agree on a pair by 1 for the same sign, 1/2 if one ties, 0 for opposite signs. Of
    several judgments by one judge the majority of its votes, or its median grade, counts.
    """

    stride: int = 1
    """of which stretches of votes one was counted"""
    votes: Counter[str] = field(default_factory=Counter)
    first: dict[str, float] = field(default_factory=dict)
    """votes for the document shown first; a tie is half a vote"""
    tied: Counter[str] = field(default_factory=Counter)
    agreed: dict[tuple[str, str], float] = field(default_factory=dict)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    """on which both judges voted; names are in order"""
    preferences: dict[str, list[np.ndarray]] = field(default_factory=dict)
    """of votes that have a strength"""
    grades: dict[str, np.ndarray] = field(default_factory=dict)
    """how often a judge gave each grade, [levels]"""
    confusion: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    """of two judges the grades of the same documents, [levels, levels]"""

    @property
    def judges(self) -> list[str]:
        """Return the judges that graded, or else those that voted."""
        return sorted(self.grades or self.votes)

    def agreement(self, one: str, other: str) -> tuple[float, int]:
        """Return the share of pairs on which two judges agree (NaN without any), and the number."""
        two = (min(one, other), max(one, other))
        return (self.agreed[two] / n if (n := self.pairs[two]) else nan), n


@lru_cache(maxsize=1)  # warnings and two sections look at it
def count_judgments(results: Results) -> Counts:
    """Count the votes and the grades of a run."""
    counts = Counts(max(1, results.record["summary"]["judgments"] // MOST))
    kinds = judgments_of(results)
    voting = [(name, kind) for name, kind in kinds.items() if kind.as_votes]
    for name, kind in voting[:1]:
        columns = kind.columns or kind.fields
        for part in results.tables[name].parts(columns, counts.stride):
            if part.num_rows and kind.as_votes:
                count_votes(counts, kind.as_votes(part), strengths=kind is VOTES)
    if "grades" in kinds:
        for part in results.tables["grades"].parts(("query_id", "doc_id", "judge", "grade")):
            if part.num_rows:
                count_grades(counts, part)
    return counts


def count_votes(counts: Counts, votes: pa.Table, *, strengths: bool = True) -> None:
    """Count votes of whole queries."""
    a, b, sign = votes["doc_id_a"], votes["doc_id_b"], pc.sign(votes["preference"])
    turned = pc.greater(a, b)
    sign = pc.cast(sign, pa.float64())
    table = pa.table(
        {
            "query": votes["query_id"],
            "judge": votes["judge"],
            "low": pc.if_else(turned, b, a),
            "high": pc.if_else(turned, a, b),
            "sign": pc.if_else(turned, pc.negate(sign), sign),
            "first": pc.if_else(votes["swapped"], sign, pc.negate(sign)),
            "tied": pc.equal(sign, 0.0),
            "preference": votes["preference"],
        }
    )
    sums = [("first", "sum"), ("tied", "sum"), ("sign", "count"), ("preference", "list")]
    for row in table.group_by("judge", use_threads=False).aggregate(sums).to_batches():
        columns = row.to_pydict() | {"preference_list": row["preference_list"]}
        for place, judge in enumerate(columns["judge"]):
            number = columns["sign_count"][place]
            counts.votes[judge] += number
            counts.tied[judge] += columns["tied_sum"][place]
            first = (number + columns["first_sum"][place]) / 2
            counts.first[judge] = counts.first.get(judge, 0.0) + first
            if strengths:
                preferences = row["preference_list"][place].values.to_numpy()
                counts.preferences.setdefault(judge, []).append(preferences)
    pair = ["query", "low", "high"]
    majority = table.group_by([*pair, "judge"]).aggregate([("sign", "sum")])
    both = majority.join(majority, pair, join_type="inner", right_suffix="_2")
    both = both.filter(pc.less(both["judge"], both["judge_2"]))
    signs = [pc.sign(both[name]) for name in ("sign_sum", "sign_sum_2")]
    both = both.append_column("apart", pc.abs(pc.subtract(*signs)))
    pairs = both.group_by(["judge", "judge_2"]).aggregate([("apart", "sum"), ("apart", "count")])
    for row in pairs.to_pylist():
        two, number = (row["judge"], row["judge_2"]), row["apart_count"]
        counts.pairs[two] += number
        counts.agreed[two] = counts.agreed.get(two, 0.0) + number - row["apart_sum"] / 2


def count_grades(counts: Counts, grades: pa.Table) -> None:
    """Count grades of whole queries."""
    from zelo_ray.evaluation.agreement import ratings_of  # noqa: PLC0415 - votes need none of it

    for row in grades.group_by(["judge", "grade"]).aggregate([("grade", "count")]).to_pylist():
        by_grade = counts.grades.setdefault(row["judge"], np.zeros(LEVELS, np.int64))
        by_grade[row["grade"]] += row["grade_count"]
    ratings = ratings_of(grades, LEVELS)
    hot = [(row == np.arange(LEVELS)[:, np.newaxis]).astype(np.int64) for row in ratings.grades]
    for (i, one), (j, other) in combinations(enumerate(ratings.raters), 2):
        (low, a), (high, b) = sorted([(one, i), (other, j)])
        counts.confusion[low, high] = counts.confusion.get((low, high), 0) + hot[a] @ hot[b].T


# Sections


def disabled_in(summary: Mapping[str, Any]) -> dict[Disabled, list[str]]:
    """Return the judges that were asked nothing more, by the reason."""
    rows = summary["disabled"].items()
    return judges_by_reason(
        {name: Disabled(StopReason(row["code"]), row["message"]) for name, row in rows}
    )


def judges_section(results: Results) -> Section:
    """Show the judgments, failures and cost of each judge, and which were stopped."""
    summary, tallies = results.record["summary"], results.record["judges"]
    judged, failed = summary["judgments_by_judge"], summary["failures_by_judge"]
    statuses = sorted({status for counts in failed.values() for status in counts})
    rows: list[dict[str, Value]] = []
    for name in dict.fromkeys([*tallies, *judged, *failed]):
        counts, models = judged.get(name, {}) | failed.get(name, {}), summary["servers"].get(name)
        row: dict[str, Value] = {"judge": name}
        row |= {kind: counts.get(kind, 0) for kind in (*judgments_of(results), *statuses)}
        row |= _spending(tallies[name]) if name in tallies else {}
        rows.append(row | {"answered by": list_models(name, models["models"]) if models else ""})
    names = [name for name in rows[0] if any(row.get(name) for row in rows)] if rows else []
    sentences = [
        f"Stopped using {', '.join(judges)} ({reason.message})."
        for reason, judges in disabled_in(summary).items()
    ]
    notes = []
    if any(tally["known"] for tally in tallies.values()):
        notes.append("Cost and tokens are of this run alone.")
    if spared := sum(tally["spared"] for tally in tallies.values()):
        notes.append(f"{counted(spared, 'planned request')} turned out not to be needed.")
    table = Table(names, [[row.get(name) for name in names] for row in rows], " ".join(notes))
    return Section("judges", "Judges", [*sentences, table])


def _spending(tally: Mapping[str, Any]) -> dict[str, Value]:
    """Return what a judge cost in this run, and how its requests went."""
    answered, dollars, tokens = tally["answered"], tally["dollars"], tally["input_tokens"]
    cost: dict[str, Value] = {"cost": None, "per 1,000": None}
    if answered:
        amounts = (dollars, 1000 * dollars / answered)
        cost = dict(zip(cost, map(Cell, amounts, "$$"), strict=True))
        if tally["unpriced"]:
            cost = {k: f"{format_dollars(n)} + ?" for k, n in zip(cost, amounts, strict=True)}
    return cost | {
        "retries": tally["retries"],
        "tokens in": tokens,
        "cached": Cell(tally["cached_tokens"] / tokens, ".0%") if tally["cached_tokens"] else None,
        "tokens out": tally["output_tokens"],
    }


def agreement_section(results: Results) -> Section:
    """Show preferences by judge, how often judges agree, and how far the order sways them."""
    counts, parts = count_judgments(results), list[Part]()
    names = sorted(counts.votes)
    which = f" Counted in each {counts.stride}th stretch of votes." if counts.stride > 1 else ""
    if counts.preferences:
        pictures = {
            name: charts.histogram(np.concatenate(counts.preferences[name]), "preference", "votes")
            for name in sorted(counts.preferences)
        }
        caption = (
            "The preferences of a judge: -1 for the first document of a pair, 1 for the second, "
            f"whichever was shown first.{which}"
        )
        parts.append(chart(pictures, caption, "judge"))

    def agreement(one: str, other: str) -> tuple[float, str]:
        share, pairs = counts.agreement(one, other)
        return share, f"{share:.1%} of {counted(pairs, 'pair')}"

    if len(names) > 1:
        caption = "The share of pairs on which two judges prefer the same document; a tie by one "
        caption += f"of them counts half. Chance would reach 50%.{which}"
        parts.append(chart(charts.pair_matrix(names, agreement), caption))
    if names:
        number = np.array([counts.votes[name] for name in names])
        share = np.array([counts.first[name] for name in names]) / number
        spans = (share, *share_interval(share, number))
        caption = "How often a judge preferred the document shown first (a tie counts half), with "
        caption += f"a 95% interval. A judge that the order does not sway is at 0.5.{which}"
        picture = charts.intervals(names, {"": spans}, "share of what came first", 0.5)
        parts.append(chart(picture, caption))
    return Section("agreement", "Preferences, agreement and order", parts)


# Models


def list_models(judge: str, models: Mapping[str, int]) -> str:
    """Return the models that answered with their counts; empty if it is just the one asked."""
    if {_plain(model) for model in models} <= {_plain(_asked(judge))}:
        return ""
    ordered = sorted(models.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{model} {count:,}" for model, count in ordered)


def is_another_model(judge: str, models: Mapping[str, int]) -> bool:
    """Return whether several models answered, or one of another family or size than was asked.

    A name that says nothing of either, such as that of a deployment, may stand for any model.
    """
    names = {_plain(model) for model in models}
    others = names - {_plain(_asked(judge))}
    if len(others) > 1 or (len(names) > 1 and not _is_snapshot(judge, *others)):
        return True
    asked = families_of(judge) & FAMILIES
    sizes = set(_SIZE.findall(_plain(_asked(judge))))
    return any(
        (asked and (family := families_of(model) & FAMILIES) and not asked & family)
        or (sizes and (size := set(_SIZE.findall(_plain(model)))) and not sizes & size)
        for model in models
    )


def _is_snapshot(judge: str, model: str) -> bool:
    """Return whether a model is the one asked, with a date."""
    return bool(re.fullmatch(re.escape(_plain(_asked(judge))) + r"-\d{4}-?\d{2}-?\d{2}", model))


def _asked(judge: str) -> str:
    return judge.partition("@")[0].partition(":")[2]


def _plain(model: str) -> str:
    """Return a model's name without its owner, in lower case."""
    return model.lower().rpartition("/")[2]
