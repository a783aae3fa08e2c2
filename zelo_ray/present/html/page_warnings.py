"""Rank the warnings of each kind of page, from the figures that a command left."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from zelo_ray.commands.bakeoff.outcome import Caution
from zelo_ray.commands.bakeoff.significance import significance_of
from zelo_ray.engine.write_results import disabled_in, unscored_in
from zelo_ray.formats.interchange.verdicts import HUMAN
from zelo_ray.present.html.contest import Contest
from zelo_ray.present.html.judged import Annotation
from zelo_ray.present.html.judging_figures import judging_figures
from zelo_ray.present.html.measured import Measured
from zelo_ray.present.html.page import short
from zelo_ray.present.html.relabelled import Relabelling
from zelo_ray.present.people import leading
from zelo_ray.present.warnings import RankedWarnings, ResultWarning, rank_warnings
from zelo_ray.present.warnings.asking import AskingFigures, warn_of_asking
from zelo_ray.present.warnings.compared import warn_of_labels, warn_of_protocols
from zelo_ray.present.warnings.judging import warn_of_demonstration, warn_of_judging
from zelo_ray.present.warnings.measured import warn_of_agreement, warn_of_biases
from zelo_ray.present.warnings.rankers import RankerFigures, warn_of_rankers
from zelo_ray.reasons import Disabled, Unscored
from zelo_ray.records import Comparison

_REASON = 160  # characters of a reason in a sentence


def rank_of_annotation(annotation: Annotation) -> RankedWarnings:
    """Rank the warnings of a run that judged documents: what is missing, and its judges."""
    asking, judging = asking_figures(annotation), judging_figures(annotation)
    return rank_warnings(
        [*warn_of_asking(asking), *warn_of_judging(judging)],
        "answers that are missing, input lines, order and ties, judges that contradict each "
        "other or say the same, and standard errors were looked at",
    )


def asking_figures(annotation: Annotation) -> AskingFigures:
    """Return the figures of how asking went."""
    summary, judgments = annotation.run["summary"], Counter[str]()
    for name in annotation.kinds:
        judgments.update(annotation.rows_by_judge(name))
    return AskingFigures(
        judgments,
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


def rank_of_agreement(measured: Measured) -> RankedWarnings:
    """Rank the warnings of ``agree``."""
    comparison = "agreement with people, " if measured.people else ""
    return rank_warnings(
        [
            *_beside_people(measured),
            *warn_of_biases(measured.rows("grading"), measured.rows("voting")),
            *warn_of_demonstration(measured.judges, "", "that is measured", "Annotate again with"),
        ],
        f"{comparison}severity, length, order and repeats were looked at",
    )


def _beside_people(measured: Measured) -> Iterator[ResultWarning]:
    if measured.people:
        scale, name = measured.scales[0], measured.leading
        rows = [{**measured.of(HUMAN, j, scale, name), "rater_b": j} for j in measured.panel]
        yield from warn_of_agreement(rows, "people", name)
    outcomes = [
        row
        for row in measured.rows("outcomes")
        if (row["coefficient"], row["scale"]) == ("alpha-nominal", "0-2") and row["items"]
    ]
    yield from warn_of_agreement(outcomes, "outcomes", "alpha")


def rank_of_relabelling(relabelling: Relabelling) -> RankedWarnings:
    """Rank the warnings of ``compare-labels``."""
    rows, record = relabelling.standings, relabelling.record
    leaders = None
    if rows:
        leaders = min(rows, key=lambda row: row["old_rank"])["run"], rows[0]["run"]
    missing, uncut = record.get("missing") or {}, record.get("uncut")
    return rank_warnings(
        warn_of_labels(record["counts"], leaders, missing, cut=not uncut),
        "the order of the runs, their leader, and contradicted queries were looked at",
    )


def rank_of_protocols(
    record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], alike: Sequence[str]
) -> RankedWarnings:
    """Rank the warnings of ``compare-protocols``; rows as for `warn_of_protocols`."""
    judges = record["options"].get("judges", ())
    return rank_warnings(
        [
            *warn_of_protocols(rows, alike, len(rows) - 1),
            *warn_of_demonstration(judges, "protocols", "asked"),
        ],
        "differences between protocols, and items that they did not judge, were looked at",
    )
