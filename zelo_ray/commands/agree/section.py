"""Hold the sections of the answer, and lay out their tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan

import pyarrow as pa

from zelo_ray.formats.wording import middle_out

WIDTH = 100


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the answer; without lines where there is nothing to tell.

    ``lines`` are for a terminal of 100 characters. ``tables`` become NAME.parquet of ``--out``, the
    same names and columns whatever the judgments. ``missing`` names what could not be told: the
    exit status is 3 if there is any.
    """

    lines: Sequence[str] = ()
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    missing: Sequence[str] = ()


def laid_out(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out a table in lines, with names on the left, shortened in the middle if too long."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    widths[0] = max(8, min(widths[0], WIDTH - sum(2 + width for width in widths[1:])))
    lines = []
    for first, *others in [heads, *rows]:
        name = middle_out(first, widths[0])
        cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([f"{name:<{widths[0]}}", *cells]).rstrip())
    return lines


def with_interval(value: float, low: float, high: float, form: str = "z.3f") -> str:
    """Format as ``0.277 [0.238, 0.312]``; ``-`` for NaN, no brackets without an interval."""
    if isnan(value):
        return "-"
    return f"{value:{form}}" if isnan(low) else f"{value:{form}} [{low:{form}}, {high:{form}}]"
