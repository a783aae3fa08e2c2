"""Find what people may be asked about: documents of a bake-off, documents or pairs of a run.

Of a bake-off they are documents whose labels could change a difference between rankers. Of a run
they are all judged documents, or all pairs that judges compared, more of some than of others by a
`Draw`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import BakeoffOptions, Draw
from zelo_ray.commands.label.texts import pools_of_bakeoff
from zelo_ray.errors import InputError
from zelo_ray.evaluation.measures import Truth, linear_of, parse_measure, rank_run
from zelo_ray.evaluation.people.frame import Frame, build_frame, label_sizes, select_correctable
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.files.judges import read_all_judgments
from zelo_ray.files.judgments import digest_judgments, pools_file_of_truth, read_qrels, read_runs
from zelo_ray.files.labels import PAIR, Ids, ids_in_table
from zelo_ray.files.rows import RESULTS
from zelo_ray.files.run_record import RUN, read_record, refuse_unfinished, run_directory
from zelo_ray.files.schema import split_columns
from zelo_ray.files.storage import list_directory
from zelo_ray.files.tables import StoredTable, parquet_table

_FLOOR = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Documents or pairs that people may be asked about, and what a label is worth, [rows]."""

    ids: list[Ids]
    size: Floats
    """chances to be drawn are proportional to it; 0 for what is not drawn"""
    truth: str
    """the place of the judgments that labels are to correct"""
    digest: str
    """of the judgments as they are now"""
    pools: tuple[str, ...]
    wording: Mapping[str, Any]
    """instructions and fields of queries, as the judges were told"""
    columns: tuple[str, ...] = ()
    measure: str = ""
    """for which they are drawn; empty for a run"""
    frame: Frame | None = None
    """of the measure; None for a run"""
    rankers: tuple[str, ...] = ()
    is_stale: bool = False
    """whether the truth has changed since the bake-off was measured"""


def find_candidates(contest: str, measure: str | None = None) -> Candidates:
    """Return the documents to label for a finished bake-off.

    Args:
        contest: its output directory or URL.
        measure: one that is linear in the labels; the bake-off's first such if None.

    Raises:
        InputError: there is no finished bake-off.
        OptionError: the measure is not linear in the labels.
    """
    refuse_unfinished(contest)
    root = contest.rstrip("/")
    run = read_record(f"{root}/{RUN}")
    if not run or run.get("kind") != "bakeoff":
        raise InputError(f"{contest}: no bake-off; name the --out of one")
    known = {n: v for n, v in run["options"].items() if n in BakeoffOptions.model_fields}
    options = BakeoffOptions.model_validate(known)
    options = _with_existing_paths(contest, options, run.get("folder", ""))
    measured = pc.unique(StoredTable(f"{root}/metrics.parquet").read(["query_id"])["query_id"])
    table = read_qrels(options.truth, split_columns(options.columns))
    digest = digest_judgments(table)
    truth = Truth(table.filter(pc.is_in(table["query_id"], pa.array(measured))))
    measures, scores = map(parse_measure, run["measures"]), truth.kind == "scores"
    chosen = select_correctable(measures, scores=scores)[0][0]
    if measure:
        chosen = parse_measure(measure)
        linear_of(chosen)
    runs = read_runs([f"{root}/runs.parquet"])
    frame = build_frame(chosen, {name: rank_run(truth, table) for name, table in runs.items()})
    query_ids = (frame.query_ids[query] for query in frame.query)
    return Candidates(
        ids=list(zip(query_ids, frame.doc_ids, strict=True)),
        size=label_sizes(frame),
        truth=options.truth,
        digest=digest,
        pools=pools_of_bakeoff(options),
        wording=find_wording(options),
        columns=options.columns,
        measure=str(chosen),
        frame=frame,
        rankers=tuple(runs),
        is_stale=run["truth"]["digest"] != digest,
    )


def find_run_candidates(run: str, draw: Draw) -> Candidates:
    """Return the judged documents of a run of `annotate`, sized by how they are drawn.

    Raises:
        InputError: there is no finished run with scores.
    """
    refuse_unfinished(run)
    scores = parquet_table(f"{run.rstrip('/')}/{RESULTS}")
    return _candidates_of_run(run, ids_in_table(scores), SIZES[draw](scores))


def find_pair_candidates(run: str, draw: Draw) -> Candidates:
    """Return the pairs that judges of a run of `annotate` compared, sized by how they are drawn.

    Raises:
        InputError: there is no finished run, or its judges compared no documents.
    """
    refuse_unfinished(run)
    votes = read_all_judgments([run]).votes
    if not len(votes):
        raise InputError(
            f"{run}: its judges compared no documents; leave out --pairs to draw single ones"
        )
    flipped = pc.greater(votes["doc_id_a"], votes["doc_id_b"])
    pairs = pa.table(
        {
            "query_id": votes["query_id"],
            "doc_id_a": pc.if_else(flipped, votes["doc_id_b"], votes["doc_id_a"]),
            "doc_id_b": pc.if_else(flipped, votes["doc_id_a"], votes["doc_id_b"]),
            "preference": pc.multiply(votes["preference"], pc.if_else(flipped, -1.0, 1.0)),
        }
    )
    pairs = pairs.group_by([*PAIR.ids], use_threads=False).aggregate([("preference", "mean")])
    margin = np.abs(pairs["preference_mean"].to_numpy())
    ids = ids_in_table(pairs, PAIR)
    return _candidates_of_run(run, ids, PAIR_SIZES[draw](margin))


def _candidates_of_run(run: str, ids: list[Ids], size: Floats) -> Candidates:
    pools = pools_file_of_truth(run)
    return Candidates(
        ids=ids,
        size=size,
        truth=run,
        digest=digest_judgments(read_qrels(run)),
        pools=(pools,) if pools else (),
        wording=_wording_of_run(run),
    )


def _equal_sizes(scores: pa.Table) -> Floats:
    """Size all documents alike."""
    return np.ones(len(scores))


def _size_by_disagreement(scores: pa.Table) -> Floats:
    """Size documents by how far judges' grades differ, or else by the error of the score."""
    name = "disagreement" if "disagreement" in scores.column_names else "std_error"
    values = np.nan_to_num(scores[name].to_numpy(), posinf=0.0)
    return _with_a_floor(values)


def _with_a_floor(values: Floats) -> Floats:
    """Return values of which none is below a tenth of the mean: every document can be drawn."""
    mean = float(values.mean()) or 1.0
    return np.maximum(values, _FLOOR * mean)


SIZES: Mapping[Draw, Callable[[pa.Table], Floats]] = {
    "random": _equal_sizes,
    "disagreement": _size_by_disagreement,
}
"""By `Draw`, a function from the scores of a run to sizes, [rows]."""


PAIR_SIZES: Mapping[Draw, Callable[[Floats], Floats]] = {
    "random": np.ones_like,
    "disagreement": lambda margin: _with_a_floor(1.0 - margin),
}
"""By `Draw`, a function from the panel's mean preference without sign, [pairs], to sizes."""


def find_wording(contest: BakeoffOptions) -> Mapping[str, Any]:
    """Return the judges' instructions: of the bake-off, or of the run that made its truth."""
    fields = {"instructions": contest.instructions, "show_query": contest.show_query}
    made_in = run_directory(contest.truth)
    if not any(fields.values()) and RUN in (list_directory(made_in) or ()):
        return _wording_of_run(made_in)
    return fields


def _wording_of_run(run: str) -> Mapping[str, Any]:
    made = read_record(f"{run.rstrip('/')}/{RUN}").get("options") or {}
    return {"instructions": made.get("instructions"), "show_query": made.get("show_query")}


def _with_existing_paths(contest: str, options: BakeoffOptions, folder: str) -> BakeoffOptions:
    """Return the options with the paths of truth and pools as seen from here.

    Args:
        contest: directory or URL of the bake-off.
        options: as its record has them.
        folder: the directory that relative paths start from; empty if the record has none.

    Raises:
        InputError: a path does not exist.
    """
    root = contest.rstrip("/")
    disk = fsspec.filesystem("file")
    others = [""] if "://" in root else ["", root, str(Path(root).resolve().parent)]
    elsewhere = [folder] if folder and folder != str(Path.cwd()) else []

    def found(place: str) -> str:
        if "://" in place or Path(place).is_absolute():
            return place
        paths = (str(Path(base, place)) if base else place for base in [*elsewhere, *others])
        for path in paths:
            if Path(path).exists() or disk.glob(path):
                return path
        ran = f"{folder}/{place}" if folder else place
        raise InputError(f"{contest} was measured with {ran}, which no longer exists")

    places = {"truth": found(options.truth), "pools": tuple(map(found, options.pools))}
    return options.model_copy(update=places)
