"""Draw the sample of documents that people judge, extend it, and store it.

``documents.parquet`` has all documents on which two rankers differ, in the order of their priority,
and the sample is the beginning of it. So the sample is extended by going on in that order,
without the bake-off.
"""

import hashlib
import io
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

from zelo_ray.commands.label.bakeoff_config import CONFIG_FILE, make_bakeoff_config
from zelo_ray.commands.label.candidates import (
    Candidates,
    find_candidates,
    find_run_candidates,
)
from zelo_ray.commands.label.rubric import RUBRIC
from zelo_ray.commands.label.texts import (
    read_document_texts,
    refuse_missing_texts,
)
from zelo_ray.engine.durable import write_durably
from zelo_ray.errors import InputError, OptionError
from zelo_ray.evaluation.measures import parse_measure
from zelo_ray.evaluation.people.sampling_design import priorities, sample_threshold
from zelo_ray.formats.columns import split_columns
from zelo_ray.formats.files import read_record
from zelo_ray.formats.input import InputOptions, convert_inputs
from zelo_ray.formats.judgments.answers import Pair, answers_in
from zelo_ray.formats.judgments.labels import DOCUMENTS, pairs_in_table
from zelo_ray.formats.judgments.qrels import has_changed
from zelo_ray.formats.probe import SAMPLE_RECORD
from zelo_ray.formats.results import write_json, write_text
from zelo_ray.formats.stored import StoredTable
from zelo_ray.options.label import LabelOptions

SampleRecord = dict[str, Any]
"""The contents of ``label.json``."""

TOP = 3
_LABELS = 200
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("query_id", "doc_id")),
        *((name, pa.float64()) for name in ("size", "priority")),
        *((name, pa.string()) for name in ("query", "document")),
    ]
)
_FRESH: SampleRecord = {
    "kind": "label",
    "top": TOP,
    "seed": 0,
    "overlap": 0.0,
    "rubric": RUBRIC,
    "instructions": None,
    "show_query": (),
}


def draw_sample(options: LabelOptions, say: Callable[[str], None]) -> tuple[SampleRecord, pa.Table]:
    """Draw or extend the sample as the options say, and store it if it has changed.

    Args:
        options: of the command.
        say: gets messages, such as where ``more`` adds nothing.

    Returns:
        The contents of ``label.json``, and the documents of the sample in order: query_id, doc_id,
        size, priority, query, document, key (opaque) and twice (whether two people judge it).

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
        settings = InputOptions(
            columns=split_columns(options.columns), show=tuple(about["show_query"] or ())
        )
        inputs = convert_inputs(options.pools, options.out, settings)
        for line in inputs.lines():
            say(line)
        about["pools"] = [*dict.fromkeys([*inputs.places, *about["pools"]])]
    shown = list(before.get("show_query") or ())
    anew = bool(before) and list(about["show_query"] or ()) != shown
    answered = len(answers_in(options.out)) if options.more or anew else 0
    if anew and answered:
        raise OptionError(
            f"show_query: people who saw {', '.join(shown) or 'no other fields'} of queries have "
            f"answered in {options.out}; name another --out"
        )
    size = min(_sample_size(options, held, answered), len(table))
    if size != labels_of(before):
        at = datetime.now(UTC).isoformat(timespec="seconds")
        about["stages"] = [*about["stages"], {"labels": size, "at": at}]
    elif options.more and size > answered:
        say(f"Nothing added: {size - answered:,} documents of the sample are not judged yet.")
    eager = bool(frame or options.pools)
    table = _add_texts(table, size, about, eager=eager, anew=anew)
    if frame and frame.options:
        write_text(options.out, CONFIG_FILE, make_bakeoff_config(frame, frame.options, options))
    _store(options.out, (before, old), about | {"documents": len(table)}, table)
    return about | {"documents": len(table)}, _add_keys(table.slice(0, size), about)


def _find_candidates(options: LabelOptions, about: SampleRecord) -> Candidates | None:
    if options.run:
        return find_run_candidates(options.run, options.draw or about.get("draw") or "random")
    return find_candidates(options.contest, about.get("measure")) if options.contest else None


def labels_of(about: SampleRecord) -> int:
    """Return the number of documents in a sample."""
    return int(about["stages"][-1]["labels"]) if about.get("stages") else 0


def _read_sample(options: LabelOptions) -> tuple[SampleRecord, pa.Table]:
    """Read the stored sample, or begin an empty one."""
    if (Path(options.out) / SAMPLE_RECORD).exists():
        table = StoredTable(f"{options.out}/{DOCUMENTS}", _SCHEMA).read(_SCHEMA.names)
        return read_record(f"{options.out}/{SAMPLE_RECORD}"), table
    if not (options.contest or options.run):
        raise OptionError(
            f"{options.out} holds no sample; name a bake-off with --contest, or a run with --run"
        )
    if options.more:
        raise OptionError(f"--more extends a sample, and {options.out} holds none; give --labels")
    return {}, _SCHEMA.empty_table()


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
    fixed: SampleRecord = {"seed": options.seed, "measure": measure, "draw": options.draw}
    for name, value in fixed.items():
        if before and value not in (None, was := before.get(name)):
            raise OptionError(f"{name}: {options.out} was drawn with {was}; name another --out")
    wording = {name: getattr(options, name) for name in ("rubric", "instructions", "show_query")}
    settings = {"overlap": options.overlap, **wording, **fixed}
    about = {**_FRESH, "stages": [], "rankers": [], "pools": [], **before}
    about |= {name: value for name, value in settings.items() if value is not None}
    return about | {"versions": {"zelo-ray": version("zelo-ray")}}


def _rank_candidates(
    about: SampleRecord, old: pa.Table, options: LabelOptions, candidates: Candidates
) -> pa.Table:
    """Rank the documents of a bake-off together with the stored ones; update ``about``.

    Sizes never fall, so all documents of the old sample are still above its threshold.
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
    sizes: dict[Pair, float] = dict(zip(pairs_in_table(old), old["size"].to_pylist(), strict=True))
    for query_id, doc_id, size in zip(
        candidates.query_ids, candidates.doc_ids, candidates.size.tolist(), strict=True
    ):
        if size > 0:
            sizes[query_id, doc_id] = max(size, sizes.get((query_id, doc_id), 0.0))
    if not sizes:
        why = "no label could change a difference between rankers"
        raise InputError(f"{options.contest or options.run}: {why}")
    texts = dict(
        zip(pairs_in_table(old), old.select(["query", "document"]).to_pylist(), strict=True)
    )
    pairs = sorted(sizes)
    size_ = np.array([sizes[pair] for pair in pairs])
    query_ids, doc_ids = zip(*pairs, strict=True)
    priority = priorities(query_ids, doc_ids, size_, about["seed"])
    rows = [
        {"query_id": pairs[n][0], "doc_id": pairs[n][1], "size": size_[n], "priority": priority[n]}
        | texts.get(pairs[n], {})
        for n in np.argsort(-priority, kind="stable").tolist()
    ]
    return pa.Table.from_pylist(rows, _SCHEMA)


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
    pairs = pairs_in_table(table)
    texts = {
        pair: (query, document)
        for pair, query, document in zip(
            pairs, table["query"].to_pylist(), table["document"].to_pylist(), strict=True
        )
        if document is not None and not anew
    }
    first = [pair for pair in pairs[:size] if pair not in texts]
    if first or eager:
        wanted = (pair for pair in pairs if pair not in texts)
        texts |= read_document_texts(about["pools"], wanted, about["show_query"])
    refuse_missing_texts([pair for pair in first if pair not in texts], about["pools"])
    rows = [texts.get(pair, (None, None)) for pair in pairs]
    for name, column in zip(("query", "document"), zip(*rows, strict=True), strict=True):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(column, pa.string()))
    return table


def _add_keys(sample: pa.Table, about: SampleRecord) -> pa.Table:
    """Add ``key``, an opaque id, and ``twice``, which is drawn at random.

    Documents that are judged twice at a small overlap are so at a larger one.
    """
    seed, pairs = about["seed"], pairs_in_table(sample)
    digests = [
        hashlib.sha256(f"shown:{seed}:{len(query)}:{query}:{doc}".encode()).digest()
        for query, doc in pairs
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
        write_durably(fs, f"{root}/{DOCUMENTS}", buffer.getvalue())
    if first:
        write_json(out, SAMPLE_RECORD, about)
