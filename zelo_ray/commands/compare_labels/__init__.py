"""``compare-labels``: compare old and new labels of a benchmark."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import CompareLabelsOptions
from zelo_ray.commands.compare_labels.contradictions import Contradiction, Kind, find_contradictions
from zelo_ray.commands.compare_labels.leaderboards import (
    LeaderboardRow,
    Leaderboards,
    compare_leaderboards,
)
from zelo_ray.commands.compare_labels.neighbours import Sibling
from zelo_ray.errors import InputError, OptionError
from zelo_ray.evaluation.measures import Truth, parse_measure
from zelo_ray.files.candidates import describe_doubts, explain_mismatch
from zelo_ray.files.inputs import holds_texts, read_pools
from zelo_ray.files.judgments import has_grades, read_graded, read_qrels, read_runs
from zelo_ray.files.rows import open_source
from zelo_ray.files.run_record import find_owner
from zelo_ray.files.schema import Columns, split_columns
from zelo_ray.files.storage import write_json
from zelo_ray.files.tables import table_of, write_tables
from zelo_ray.files.wording import counted

_CUTS = {"old": "positive", "new": "relevant"}
"""By side, the option with the lowest relevant label."""
_TEXT = 80


def compare_labels(options: CompareLabelsOptions) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Compare old and new labels of a benchmark, and write the results if ``out`` is given.

    Returns:
        The contents of ``compare.json``, and by name the tables ``leaderboards``, ``siblings`` and
        ``contradictions``.

    Raises:
        OptionError: ``out`` holds other results, or the measure is unknown.
        InputError: an input cannot be read, or no query has both labels.
    """
    places = (options.old, options.new, *options.runs)
    if options.out and (owned := find_owner(options.out, "compare-labels", places)):
        raise OptionError(f"{options.out} holds {owned}; name another --out")
    measure = parse_measure(options.measure)
    columns = split_columns(options.columns)
    old, new = (read_qrels(place, columns) for place in (options.old, options.new))
    runs = _runs(options, columns)
    columns.refuse_unused()
    notes = [*describe_doubts(runs, measure.cutoff), *_overlap(old, new, options)]
    notes += [
        f"the {side} labels are of a graded run: leaderboards use its mean grades, contradictions "
        "its whole grades"
        for side in _CUTS
        if has_grades(getattr(options, side))
    ]
    leaderboards = None
    if runs:
        leaderboards = compare_leaderboards(old, new, runs, measure)
    labels = {"old": _grades(options.old, old), "new": _grades(options.new, new)}
    cuts = _cuts(labels, options)
    for side, flag in _CUTS.items():
        if (largest := _largest(labels[side])) < (cut := cuts[flag]):
            notes.append(f"no {side} label reaches --{flag} {cut:g}: the largest is {largest:g}")
    rows = _with_texts(find_contradictions(labels["old"], labels["new"], *cuts.values()), options)
    record = {
        "kind": "compare-labels",
        "complete": not (leaderboards and leaderboards.missing),
        "version": version("zelo-ray"),
        "options": options.model_copy(update=cuts).model_dump(mode="json"),
        "counts": {"queries": len(_query_ids(old) & _query_ids(new))}
        | _contradiction_counts(rows)
        | (_leaderboard_counts(leaderboards) if leaderboards else {}),
        "taus": [asdict(tau) for tau in leaderboards.taus] if leaderboards else [],
        "missing": dict(leaderboards.missing) if leaderboards else {},
        "uncut": [
            side
            for side, flag in _CUTS.items()
            if Truth(labels[side]).kind == "scores" and getattr(options, flag) is None
        ],
        "notes": notes,
    }
    tables = {
        "leaderboards": table_of(leaderboards.rows if leaderboards else (), LeaderboardRow),
        "siblings": table_of(leaderboards.siblings if leaderboards else (), Sibling),
        "contradictions": table_of(rows, Contradiction),
    }
    if options.out:
        write_tables(options.out, tables)
        write_json(options.out, "compare.json", record)
    return record, tables


def _contradiction_counts(rows: Sequence[Contradiction]) -> dict[str, int]:
    kinds = [row.kind for row in rows]
    return {
        **{kind: kinds.count(kind) for kind in get_args(Kind)},
        "queries_contradicted": len({row.query_id for row in rows}),
        "queries_with_new_best": len({row.query_id for row in rows if row.best}),
    }


def _leaderboard_counts(leaderboards: Leaderboards) -> dict[str, Any]:
    (significant_old, significant_new), (old_d, new_d) = (
        leaderboards.significant,
        leaderboards.median_effect_sizes,
    )
    return {
        "runs": len(leaderboards.rows),
        "apart_old": significant_old,
        "apart_new": significant_new,
        "turned": leaderboards.reversed_pairs,
        "median_d_old": old_d,
        "median_d_new": new_d,
    }


def _runs(options: CompareLabelsOptions, columns: Columns) -> dict[str, pa.Table]:
    if options.bakeoff:
        return read_runs([f"{options.bakeoff.rstrip('/')}/runs.parquet"])
    return read_runs(options.runs, columns)


def _grades(url: str, labels: pa.Table) -> pa.Table:
    """Return the labels to compare with the cut: for a graded run its whole grades."""
    return read_graded(url) if has_grades(url) else labels


def _cuts(labels: Mapping[str, pa.Table], options: CompareLabelsOptions) -> dict[str, float]:
    """Return the lowest relevant label of each side: as given, or by the scale of the labels."""
    cuts = {}
    for side, flag in _CUTS.items():
        binary = _largest(labels[side]) <= 1 and not has_grades(getattr(options, side))
        default = 1.0 if binary else 2.0
        cut = getattr(options, flag)
        cuts[flag] = default if cut is None else cut
    return cuts


def _largest(labels: pa.Table) -> float:
    return float(pc.max(labels["relevance"]).as_py())


def _overlap(old: pa.Table, new: pa.Table, options: CompareLabelsOptions) -> list[str]:
    """Describe which queries and documents have labels of one side only.

    Raises:
        InputError: no query has both labels.
    """
    sides = {"old": _query_ids(old), "new": _query_ids(new)}
    ids = sides["old"] & sides["new"]
    if not ids:
        why = explain_mismatch(options.old, sides["old"], options.new, sides["new"])
        raise InputError(f"no query has both old and new labels: {why}")
    notes = [
        f"{counted(len(side - ids), 'query has', 'queries have')} {which} labels only, left out: "
        f"{_few(side - ids)}"
        for which, side in sides.items()
        if side - ids
    ]
    common = pa.array(sorted(ids))
    pairs = [table.filter(pc.is_in(table["query_id"], common)) for table in (old, new)]
    keys = ["query_id", "doc_id"]
    lacking = pairs[0].select(keys).join(pairs[1].select(keys), keys, join_type="left anti")
    if len(lacking):
        documents = counted(len(lacking), "document has", "documents have")
        notes.append(f"{documents} old labels only (not relevant by the new labels)")
    for which, table in (("old", old), ("new", new)):
        if Truth(table).kind == "scores":
            notes.append(
                f"the {which} labels are scores in logits: zelo_nDCG@10 suits them, and "
                f"--{'positive' if which == 'old' else 'relevant'} is in logits, too"
            )
    return notes


def _query_ids(labels: pa.Table) -> set[str]:
    return set(labels["query_id"].to_pylist())


def _few(ids: Iterable[str]) -> str:
    first = sorted(ids)[:4]
    return ", ".join(first[:3]) + (" …" if len(first) > 3 else "")


def _with_texts(
    contradictions: list[Contradiction], options: CompareLabelsOptions
) -> list[Contradiction]:
    """Add the beginning of each document to the contradictions, if the labels come with texts."""
    sides = (options.new, options.old)
    side = next((url for url in sides if holds_texts(open_source(url))), None)
    if side is None or not contradictions:
        return contradictions
    ids = {(row.query_id, row.doc_id) for row in contradictions}
    texts = {
        (pool.query_id, document.id): _beginning(document.content)
        for pool in read_pools(side)
        for document in pool.documents
        if (pool.query_id, document.id) in ids
    }
    return [replace(row, text=texts.get((row.query_id, row.doc_id), "")) for row in contradictions]


def _beginning(text: str) -> str:
    """Return the first 80 characters of a text, on one line."""
    plain = " ".join(text[: 8 * _TEXT].split())
    return plain if len(plain) <= _TEXT else f"{plain[: _TEXT - 1]}…"
