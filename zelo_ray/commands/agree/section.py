"""Hold the results of one measuring function of `agree`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class MeasuredTables:
    """Tables that were measured of the judgments.

    Attributes:
        tables: NAME.parquet of ``--out``: the same names and columns whatever the judgments.
        missing: what could not be measured; the exit status is 3 if there is any.
        notes: what a reader has to know besides.
    """

    tables: Mapping[str, pa.Table]
    missing: Sequence[str] = ()
    notes: Sequence[str] = ()
