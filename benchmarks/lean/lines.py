"""What a row of the table says, and how it is printed."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One target and what was measured; ``met`` is None where there is nothing to hold it to."""

    row: str
    target: str
    measured: str
    met: bool | None = None

    def __str__(self) -> str:
        word = {True: "met", False: "MISSED", None: "-"}[self.met]
        return f"{self.row:22} {self.target:34} {self.measured:64} {word}"


@dataclass(frozen=True, slots=True)
class Size:
    """How many queries a row takes, and what it draws from."""

    seed: int
    share: float = 1.0
    queries: int | None = None

    def of(self, usual: int) -> int:
        """The number asked for, or a share of the usual one."""
        return self.queries or max(20, round(usual * self.share))


Lines = Iterator[Line]
