"""``compare-labels``: what changes when a benchmark is labelled anew."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.compare.boards import Boards, Standing, boards
from zelo_ray.compare.contradictions import Contradiction, Kind, contradictions
from zelo_ray.compare.siblings import Sibling
from zelo_ray.compare.told import beginning, board_lines, contradiction_lines, sibling_lines
from zelo_ray.config import OptionError
from zelo_ray.formats import check_url
from zelo_ray.formats.files import listing
from zelo_ray.formats.graded import has_grades, read_graded
from zelo_ray.formats.pools import InputError
from zelo_ray.formats.results import Results, write_json
from zelo_ray.formats.runs import read_runs
from zelo_ray.formats.tables import schema_of, table_of
from zelo_ray.formats.truth import kind_of, read_pools, read_truth
from zelo_ray.measures import Truth, parse_measure

_Given = Mapping[str, Any]
_LABELS = "the --out of annotate, TREC or BEIR qrels, a BEIR or MTEB directory, MTEB rows ..."
_TABLES: dict[str, type] = {
    "leaderboards": Standing,
    "siblings": Sibling,
    "contradictions": Contradiction,
}


@dataclass(frozen=True, slots=True)
class Compared:
    """What two sets of labels came to; ``boards`` is None without runs, or without a common query.

    ``lines`` are for the terminal. ``complete`` is false where runs did not rank every query.
    """

    boards: Boards | None
    contradictions: tuple[Contradiction, ...]
    notes: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """What to print."""
        return "\n".join(self.lines)

    @property
    def complete(self) -> bool:
        """Whether every run ranked every query."""
        return not (self.boards and self.boards.missing)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``compare-labels``."""
    parser.add_argument("--old", required=True, help=f"labels as they were: {_LABELS}")
    parser.add_argument("--new", required=True, help="labels as they are now, of the same kinds")
    runs = parser.add_mutually_exclusive_group()
    runs.add_argument(
        "--runs", nargs="+", metavar="RUN", help="TREC runs, or runs.parquet of a bake-off"
    )
    runs.add_argument(
        "--bakeoff", metavar="DIR", help="--out of a bake-off, whose arms are the runs"
    )
    text = "for both, as ir_measures writes it (default %(default)s)"
    parser.add_argument("--measure", default="nDCG@10", help=text)
    for flag, value, whose in (("--positive", 1.0, "old"), ("--relevant", 2.0, "new")):
        text = f"the {whose} label from which on a document is relevant (default %(default)g)"
        parser.add_argument(flag, type=float, default=value, help=text)
    text = "samples of queries, for intervals and tests (default %(default)d)"
    parser.add_argument("--resamples", type=int, default=10_000, help=text)
    parser.add_argument("--seed", type=int, default=0, help="all chance follows from it")
    parser.add_argument("--out", help="directory or URL for tables of all of it")


def run(given: _Given) -> Compared:
    """Do what the arguments of `add_arguments` ask for.

    Raises:
        OptionError: a URL of an unknown kind, or too few resamples.
        MeasureError: the measure is none.
        InputError: what is read is wrong, or the labels share no query.
    """
    for url in (given["old"], given["new"], given["bakeoff"], given["out"], *(given["runs"] or ())):
        try:
            check_url(url or ".")
        except ValueError as error:
            raise OptionError(str(error)) from None
    if given["resamples"] < 100:
        raise OptionError("--resamples is at least 100")
    if given["out"] and "run.json" in (listing(given["out"]) or ()):
        raise OptionError(f"{given['out']} holds the results of a run; name another --out")
    measure = parse_measure(given["measure"])
    old, new = (read_truth(given[side]) for side in ("old", "new"))
    wanted = _runs(given)
    notes = _overlap(old, new, given)
    found = None
    if wanted:
        numbers = {"resamples": given["resamples"], "seed": given["seed"]}
        found = boards(old, new, wanted, measure, **numbers)
    graded = read_graded(given["new"]) if has_grades(given["new"]) else new
    against = contradictions(old, graded, given["positive"], given["relevant"])
    against = _with_texts(against, given)
    queries = len(set(old["query_id"].to_pylist()) & set(new["query_id"].to_pylist()))
    lines = [*board_lines(found, str(measure)), "", *sibling_lines(found), ""] if found else []
    lines += contradiction_lines(against, queries, given["positive"], given["relevant"])
    lines += [f"note: {each}" for each in notes]
    if given["out"]:
        names = ", ".join(f"{name}.parquet" for name in _TABLES)
        lines += ["", f"results: {given['out']}/compare.json, {names}, report.html"]
    compared = Compared(found, tuple(against), tuple(notes), tuple(lines))
    if given["out"]:
        _write(given, compared)
    return compared


def _runs(given: _Given) -> dict[str, pa.Table]:
    if given["bakeoff"]:
        return read_runs([f"{given['bakeoff'].rstrip('/')}/runs.parquet"])
    return read_runs(given["runs"] or ())


def _overlap(old: pa.Table, new: pa.Table, given: _Given) -> list[str]:
    """What only one side knows, in words.

    Raises:
        InputError: there is no common query.
    """
    sides = {"old": set(old["query_id"].to_pylist()), "new": set(new["query_id"].to_pylist())}
    both = sides["old"] & sides["new"]
    if not both:
        few = "; ".join(f"{given[n]} has {_few(sorted(side))}" for n, side in sides.items())
        raise InputError(f"no query has both labels: {few}")
    notes = [
        f"{len(side - both):,} queries have {which} labels only, left out: {_few(side - both)}"
        for which, side in sides.items()
        if side - both
    ]
    common = pa.array(sorted(both))
    pairs = [table.filter(pc.is_in(table["query_id"], common)) for table in (old, new)]
    keys = ["query_id", "doc_id"]
    lacking = pairs[0].select(keys).join(pairs[1].select(keys), keys, join_type="left anti")
    if len(lacking):
        notes.append(f"{len(lacking):,} documents have old labels only: not relevant by the new")
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


def _with_texts(found: list[Contradiction], given: _Given) -> list[Contradiction]:
    """The same with the beginning of each document, where the labels lie beside texts."""
    side = next((given[n] for n in ("new", "old") if kind_of(given[n])[1].pools), None)
    if side is None or not found:
        return found
    wanted = {(each.query_id, each.doc_id) for each in found}
    texts = {
        (pool.query_id, document.id): beginning(document.content)
        for pool in read_pools(side).pools
        for document in pool.documents
        if (pool.query_id, document.id) in wanted
    }
    return [replace(one, text=texts.get((one.query_id, one.doc_id), "")) for one in found]


def _write(given: _Given, compared: Compared) -> None:
    found = compared.boards
    rows: dict[str, Sequence[Any]] = {
        "leaderboards": found.standings if found else (),
        "siblings": found.siblings if found else (),
        "contradictions": compared.contradictions,
    }
    schemas = {name: schema_of(record) for name, record in _TABLES.items()}
    with Results(given["out"], schemas) as results:
        for name, record in _TABLES.items():
            results.add(name, table_of(rows[name], record))
    kinds = [each.kind for each in compared.contradictions]
    counts: dict[str, Any] = {kind: kinds.count(kind) for kind in get_args(Kind)}
    counts["queries_contradicted"] = len({each.query_id for each in compared.contradictions})
    if found:
        counts |= {"queries": found.queries, "runs": len(found.standings)}
        counts |= dict(zip(("apart_old", "apart_new"), found.apart, strict=True))
        counts |= {"turned": found.turned}
    value = {
        "kind": "compare",
        "complete": compared.complete,
        "version": version("zelo-ray"),
        "options": {name: each for name, each in given.items() if name != "command"},
        "counts": counts,
        "taus": [asdict(each) for each in found.taus] if found else [],
        "missing": dict(found.missing) if found else {},
        "notes": list(compared.notes),
    }
    write_json(given["out"], "compare.json", value)
