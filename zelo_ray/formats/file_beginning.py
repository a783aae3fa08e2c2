"""Read the beginning of a file: its first lines, and their values if they are JSON."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import orjson

from zelo_ray.files.storage import open_for_reading
from zelo_ray.formats.nested_json import is_nested
from zelo_ray.formats.pools import LineLimits

LONGEST = LineLimits().line
"""Bytes of a line that are looked at; what is longer is no line that is read."""
_LOOKED_AT = 100
_KEPT = 1000
_HEAD = 4
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class FileBeginning:
    """The first lines of a file that are not blank, and their values if they are JSON."""

    lines: tuple[bytes, ...]
    values: tuple[Any, ...]
    """by line what it holds as JSON; None where it is none"""
    is_long: bool = False
    """whether the first line is longer than what is looked at"""

    @property
    def line(self) -> bytes:
        """Return the first line, or empty bytes."""
        return self.lines[0] if self.lines else b""

    @property
    def start(self) -> bytes:
        """Return the first byte of the first line that is not a space."""
        return self.line.lstrip()[:1]

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Return the JSON objects among the lines, without empty ones."""
        return [value for value in self.values if isinstance(value, dict) and value]

    @property
    def may_be_one_value(self) -> bool:
        """Return whether the whole file may be one JSON array, or one object over several lines."""
        if self.start == b"[" and len(self.lines) == 1:
            return True
        if self.start not in (b"[", b"{"):
            return False
        if self.values[0] is not None:
            return self.start == b"{" and len(self.lines) == 1 and is_nested(self.values[0])
        if self.start == b"{" and self.is_long:
            return False
        # Nowhere in one value do two objects follow each other without a comma.
        held = [isinstance(value, dict) for value in self.values]
        return not any(first and second for first, second in pairwise(held))


def read_beginning(place: str) -> FileBeginning:
    """Read the first lines of a file.

    Raises:
        InputError: it cannot be read.
    """
    lines = [*islice(_lines(place), _LOOKED_AT)]
    return FileBeginning(
        tuple(line for line, _ in lines),
        tuple(None if is_long else _value(line) for line, is_long in lines),
        bool(lines) and lines[0][1],
    )


def read_head(place: str) -> bytes:
    """Read the first bytes of a file, by which packed and binary formats are recognised.

    Raises:
        InputError: it cannot be read.
    """
    with open_for_reading(place) as stream:
        head: bytes = stream.read(_HEAD)
    return head


def _lines(place: str) -> Iterator[tuple[bytes, bool]]:
    """Yield each line that is not blank, and whether it is too long; of such the first bytes."""
    with open_for_reading(place) as stream:
        line = stream.readline(LONGEST + 1).removeprefix(_BOM)
        while line:
            if is_long := len(line) > LONGEST:
                tail, line = line, line[:_KEPT]
                while tail and not tail.endswith(b"\n"):
                    tail = stream.readline(LONGEST)
            if line.strip():
                yield line.rstrip(b"\r\n"), is_long
            line = stream.readline(LONGEST + 1)


def _value(line: bytes) -> Any:
    if line.lstrip()[:1] in (b"{", b"["):
        with contextlib.suppress(orjson.JSONDecodeError):
            return orjson.loads(line)
    return None
