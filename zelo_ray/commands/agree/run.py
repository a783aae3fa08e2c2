"""Run `agree`: compare judges with people and with each other, or two runs of the same judges."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import AgreeOptions
from zelo_ray.commands.agree.changes import PANEL, Change, Judgments, measure_changes, read_both
from zelo_ray.commands.agree.grades import consensus_of_grades, measure_grades
from zelo_ray.commands.agree.orders import DifferingDocument, Effect, measure_orders
from zelo_ray.commands.agree.reading import places_of, read_judgments
from zelo_ray.commands.agree.report import build_report
from zelo_ray.commands.agree.votes import (
    PAIR_SCALES,
    SINGLE_VOTES,
    compare_with_people,
    measure_votes,
)
from zelo_ray.engine.job import Watch
from zelo_ray.errors import InputError, OptionError
from zelo_ray.evaluation.agreement import ConfusionCell, Difference
from zelo_ray.evaluation.changes import LEVEL, queries_needed
from zelo_ray.evaluation.coefficients import choose_coefficients
from zelo_ray.files.judges import HUMAN, AllJudgments
from zelo_ray.files.schema import split_columns
from zelo_ray.files.tables import table_of
from zelo_ray.names import split_name
from zelo_ray.records import Consensus
from zelo_ray.report.figures import Figure, figures_table
from zelo_ray.report.results import Results, finish, refuse_taken


def run(options: AgreeOptions, _watch: Watch) -> Results:
    """Measure how judges agree with people and with each other, or what changed in them.

    Two sources that are runs of the same judges are compared judge by judge.
    """
    choose_coefficients(options.coefficients)  # refuses an unknown one
    refuse_taken("agree", options.out or "", places_of(options))
    if len(options.sources) == 2 and options.human is None:
        old, new = (split_name(source)[1] for source in options.sources)
        columns = split_columns(options.columns)
        if both := read_both(old, new, columns):
            columns.refuse_unused()
            return _compare_runs(options, old, new, both)
    if options.fail_on_change:
        raise OptionError("--fail-on-change compares two runs of the same judges; name both")
    return _compare_raters(options)


def _compare_runs(
    options: AgreeOptions, old: str, new: str, both: tuple[Judgments, Judgments]
) -> Results:
    if options.runs or options.relevant:
        raise OptionError(
            f"{old} and {new} are of the same judges: leave out --runs and --relevant, which are "
            "for labels of two raters"
        )
    figures, rows, notes = measure_changes(old, new, both)
    judges = [row for row in figures if row.of != PANEL]
    changed = [*dict.fromkeys(row.of for row in judges if row.p < LEVEL)]
    needed = queries_needed(sum(row.p == row.p for row in judges))
    return finish(
        "agree",
        options,
        {"figures": figures_table(figures)} | ({"changes": table_of(rows, Change)} if rows else {}),
        build_report,
        complete=not notes and min(row.queries for row in figures) >= needed,
        is_worse=bool(changed) and options.fail_on_change,
        compares="runs",
        changed=changed,
        needed=needed,
        notes=notes,
    )


def _compare_raters(options: AgreeOptions) -> Results:
    judgments = read_judgments(options)
    figures, confused = measure_grades(judgments, options)
    verdicts, differences, consensus = compare_with_people(judgments, options)
    voting, notes = measure_votes(judgments, options)
    orders = measure_orders(judgments, options)
    figures += [*verdicts, *voting, *orders.figures]
    if not any(row.items for row in figures):
        raise InputError("one judge has nobody to agree with: name more judges, or --human")
    rows: dict[str, tuple[list[Any], type]] = {
        "figures": (figures, Figure),
        "confusion": (confused, ConfusionCell),
        "differences": (differences, Difference),
        "consensus": ([*consensus, *consensus_of_grades(judgments, options)], Consensus),
        "effects": (orders.effects, Effect),
        "differing": (orders.differing, DifferingDocument),
    }
    missing = [*_missing(judgments, figures, options), *orders.missing]
    return finish(
        "agree",
        options,
        {name: table_of(some, kind) for name, (some, kind) in rows.items() if some},
        build_report,
        complete=not missing,
        compares="raters",
        judges=judgments.judges,
        panel=judgments.panel,
        voters=judgments.voters,
        counts=_counts(judgments),
        relevant=orders.compared,
        notes=[*judgments.notes, *notes, *orders.notes],
        missing=missing,
    )


def _counts(judgments: AllJudgments) -> dict[str, dict[str, int]]:
    tables: dict[str, pa.Table] = {
        "grades of judges": judgments.grades,
        "votes of judges": judgments.votes,
        "grades of people": judgments.human,
        "votes of people": judgments.human_votes,
    }
    return {
        name: {"judgments": len(table), "queries": len(pc.unique(table["query_id"]))}
        for name, table in tables.items()
        if len(table)
    }


def _missing(judgments: AllJudgments, figures: list[Figure], options: AgreeOptions) -> list[str]:
    """Say what could not be measured."""
    beside = [row for row in figures if row.against == HUMAN and not row.items]
    voted = [row.of for row in beside if row.scale == SINGLE_VOTES]
    of_grades = (row for row in beside if row.scale not in PAIR_SCALES)
    graded = [row.of for row in of_grades if row.of in judgments.judges]
    said = [
        f"{judge} and {HUMAN} judged no {item} in common"
        for judges, item in ((graded, "document"), (voted, "pair"))
        for judge in dict.fromkeys(judges)
    ]
    if len(judgments.human_votes) and not len(judgments.votes):
        said.append(f"{HUMAN} voted on pairs, but no judge did")
    if len(judgments.votes) and len(judgments.human) and not len(judgments.human_votes):
        said.append(f"judges voted, but {HUMAN} graded both documents of each pair alike")
    names = set(choose_coefficients(options.coefficients))
    raters = len(judgments.judges) + bool(len(judgments.human))
    if raters > 1 and not any(row.what in names for row in figures):
        said.append(f"{', '.join(sorted(names))}: needs three or more raters")
    return said
