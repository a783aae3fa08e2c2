"""Files that other tools wrote, or will read: packed or not, read strictly, written whole."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fsspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from zelo_ray.errors import InputError
from zelo_ray.formats.pools import UNREADABLE, open_plain, short

_BLOCK_BYTES = 2**23
_BOM = b"\xef\xbb\xbf"
_CODECS = {".gz": "gzip", ".zst": "zstd"}
_PARTIAL = ".partial"
_DAMAGED = (pa.ArrowException, UnicodeDecodeError)


@contextlib.contextmanager
def reading(url: str) -> Iterator[Any]:
    """The decompressed bytes of a file.

    Raises:
        InputError: it is not there, cannot be read, or breaks off.
    """
    try:
        with open_plain(url) as stream:
            yield stream
    except FileNotFoundError:
        raise InputError(f"{url}: no such file") from None
    except UNREADABLE as error:
        raise InputError(f"{url}: cannot be read ({short(error)})") from None


def blocks(url: str) -> Iterator[bytes]:
    """A text file in pieces of some megabytes that end where a line ends."""
    with reading(url) as stream:
        piece = stream.read(_BLOCK_BYTES).removeprefix(_BOM)
        while piece:
            yield piece + stream.readline()
            piece = stream.read(_BLOCK_BYTES)


def lines(url: str) -> Iterator[tuple[str, bytes]]:
    """Where each line stands (``file:number``), and the line; blank ones are passed over."""
    number = 0
    for block in blocks(url):
        for at, line in enumerate(block.split(b"\n"), number + 1):
            if line.strip():
                yield f"{url}:{at}", line.rstrip(b"\r")
        number += block.count(b"\n")


def text_of(place: str, line: bytes) -> str:
    """A line as text.

    Raises:
        InputError: it is no UTF-8.
    """
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: is no UTF-8 ({short(error)})") from None


def rows(url: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each row of a JSON lines or Parquet file stands, and the row.

    Raises:
        InputError: a line is no JSON object.
    """
    if url.endswith(".parquet"):
        yield from _parquet_rows(url)
        return
    for place, line in lines(url):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise InputError(f"{place}: is no JSON ({error})") from None
        if not isinstance(row, dict):
            raise InputError(f"{place}: is no JSON object")
        yield place, row


def _parquet_rows(url: str) -> Iterator[tuple[str, dict[str, Any]]]:
    number = 0
    with parquet(url) as file:
        for batch in file.iter_batches():
            for row in _whole(url, batch).to_pylist():
                number += 1
                yield f"{url}: row {number}", row


@contextlib.contextmanager
def parquet(url: str, *schemas: pa.Schema) -> Iterator[pq.ParquetFile]:
    """An open Parquet file.

    Args:
        url: where it is.
        schemas: it has the columns of one of these at least, and perhaps others.

    Raises:
        InputError: it is none, or damaged, now or while it is read; or a column is missing.
    """
    with reading(url) as file:
        try:
            opened = pq.ParquetFile(file)
            _refuse_others(url, opened.schema_arrow, schemas)
            yield opened
        except _DAMAGED as error:
            raise InputError(f"{url}: is no Parquet file, or damaged ({short(error)})") from None


def rows_where(url: str, where: Any, *schemas: pa.Schema) -> pa.Table:
    """The rows of a Parquet file that a filter of pyarrow lets through; see `parquet`."""
    with parquet(url, *schemas), reading(url) as file:
        # Arrow's threads would outlive Python, which then aborts.
        return pq.read_table(file, filters=where, use_threads=False)


def _refuse_others(url: str, found: pa.Schema, schemas: Sequence[pa.Schema]) -> None:
    kinds = {each.name: _kind(each.type) for each in found}
    lacks = [[e for e in schema if kinds.get(e.name) != _kind(e.type)] for schema in schemas]
    if lacks and all(lacks):
        first = min(lacks, key=len)[0]
        raise InputError(f"{url}: has no column {first.name} ({first.type})")


def _kind(of: pa.DataType) -> str:
    """What a column holds, however wide."""
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return f"list of {_kind(of.value_type)}"
    if pa.types.is_integer(of):
        return "integer"
    if pa.types.is_floating(of):
        return "number"
    return str(of).removeprefix("large_").removesuffix("_view")


def record(url: str) -> dict[str, Any]:
    """What a small JSON file of a command holds, such as ``run.json``.

    Raises:
        InputError: it is no JSON object, or cannot be read.
    """
    with reading(url) as file:
        data = file.read()
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{url}: is no JSON ({short(error)})") from None
    if not isinstance(found, dict):
        raise InputError(f"{url}: is no JSON object")
    return found


def parquet_table(url: str, columns: Sequence[str] | None = None) -> pa.Table:
    """A Parquet file as a table, of whose columns those that it has; of all if None.

    Raises:
        InputError: it is none, or damaged, or a text in it is no UTF-8.
    """
    with parquet(url) as source:
        known = source.schema_arrow.names
        wanted = None if columns is None else [name for name in columns if name in known]
        return _whole(url, source.read(wanted))


def _whole(url: str, table: Any) -> Any:
    """A table or batch whose values are what they should be: Arrow does not look when it reads."""
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InputError(f"{url}: cannot be read ({short(error)})") from None
    return table


def listing(url: str) -> list[str] | None:
    """The names in a directory; None where there is no directory.

    Raises:
        InputError: the storage cannot be reached.
    """
    fs, path = fsspec.url_to_fs(url)
    try:
        if not fs.isdir(path):
            return None
        return sorted(name.rstrip("/").rsplit("/", 1)[-1] for name in fs.ls(path, detail=False))
    except Exception as error:  # noqa: BLE001 - every storage has its own errors
        raise InputError(f"{url}: cannot be reached ({short(error)})") from None


def stem(url: str) -> str:
    """A file's name without its folder and its endings: ``a/bm25.v2.run.gz`` is ``bm25.v2``."""
    name = url.rstrip("/").rsplit("/", 1)[-1]
    for packed in _CODECS:
        name = name.removesuffix(packed)
    return name.rsplit(".", 1)[0] or name


@contextlib.contextmanager
def writing(url: str) -> Iterator[Any]:
    """A file to write bytes to, packed if it ends in .gz or .zst; it appears when it is whole."""
    fs, path = fsspec.url_to_fs(url)
    if local := "file" in fs.protocol:
        place = Path(path + _PARTIAL)
        place.parent.mkdir(parents=True, exist_ok=True)
    else:
        handle, name = tempfile.mkstemp()
        os.close(handle)
        place = Path(name)
    codec = next((codec for ending, codec in _CODECS.items() if path.endswith(ending)), None)
    try:
        with (
            place.open("wb") as raw,
            pa.CompressedOutputStream(raw, codec) if codec else raw as file,
        ):
            yield file
        if local:
            place.replace(path)
        else:
            fs.put_file(str(place), path)
    finally:
        place.unlink(missing_ok=True)
