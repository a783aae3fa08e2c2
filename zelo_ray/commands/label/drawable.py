"""Find what people may be asked about, and what a label of each is worth.

Of a bake-off these are the documents whose labels could change a difference between rankers. Of a
run they are all judged documents, or all pairs that judges compared.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from glob import glob
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.evaluation.measures import Truth, parse_measure, rank_run
from zelo_ray.evaluation.people.frame import Frame, build_frame, label_sizes, select_correctable
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.files.judges import read_all_judgments
from zelo_ray.files.judgments import digest_judgments, pools_file_of_truth, read_qrels, read_runs
from zelo_ray.files.labels import DOCUMENT, PAIR, Ids, ids_in_table
from zelo_ray.files.rows import RESULTS
from zelo_ray.files.run_record import RUN, options_of_run, read_record, refuse_unfinished
from zelo_ray.files.schema import split_columns
from zelo_ray.files.tables import StoredTable, parquet_table

_FLOOR = 0.1


@dataclass(frozen=True, slots=True)
class Drawable:
    """Documents or pairs that people may be asked about.

    Chances to be drawn are proportional to ``sizes``. ``about`` is what ``label.json`` says of
    where they come from. ``frame`` is of the measure; None for a run.
    """

    sizes: Mapping[Ids, float]
    about: Mapping[str, Any]
    frame: Frame | None = None


def find_in_contest(contest: str, measure: str | None, say: Callable[[str], None]) -> Drawable:
    """Find the documents to label for a finished bake-off.

    Args:
        contest: its output directory or URL.
        measure: one that is linear in the labels; the bake-off's first such if None.
        say: gets a message if the truth has changed since.

    Raises:
        InputError: there is no finished bake-off.
        OptionError: the measure is not linear in the labels.
    """
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
    ids = zip((frame.query_ids[query] for query in frame.query), frame.doc_ids, strict=True)
    about = {"contest": contest, "measure": str(linear[0]), "rankers": [*runs]}
    about |= _source(place, digest, options["columns"], pools, options, options_of_run(place))
    return Drawable(dict(zip(ids, label_sizes(frame).tolist(), strict=True)), about, frame)


def find_in_run(run: str, draw: str, *, pairs: bool) -> Drawable:
    """Find the judged documents of a run of `annotate`, or the pairs that its judges compared.

    Args:
        run: its output directory or URL.
        draw: random: all are worth the same; disagreement: those on which grades or votes differ,
            or else scores are least sure, are worth more, and none less than a tenth of the mean.
        pairs: whether to find pairs.

    Raises:
        InputError: there is no finished run, or its judges compared no documents.
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

    Args:
        place: of the truth.
        digest: of the truth.
        columns: of the truth.
        pools: the texts; if there are none, those beside the truth.
        options: of the bake-off, and of the run that made the truth; the first that tell anything.
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
