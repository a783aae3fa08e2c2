"""Draw the sample of documents or pairs that people judge, extend it, and store it.

``documents.parquet`` or ``pairs.parquet`` has all that could be drawn, in the order of their
priority, and the sample is the beginning of it. So it is extended without the bake-off or run.
"""

import hashlib
import io
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from glob import glob
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zelo_ray.command_options import LabelOptions
from zelo_ray.commands.label.page import PAIR_RUBRIC, RUBRIC
from zelo_ray.commands.label.queue import LabelTask
from zelo_ray.engine.durable import write_durably
from zelo_ray.errors import InputError, OptionError
from zelo_ray.evaluation.measures import Truth, parse_measure, rank_run
from zelo_ray.evaluation.people.frame import build_frame, select_correctable
from zelo_ray.evaluation.people.sampling import label_sizes, priorities, sample_threshold
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.files.inputs import InputOptions, convert_inputs
from zelo_ray.files.judges import read_all_judgments
from zelo_ray.files.judgments import (
    digest_judgments,
    has_changed,
    pools_file_of_truth,
    read_qrels,
    read_runs,
)
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
from zelo_ray.files.rows import RESULTS
from zelo_ray.files.run_record import (
    RUN,
    SAMPLE_RECORD,
    options_of_run,
    read_record,
    refuse_unfinished,
)
from zelo_ray.files.schema import split_columns
from zelo_ray.files.storage import find_shards, write_json
from zelo_ray.files.tables import StoredTable, parquet_table
from zelo_ray.protocols.texts import shown_query

SampleRecord = dict[str, Any]
"""The contents of ``label.json``."""
Say = Callable[[str], None]
_LABELS, _FLOOR = 200, 0.1
_NEW: SampleRecord = {"kind": "label", "top": TOP, "seed": 0, "overlap": 0.0, "stages": []}
_NEW |= {"instructions": None, "show_query": [], "pools": [], "rankers": []}


@dataclass(frozen=True, slots=True)
class Drawable:
    """Documents or pairs that people may be asked about, with chances in proportion to ``sizes``.

    ``about`` is what ``label.json`` says of where they come from.
    """

    sizes: Mapping[Ids, float]
    about: Mapping[str, Any]


def draw_sample(options: LabelOptions, say: Say) -> tuple[SampleRecord, list[LabelTask]]:
    """Draw or extend the sample as the options say, store it, and return its record and tasks."""
    before, old = _read_sample(options)
    about, table, drawn = _settings(before, options), old, _sample_size(before)
    truth = before.get("truth")
    if truth and has_changed(truth["place"], truth["digest"], split_columns(truth["columns"])):
        how = "name another --out to draw what may now help more."
        say(f"{truth['place']} has changed since the sample was drawn: {how}")
    drawable = _find(options, about, say)
    if drawable:
        threshold = sample_threshold(old["priority"].to_numpy(), drawn) if drawn else np.inf
        _merge(about, drawable.about)
        table = _rank(drawable, old, about)
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
    table = _add_texts(table, size, about, read_all=bool(drawable or options.pools))
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
    settings = {name: value for name, value in {**free, **fixed}.items() if value is not None}
    return {**new, **before, **settings}


def _find(options: LabelOptions, about: SampleRecord, say: Say) -> Drawable | None:
    if options.contest:
        return find_in_contest(options.contest, about.get("measure"), say)
    if options.run:
        pairs = unit_of_sample(about) is PAIR
        return find_in_run(options.run, about.get("draw") or "random", pairs=pairs)
    return None


def _merge(about: SampleRecord, new: Mapping[str, Any]) -> None:
    """Update the record: lists grow, and what the judges were told fills in what is not given."""
    for name, value in new.items():
        if name in ("rankers", "pools"):
            about[name] = [*dict.fromkeys([*about[name], *value])]
        elif name not in ("instructions", "show_query") or not about[name]:
            about[name] = value


def _rank(drawable: Drawable, old: pa.Table, about: SampleRecord) -> pa.Table:
    """Rank what was found together with what is stored.

    Sizes never fall, so all of the old sample is still above its threshold.
    """
    unit = unit_of_sample(about)
    stored = dict(zip(ids_in_table(old, unit), old.to_pylist(), strict=True))
    sizes = {ids: row["size"] for ids, row in stored.items()}
    for ids, size in drawable.sizes.items():
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


def _add_texts(table: pa.Table, size: int, about: SampleRecord, *, read_all: bool) -> pa.Table:
    """Add the texts that are not stored: of the sample, or of all if pools are read anyway."""
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
    fields, texts = ShownFields(show), dict[Ids, tuple[str, str]]()
    for shard in find_shards(places) if places else ():
        for pool in (line.pool for line in read_lines(shard, LineLimits()) if line.pool):
            fields.add(pool.about)
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


# --- what can be drawn ---------------------------------------------------------------------------


def find_in_contest(contest: str, measure: str | None, say: Callable[[str], None]) -> Drawable:
    """Find the documents to label for a finished bake-off."""
    refuse_unfinished(contest)
    root = contest.rstrip("/")
    record = read_record(f"{root}/{RUN}")
    if record.get("kind") != "bakeoff":
        raise InputError(f"{contest}: no bake-off; name the --out of one")
    options, folder = record["options"], record.get("folder") or ""
    place = _from_here(options["truth"], folder)
    pools = [_from_here(each, folder) for each in options["pools"]]
    judgments = read_qrels(place, split_columns(options["columns"]))
    digest = digest_judgments(judgments)
    if record["truth"]["digest"] != digest:
        say(f"{place} has changed since {contest} was measured: run that bake-off again.")
    measured = pc.unique(StoredTable(f"{root}/metrics.parquet").read(["query_id"])["query_id"])
    truth = Truth(judgments.filter(pc.is_in(judgments["query_id"], pa.array(measured))))
    measures = [*map(parse_measure, [measure] if measure else record["measures"])]
    linear = measures if measure else select_correctable(measures, scores=truth.kind == "scores")[0]
    runs = read_runs([f"{root}/runs.parquet"])
    frame = build_frame(linear[0], {name: rank_run(truth, run) for name, run in runs.items()})
    about = {"contest": contest, "measure": str(linear[0]), "rankers": [*runs]}
    about |= _source(place, digest, options["columns"], pools, options, options_of_run(place))
    return Drawable(dict(zip(frame.ids, label_sizes(frame).tolist(), strict=True)), about)


def find_in_run(run: str, draw: str, *, pairs: bool) -> Drawable:
    """Find the judged documents of a run of `annotate`, or the pairs that its judges compared.

    ``draw`` random: all are worth the same; disagreement: those on which grades or votes differ, or
    else scores are least sure, are worth more, and none less than a tenth of the mean.
    """
    refuse_unfinished(run)
    if pairs:
        table = _compared_pairs(run)
        spread: Floats = 1.0 - np.abs(table["preference_mean"].to_numpy())
    else:
        table = parquet_table(f"{run.rstrip('/')}/{RESULTS}")
        name = "disagreement" if "disagreement" in table.column_names else "std_error"
        spread = np.nan_to_num(table[name].to_numpy(), posinf=0.0)
    least = _FLOOR * (float(spread.mean()) or 1.0)
    size = np.ones(len(table)) if draw == "random" else np.maximum(spread, least)
    pools, digest = pools_file_of_truth(run), digest_judgments(read_qrels(run))
    about = {"run": run, "draw": draw, "measure": ""}
    about |= _source(run, digest, (), [pools] if pools else [], options_of_run(run))
    ids = ids_in_table(table, PAIR if pairs else DOCUMENT)
    return Drawable(dict(zip(ids, size.tolist(), strict=True)), about)


def _compared_pairs(run: str) -> pa.Table:
    """Return the pairs on which a run's judges voted, with their mean preference."""
    votes = read_all_judgments([run]).votes
    if not len(votes):
        how = "leave out --pairs to draw single ones"
        raise InputError(f"{run}: its judges compared no documents; {how}")
    a, b = votes["doc_id_a"], votes["doc_id_b"]
    is_first = pc.less_equal(a, b)
    columns = {
        "query_id": votes["query_id"],
        "doc_id_a": pc.if_else(is_first, a, b),
        "doc_id_b": pc.if_else(is_first, b, a),
        "preference": pc.multiply(votes["preference"], pc.if_else(is_first, 1.0, -1.0)),
    }
    groups = pa.table(columns).group_by([*PAIR.ids], use_threads=False)
    return groups.aggregate([("preference", "mean")])


def _source(
    place: str, digest: str, columns: Any, pools: list[str], *options: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return what a sample keeps of its truth and texts, and what the judges were told of queries.

    Without ``pools`` the texts are those beside the truth; ``options`` are of the bake-off and of
    the run that made the truth, of which the first that tell anything count.
    """
    beside = None if pools else pools_file_of_truth(place)
    wording: dict[str, Any] = {"instructions": None, "show_query": []}
    for each in filter(None, options):
        if not any(wording.values()):
            wording = {name: each.get(name) for name in wording}
    return {
        "truth": {"place": place, "digest": digest, "columns": [*columns]},
        "pools": pools or ([beside] if beside else []),
        "instructions": wording["instructions"],
        "show_query": [*(wording["show_query"] or ())],
    }


def _from_here(place: str, folder: str) -> str:
    """Return a place as seen from here, given the folder in which a command named it."""
    path = os.path.join(folder, place)  # noqa: PTH118 - a glob, or what is no path, stays as it is
    return path if folder != os.getcwd() and glob(path) else place  # noqa: PTH109, PTH207 - as above
