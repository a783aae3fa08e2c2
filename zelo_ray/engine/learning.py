"""Learn the judges' errors from all judgments of a run, between two passes over them."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.engine.write_results import Summary, remove_files
from zelo_ray.errors import Stopped
from zelo_ray.files.judgments import as_grades
from zelo_ray.files.labels import read_labels
from zelo_ray.files.schema import Columns, split_columns
from zelo_ray.files.storage import list_directory
from zelo_ray.files.tables import read_table, table_of, write_tables
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Learned, load_protocol
from zelo_ray.records import Consensus, Rater, Share

_NARROW = (
    *("query_id", "doc_id", "doc_id_a", "doc_id_b", "judge"),
    *("preference", "swapped", "criterion", "grade", "score", "std_error"),
)  # columns to learn from


def read_human_grades(options: AnnotateOptions, columns: Columns | None = None) -> pa.Table | None:
    """Read the human grades that a job was given, one a document; None without any.

    Returns:
        The columns of `read_grades`.

    Raises:
        InputError: they cannot be read.
    """
    human = getattr(options, "human", None)  # not every protocol takes them
    if human is None:
        return None
    return read_grades(human, split_columns(options.columns) if columns is None else columns)


def read_grades(place: str, columns: Mapping[str, str]) -> pa.Table:
    """Read people's grades from 0 to 3, one a document: of several the median.

    Of two middle ones it is their mean, and a half goes to the even grade.

    Returns:
        query_id, doc_id and relevance; ``probability`` where all were drawn by chance; and
        ``frame``, how many documents could be, where that is known.

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


def learn_judges(options: AnnotateOptions, human: pa.Table | None) -> Learned:
    """Learn about the judges from the judgments just written; keep it in files of its own.

    Raises:
        Stopped: the judges could not be measured.
    """
    protocol = load_protocol(options.protocol)
    if protocol.learn is None or not protocol.learned_from(options):
        return Learned()
    wanted, present = protocol.learned_from(options), list_directory(options.out) or ()
    tables = {
        name: read_table(options.out, name, _NARROW)
        for name in wanted
        if f"{name}.parquet" in present
    }
    try:
        learned = protocol.learn(tables | ({} if human is None else {"human": human}), options)
    except ArithmeticError as error:
        plain = ", and pooling: mean needs no model" if "pooling" in protocol.own_options else ""
        message = f"the judges could not be measured: {error}; all replies are kept{plain}"
        raise Stopped(message) from None
    contents = {
        "raters": table_of(learned.raters, Rater),
        "shares": table_of(learned.shares, Share),
        "consensus": table_of(learned.consensus, Consensus),
    }
    write_tables(options.out, {name: table for name, table in contents.items() if len(table)})
    empty = [f"{name}.parquet" for name, table in contents.items() if not len(table)]
    remove_files(options.out, empty)
    return learned


def learn_and_score(
    first: Summary,
    options: AnnotateOptions,
    human: pa.Table | None,
    again: Callable[[Learned], Summary],
) -> Summary:
    """Return the summary of a run, learning the scores first where the protocol needs that.

    Args:
        first: of the pass that wrote the judgments.
        options: of the job.
        human: human grades, if there are any.
        again: builds all results anew, with what was learned.

    Raises:
        Stopped: the judges could not be measured.
    """
    if not load_protocol(options.protocol).learned_from(options):
        return first
    learned = learn_judges(options, human)
    return replace(
        again(learned),
        sweeps=first.sweeps,
        notes=list(learned.notes),
        is_truth_error_learned=learned.shared is not None,
    )
