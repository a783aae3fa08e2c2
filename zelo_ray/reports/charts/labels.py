"""Shorten names for a chart, keeping them distinct."""

from collections.abc import Sequence

from zelo_ray.reports.wording import escape_markup

LABEL = 36
"""Characters of a label."""
_AROUND = 10
"""Characters kept of what all names share, on each side of what they do not."""


def label(name: str, length: int = LABEL) -> str:
    """Return a name for a chart: cut in its middle, without anything read as markup."""
    half = length // 2
    return escape_markup(name if len(name) <= length else f"{name[: half - 1]}…{name[-half:]}")


def labels(names: Sequence[str], length: int = LABEL) -> list[str]:
    """Return names for a chart, shortened but still distinct.

    Where names that are cut in the middle look alike, what all of them begin and end with is cut;
    where that does not help, nothing is.
    """
    start = max(0, _alike(names) - _AROUND)
    ends = [name[start:][::-1] for name in names]
    end = max(0, _alike(ends) - _AROUND)
    inner = [f"…{name[end:][::-1]}…" for name in ends]
    for shown in (names, inner):
        cut = [label(name, length) for name in shown]
        if len(set(cut)) == len(set(names)):
            return cut
    return [escape_markup(name) for name in names]


def _alike(names: Sequence[str]) -> int:
    """Count the characters that all names begin with."""
    letters = enumerate(zip(*names, strict=False))
    shortest = min(map(len, names), default=0)
    return next((i for i, column in letters if len(set(column)) > 1), shortest)
