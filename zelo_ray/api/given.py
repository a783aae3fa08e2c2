"""What callers hold in memory goes into files below the results, so that a later run finds it.

The name of a file follows from its content: the same call writes the same file, and asks the same.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from zelo_ray.api.frames import is_frame, pool_lines
from zelo_ray.api.settings import is_place
from zelo_ray.errors import InputError
from zelo_ray.formats.files import writing
from zelo_ray.records import Pool

FOLDER = "input"
_ODD = re.compile(r"[^\w.-]+")


def places_of(given: Any) -> tuple[str, ...] | None:
    """Paths and URLs as texts; None for what is no such thing."""
    if is_place(given):
        return (os.fspath(given),)
    if not isinstance(given, list | tuple | set | frozenset):
        return None
    if not given:
        raise InputError("inputs: are empty")
    texts = tuple(os.fspath(each) for each in given if is_place(each))
    if texts and len(texts) < len(given):
        raise InputError("inputs: are paths and pools mixed; write all of them to files, or none")
    return texts or None


def pools_in(given: Any, out: str) -> tuple[str, ...]:
    """Where pools lie: as they were given, or in a file that this writes.

    Args:
        given: paths, globs and URLs; a frame; a list of dicts or of `Pool`.
        out: directory or URL of the results.

    Raises:
        InputError: it is none of these, or cannot be written as pools.
    """
    places = places_of(given)
    if places is not None:
        return places
    if not (is_frame(given) or isinstance(given, Mapping | Pool | list | tuple)):
        kind = type(given).__name__
        raise InputError(f"inputs: cannot be a {kind}; write paths, dicts, or a data frame")
    return (keep(out, "pools", ".jsonl", pool_lines(given)),)


def keep_table(out: str, name: str, table: pa.Table) -> str:
    """Write a table below the results; return where it is."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return keep(out, name, ".parquet", sink.getvalue().to_pybytes())


def keep(out: str, name: str, suffix: str, data: bytes, mark: str = "") -> str:
    """Write a file below the results, unless it is there; return where it is.

    Args:
        out: directory or URL of the results.
        name: what the file's name begins with.
        suffix: and what it ends with.
        data: what it holds.
        mark: what stands between these; if empty a hash of the data, and it is written once.
    """
    between = mark or hashlib.sha256(data).hexdigest()[:12]
    place = f"{absolute(out).rstrip('/')}/{FOLDER}/{_ODD.sub('_', name)}-{between}{suffix}"
    fs, path = fsspec.url_to_fs(place)
    if mark or not fs.exists(path):
        with writing(place) as file:
            file.write(data)
    return place


def absolute(out: str) -> str:
    """The place that every process on this machine means."""
    return out if "://" in out else os.path.abspath(out)  # noqa: PTH100 - a link stays a link
