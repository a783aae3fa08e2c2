"""Find the documents of a bake-off whose labels could change a difference between rankers."""

from dataclasses import dataclass
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.evaluation.measures import Truth, linear_of, parse_measure, rank_run
from zelo_ray.evaluation.people.correctable_measures import select_correctable
from zelo_ray.evaluation.people.frame import build_frame, label_sizes
from zelo_ray.evaluation.people.sampling_design import Floats
from zelo_ray.formats.columns import split_columns
from zelo_ray.formats.files import read_record
from zelo_ray.formats.judgments.qrels import digest_judgments, pools_file_of_truth, read_qrels
from zelo_ray.formats.matching_ids import ids_by_text, rename_queries
from zelo_ray.formats.pools import find_shards
from zelo_ray.formats.run_record import RUN, refuse_unfinished
from zelo_ray.formats.runs import read_runs
from zelo_ray.formats.stored import StoredTable
from zelo_ray.options.bakeoff import BakeoffOptions


@dataclass(frozen=True, slots=True)
class Candidates:
    """The documents within a measure's depth in any ranker, and what a label could move, [rows]."""

    query_ids: list[str]
    doc_ids: list[str]
    size: Floats
    """largest effect of a label on a difference of two rankers; 0 if all rank it alike"""
    measure: str
    rankers: tuple[str, ...]
    options: BakeoffOptions
    """of the bake-off, with the measures and the baseline's name that were used in the end"""
    truth: str = ""
    """the digest of the truth as it is now"""
    is_stale: bool = False
    """whether the truth has changed since the bake-off was measured"""


def find_candidates(contest: str, measure: str | None = None) -> Candidates:
    """Return the documents to label for a finished bake-off.

    Args:
        contest: its output directory or URL.
        measure: one that is linear in the labels; the bake-off's first such if None.

    Raises:
        InputError: there is no finished bake-off.
        MeasureError: the measure is not linear in the labels.
    """
    refuse_unfinished(contest)
    root = contest.rstrip("/")
    run = read_record(f"{root}/{RUN}")
    if not run or run.get("kind") != "bakeoff":
        raise InputError(f"{contest}: no bake-off; name the --out of one")
    options = _with_existing_paths(
        contest, BakeoffOptions.model_validate(run["options"]), run.get("folder", "")
    )
    measured = pc.unique(StoredTable(f"{root}/metrics.parquet").read(["query_id"])["query_id"])
    table = read_qrels(options.truth, split_columns(options.columns))
    digest = digest_judgments(table)
    pools = options.pools or (pools_file_of_truth(options.truth) or "",)
    ids = ids_by_text([table], lambda: find_shards([*filter(None, pools)]))
    table = rename_queries(table, ids)
    truth = Truth(table.filter(pc.is_in(table["query_id"], pa.array(measured))))
    measures, scores = map(parse_measure, run["summary"]["measures"]), truth.kind == "scores"
    chosen = select_correctable(measures, scores=scores)[0][0]
    if measure:
        chosen = parse_measure(measure)
        linear_of(chosen)
    runs = read_runs([f"{root}/runs.parquet"])
    frame = build_frame(
        chosen, {name: rank_run(truth, table, ties=options.ties) for name, table in runs.items()}
    )
    names = [frame.query_ids[query] for query in frame.query]
    terms = {"measures": (*run["summary"]["measures"],), "baseline": options.baseline}
    if gate := run["summary"].get("gate"):
        terms["baseline"] = gate[0]["baseline"]  # a ranker's name, also where a run file was given
    options = options.model_copy(update=terms)
    return Candidates(
        *(names, frame.doc_ids, label_sizes(frame), str(chosen), tuple(runs), options),
        truth=digest,
        is_stale=run["summary"]["truth"].get("digest", digest) != digest,
    )


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
