"""Check whether a run has seen the labels that it is measured by (held-out test)."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import AgreeOptions
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.judges import AllJudgments
from zelo_ray.files.labels import Ids, ids_in_table, read_labels
from zelo_ray.files.rows import RESULTS
from zelo_ray.files.run_record import RUN, read_record, run_directory
from zelo_ray.files.storage import list_directory
from zelo_ray.files.wording import counted
from zelo_ray.names import split_name
from zelo_ray.protocols.shared_error import shown_example_queries


@dataclass(frozen=True, slots=True)
class _Run:
    """A run among the sources: its name, its path, and its options."""

    name: str
    place: str
    pooled: bool
    """whether its scores are measured, not its judges"""
    options: Mapping[str, Any]


def leave_out_examples(verdicts: AllJudgments, options: AgreeOptions) -> AllJudgments:
    """Leave out people's judgments on queries of a run's worked examples, with a note.

    Without ``--human`` it is unknown which sources are people: then there is only a note, if a
    source is not a run.

    Raises:
        InputError: they have no judgments on other queries.
    """
    has_people = options.human is not None
    words = (
        [verdicts.human, verdicts.human_votes] if has_people else [verdicts.grades, verdicts.votes]
    )
    about = {query_id for table in words for query_id in table["query_id"].to_pylist()}
    shown, notes, runs = set[str](), list(verdicts.notes), [*_runs(options)]
    for run in runs if has_people or len(runs) < len(options.sources) else ():
        with contextlib.suppress(OptionError):
            for query_id in sorted(about & shown_example_queries(run.options)):
                shown.add(query_id)
                fact = f"{run.place}: its worked examples are of query {query_id!r}"
                omission = "on which people's judgments are left out"
                warning = "which is measured here: if another source is people, name it by --human"
                notes.append(f"{fact}, {omission if has_people else warning}")
    if not has_people:
        return replace(verdicts, notes=tuple(dict.fromkeys(notes)))
    if not shown:
        return verdicts
    if shown == about:
        raise InputError(f"{notes[-1]}, and {options.human} has no others")
    human, voices = (_without(table, shown) for table in words)
    return replace(verdicts, notes=tuple(notes), human=human, human_votes=voices)


def _without(table: pa.Table, query_ids: Iterable[str]) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(table["query_id"], pa.array([*query_ids], pa.string()))))


def note_seen_labels(verdicts: AllJudgments, options: AgreeOptions) -> Iterator[str]:
    """Yield a note on each run that was calibrated with labels by which it is measured now.

    If the run's labels cannot be read any more, the note says so if the file names are equal.
    """
    if options.human is None or not len(verdicts.human):
        return
    measuring = set(ids_in_table(verdicts.human))
    for run in _runs(options):
        labels = str(run.options.get("human") or "")
        overlap = _count_overlap(labels, options.human, measuring) if labels else 0
        if overlap is None:
            yield (
                f"{run.place}: unknown whether {options.human} calibrated that run: its --human "
                f"{labels} cannot be read"
            )
        elif overlap:
            documents = counted(overlap, "document")
            consequence = (
                f"{run.name} agrees too well with people here"
                if run.pooled
                else "its judges' own grades have not seen them, its scores have"
            )
            yield (
                f"{run.place}: {documents} of {options.human} calibrated that run (--human "
                f"{labels}): {consequence}; measure with labels that it has not seen "
                "(docs/agree.md#held-out)"
            )


def _runs(options: AgreeOptions) -> Iterator[_Run]:
    for source in options.sources:
        name, url = split_name(source)
        place = run_directory(url)
        pooled = url.rstrip("/").rpartition("/")[2] == RESULTS
        run = read_record(f"{place}/{RUN}") if RUN in (list_directory(place) or ()) else {}
        if isinstance(run_options := run.get("options"), dict):
            yield _Run(name or url, place, pooled, run_options)


def _count_overlap(labels: str, human: str, measuring: Iterable[Ids]) -> int | None:
    """Count the documents in both; None if the labels cannot be read and may overlap."""
    items = set(measuring)
    try:
        table = read_labels(labels).rows
    except InputError:
        names = (place.rstrip("/").rpartition("/")[2] for place in (labels, human))
        return None if len({*names}) == 1 else 0
    return len(items.intersection(ids_in_table(table)))
