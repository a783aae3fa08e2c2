"""What stands out, from what runs left: the figures that `zelo_ray.present.findings` judges."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from zelo_ray.commands.bakeoff.outcome import Caution
from zelo_ray.commands.bakeoff.significance import significance_of
from zelo_ray.engine.write_results import disabled_in, unscored_in
from zelo_ray.formats.interchange.verdicts import HUMAN
from zelo_ray.present.findings import Finding, Findings, ranked, said
from zelo_ray.present.findings.asking import Asked, of_asking
from zelo_ray.present.findings.compared import of_labels, of_protocols
from zelo_ray.present.findings.contest import Arms, of_contest
from zelo_ray.present.findings.judging import demonstration, of_judging
from zelo_ray.present.findings.measured import of_biases, of_people
from zelo_ray.present.html.contest import Contest
from zelo_ray.present.html.judged import Annotation
from zelo_ray.present.html.measured import Measured
from zelo_ray.present.html.page import short
from zelo_ray.present.html.relabelled import Relabelling
from zelo_ray.present.html.seen import seen_of
from zelo_ray.present.people import leading
from zelo_ray.reasons import Disabled, Unscored
from zelo_ray.records import Comparison

_REASON = 160  # characters of a reason in a sentence


def of_annotation(annotation: Annotation) -> Findings:
    """Of a run that judged documents: what is missing, and what its judges are like."""
    found = [*said(of_asking(asked_of(annotation))), *of_judging(seen_of(annotation))]
    return ranked(
        found,
        "answers that are missing, input lines, order and ties, judges that contradict each "
        "other or say the same, and standard errors were looked at",
    )


def asked_of(annotation: Annotation) -> Asked:
    """How asking went."""
    summary, given = annotation.run["summary"], Counter[str]()
    for name in annotation.kinds:
        given.update(annotation.rows_by_judge(name))
    return Asked(
        given,
        annotation.failed,
        {
            name: Disabled(reason.code, short(reason.message, _REASON))
            for name, reason in disabled_in(summary.get("disabled", {})).items()
        },
        {
            query_id: Unscored(reason.code, short(reason.message, _REASON))
            for query_id, reason in unscored_in(summary["unscored"]).items()
        },
        summary["queries"],
        annotation.run["options"].get("min_coverage", 0.5),
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


def of_contest_page(contest: Contest) -> Findings:
    """Of a bake-off."""
    summary, measure = contest.summary, contest.summary["leading"]
    arms = of_contest(_arms(contest))
    silent = ("holes", "leaderboard")  # of which the terminal's lines say nothing
    found = [one if one.target in silent else replace(one, spoken=True) for one in arms]
    judges = [*(summary.get("kin") or {}).get("judges", {})]
    found += demonstration(judges, "kin", "of the truth", "Annotate again with")
    return ranked(
        found,
        f"differences by {measure}, errors of the labels, queries that arms did not rank, equal "
        "scores, ranks that scores reverse, and unjudged documents were looked at",
    )


def _arms(contest: Contest) -> Arms:
    summary, measure = contest.summary, contest.summary["leading"]
    unjudged = Counter[str]()
    if contest.source.has("holes.parquet"):
        unjudged.update(contest.source.table("holes")["run"].to_pylist())
    rivals = contest.rivals(measure, contest.arms[0]) if contest.arms else []
    rows = [one for own in contest.comparisons.values() for one in own]
    if people := _by_people(contest):
        measure, rivals, rows = people
    arms = Arms(summary["truth"]["queries"], measure, rivals, contest.unanswered, unjudged)
    cautions = [Caution(**each) for each in summary.get("warnings", ())]
    sure = any(significance_of(one).is_significant for one in rows if one.measure == measure)
    ranked = contest.documents(arms.depth)
    return replace(
        arms,
        ranked=ranked,
        compared=len(rows),
        sure=sure,
        cautions=cautions,
        asked=contest.run.get("judges", ()),
    )


def _by_people(contest: Contest) -> tuple[str, list[Comparison], list[Comparison]] | None:
    """The measure, the leader against the others, and all rows, as people's labels correct them.

    None where there are no such labels, or too few for a test.
    """
    people = contest.summary.get("people")
    if not (people and people["way"]):
        return None
    measure, best = people["measures"][0], people["leader"]
    rows = [one for one in contest.every_comparison if one.estimate == "corrected"]
    rivals = leading([one for one in rows if one.measure == measure], best)
    known = rivals and all(isfinite(one.p_holm) for one in rivals)
    return (measure, rivals, rows) if known else None


def of_agreement(measured: Measured) -> Findings:
    """Of ``agree``."""
    biases = of_biases(measured.rows("grading"), measured.rows("voting"))
    shown = demonstration(measured.judges, "", "that is measured", "Annotate again with")
    found = [*_beside_people(measured), *biases, *shown]
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
    missing, uncut = record.get("missing") or {}, record.get("uncut")
    found = said(of_labels(record["counts"], leaders, missing, cut=not uncut))
    return ranked(
        found, "the order of the runs, their leader, and contradicted queries were looked at"
    )


def of_trials(
    record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], alike: Sequence[str]
) -> Findings:
    """Of ``compare-protocols``: its record, and what `of_protocols` takes."""
    judges = record["options"].get("judges", ())
    return ranked(
        [
            *said(of_protocols(rows, alike, len(rows) - 1)),
            *demonstration(judges, "protocols", "asked"),
        ],
        "differences between protocols, and items that they did not judge, were looked at",
    )
