"""Draw the sample of documents or pairs that people judge, extend it, and store it.

``documents.parquet`` or ``pairs.parquet`` has all that could be drawn, such as the documents on
which two rankers differ, in the order of their priority, and the sample is the beginning of it. So
the sample is extended by going on in that order, without the bake-off.
"""

import hashlib
import io
from bisect import bisect_left
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zelo_ray.command_options import LabelOptions
from zelo_ray.commands.label.candidates import (
    Candidates,
    find_candidates,
    find_pair_candidates,
    find_run_candidates,
)
from zelo_ray.commands.label.rubric import PAIR_RUBRIC, RUBRIC
from zelo_ray.commands.label.texts import (
    read_document_texts,
    refuse_missing_texts,
)
from zelo_ray.engine.durable import write_durably
from zelo_ray.errors import InputError, OptionError
from zelo_ray.evaluation.measures import parse_measure
from zelo_ray.evaluation.people.corrected import FEWEST as FEWEST_LABELS
from zelo_ray.evaluation.people.corrected import count_deciding_queries
from zelo_ray.evaluation.people.frame import Frame
from zelo_ray.evaluation.people.sampling import priorities, sample_threshold
from zelo_ray.evaluation.significance import FEWEST
from zelo_ray.files.inputs import InputOptions, convert_inputs
from zelo_ray.files.judgments import has_changed
from zelo_ray.files.labels import (
    DOCUMENT,
    PAIR,
    TOP,
    Ids,
    LabelUnit,
    answers_in,
    ids_in_table,
    unit_of_sample,
)
from zelo_ray.files.make_pools import Shown
from zelo_ray.files.run_record import SAMPLE_RECORD, read_record
from zelo_ray.files.schema import split_columns
from zelo_ray.files.storage import write_json
from zelo_ray.files.tables import StoredTable
from zelo_ray.files.wording import counted

SampleRecord = dict[str, Any]
"""The contents of ``label.json``."""

_LABELS = 200
_PARTED = "\n"
"""Stands between the two ids of a pair, in what is hashed."""
_FRESH: SampleRecord = {
    "kind": "label",
    "top": TOP,
    "seed": 0,
    "overlap": 0.0,
    "instructions": None,
    "show_query": (),
}


def _schema_of(unit: LabelUnit) -> pa.Schema:
    names = (*unit.ids, "size", "priority", "query", *unit.texts)
    numbers = ("size", "priority")
    return pa.schema([(name, pa.float64() if name in numbers else pa.string()) for name in names])


def draw_sample(options: LabelOptions, say: Callable[[str], None]) -> tuple[SampleRecord, pa.Table]:
    """Draw or extend the sample as the options say, and store it if it has changed.

    Args:
        options: of the command.
        say: gets messages, such as where ``more`` adds nothing.

    Returns:
        The contents of ``label.json``, and the documents or pairs of the sample in order: ids,
        size, priority, query, texts, key (opaque) and twice (whether two people judge it).

    Raises:
        OptionError: there is neither a sample nor a bake-off, the sample was drawn with other
            options, or people who saw other fields of queries have answered.
        InputError: there is no bake-off, no two of its rankers differ, or a text is missing.
    """
    before, old = _read_sample(options)
    about = _merge_settings(before, options)
    held = labels_of(before)
    frame = _find_candidates(options, about)
    _report_changes(before, options, frame, say)
    if frame:
        table = _rank_candidates(about, old, options, frame)
        threshold = sample_threshold(old["priority"].to_numpy(), held) if held else np.inf
        held = int(np.count_nonzero(table["priority"].to_numpy() > threshold))
    else:
        table = old
    if options.pools:
        shown = Shown(tuple(about["show_query"] or ()))
        settings = InputOptions(columns=split_columns(options.columns), shown=shown)
        inputs = convert_inputs(options.pools, options.out, settings)
        for line in inputs.notes:
            say(line)
        about["pools"] = [*dict.fromkeys([*inputs.places, *about["pools"]])]
    seen = list(before.get("show_query") or ())
    anew = bool(before) and list(about["show_query"] or ()) != seen
    answered = len(answers_in(options.out)) if options.more or anew else 0
    if anew and answered:
        raise OptionError(
            f"show_query: people who saw {', '.join(seen) or 'no other fields'} of queries have "
            f"answered in {options.out}; name another --out"
        )
    size = min(_sample_size(options, held, answered), len(table))
    if size != labels_of(before):
        at = datetime.now(UTC).isoformat(timespec="seconds")
        about["stages"] = [*about["stages"], {"labels": size, "at": at}]
    elif options.more and size > answered:
        say(f"Nothing added: {size - answered:,} documents of the sample are not judged yet.")
    if frame and frame.frame and (hint := _hint_if_too_few(frame.frame, table, size)):
        say(
            f"{size:,} labels are too few to correct anything: it takes {FEWEST_LABELS} in "
            f"{FEWEST} queries that bear on the difference of two rankers. {hint}"
        )
    eager = bool(frame or options.pools)
    table = _add_texts(table, size, about, eager=eager, anew=anew)
    _store(options.out, (before, old), about | {"documents": len(table)}, table)
    return about | {"documents": len(table)}, _add_keys(table.slice(0, size), about)


def _find_candidates(options: LabelOptions, about: SampleRecord) -> Candidates | None:
    if options.run:
        draw = options.draw or about.get("draw") or "random"
        find = find_pair_candidates if unit_of_sample(about) is PAIR else find_run_candidates
        return find(options.run, draw)
    return find_candidates(options.contest, about.get("measure")) if options.contest else None


def _hint_if_too_few(frame: Frame, table: pa.Table, size: int) -> str:
    """Say how many labels would tell two rankers apart; empty if these do, or are all."""
    ids = [table[name].to_pylist() for name in DOCUMENT.ids]
    rows = frame.rows_of(*ids)

    def is_enough(labels: int) -> bool:
        labelled = np.zeros(len(frame.query), np.bool_)
        labelled[rows[:labels][rows[:labels] >= 0]] = True
        return bool((count_deciding_queries(frame, labelled) >= FEWEST).any())

    if len(frame.query_ids) < FEWEST:
        return f"This bake-off has {counted(len(frame.query_ids), 'query', 'queries')}."
    if size == len(table) or is_enough(size):  # of all documents, any number is enough
        return ""
    enough = bisect_left(range(len(table)), True, lo=size, key=is_enough)
    if enough == len(table):
        return f"Only all of them, --labels {enough}, would be enough."
    return f"With --labels {enough} there are as many."


def labels_of(about: SampleRecord) -> int:
    """Return the number of documents in a sample."""
    return int(about["stages"][-1]["labels"]) if about.get("stages") else 0


def _read_sample(options: LabelOptions) -> tuple[SampleRecord, pa.Table]:
    """Read the stored sample, or begin an empty one."""
    if (Path(options.out) / SAMPLE_RECORD).exists():
        about = read_record(f"{options.out}/{SAMPLE_RECORD}")
        unit = unit_of_sample(about)
        schema = _schema_of(unit)
        return about, StoredTable(f"{options.out}/{unit.file}", schema).read(schema.names)
    if not (options.contest or options.run):
        raise OptionError(
            f"{options.out} holds no sample; name a bake-off with --contest, or a run with --run"
        )
    if options.more:
        raise OptionError(f"--more extends a sample, and {options.out} holds none; give --labels")
    return {}, _schema_of(PAIR if options.pairs else DOCUMENT).empty_table()


def _report_changes(
    before: SampleRecord,
    options: LabelOptions,
    candidates: Candidates | None,
    say: Callable[[str], None],
) -> None:
    """Say if the truth has changed since the bake-off was measured, or the sample drawn."""
    if candidates and candidates.is_stale:
        say(
            f"{candidates.truth} has changed since {options.contest} was measured: run "
            "that bake-off again."
        )
    truth = before.get("truth") or {}
    columns = split_columns(truth.get("columns", ()))
    if truth and has_changed(truth["place"], truth["digest"], columns):
        say(
            f"{truth['place']} has changed since these documents were drawn. They correct the new "
            "judgments as well, but others might help more: draw those into another --out."
        )


def _merge_settings(before: SampleRecord, options: LabelOptions) -> SampleRecord:
    """Return the settings of the sample; rubric and overlap may change when it is extended."""
    measure = str(parse_measure(options.measure)) if options.measure else None
    unit = PAIR.name if options.pairs else unit_of_sample(before).name
    fixed: SampleRecord = {"seed": options.seed, "measure": measure, "draw": options.draw}
    if before and unit != unit_of_sample(before).name:
        raise OptionError(f"pairs: {options.out} holds documents; name another --out")
    if options.contest and unit == PAIR.name:
        raise OptionError(f"contest: {options.out} holds pairs; name another --out")
    for name, value in fixed.items():
        if before and value not in (None, was := before.get(name)):
            raise OptionError(f"{name}: {options.out} was drawn with {was}; name another --out")
    wording = {name: getattr(options, name) for name in ("rubric", "instructions", "show_query")}
    settings = {"overlap": options.overlap, **wording, **fixed}
    fresh = {"unit": unit, "rubric": PAIR_RUBRIC if unit == PAIR.name else RUBRIC}
    about = {**_FRESH, **fresh, "stages": [], "rankers": [], "pools": [], **before}
    about |= {name: value for name, value in settings.items() if value is not None}
    return about | {"versions": {"zelo-ray": version("zelo-ray")}}


def _rank_candidates(
    about: SampleRecord, old: pa.Table, options: LabelOptions, candidates: Candidates
) -> pa.Table:
    """Rank the candidates together with the stored ones; update ``about``.

    Sizes never fall, so all of the old sample is still above its threshold.
    """
    about |= {"contest": options.contest, "run": options.run, "measure": candidates.measure}
    about["truth"] = {
        "place": candidates.truth,
        "digest": candidates.digest,
        "columns": [*candidates.columns],
    }
    for name, value in candidates.wording.items():
        about[name] = about[name] or value or _FRESH[name]
    about["rankers"] = [*dict.fromkeys([*about["rankers"], *candidates.rankers])]
    about["pools"] = [*dict.fromkeys([*about["pools"], *candidates.pools])]
    unit = unit_of_sample(about)
    sizes = dict(zip(ids_in_table(old, unit), old["size"].to_pylist(), strict=True))
    for ids, size in zip(candidates.ids, candidates.size.tolist(), strict=True):
        if size > 0:
            sizes[ids] = max(size, sizes.get(ids, 0.0))
    if not sizes:
        why = "no label could change a difference between rankers"
        raise InputError(f"{options.contest or options.run}: {why}")
    texts = dict(
        zip(ids_in_table(old, unit), old.select(["query", *unit.texts]).to_pylist(), strict=True)
    )
    every = sorted(sizes)
    size_ = np.array([sizes[ids] for ids in every])
    query_ids, doc_ids = zip(*((ids[0], _PARTED.join(ids[1:])) for ids in every), strict=True)
    priority = priorities(query_ids, doc_ids, size_, about["seed"])
    rows = [
        dict(zip(unit.ids, every[n], strict=True))
        | {"size": size_[n], "priority": priority[n]}
        | texts.get(every[n], {})
        for n in np.argsort(-priority, kind="stable").tolist()
    ]
    return pa.Table.from_pylist(rows, _schema_of(unit))


def _sample_size(options: LabelOptions, held: int, answered: int) -> int:
    """Return the size of the sample; drawn, unanswered documents count towards ``more``."""
    if options.more:
        return max(held, answered + options.more)
    return max(held, options.labels or (held or _LABELS))


def _add_texts(
    table: pa.Table, size: int, about: SampleRecord, *, eager: bool, anew: bool
) -> pa.Table:
    """Add texts: to the sample at least; to all documents if pools are read anyway.

    Args:
        table: the documents in order.
        size: of the sample.
        about: names the pools, and the fields of queries that people see.
        eager: whether to read the pools in any case.
        anew: whether stored texts show other fields of queries.
    """
    unit = unit_of_sample(about)
    columns = ("query", *unit.texts)
    every = ids_in_table(table, unit)
    stored = zip(*(table[name].to_pylist() for name in columns), strict=True)
    texts: dict[Ids, tuple[str, ...]] = {
        ids: texts
        for ids, texts in zip(every, stored, strict=True)
        if texts[-1] is not None and not anew
    }
    first = [ids for ids in every[:size] if ids not in texts]
    if first or eager:
        wanted = (ids for ids in every if ids not in texts)
        texts |= read_document_texts(about["pools"], wanted, about["show_query"])
    refuse_missing_texts([ids for ids in first if ids not in texts], about["pools"])
    rows = [texts.get(ids, (None,) * len(columns)) for ids in every]
    for name, column in zip(columns, zip(*rows, strict=True), strict=True):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(column, pa.string()))
    return table


def _add_keys(sample: pa.Table, about: SampleRecord) -> pa.Table:
    """Add ``key``, an opaque id, and ``twice``, which is drawn at random.

    What is judged twice at a small overlap is so at a larger one.
    """
    seed, every = about["seed"], ids_in_table(sample, unit_of_sample(about))
    digests = [
        hashlib.sha256(f"shown:{seed}:{len(query)}:{query}:{_PARTED.join(docs)}".encode()).digest()
        for query, *docs in every
    ]
    # The letter keeps spreadsheets from reading it as a number.
    keys = pa.array([f"k{digest[:8].hex()}" for digest in digests], pa.string())
    chances = np.array([int.from_bytes(digest[8:14]) / 2.0**48 for digest in digests])
    sample = sample.append_column("key", keys)
    return sample.append_column("twice", pc.less(pa.array(chances), float(about["overlap"])))


def _store(
    out: str, before: tuple[SampleRecord, pa.Table], about: SampleRecord, table: pa.Table
) -> None:
    """Write the files that have changed, in an order that leaves a valid sample if cut off."""
    fs, root = fsspec.url_to_fs(out)
    first = not before[0]
    if not first and about != before[0]:
        write_json(out, SAMPLE_RECORD, about)
    if not table.equals(before[1]):
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd")
        file = unit_of_sample(about).file
        write_durably(fs, f"{root}/{file}", buffer.getvalue())
    if first:
        write_json(out, SAMPLE_RECORD, about)
