"""Read many lines at given places with few large reads."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise

import fsspec
import numpy as np
from numpy.typing import NDArray

_GAPS = {True: 2**14, False: 2**16}
"""Gap in bytes up to which two reads become one: on a disk, and elsewhere."""

_Spans = list[tuple[str, int, int]]


def read_lines_at(
    fs: fsspec.AbstractFileSystem,
    paths: Sequence[str],
    segment: NDArray[np.int64],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
) -> list[bytes | Exception]:
    """Return the lines at some places, or for each the error that prevents reading it.

    Args:
        fs: the storage.
        paths: of segments.
        segment: by place the number of its path.
        offset: by place where it begins, in bytes.
        length: by place its bytes.
    """
    if not len(segment):
        return []
    local = "file" in fs.protocol
    order = np.lexsort((offset, segment))
    segments, begins = segment[order], offset[order]
    ends = begins + length[order]
    apart = (segments[1:] != segments[:-1]) | (begins[1:] > ends[:-1] + _GAPS[local])
    firsts = [0, *(np.flatnonzero(apart) + 1).tolist(), len(order)]
    spans = [
        (paths[segments[first]], int(begins[first]), int(ends[first:last].max()))
        for first, last in pairwise(firsts)
    ]
    lines: list[bytes | Exception] = [b""] * len(order)
    places = list(zip(order.tolist(), begins.tolist(), ends.tolist(), strict=True))
    chunks = _from_disk(spans) if local else _from_store(fs, spans)
    for number, chunk in enumerate(chunks):
        start = spans[number][1]
        for at, begin, end in places[firsts[number] : firsts[number + 1]]:
            lines[at] = chunk[begin - start : end - start] if isinstance(chunk, bytes) else chunk
    return lines


def _from_disk(spans: _Spans) -> Iterator[bytes | Exception]:
    with contextlib.ExitStack() as files:
        opened = dict[str, int]()
        for path, begin, end in spans:
            try:
                if path not in opened:
                    opened[path] = os.open(path, os.O_RDONLY)
                    files.callback(os.close, opened[path])
                yield os.pread(opened[path], end - begin, begin)
            except OSError as error:
                yield error


def _from_store(fs: fsspec.AbstractFileSystem, spans: _Spans) -> Iterator[bytes | Exception]:
    paths, begins, ends = (list(column) for column in zip(*spans, strict=True))
    yield from fs.cat_ranges(paths, begins, ends, on_error="return")
