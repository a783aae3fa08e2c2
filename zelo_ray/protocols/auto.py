"""Spend so many calls a document as recorded judgments say is best: grades by all, then battles.

Every judge grades every document, as far as the calls reach beside a ring of battles; the others
are battles, by judges in turn. It is `zelo_ray.protocols.lean` with that first round. Grades by all
judges hold where judges are of unequal quality, which turns do not; battles tell apart documents of
one grade (docs/protocols.md has the figures).
"""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.files.wording import counted
from zelo_ray.protocols import lean
from zelo_ray.protocols.options import AutoOptions


def learn(tables: Mapping[str, pa.Table], options: AutoOptions) -> lean.LearnedJudges:
    """Learn how the judges answer, and say what was chosen, and why."""
    learned = lean.learn(tables, options)
    # A judge that answered nothing was asked, too.
    names = {name for table in tables.values() for name in _judges(table)}
    grades, rings = options.first_round(len(names))
    note = (
        f"auto: of {options.calls_per_document:g} calls a document {counted(grades, 'grade')} by "
        f"different judges and {counted(rings, 'ring')} of battles came first, since on recorded "
        "judgments that order is nearest to people's at this price"
    )
    return replace(learned, notes=(note, *learned.notes))


def _judges(table: pa.Table) -> list[str]:
    return pc.unique(table["judge"]).to_pylist() if "judge" in table.column_names else []


PROTOCOL = replace(
    lean.PROTOCOL,
    name="auto",
    options=AutoOptions,
    learn=learn,
    fits_from=("votes", "grades", "failures"),
)
