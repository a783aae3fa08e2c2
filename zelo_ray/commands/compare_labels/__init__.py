"""``compare-labels``: what changes when a benchmark is labelled anew."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.compare_labels.boards import Boards, Standing, boards
from zelo_ray.commands.compare_labels.contradictions import Contradiction, Kind, contradictions
from zelo_ray.commands.compare_labels.neighbours import Sibling
from zelo_ray.errors import InputError, OptionError
from zelo_ray.evaluation.measures import Truth, parse_measure
from zelo_ray.formats.files import listing
from zelo_ray.formats.interchange.doubts import notes_on
from zelo_ray.formats.interchange.graded import has_grades, read_graded
from zelo_ray.formats.interchange.runs import read_runs, without_ranks
from zelo_ray.formats.interchange.truth import kind_of, read_pools, read_truth
from zelo_ray.formats.results import Results, write_json
from zelo_ray.formats.tables import table_of
from zelo_ray.formats.wording import counted
from zelo_ray.options import CompareLabelsOptions

_CUTS = {"old": "positive", "new": "relevant"}
"""The flag that cuts the labels of each side in two."""
_TEXT = 80
_TAKEN = {"run.json", "agree.json"}
TABLES: dict[str, type] = {
    "leaderboards": Standing,
    "siblings": Sibling,
    "contradictions": Contradiction,
}


@dataclass(frozen=True, slots=True)
class Compared:
    """Result of comparing two sets of labels; ``boards`` is None without runs."""

    boards: Boards | None
    contradictions: tuple[Contradiction, ...]
    notes: tuple[str, ...]
    measure: str
    queries: int
    """how many have both labels"""
    positive: float
    """from which old label on a document counts as relevant"""
    relevant: float
    """the same of the new labels"""
    uncut: tuple[str, ...] = ()
    """the sides whose labels are scores in logits, of which nobody said from which one on"""

    @property
    def complete(self) -> bool:
        """Return whether every run ranked every query."""
        return not (self.boards and self.boards.missing)


def compare_labels(options: CompareLabelsOptions) -> Compared:
    """Say what new labels change about a benchmark.

    Raises:
        OptionError: ``out`` holds other results, or the measure is none.
        InputError: what is read is wrong, or the labels share no query.
    """
    if options.out and not _TAKEN.isdisjoint(listing(options.out) or ()):
        raise OptionError(f"{options.out} holds other results; name another --out")
    measure = parse_measure(options.measure)
    old, new = read_truth(options.old), read_truth(options.new)
    ranked = _runs(options)
    wanted = without_ranks(ranked)
    notes = [*notes_on(ranked, measure.cutoff, ties=True), *_overlap(old, new, options)]
    leaderboards = None
    if wanted:
        numbers = {"resamples": options.resamples, "seed": options.seed}
        leaderboards = boards(old, new, wanted, measure, **numbers)
    labels = {"old": _grades(options.old, old), "new": _grades(options.new, new)}
    cuts = _cuts(labels, options)
    for side, flag in _CUTS.items():
        if (largest := _largest(labels[side])) < (cut := cuts[flag]):
            notes.append(f"no {side} label reaches --{flag} {cut:g}: the largest is {largest:g}")
    against = _with_texts(contradictions(labels["old"], labels["new"], *cuts.values()), options)
    queries = len(set(old["query_id"].to_pylist()) & set(new["query_id"].to_pylist()))
    uncut = tuple(
        side
        for side, flag in _CUTS.items()
        if Truth(labels[side]).kind == "scores" and getattr(options, flag) is None
    )
    compared = Compared(
        leaderboards,
        tuple(against),
        tuple(notes),
        str(measure),
        queries,
        cuts["positive"],
        cuts["relevant"],
        uncut,
    )
    if options.out:
        _write(options.out, options.model_copy(update=cuts), compared)
    return compared


def _runs(options: CompareLabelsOptions) -> dict[str, pa.Table]:
    if options.bakeoff:
        return read_runs([f"{options.bakeoff.rstrip('/')}/runs.parquet"])
    return read_runs(options.runs, ranks=True)


def _grades(url: str, labels: pa.Table) -> pa.Table:
    """Return the labels to cut in two: of a graded run the calibrated grades, not their means."""
    return read_graded(url) if has_grades(url) else labels


def _cuts(labels: Mapping[str, pa.Table], options: CompareLabelsOptions) -> dict[str, float]:
    """Return the label from which on a document is relevant, as given or as the labels suggest."""
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
    """Describe what only one side holds.

    Raises:
        InputError: there is no common query.
    """
    sides = {"old": set(old["query_id"].to_pylist()), "new": set(new["query_id"].to_pylist())}
    ids = sides["old"] & sides["new"]
    if not ids:
        has = zip((options.old, options.new), sides.values(), strict=True)
        few = "; ".join(f"{place} has {_few(queries)}" for place, queries in has)
        raise InputError(f"no query has both labels: {few}")
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
        notes.append(f"{documents} old labels only: not relevant by the new")
    for which, table in (("old", old), ("new", new)):
        if Truth(table).kind == "scores":
            notes.append(
                f"the {which} labels are scores in logits: nDCG(dcg='zelo')@10 suits them, and "
                f"--{'positive' if which == 'old' else 'relevant'} is in logits, too"
            )
    return notes


def _few(ids: Iterable[str]) -> str:
    first = sorted(ids)[:4]
    return ", ".join(first[:3]) + (" …" if len(first) > 3 else "")


def _with_texts(
    contradictions: list[Contradiction], options: CompareLabelsOptions
) -> list[Contradiction]:
    """Add the beginning of each document to the contradictions, where texts lie beside labels."""
    side = next((url for url in (options.new, options.old) if kind_of(url)[1].pools), None)
    if side is None or not contradictions:
        return contradictions
    wanted = {(row.query_id, row.doc_id) for row in contradictions}
    texts = {
        (pool.query_id, document.id): beginning(document.content)
        for pool in read_pools(side).pools
        for document in pool.documents
        if (pool.query_id, document.id) in wanted
    }
    return [replace(row, text=texts.get((row.query_id, row.doc_id), "")) for row in contradictions]


def beginning(text: str) -> str:
    """Return the first 80 characters of a text, on one line."""
    plain = " ".join(text[: 8 * _TEXT].split())
    return plain if len(plain) <= _TEXT else f"{plain[: _TEXT - 1]}…"


def tables_of(compared: Compared) -> dict[str, pa.Table]:
    """Return the tables of a comparison by name: those of `TABLES`."""
    leaderboards = compared.boards
    rows: dict[str, Sequence[Any]] = {
        "leaderboards": leaderboards.standings if leaderboards else (),
        "siblings": leaderboards.siblings if leaderboards else (),
        "contradictions": compared.contradictions,
    }
    return {name: table_of(rows[name], record) for name, record in TABLES.items()}


def _write(out: str, options: CompareLabelsOptions, compared: Compared) -> None:
    leaderboards, tables = compared.boards, tables_of(compared)
    with Results(out, {name: table.schema for name, table in tables.items()}) as results:
        for name, table in tables.items():
            results.add(name, table)
    kinds = [row.kind for row in compared.contradictions]
    counts: dict[str, Any] = {kind: kinds.count(kind) for kind in get_args(Kind)}
    counts["queries_contradicted"] = len({row.query_id for row in compared.contradictions})
    if leaderboards:
        counts |= {"queries": leaderboards.queries, "runs": len(leaderboards.standings)}
        counts |= dict(zip(("apart_old", "apart_new"), leaderboards.apart, strict=True))
        counts |= {"turned": leaderboards.turned}
        counts |= dict(zip(("median_d_old", "median_d_new"), leaderboards.sizes, strict=True))
    value = {
        "kind": "compare",
        "complete": compared.complete,
        "version": version("zelo-ray"),
        "options": options.model_dump(mode="json"),
        "counts": counts,
        "taus": [asdict(tau) for tau in leaderboards.taus] if leaderboards else [],
        "missing": dict(leaderboards.missing) if leaderboards else {},
        "uncut": list(compared.uncut),
        "notes": list(compared.notes),
    }
    write_json(out, "compare.json", value)
