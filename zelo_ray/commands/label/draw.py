"""Draw the sample of documents or pairs that people judge, extend it, and store it.

``documents.parquet`` or ``pairs.parquet`` has all that could be drawn, in the order of their
priority, and the sample is the beginning of it. So it is extended without the bake-off or run.
"""

import hashlib
import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zelo_ray.command_options import LabelOptions
from zelo_ray.commands.label.drawable import Drawable, find_in_contest, find_in_run
from zelo_ray.commands.label.page import PAIR_RUBRIC, RUBRIC
from zelo_ray.commands.label.queue import LabelTask
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
from zelo_ray.files.make_pools import Shown, ShownFields
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.files.run_record import SAMPLE_RECORD, read_record
from zelo_ray.files.schema import split_columns
from zelo_ray.files.storage import find_shards, write_json
from zelo_ray.files.tables import StoredTable
from zelo_ray.protocols.texts import shown_query

SampleRecord = dict[str, Any]
"""The contents of ``label.json``."""
Say = Callable[[str], None]
_LABELS = 200
_NEW: SampleRecord = {"kind": "label", "top": TOP, "seed": 0, "overlap": 0.0, "stages": []}
_NEW |= {"instructions": None, "show_query": [], "pools": [], "rankers": []}


def draw_sample(options: LabelOptions, say: Say) -> tuple[SampleRecord, list[LabelTask]]:
    """Draw or extend the sample as the options say, store it, and return its record and tasks.

    Raises:
        OptionError: there is neither a sample nor a bake-off or run, or the sample was drawn with
            other options.
        InputError: there is no bake-off or run, no label matters, or a text is missing.
    """
    before, old = _read_sample(options)
    about, table, drawn = _settings(before, options), old, _sample_size(before)
    truth = before.get("truth")
    if truth and has_changed(truth["place"], truth["digest"], split_columns(truth["columns"])):
        say(f"{truth['place']} has changed since; other labels, of another --out, may help more.")
    found = _find(options, about, say)
    if found:
        threshold = sample_threshold(old["priority"].to_numpy(), drawn) if drawn else np.inf
        _merge(about, found.about)
        table = _rank(found, old, about)
        drawn = int(np.count_nonzero(table["priority"].to_numpy() > threshold))
    if options.pools:
        shown = Shown(tuple(about["show_query"]))
        settings = InputOptions(columns=split_columns(options.columns), shown=shown)
        inputs = convert_inputs(options.pools, options.out, settings)
        for line in inputs.notes:
            say(line)
        about["pools"] = [*dict.fromkeys([*inputs.places, *about["pools"]])]
    answered = len(answers_in(options.out)) if options.more else 0
    wanted = answered + options.more if options.more else options.labels or (drawn or _LABELS)
    size = min(max(drawn, wanted), len(table))
    if size != _sample_size(before):
        at = datetime.now(UTC).isoformat(timespec="seconds")
        about["stages"] = [*about["stages"], {"labels": size, "at": at}]
    elif options.more and size > answered:
        say(f"Nothing added: {size - answered:,} of the sample are not judged yet.")
    if found and found.frame and size < len(table):
        _say_if_few(found.frame, table, size, say)
    table = _add_texts(table, size, about, read_all=bool(found or options.pools))
    about["documents"] = len(table)
    _store(options.out, (before, old), about, table)
    return about, _tasks(table.slice(0, size), about)


def _sample_size(about: SampleRecord) -> int:
    return int(about["stages"][-1]["labels"]) if about else 0


def _schema_of(unit: LabelUnit) -> pa.Schema:
    numbers = ("size", "priority")
    names = (*unit.ids, *numbers, "query", *unit.texts)
    return pa.schema([(name, pa.float64() if name in numbers else pa.string()) for name in names])


def _read_sample(options: LabelOptions) -> tuple[SampleRecord, pa.Table]:
    """Read the stored sample, or begin an empty one."""
    if (Path(options.out) / SAMPLE_RECORD).exists():
        about = read_record(f"{options.out}/{SAMPLE_RECORD}")
        unit = unit_of_sample(about)
        schema = _schema_of(unit)
        return about, StoredTable(f"{options.out}/{unit.file}", schema).read(schema.names)
    lacks = f"{options.out} holds no sample"
    if not (options.contest or options.run):
        raise OptionError(f"{lacks}; name a bake-off with --contest, or a run with --run")
    if options.more:
        raise OptionError(f"more: {lacks} to extend; give --labels")
    return {}, _schema_of(PAIR if options.pairs else DOCUMENT).empty_table()


def _settings(before: SampleRecord, options: LabelOptions) -> SampleRecord:
    """Return the settings of the sample; rubric, instructions and overlap may change later."""
    unit = PAIR if options.pairs else unit_of_sample(before)
    fixed: SampleRecord = {"seed": options.seed, "draw": options.draw}
    fixed["measure"] = str(parse_measure(options.measure)) if options.measure else None
    fixed["show_query"] = options.show_query and [*options.show_query]
    for name, value in fixed.items():
        if before and value not in (None, was := before.get(name)):
            raise OptionError(f"{name}: {options.out} was drawn with {was}; name another --out")
    if before and unit is not unit_of_sample(before):
        raise OptionError(f"pairs: {options.out} holds documents; name another --out")
    if options.contest and unit is PAIR:
        raise OptionError(f"contest: {options.out} holds pairs; name another --out")
    new = {**_NEW, "unit": unit.name, "rubric": PAIR_RUBRIC if unit is PAIR else RUBRIC}
    free = {name: getattr(options, name) for name in ("overlap", "rubric", "instructions")}
    given = {name: value for name, value in {**free, **fixed}.items() if value is not None}
    return {**new, **before, **given, "versions": {"zelo-ray": version("zelo-ray")}}


def _find(options: LabelOptions, about: SampleRecord, say: Say) -> Drawable | None:
    if options.contest:
        return find_in_contest(options.contest, about.get("measure"), say)
    if options.run:
        pairs = unit_of_sample(about) is PAIR
        return find_in_run(options.run, about.get("draw") or "random", pairs=pairs)
    return None


def _merge(about: SampleRecord, found: Mapping[str, Any]) -> None:
    """Update the record: lists grow, and what the judges were told fills in what is not given."""
    for name, value in found.items():
        if name in ("rankers", "pools"):
            about[name] = [*dict.fromkeys([*about[name], *value])]
        elif name not in ("instructions", "show_query") or not about[name]:
            about[name] = value


def _rank(found: Drawable, old: pa.Table, about: SampleRecord) -> pa.Table:
    """Rank what was found together with what is stored.

    Sizes never fall, so all of the old sample is still above its threshold.
    """
    unit = unit_of_sample(about)
    stored = dict(zip(ids_in_table(old, unit), old.to_pylist(), strict=True))
    sizes = {ids: row["size"] for ids, row in stored.items()}
    for ids, size in found.sizes.items():
        if size > 0:
            sizes[ids] = max(size, sizes.get(ids, 0.0))
    if not sizes:
        why = "no label could change a difference between rankers"
        raise InputError(f"{about.get('contest') or about['run']}: {why}")
    every = sorted(sizes)
    size_ = np.array([sizes[ids] for ids in every])
    query_ids, doc_ids = (ids[0] for ids in every), ("\n".join(ids[1:]) for ids in every)
    priority = priorities(query_ids, doc_ids, size_, about["seed"])
    rows = [
        {**stored.get(every[n], {}), **dict(zip(unit.ids, every[n], strict=True))}
        | {"size": size_[n], "priority": priority[n]}
        for n in np.argsort(-priority, kind="stable").tolist()
    ]
    return pa.Table.from_pylist(rows, _schema_of(unit))


def _say_if_few(frame: Frame, table: pa.Table, size: int, say: Say) -> None:
    """Say so if the labels of a sample are too few to tell any two rankers apart."""
    rows = frame.rows_of(*(table[name].to_pylist()[:size] for name in DOCUMENT.ids))
    labelled = np.zeros(len(frame.query), np.bool_)
    labelled[rows[rows >= 0]] = True
    if not (count_deciding_queries(frame, labelled) >= FEWEST).any():
        needs = f"{FEWEST_LABELS} in {FEWEST} queries that bear on the difference of two rankers"
        say(f"{size:,} labels are too few to correct anything, which takes {needs}: draw more.")


def _add_texts(table: pa.Table, size: int, about: SampleRecord, *, read_all: bool) -> pa.Table:
    """Add the texts that are not stored: of the sample at least, of all if pools are read anyway.

    Raises:
        InputError: a document of the sample has no text, so that people could not judge it.
    """
    unit, rows = unit_of_sample(about), table.to_pylist()
    every = ids_in_table(table, unit)
    lacking = {i: row for i, row in zip(every, rows, strict=True) if row["query"] is None}
    first = [ids for ids in every[:size] if ids in lacking]
    if first or (lacking and read_all):
        for ids, texts in _read_texts(about["pools"], lacking, about["show_query"]):
            lacking[ids] |= zip(("query", *unit.texts), texts, strict=True)
    if missing := [ids for ids in first if lacking[ids]["query"] is None]:
        more = f" (nor for {len(missing) - 1:,} others)" if missing[1:] else ""
        where = f" in {', '.join(about['pools'])}" if about["pools"] else ""
        how = "name the pools with the documents by --pools"
        raise InputError(f"no text for {unit.name_ids(missing[0])}{more}{where}; {how}")
    return pa.Table.from_pylist(rows, table.schema)


def _read_texts(
    places: Sequence[str], wanted: Collection[Ids], show: Sequence[str]
) -> Iterator[tuple[Ids, tuple[str, ...]]]:
    """Yield the texts of queries, with those fields, and documents that the pools have all of."""
    needed = {(ids[0], doc_id) for ids in wanted for doc_id in ids[1:]}
    fields, texts = ShownFields(Shown(tuple(show))), dict[Ids, tuple[str, str]]()
    for shard in find_shards(places) if places else ():
        for pool in (line.pool for line in read_lines(shard, LineLimits()) if line.pool):
            fields.count(pool.about)
            for document in pool.documents:
                pair = (pool.query_id, document.id)
                if pair in needed:
                    texts.setdefault(pair, (shown_query(pool, show), document.content))
    fields.check(", ".join(places))
    for ids in wanted:
        pairs = [(ids[0], doc_id) for doc_id in ids[1:]]
        if all(pair in texts for pair in pairs):
            yield ids, (texts[pairs[0]][0], *(texts[pair][1] for pair in pairs))


def _tasks(sample: pa.Table, about: SampleRecord) -> list[LabelTask]:
    """Make the tasks: a key that tells nothing, and how many judge each, by chance.

    What two judge at a small overlap they do at a larger one.
    """
    unit, tasks = unit_of_sample(about), list[LabelTask]()
    for ids, row in zip(ids_in_table(sample, unit), sample.to_pylist(), strict=True):
        text = f"shown:{about['seed']}:{len(ids[0])}:{ids[0]}:" + "\n".join(ids[1:])
        digest = hashlib.sha256(text.encode()).digest()
        copies = 2 if int.from_bytes(digest[8:14]) / 2.0**48 < about["overlap"] else 1
        texts = tuple(row[name] for name in unit.texts)
        # The letter keeps spreadsheets from reading the key as a number.
        tasks.append(LabelTask(f"k{digest[:8].hex()}", row["query"], texts, ids, copies))
    return tasks


def _store(
    out: str, before: tuple[SampleRecord, pa.Table], about: SampleRecord, table: pa.Table
) -> None:
    """Write what has changed, in an order that leaves a valid sample if it is cut off."""
    if before[0] and about != before[0]:
        write_json(out, SAMPLE_RECORD, about)
    if not table.equals(before[1]):
        fs, root = fsspec.url_to_fs(out)
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd")
        write_durably(fs, f"{root}/{unit_of_sample(about).file}", buffer.getvalue())
    if not before[0]:
        write_json(out, SAMPLE_RECORD, about)
