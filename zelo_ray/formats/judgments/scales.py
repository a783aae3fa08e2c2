"""Grades and preferences that are numbers, held against what they may be."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.errors import InputError
from zelo_ray.formats.judgments.judgments_file import JudgmentsFile
from zelo_ray.formats.judgments.votes import HUMAN_VOTES, VOTES
from zelo_ray.options.agree import Scale

GRADES = pa.schema(
    [
        ("query_id", pa.string()),
        ("doc_id", pa.string()),
        ("judge", pa.string()),
        ("grade", pa.int64()),
    ]
)


def check_grades(
    url: str, part: JudgmentsFile, levels: int, notes: list[str], *, clip: bool
) -> pa.Table:
    """Return the grades of a part as whole numbers of the scale, with the columns of ``GRADES``.

    Args:
        url: where they are.
        part: what is there.
        levels: how many grades there are, from 0.
        notes: where it is noted that some were clipped.
        clip: put grades outside the scale to its nearest end.

    Raises:
        InputError: a grade is no whole number or none of the scale.
    """
    grades = part.table["grade"].to_numpy()
    odd = np.flatnonzero(grades != np.floor(grades))  # NaN is, too
    if odd.size:
        raise InputError(
            f"{part.place(int(odd[0]))}: the grade {grades[odd[0]]:g} is not a whole number"
        )
    clipped = np.clip(grades, 0, levels - 1)
    outside = np.flatnonzero(clipped != grades)
    if outside.size and not clip:
        more = f" (and {outside.size - 1:,} more)" if outside.size > 1 else ""
        raise InputError(
            f"{part.place(int(outside[0]))}: the grade {grades[outside[0]]:g} is not in 0 to "
            f"{levels - 1}{more}: --clip moves such grades to the nearest end, --levels says how "
            "many grades there are"
        )
    if outside.size:
        worst = ", ".join(f"{value:g}" for value in np.unique(grades[outside])[:5])
        counted = f"{outside.size:,} of {len(grades):,} grades"
        notes.append(f"{url}: {counted} clipped to 0 to {levels - 1} ({worst})")
    table = part.table.set_column(
        part.table.schema.get_field_index("grade"), "grade", pa.array(clipped.astype(np.int64))
    )
    return table.select(GRADES.names).cast(GRADES)


def map_own_scales(
    part: JudgmentsFile, scales: Mapping[str, Scale], levels: int, notes: list[str], *, clip: bool
) -> JudgmentsFile:
    """Map the grades of judges with scales of their own onto the common scale.

    Args:
        part: what is there.
        scales: those of judges by their names.
        levels: how many grades the common scale has, from 0.
        notes: where it is noted that some were clipped.
        clip: put grades outside a judge's scale to its nearest end.

    Raises:
        InputError: a grade of such a judge is no whole number, or none of its scale, or a file of
            one judge has a document twice.
    """
    if not part.names_judges:
        _refuse_twice(part)
    judges = part.table["judge"].to_numpy()
    grades = part.table["grade"].to_numpy().copy()
    for name, scale in scales.items():
        rows = np.flatnonzero(judges == name)
        raw = grades[rows]
        inside = np.clip(raw, scale.low, scale.high)
        odd = np.flatnonzero((raw != np.floor(raw)) | (inside != raw) & (not clip))
        if odd.size:
            raise InputError(
                f"{part.place(int(rows[odd[0]]))}: the grade {raw[odd[0]]:g} of {name} is not on "
                f"its scale {scale}"
            )
        if outside := int((inside != raw).sum()):
            notes.append(f"{name}: {outside:,} of {len(raw):,} grades clipped to {scale}")
        grades[rows] = map_grades(inside, scale, levels)
    at = part.table.schema.get_field_index("grade")
    return replace(part, table=part.table.set_column(at, "grade", pa.array(grades)))


def map_grades(grades: NDArray[np.float64], scale: Scale, levels: int) -> NDArray[np.float64]:
    """Map grades of a scale to the nearest of 0 to ``levels`` - 1, and its ends to the ends."""
    nearest_levels: NDArray[np.float64] = np.floor(
        (grades - scale.low) * (levels - 1) / (scale.high - scale.low) + 0.5
    )
    return nearest_levels


def _refuse_twice(part: JudgmentsFile) -> None:
    """Refuse two grades of one document in a file of one judge."""
    pairs = part.table.select(["query_id", "doc_id"])
    counted = pairs.append_column("row", pa.array(np.arange(len(pairs))))
    last = counted.group_by(["query_id", "doc_id"]).aggregate([("row", "max"), ("row", "count")])
    twice = last.filter(pc.field("row_count") > 1)
    if len(twice):
        row = pc.min(twice["row_max"]).as_py()
        query_id, doc_id = pairs["query_id"][row], pairs["doc_id"][row]
        raise InputError(
            f"{part.place(row)}: document {doc_id} of query {query_id} is judged again: keep one"
        )


def check_preferences(part: JudgmentsFile) -> pa.Table:
    """Return the votes of a part in the columns of ``VOTES``; of ``HUMAN_VOTES`` with raters.

    Raises:
        InputError: a preference is outside [-1, 1], or of one document.
    """
    preferences = part.table["preference"].to_numpy()
    odd = np.flatnonzero(~(np.abs(preferences) <= 1))  # NaN is, too
    if odd.size:
        raise InputError(
            f"{part.place(int(odd[0]))}: the preference {preferences[odd[0]]:g} is not in -1 to 1"
        )
    same = pc.equal(part.table["doc_id_a"], part.table["doc_id_b"])
    if (row := pc.index(same, True).as_py()) >= 0:
        document = part.table["doc_id_a"][row].as_py()
        raise InputError(f"{part.place(row)}: document {document!r} is compared with itself")
    schema = HUMAN_VOTES if "rater" in part.table.column_names else VOTES
    return part.table.select(schema.names).cast(schema)


def pairs_by_grades(grades: pa.Table, votes: pa.Table) -> pa.Table:
    """Turn people's grades into a preference on every pair with votes: for the higher mean grade.

    Equal grades give no preference.

    Args:
        grades: of people, with the columns of ``GRADES``.
        votes: of judges, with the columns of ``VOTES``.

    Returns:
        One row a pair, with the columns of ``HUMAN_VOTES``.
    """
    mean = grades.to_pandas().groupby(["query_id", "doc_id"])["grade"].mean()
    pairs = votes.select(["query_id", "doc_id_a", "doc_id_b"]).to_pandas()
    first, last = (
        pairs[["doc_id_a", "doc_id_b"]].min(axis=1),
        pairs[["doc_id_a", "doc_id_b"]].max(axis=1),
    )
    pairs = pairs.assign(doc_id_a=first, doc_id_b=last).drop_duplicates(ignore_index=True)
    a, b = (
        mean.reindex(pairs.set_index(["query_id", name]).index).to_numpy()
        for name in ("doc_id_a", "doc_id_b")
    )
    has_winner = (a < b) | (a > b)  # NaN is neither
    frame = pairs[has_winner].assign(
        judge=grades["judge"][0].as_py() if len(grades) else "",
        preference=np.sign(b - a)[has_winner],
        swapped=None,
        rater="grades",
    )
    return (
        pa.Table.from_pandas(frame, preserve_index=False)
        .select(HUMAN_VOTES.names)
        .cast(HUMAN_VOTES)
    )
