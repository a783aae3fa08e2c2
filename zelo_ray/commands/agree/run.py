"""Run `agree`: compare judges with people and with each other, or two runs of the same judges."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zelo_ray.command_options import AgreeOptions
from zelo_ray.commands.agree.changes import PANEL, Judgments, measure_changes, read_both
from zelo_ray.commands.agree.measure import (
    PAIR_SCALES,
    SINGLE_VOTES,
    compare_with_people,
    consensus_of_grades,
    measure_grades,
    measure_votes,
)
from zelo_ray.commands.agree.orders import measure_orders
from zelo_ray.commands.agree.report import build_report
from zelo_ray.engine.job import Watch
from zelo_ray.errors import InputError, OptionError
from zelo_ray.evaluation.agreement import ConfusionCell
from zelo_ray.evaluation.coefficients import COEFFICIENTS, choose_coefficients
from zelo_ray.evaluation.significance import ALPHA, queries_needed
from zelo_ray.files.inputs import note_public
from zelo_ray.files.judges import HUMAN, AllJudgments, read_all_judgments
from zelo_ray.files.labels import ids_in_table, read_labels
from zelo_ray.files.rows import RESULTS, open_source
from zelo_ray.files.run_record import RUN, read_record, refuse_unfinished, run_directory
from zelo_ray.files.schema import split_columns
from zelo_ray.files.storage import list_directory
from zelo_ray.files.tables import parquet_table, table_of
from zelo_ray.files.wording import counted
from zelo_ray.names import split_name
from zelo_ray.protocols import is_own_protocol, protocol_of_record
from zelo_ray.protocols.shared_error import shown_example_queries
from zelo_ray.report.figures import Figure, figures_table
from zelo_ray.report.results import Results, finish, refuse_taken

_WEIGHTED = (
    f"{HUMAN}: labels, drawn with unequal chances, count 1 / probability: agreement and leniency "
    "are about all that they were drawn from. Not weighted, and so about the labels alone, are "
    "confusions, how often people say what the panel says, and the order of runs"
)


def run(options: AgreeOptions, _watch: Watch) -> Results:
    """Measure how judges agree with people and with each other, or what changed in them.

    Two sources that are runs of the same judges are compared judge by judge.
    """
    choose_coefficients(options.coefficients)  # refuses an unknown one
    refuse_taken("agree", options.out or "", _places_of(options))
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
    changed = [*dict.fromkeys(row.of for row in judges if row.p < ALPHA)]
    needed = queries_needed(sum(row.p == row.p for row in judges))
    return finish(
        "agree",
        options,
        {"figures": figures_table(figures)} | ({"changes": rows} if len(rows) else {}),
        build_report,
        complete=not notes and min(row.queries for row in figures) >= needed,
        is_worse=bool(changed) and options.fail_on_change,
        compares="runs",
        changed=changed,
        needed=needed,
        notes=notes,
    )


def _compare_raters(options: AgreeOptions) -> Results:
    judgments = _read_judgments(options)
    figures, confused = measure_grades(judgments, options)
    voting, notes = measure_votes(judgments, options)
    orders = measure_orders(judgments, options)
    figures += [*compare_with_people(judgments, options), *voting, *orders.figures]
    figures += consensus_of_grades(judgments, options)
    if not any(row.items for row in figures):
        raise InputError("one judge has nobody to agree with: name more judges, or --human")
    tables = {
        "figures": figures_table(figures),
        "confusion": table_of(confused, ConfusionCell),
        "effects": pa.Table.from_pylist(orders.effects),
        "differing": orders.differing,
    }
    counts = {
        "grades of judges": len(judgments.grades),
        "votes of judges": len(judgments.votes),
        "grades of people": len(judgments.human),
        "votes of people": len(judgments.human_votes),
    }
    missing = [*_missing(judgments, figures), *orders.missing]
    return finish(
        "agree",
        options,
        {name: table for name, table in tables.items() if len(table)},
        build_report,
        complete=not missing,
        compares="raters",
        judges=judgments.judges,
        panel=judgments.panel,
        voters=judgments.voters,
        counts={name: count for name, count in counts.items() if count},
        relevant=orders.compared,
        notes=[*judgments.notes, *notes, *orders.notes],
        missing=missing,
    )


def _missing(judgments: AllJudgments, figures: list[Figure]) -> list[str]:
    """Say what could not be measured."""
    said = dict[str, None]()
    agreed = [row for row in figures if row.what in COEFFICIENTS]
    for row in (row for row in agreed if row.against == HUMAN and not row.items):
        if row.scale == SINGLE_VOTES:
            said[f"{row.of} and {HUMAN} judged no pair in common"] = None
        elif row.of in judgments.judges and row.scale not in PAIR_SCALES:
            said[f"{row.of} and {HUMAN} judged no document in common"] = None
    if len(judgments.human_votes) and not len(judgments.votes):
        said[f"{HUMAN} voted on pairs, but no judge did"] = None
    if len(judgments.votes) and len(judgments.human) and not len(judgments.human_votes):
        said[f"judges voted, but {HUMAN} graded both documents of each pair alike"] = None
    return [*said]


# --- what is read ---------------------------------------------------------------------------------


def _read_judgments(options: AgreeOptions) -> AllJudgments:
    """Read all judgments, with notes on what a reader should know of them."""
    columns = split_columns(options.columns)
    settings = options.model_dump(include={"levels", "clip", "human", "people"})
    with TemporaryDirectory() as folder:
        sources = [*_without_own_protocols(options.sources, folder)]
        judgments = read_all_judgments(sources, columns=columns, **settings)
        for run in options.runs:  # which are read later, and may have the columns
            open_source(split_name(run)[1], columns)
        columns.refuse_unused()
    judgments = _leave_out_examples(judgments, options)
    notes = [
        *judgments.notes,
        *note_public(_places_of(options)),
        *([_WEIGHTED] if judgments.weights else []),
        *_note_seen_labels(judgments, options),
    ]
    return replace(judgments, notes=tuple(dict.fromkeys(notes)))


def _places_of(options: AgreeOptions) -> list[str]:
    """Return all places of judgments and runs that the options name."""
    sources = [split_name(source)[1] for source in options.sources]
    return [*sources, *([options.human] if options.human else []), *options.runs]


def _without_own_protocols(sources: Iterable[str], folder: str) -> Iterator[str]:
    """Yield the sources; of runs by the user's own protocols, files of their grades or votes."""
    for number, source in enumerate(sources):
        url = split_name(source)[1].rstrip("/")
        record = read_record(f"{url}/{RUN}") if RUN in (list_directory(url) or ()) else {}
        if not is_own_protocol(str((record.get("options") or {}).get("protocol", ""))):
            yield source
            continue
        refuse_unfinished(url)
        protocol, has_any = protocol_of_record(record), False
        for name, kind in protocol.counted.items():
            if convert := kind.as_votes or kind.as_grades:
                rows = parquet_table(f"{url}/{name}.parquet", [*kind.fields])
                pq.write_table(convert(rows), place := f"{folder}/{number}-{name}.parquet")
                has_any = True
                yield place
        if not has_any:
            what = "produces neither grades nor votes, so agree cannot measure it"
            raise InputError(f"{url}: protocol {protocol.name} {what}")


def _options_of_runs(options: AgreeOptions) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the sources that are runs, or files of one, and the options of these."""
    for source in options.sources:
        place = run_directory(split_name(source)[1])
        run = read_record(f"{place}/{RUN}") if RUN in (list_directory(place) or ()) else {}
        if isinstance(run_options := run.get("options"), dict):
            yield source, run_options


def _leave_out_examples(judgments: AllJudgments, options: AgreeOptions) -> AllJudgments:
    """Leave out people's judgments on queries of a run's worked examples, with a note.

    Without ``--human`` it is unknown which sources are people: then there is only a note, if a
    source is not a run.
    """
    tables, what = (
        (judgments.human, judgments.human_votes),
        "on which people's judgments are left out",
    )
    if options.human is None:
        tables = (judgments.grades, judgments.votes)
        what = "which is measured here: if another source is people, name it by --human"
    measured = {query_id for table in tables for query_id in table["query_id"].to_pylist()}
    examples, notes, runs = set[str](), list(judgments.notes), [*_options_of_runs(options)]
    for source, run_options in runs if options.human or len(runs) < len(options.sources) else ():
        with contextlib.suppress(OptionError):
            for query_id in sorted(measured & shown_example_queries(run_options)):
                examples.add(query_id)
                place = run_directory(split_name(source)[1])
                notes.append(f"{place}: its worked examples are of query {query_id!r}, {what}")
    judgments = replace(judgments, notes=tuple(notes))
    if not (options.human and examples):
        return judgments
    if examples == measured:
        raise InputError(f"{notes[-1]}, and {options.human} has no others")
    ids = pa.array([*examples], pa.string())
    human, votes = (table.filter(pc.invert(pc.is_in(table["query_id"], ids))) for table in tables)
    return replace(judgments, human=human, human_votes=votes)


def _note_seen_labels(judgments: AllJudgments, options: AgreeOptions) -> Iterator[str]:
    """Yield a note on each run that was calibrated by labels by which it is measured now."""
    measured = {*ids_in_table(judgments.human)} if options.human and len(judgments.human) else set()
    for source, run_options in _options_of_runs(options) if measured else ():
        (name, url), labels = split_name(source), str(run_options.get("human") or "")
        place = run_directory(url)
        try:
            calibrated = (
                measured.intersection(ids_in_table(read_labels(labels).rows)) if labels else ()
            )
        except InputError:
            yield (
                f"{place}: its --human {labels} cannot be read, so it is not known whether it was "
                f"calibrated by {options.human}"
            )
            continue
        if calibrated:
            result = "its judges' own grades have not seen them, its scores have"
            if url.rstrip("/").rpartition("/")[2] == RESULTS:  # the scores, which are measured
                result = f"{name or url} agrees too well with people here"
            yield (
                f"{place}: {counted(len(calibrated), 'document')} of {options.human} calibrated "
                f"that run (--human {labels}): {result}; measure with labels that it has not seen "
                "(docs/agree.md#sources)"
            )
