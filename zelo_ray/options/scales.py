"""Parse the scales that judges grade on: ``NAME=0-5``."""

import re
from dataclasses import dataclass

_SCALE = re.compile(r"(?P<name>.+)=(?P<low>-?\d{1,6})-(?P<high>-?\d{1,6})", re.S)
_MOST = 100


@dataclass(frozen=True, slots=True)
class Scale:
    """Whole grades from ``low`` to ``high``."""

    low: int
    high: int

    def __str__(self) -> str:
        """Return the scale as users write it."""
        return f"{self.low}-{self.high}"


def parse_scales(written: tuple[str, ...]) -> dict[str, Scale]:
    """Parse scales; return them by judge.

    Raises:
        ValueError: one has another form, or is empty or too long, or a judge has two.
    """
    scales: dict[str, Scale] = {}
    for text in written:
        match = _SCALE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not of the form NAME=0-5")
        name = match["name"]
        scale = Scale(int(match["low"]), int(match["high"]))
        if not 0 < scale.high - scale.low < _MOST:
            raise ValueError(f"{name}: a scale must have 2 to {_MOST} grades, lowest first")
        if name in scales:
            raise ValueError(f"{name}: has two scales")
        scales[name] = scale
    return scales
