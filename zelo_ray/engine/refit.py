"""Compute the truth without some of its judges, from the judgments of the run that made it."""

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.engine.learning import read_human_grades
from zelo_ray.errors import InputError, format_error
from zelo_ray.files.judgments import with_error
from zelo_ray.files.labels import ids_in_table
from zelo_ray.files.run_record import RUN, read_record, run_directory
from zelo_ray.files.storage import list_directory
from zelo_ray.files.tables import read_table, schema_of, table_of
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Evidence, Judgments, Protocol, protocol_of_record, recorded_options
from zelo_ray.records import Grade, Qrel, Vote

_INDEPENDENT = {Vote, Grade}
"""Judgments that do not depend on which other judges were asked."""


class InseparableError(Exception):
    """The labels cannot be computed without some of the judges; the message says why."""


@dataclass(frozen=True, slots=True)
class TruthRun:
    """The run of `annotate` that made a truth."""

    out: str
    protocol: Protocol
    options: AnnotateOptions | None
    """None if its record does not hold them"""
    judges: tuple[str, ...]
    """those that gave judgments, in alphabetical order"""

    def labels_without(self, judges: Collection[str], truth: pa.Table) -> pa.Table:
        """Compute labels from the other judges alone, for the documents that they judged.

        What the protocol learns about judges is learned again. The labels, rows of `records.Qrel`,
        are in the order of ``truth``, which has query_id and doc_id of those that are wanted.

        Raises:
            InseparableError: no judge is left, or no labels can be computed.
        """
        others = [judge for judge in self.judges if judge not in judges]
        if not others:
            raise InseparableError("no judge of the truth would be left, so this cannot be checked")
        kinds = {kind.record for kind in self.protocol.counted.values()}
        is_independent = kinds and kinds <= _INDEPENDENT
        if self.options is None or not (
            is_independent or (kinds and self.protocol.judges_are_independent(self.options))
        ):
            raise InseparableError(f"the judges of {self.protocol.name} do not judge independently")
        try:
            return self._refit(others, self.options, truth)
        except Exception as error:  # noqa: BLE001 - the protocol may be the user's own
            raise InseparableError(format_error(error)) from None

    def _refit(self, judges: Sequence[str], options: AnnotateOptions, truth: pa.Table) -> pa.Table:
        protocol, queries = self.protocol, pc.unique(truth["query_id"]).to_pylist()
        pools: dict[str, list[Any]] = {query_id: [] for query_id in queries}
        for name, kind in _kinds_written(self.out, protocol).items():
            needs_no_texts = kind.record in _INDEPENDENT and kind.columns
            columns = kind.columns if needs_no_texts else kind.fields
            empty = {f.name: () if "tuple" in str(f.type) else "" for f in fields(kind.record)}
            table = read_table(self.out, name, columns)
            for column, values in (("judge", judges), ("query_id", queries)):
                table = table.filter(pc.is_in(table[column], pa.array(values, pa.string())))
            for row in table.to_pylist():
                pools[row["query_id"]].append(kind.record(**(empty | row)))
        learned = None
        if protocol.learn and protocol.learns(options):
            evidence = Evidence(judges, read_human_grades(options))
            learned = protocol.learn([*pools.values()], evidence, options)
        fits = protocol.fit([*pools.values()], options, learned)
        scores = [score for fit in fits for score in fit.scores]
        scored = with_error(table_of(scores, protocol.scores_of(options).record))
        names = ["query_id", "doc_id", "score", "std_error"]
        labels = scored.select(names).rename_columns(schema_of(Qrel).names)
        place = {ids: n for n, ids in enumerate(ids_in_table(truth))}
        at = [(place[ids], n) for n, ids in enumerate(ids_in_table(labels)) if ids in place]
        if not at:
            raise InseparableError("the other judges' judgments give no label")
        return labels.take(pa.array([n for _, n in sorted(at)]))


def find_truth_run(truth: str) -> TruthRun | None:
    """Return the run of `annotate` that made a truth; None if none did.

    ``truth`` is the ``--out`` of such a run, or its ``scores.parquet`` or ``annotated.jsonl``.

    Raises:
        InputError: the storage cannot be reached, or the run's record is not valid.
    """
    out = run_directory(truth)
    if RUN not in (list_directory(out) or ()):
        return None
    run = read_record(f"{out}/{RUN}")
    if run.get("kind") != "annotate":
        return None
    protocol, options = protocol_of_record(run), None
    with contextlib.suppress(KeyError, TypeError, ValueError):
        options = recorded_options(run)
    return TruthRun(out, protocol, options, tuple(sorted(_judges(out, protocol, run))))


def _kinds_written(out: str, protocol: Protocol) -> dict[str, Judgments]:
    """Return the kinds of judgments that a run has; only optional ones may lack a table."""
    there = list_directory(out) or ()
    kinds = protocol.judgments.items()
    return {n: kind for n, kind in kinds if f"{n}.parquet" in there or not kind.optional}


def _judges(out: str, protocol: Protocol, run: Mapping[str, Any]) -> set[str]:
    """Return the judges of the stored judgments; if these are gone, those that were asked."""
    names = set[str]()
    try:
        for name in _kinds_written(out, protocol).keys() & protocol.counted.keys():
            names |= {*pc.unique(read_table(out, name, ["judge"])["judge"]).to_pylist()}
    except (InputError, KeyError):
        names = set()
    return names or {judge["judge"] for judge in run.get("panel", ())}
