"""Learn from the judgments on some queries what the scores of all need."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.engine.write_results import remove_files
from zelo_ray.errors import Stopped
from zelo_ray.files.judgments import as_grades
from zelo_ray.files.labels import read_labels
from zelo_ray.files.schema import Columns, split_columns
from zelo_ray.files.tables import read_table, table_of, write_tables
from zelo_ray.fitting.corrected import correct_means
from zelo_ray.fitting.pairs import first_turn
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Evidence, Learned, load_protocol
from zelo_ray.records import GradedScore, Judge, Rater, Share

_QUERIES, _LABELLED = 240, 1_000
"""Queries to learn from, and others with human grades, at most."""


def read_human_grades(options: AnnotateOptions, columns: Columns | None = None) -> pa.Table | None:
    """Read the human grades that a job was given; None without any. See `read_grades`."""
    human = getattr(options, "human", None)  # not every protocol takes them
    if human is None:
        return None
    return read_grades(human, split_columns(options.columns) if columns is None else columns)


def read_grades(place: str, columns: Mapping[str, str]) -> pa.Table:
    """Read people's grades from 0 to 3, one a document: of several the median.

    Of two middle ones it is their mean, a half going to the even grade. The columns are query_id,
    doc_id and relevance; ``probability`` where all were drawn by chance; and ``frame``, how many
    documents could be, where that is known.

    Raises:
        InputError: they cannot be read, or are no such grades.
    """
    labels = read_labels(place, columns)
    rows = labels.rows.sort_by([(name, "ascending") for name in ("query_id", "doc_id", "grade")])
    ids = rows.select(["query_id", "doc_id"])
    several = ids.group_by(ids.column_names, use_threads=False).aggregate([([], "count_all")])
    sizes = several["count_all"].to_numpy()
    drawn = ["probability"] if labels.is_random_sample else []
    rows = rows.select(["query_id", "doc_id", "grade", *drawn])
    rows = as_grades(place, rows.rename_columns(["query_id", "doc_id", "relevance", *drawn]))
    starts, grades = np.cumsum(sizes) - sizes, rows["relevance"].to_numpy()
    middle = (grades[starts + (sizes - 1) // 2] + grades[starts + sizes // 2]) / 2
    table = rows.take(pa.array(starts)).set_column(2, "relevance", pa.array(np.rint(middle)))
    if labels.frame is not None:
        could = pc.sum(pc.greater(labels.frame["size"], 0), min_count=0).as_py()
        table = table.append_column("frame", pa.array([could] * len(table), pa.int64()))
    return table


def choose_sample(
    places: Iterable[tuple[str, int, str]], human: pa.Table | None
) -> frozenset[tuple[str, int]]:
    """Choose the lines to learn from: by hashes of query ids, and all with human grades.

    ``places`` are file, number and query id of each line.
    """
    drawn = sorted(places, key=lambda place: _draw(place[2]))
    chosen = drawn[:_QUERIES]
    if human is not None:
        labelled = {*pc.unique(human["query_id"]).to_pylist()}
        chosen += [place for place in drawn[_QUERIES:] if place[2] in labelled][:_LABELLED]
    return frozenset((file, number) for file, number, _ in chosen)


def learn(
    blocks: Iterable[pa.Table],
    options: AnnotateOptions,
    panel: Sequence[Judge],
    human: pa.Table | None,
) -> Learned:
    """Learn what scores need from the results of some queries, in any order.

    Raises:
        Stopped: the judges could not be measured.
    """
    protocol = load_protocol(options.protocol)
    pools = sorted(_judgments(blocks, protocol.tables), key=lambda pool: _draw(pool[0]))
    evidence = Evidence([judge.name for judge in panel], human)
    if protocol.learn is None:
        return Learned()
    try:
        return protocol.learn([rows for _, rows in pools], evidence, options)
    except ArithmeticError as error:
        plain = ", and pooling: mean needs no model" if hasattr(options, "pooling") else ""
        message = f"the judges could not be measured: {error}; all replies are kept{plain}"
        raise Stopped(message) from None


def _draw(query_id: str) -> tuple[int, str]:
    return first_turn(0, query_id, ""), query_id


def _judgments(
    blocks: Iterable[pa.Table], tables: Mapping[str, type]
) -> Iterator[tuple[str, list[Any]]]:
    """Yield the ids of queries, and their judgments."""
    for block in blocks:
        columns = {name: block[name].to_pylist() for name in tables}
        for number, query_id in enumerate(block["query_id"].to_pylist()):
            rows = ((tables[name], row) for name in tables for row in columns[name][number])
            yield query_id, [record(**row) for record, row in rows]


def write_learned(options: AnnotateOptions, learned: Learned, human: pa.Table | None) -> list[str]:
    """Write what is known of judges, and means that people's grades correct; return notes."""
    shares: tuple[Share, ...] = ()
    notes: tuple[str, ...] = ()
    if issubclass(load_protocol(options.protocol).scores_of(options).record, GradedScore):
        rows = read_table(options.out, "scores", ["query_id", "doc_id", "score"])
        shares, notes = correct_scores(rows, human)
    contents = {"raters": table_of(learned.raters, Rater), "shares": table_of(shares, Share)}
    write_tables(options.out, {name: table for name, table in contents.items() if len(table)})
    remove_files(options.out, [f"{n}.parquet" for n, table in contents.items() if not len(table)])
    return [*learned.notes, *notes]


def correct_scores(
    scores: pa.Table, human: pa.Table | None
) -> tuple[tuple[Share, ...], tuple[str, ...]]:
    """Correct means of scores that are grades, over all documents, by human grades of some.

    ``scores`` has query_id, doc_id and score. What a user should know comes with the means.
    """
    query = pc.rank(scores["query_id"], tiebreaker="dense").to_numpy().astype(np.int64)
    labels, drawn, frame = np.full(len(scores), np.nan), None, None
    if human is not None and len(human):
        ids = ["query_id", "doc_id"]
        rows = scores.select(ids).append_column("row", pa.array(np.arange(len(scores))))
        both = rows.join(human, ids, use_threads=False).sort_by("row")
        labels = pc.fill_null(both["relevance"].cast(pa.float64()), np.nan).to_numpy()
        if "probability" in human.column_names:
            drawn = pc.fill_null(both["probability"], np.nan).to_numpy()
        if "frame" in human.column_names:
            frame = human["frame"][0].as_py()
    values = scores["score"].to_numpy()
    return correct_means(values, np.rint(labels).clip(0, 3), query, drawn, frame=frame)
