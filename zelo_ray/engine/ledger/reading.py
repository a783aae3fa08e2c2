"""Read many lines at given places with few large reads."""

from collections.abc import Sequence
from pathlib import Path

import fsspec

_DISK_GAP, _STORE_GAP = 2**14, 2**16  # bytes between two lines up to which they are read together


def read_lines_at(
    fs: fsspec.AbstractFileSystem, places: Sequence[tuple[str, int, int]]
) -> list[bytes | Exception]:
    """Return the lines at some places, or for each the error that prevents reading it.

    A place is a path, where the line begins in bytes, and its length.
    """
    is_local = "file" in fs.protocol
    gap = _DISK_GAP if is_local else _STORE_GAP
    paths, begins, ends = list[str](), list[int](), list[int]()
    members = list[list[int]]()  # of each read, the places in it
    for number in sorted(range(len(places)), key=places.__getitem__):
        path, begin, length = places[number]
        if not (paths and paths[-1] == path and begin <= ends[-1] + gap):
            paths.append(path)
            begins.append(begin)
            ends.append(begin)
            members.append([])
        ends[-1] = max(ends[-1], begin + length)
        members[-1].append(number)
    chunks: Sequence[bytes | Exception] = []
    if is_local:
        chunks = [*map(_read_disk, paths, begins, ends)]
    elif paths:
        chunks = fs.cat_ranges(paths, begins, ends, on_error="return")
    lines: list[bytes | Exception] = [b""] * len(places)
    for start, chunk, numbers in zip(begins, chunks, members, strict=True):
        for number in numbers:
            _, begin, length = places[number]
            at = begin - start
            lines[number] = chunk[at : at + length] if isinstance(chunk, bytes) else chunk
    return lines


def _read_disk(path: str, begin: int, end: int) -> bytes | Exception:
    try:
        with Path(path).open("rb", buffering=0) as file:
            file.seek(begin)
            return file.read(end - begin)
    except OSError as error:
        return error
