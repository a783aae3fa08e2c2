"""Read many lines at given places with few large reads."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import fsspec

_DISK_GAP, _STORE_GAP = 2**14, 2**16  # bytes between two lines up to which they are read together


@dataclass(slots=True)
class _Span:
    """Bytes that are read together, and the numbers of the places in them."""

    path: str
    begin: int
    end: int
    members: list[int]


def read_lines_at(
    fs: fsspec.AbstractFileSystem, places: Sequence[tuple[str, int, int]]
) -> list[bytes | Exception]:
    """Return the lines at some places, or for each the error that prevents reading it.

    Args:
        fs: the storage.
        places: path, where the line begins in bytes, and its length.
    """
    is_local = "file" in fs.protocol
    gap = _DISK_GAP if is_local else _STORE_GAP
    spans = list[_Span]()
    for number in sorted(range(len(places)), key=places.__getitem__):
        path, begin, length = places[number]
        if spans and spans[-1].path == path and begin <= spans[-1].end + gap:
            spans[-1].end = max(spans[-1].end, begin + length)
            spans[-1].members.append(number)
        else:
            spans.append(_Span(path, begin, begin + length, [number]))
    lines: list[bytes | Exception] = [b""] * len(places)
    chunks = _read_disk(spans) if is_local else _read_store(fs, spans)
    for span, chunk in zip(spans, chunks, strict=True):
        for number in span.members:
            _, begin, length = places[number]
            at = begin - span.begin
            lines[number] = chunk[at : at + length] if isinstance(chunk, bytes) else chunk
    return lines


def _read_disk(spans: Sequence[_Span]) -> Iterator[bytes | Exception]:
    with contextlib.ExitStack() as files:
        opened = dict[str, int]()
        for span in spans:
            try:
                if span.path not in opened:
                    opened[span.path] = os.open(span.path, os.O_RDONLY)
                    files.callback(os.close, opened[span.path])
                yield os.pread(opened[span.path], span.end - span.begin, span.begin)
            except OSError as error:
                yield error


def _read_store(
    fs: fsspec.AbstractFileSystem, spans: Sequence[_Span]
) -> Sequence[bytes | Exception]:
    if not spans:
        return []
    paths, begins, ends = zip(*((span.path, span.begin, span.end) for span in spans), strict=True)
    chunks: Sequence[bytes | Exception] = fs.cat_ranges(
        [*paths], [*begins], [*ends], on_error="return"
    )
    return chunks
