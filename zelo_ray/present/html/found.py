"""What stands out, from what runs left: the figures that `zelo_ray.present.findings` judges."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from math import isfinite, log, nan, sqrt, tanh
from typing import Any

import numpy as np

from zelo_ray.fitting.effective import correlation_of
from zelo_ray.formats.interchange.verdicts import HUMAN
from zelo_ray.present.findings import Finding, Findings, ranked, said
from zelo_ray.present.findings.asking import Asked, of_asking
from zelo_ray.present.findings.compared import of_labels
from zelo_ray.present.findings.contest import Arms, of_contest
from zelo_ray.present.findings.judging import Seen, demonstration, of_judging
from zelo_ray.present.findings.measured import of_biases, of_people
from zelo_ray.present.html import effective
from zelo_ray.present.html.contest import Contest
from zelo_ray.present.html.judged import Annotation
from zelo_ray.present.html.measured import Measured
from zelo_ray.present.html.page import short
from zelo_ray.present.html.relabelled import Relabelling

_REASON = 160  # characters of a reason in a sentence
_Z = 1.959964


def of_annotation(annotation: Annotation) -> Findings:
    """Of a run that judged documents: what is missing, and what its judges are like."""
    found = [*said(of_asking(asked_of(annotation))), *of_judging(_seen(annotation))]
    return ranked(
        found,
        "answers that are missing, input lines, order and ties, judges that contradict the others "
        "or err with them, and standard errors were looked at",
    )


def asked_of(annotation: Annotation) -> Asked:
    """How asking went."""
    summary, given = annotation.run["summary"], Counter[str]()
    for name in annotation.kinds:
        given.update(annotation.rows_by_judge(name))
    return Asked(
        given,
        annotation.failed,
        {name: short(why, _REASON) for name, why in summary.get("absent", {}).items()},
        {name: short(why, _REASON) for name, why in summary["unscored"].items()},
        summary["queries"],
        summary["rejected"],
        _first_rejected(annotation),
    )


def _first_rejected(annotation: Annotation) -> str:
    if not (annotation.run["summary"]["rejected"] and annotation.source.has("rejected.parquet")):
        return ""
    rows, _ = annotation.source.head("rejected", 1)
    return (
        short(f"{rows[0]['file']}:{rows[0]['line']}, {rows[0]['reason']}", _REASON) if rows else ""
    )


def _seen(annotation: Annotation) -> Seen:
    panel, scores, options = annotation.panel, annotation.scores, annotation.run["options"]
    own = annotation.protocol.own_options
    error = scores.known("std_error")
    split = annotation.ambiguous.num_rows if annotation.graded else 0
    return Seen(
        judges=[*annotation.run["judges"]],
        first={name: (panel.first[name], votes) for name, votes in sorted(panel.votes.items())},
        both_orders=bool(options.get("both_orders")) or options.get("repeats", 1) > 1,
        tied=(sum(panel.tied.values()), sum(panel.votes.values())),
        agreed=_agreed(annotation),
        alike=_alike(annotation),
        worth=effective.worth(annotation),
        split=(split, len(error)),
        error=float(error.mean()) if len(error) else nan,
        spread=_spread(annotation),
        freedom=max(1, len(error) - len(annotation.scores.query_ids)),
        unit=annotation.unit,
        more=_more(own, options),
        orders=_orders(own),
    )


def _more(own: Collection[str], options: Mapping[str, Any]) -> str:
    """What makes scores surer, of the options of a protocol."""
    name = next((name for name in ("cycles", "calls_per_document") if name in own), "")
    if name and options.get(name):
        return f"--{name.replace('_', '-')} {2 * options[name]:g} asks twice as much"
    return "--repeats 3 asks more" if "repeats" in own else "More judges make it smaller"


def _orders(own: Collection[str]) -> str:
    """What asks each pair in both orders, of the options of a protocol."""
    if "both_orders" in own:
        return "Ask each pair in both orders (--both-orders)"
    return "Ask each pair in both orders (--repeats 2)" if "repeats" in own else ""


def _agreed(annotation: Annotation) -> dict[str, tuple[float, int]]:
    """By judge, on how many pairs it agrees with another; nothing of fewer than three judges.

    Of two that contradict each other nobody can tell which is the wrong one.
    """
    panel = annotation.panel
    if len(panel.votes) < 3:
        return {}
    return {
        name: (
            sum(panel.agreed[key] for key in panel.pairs if name in key),
            sum(count for key, count in panel.pairs.items() if name in key),
        )
        for name in sorted(panel.votes)
    }


def _alike(annotation: Annotation) -> dict[str, tuple[float, float]]:
    """The interval of the correlation of a judge's grades with the others' (Fisher's z)."""
    gradings = annotation.gradings
    if len(gradings.counts) < 3:
        return {}
    found = {}
    for name in sorted(gradings.counts):
        tables = [
            table if pair[0] == name else table.T
            for pair, table in gradings.confusion.items()
            if name in pair
        ]
        table = np.sum(tables, axis=0) if tables else np.zeros((1, 1))
        r, items = correlation_of(table), table.sum() / max(len(tables), 1)
        if isfinite(r) and abs(r) < 1 and items > 3:
            z, reach = log((1 + r) / (1 - r)) / 2, _Z / sqrt(items - 3)
            found[name] = tanh(z - reach), tanh(z + reach)
    return found


def _spread(annotation: Annotation) -> float:
    """The root mean square of the standard deviations of scores in a query; NaN where unknown."""
    scores = annotation.scores
    values, first = scores.columns.get("score"), scores.first
    if values is None or not len(values):
        return nan
    sizes = np.diff(np.append(first, len(values)))
    means = np.add.reduceat(values, first) / sizes
    apart = np.add.reduceat((values - np.repeat(means, sizes)) ** 2, first)
    known = (sizes > 1) & np.isfinite(apart)
    return sqrt(float(np.mean(apart[known] / (sizes[known] - 1)))) if known.any() else nan


def of_contest_page(contest: Contest) -> Findings:
    """Of a bake-off."""
    summary, leading = contest.summary, contest.summary["leading"]
    arms = of_contest(_arms(contest))
    found = [one if one.target == "holes" else replace(one, spoken=True) for one in arms]
    judges = [*(summary.get("kin") or {}).get("judges", {})]
    found += demonstration(judges, "kin")
    return ranked(
        found,
        f"differences by {leading}, errors of the labels, queries that arms did not rank, and "
        "unjudged documents were looked at",
    )


def _arms(contest: Contest) -> Arms:
    summary, leading = contest.summary, contest.summary["leading"]
    unjudged = Counter[str]()
    if contest.source.has("holes.parquet"):
        unjudged.update(contest.source.table("holes")["run"].to_pylist())
    return Arms(
        summary["truth"]["queries"],
        leading,
        contest.rivals(leading, contest.arms[0]) if contest.arms else (),
        contest.unanswered,
        unjudged,
    )


def of_agreement(measured: Measured) -> Findings:
    """Of ``agree``."""
    biases = of_biases(measured.rows("grading"), measured.rows("voting"))
    found = [*_beside_people(measured), *biases, *demonstration(measured.judges, "")]
    beside = "agreement with people, " if measured.people else ""
    return ranked(found, f"{beside}severity, length, order and repeats were looked at")


def _beside_people(measured: Measured) -> Iterator[Finding]:
    if measured.people:
        scale, name = measured.scales[0], measured.leading
        rows = [{**measured.of(HUMAN, j, scale, name), "rater_b": j} for j in measured.panel]
        yield from of_people(rows, "people", name)
    outcomes = [
        row
        for row in measured.rows("outcomes")
        if (row["coefficient"], row["scale"]) == ("alpha-nominal", "0-2") and row["items"]
    ]
    yield from of_people(outcomes, "outcomes", "alpha")


def of_relabelling(relabelling: Relabelling) -> Findings:
    """Of ``compare-labels``."""
    rows, record = relabelling.standings, relabelling.record
    leaders = None
    if rows:
        leaders = min(rows, key=lambda row: row["old_rank"])["run"], rows[0]["run"]
    found = said(of_labels(record["counts"], leaders, record.get("missing") or {}))
    return ranked(
        found, "the order of the runs, their leader, and contradicted queries were looked at"
    )
