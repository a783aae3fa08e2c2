"""``agree``: compare judges with people, and with each other.

A measurement is a function of the judgments and the options that returns
`MeasuredTables`: tables for ``--out``. A new one takes a module here, a line in
``SECTIONS``, its options in `AgreeOptions`, and a section of the report (`report/`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zelo_ray.command_options import AgreeOptions, parse_scales
from zelo_ray.commands.agree.consensus import measure_consensus
from zelo_ray.commands.agree.criteria import select_criterion
from zelo_ray.commands.agree.grades import measure_grading
from zelo_ray.commands.agree.heldout import leave_out_examples, note_seen_labels
from zelo_ray.commands.agree.leaderboards import measure_leaderboards
from zelo_ray.commands.agree.measured_tables import MeasuredTables
from zelo_ray.commands.agree.raters import measure_raters
from zelo_ray.commands.agree.verdicts import measure_verdicts
from zelo_ray.commands.agree.voting import measure_voting
from zelo_ray.errors import InputError, OptionError
from zelo_ray.evaluation.coefficients import choose_coefficients
from zelo_ray.files.inputs import note_public
from zelo_ray.files.judges import HUMAN, AllJudgments, read_all_judgments
from zelo_ray.files.rows import open_source
from zelo_ray.files.run_record import RUN, find_owner, read_record, refuse_unfinished
from zelo_ray.files.schema import split_columns
from zelo_ray.files.storage import list_directory, write_json
from zelo_ray.files.tables import parquet_table, write_tables
from zelo_ray.names import split_name
from zelo_ray.plugins import loaded_packages
from zelo_ray.protocols import Protocol, is_own_protocol, protocol_of_record

SECTIONS: tuple[Callable[[AllJudgments, AgreeOptions], MeasuredTables], ...] = (
    measure_raters,
    measure_verdicts,
    measure_consensus,
    measure_grading,
    measure_voting,
    measure_leaderboards,
)

_OF_ONE_JUDGE = "leaderboards"
"""The table that has rows even if no two raters can be compared."""


@dataclass(frozen=True, slots=True)
class MeasuredAgreement:
    """Results of a comparison: its record, which is `agree.json`, and its tables."""

    record: Mapping[str, Any]
    tables: Mapping[str, pa.Table]

    @property
    def complete(self) -> bool:
        """Return whether everything that was asked for could be measured."""
        return not self.record["missing"]


def agree(options: AgreeOptions) -> MeasuredAgreement:
    """Compare judges with people, and with each other.

    Raises:
        OptionError: a coefficient is unknown, or ``out`` holds other results.
        InputError: an input cannot be read, or there is nothing to compare.
    """
    options = options.model_copy(
        update={"coefficients": tuple(choose_coefficients(options.coefficients))}
    )
    _refuse_taken(options)
    settings = options.model_dump(include={"levels", "clip", "human", "people"})
    with TemporaryDirectory() as folder:
        sources = [*convert_own_runs(options.sources, folder)]
        columns = split_columns(options.columns)
        if options.criterion:
            sources, settings["human"], columns = select_criterion(
                sources, options.human, options.criterion, columns, folder
            )
        scales = parse_scales(options.scale)
        verdicts = read_all_judgments(sources, scales=scales, columns=columns, **settings)
        for run in options.runs:  # which are read later, and may have the columns
            open_source(split_name(run)[1], columns)
        columns.refuse_unused()
    verdicts = leave_out_examples(verdicts, options)
    notes = (
        *verdicts.notes,
        *note_public(named_places(options)),
        *_note_weights(verdicts),
        *note_seen_labels(verdicts, options),
    )
    verdicts = replace(verdicts, notes=notes)
    sections = [section(verdicts, options) for section in SECTIONS]
    tables = {name: table for section in sections for name, table in section.tables.items()}
    if not any(len(table) for name, table in tables.items() if name != _OF_ONE_JUDGE):
        raise InputError("one judge has nobody to agree with: name more judges, or --human")
    record = _record(options, verdicts, sections)
    if options.out:
        write_tables(options.out, tables)
        write_json(options.out, "agree.json", record)
    return MeasuredAgreement(record, tables)


def _note_weights(verdicts: AllJudgments) -> Iterator[str]:
    """Yield how figures are weighted, if labels were drawn with unequal chances."""
    if verdicts.weights:
        yield (
            f"{HUMAN}: labels, drawn with unequal chances, count 1 / probability: agreement "
            "and leniency are about all that they were drawn from. Not weighted, and so about the "
            "labels alone, are confusions, preference for length, how often people say what the "
            "panel says, and the order of runs"
        )


def named_places(options: AgreeOptions) -> list[str]:
    """Return all places of judgments and runs that the options name."""
    sources = [split_name(source)[1] for source in options.sources]
    return [*sources, *([options.human] if options.human else []), *options.runs]


def _refuse_taken(options: AgreeOptions) -> None:
    """Refuse an ``out`` that holds judgments: the tables would replace or be taken for them."""
    if not options.out:
        return
    if owned := find_owner(options.out, "agree", [options.human, *named_places(options)]):
        raise OptionError(f"{options.out} holds {owned}; name another --out")


def _record(
    options: AgreeOptions, verdicts: AllJudgments, sections: Sequence[MeasuredTables]
) -> dict[str, Any]:
    counts = {
        name: {"judgments": len(table), "queries": len(pc.unique(table["query_id"]))}
        for name, table in (
            ("grades", verdicts.grades),
            ("votes", verdicts.votes),
            ("human", verdicts.human),
            ("voices", verdicts.human_votes),
        )
    }
    return {
        "kind": "agree",
        "options": {
            **options.model_dump(mode="json", exclude={"out"}),
            "thresholds": options.positive_thresholds,
        },
        "versions": {name: version(name) for name in ("zelo-ray", "numpy", "scipy", "pyarrow")}
        | loaded_packages(),
        "judges": verdicts.judges,
        "voters": verdicts.voters,
        "pooled": verdicts.pooled,
        "counts": counts,
        "notes": [*verdicts.notes, *(note for section in sections for note in section.notes)],
        "missing": [line for section in sections for line in section.missing],
    }


def convert_own_runs(sources: Iterable[str], folder: str) -> Iterator[str]:
    """Yield the sources, with runs of the user's own protocols converted to judgment files.

    Args:
        sources: as `agree` takes them.
        folder: the directory for these files.

    Raises:
        InputError: a protocol produces neither grades nor votes.
    """
    for number, source in enumerate(sources):
        protocol = _own_protocol(split_name(source)[1])
        yield from (
            [source] if protocol is None else _write_judgments(source, protocol, folder, number)
        )


def _own_protocol(url: str) -> Protocol | None:
    """Return the protocol of a run, if it is a plug-in, else None."""
    if RUN not in (list_directory(url) or ()):
        return None
    run_record = read_record(f"{url.rstrip('/')}/{RUN}")
    options = run_record.get("options")
    name = options.get("protocol", "") if isinstance(options, dict) else ""
    return protocol_of_record(run_record) if is_own_protocol(str(name)) else None


def _write_judgments(url: str, protocol: Protocol, folder: str, number: int) -> Iterator[str]:
    refuse_unfinished(url)
    kinds = {name: kind.as_votes or kind.as_grades for name, kind in protocol.counted.items()}
    if not any(kinds.values()):
        raise InputError(
            f"{url}: protocol {protocol.name} produces neither grades nor votes, so agree cannot "
            "measure it"
        )
    for name, read in kinds.items():
        if read:
            place = f"{folder}/{number}-{name}.parquet"
            kind = protocol.judgments[name]
            rows = parquet_table(f"{url.rstrip('/')}/{name}.parquet", [*kind.fields])
            pq.write_table(read(rows), place)
            yield place
