"""Hold the results of one measuring function of `agree`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class MeasuredTables:
    """Tables that a measurement returns.

    Attributes:
        tables: NAME.parquet of ``--out``; names and columns do not depend on the judgments.
        missing: sentences on what could not be measured; if any, the exit status is 3.
        notes: other remarks for readers.
    """

    tables: Mapping[str, pa.Table]
    missing: Sequence[str] = ()
    notes: Sequence[str] = ()
