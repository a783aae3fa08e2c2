"""Open, list and write files: packed or not, read strictly, written whole."""

import contextlib
import os
import re
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import orjson
import pyarrow as pa

from zelo_ray.errors import InputError, UnreadableFile, format_error
from zelo_ray.formats.pools import PACKED_ENDINGS, READ_ERRORS, open_unpacked
from zelo_ray.formats.wording import is_utf8, not_utf8_message
from zelo_ray.names import describe_missing_library

_BLOCK_BYTES = 2**23
_WRITE_AGAIN = "move it away and run the command again, which writes it anew without new calls"
_BOM = b"\xef\xbb\xbf"
_CODECS = {".gz": "gzip", ".zst": "zstd"}
_PARTIAL = ".partial"
_PARTED = ("parquet", "jsonl")
PART = re.compile(rf"part-(?P<number>\d{{5,}})\.({'|'.join(_PARTED)})")
"""The names of parts."""


@contextlib.contextmanager
def open_for_reading(url: str) -> Iterator[Any]:
    """Open a file for reading its decompressed bytes.

    Raises:
        InputError: it does not exist, cannot be read, or is truncated.
    """
    if not is_utf8(url):
        raise InputError(not_utf8_message(url))
    try:
        with open_unpacked(url) as stream:
            yield stream
    except FileNotFoundError:
        raise InputError(f"{url}: no such file") from None
    except READ_ERRORS as error:
        raise UnreadableFile(f"{url}: cannot be read ({format_error(error)})") from None


def read_blocks(url: str) -> Iterator[bytes]:
    """Yield a text file in blocks of some megabytes, each of whole lines."""
    with open_for_reading(url) as stream:
        piece = stream.read(_BLOCK_BYTES).removeprefix(_BOM)
        while piece:
            yield piece + stream.readline()
            piece = stream.read(_BLOCK_BYTES)


def read_placed_lines(url: str) -> Iterator[tuple[str, bytes]]:
    """Yield the place (``file:number``) and the bytes of each line that is not blank.

    If the file does not exist, its parts are read (`part_files`).
    """
    for place in part_files(url) or [url]:
        number = 0
        for block in read_blocks(place):
            for at, line in enumerate(block.split(b"\n"), number + 1):
                if line.strip():
                    yield f"{place}:{at}", line.rstrip(b"\r")
            number += block.count(b"\n")


def decode_line(place: str, line: bytes) -> str:
    """Decode a line as UTF-8.

    Raises:
        InputError: it is not UTF-8.
    """
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: is not UTF-8 ({format_error(error)})") from None


def read_record(url: str) -> dict[str, Any]:
    """Read the record of a run, such as ``run.json``, and check its options and summary.

    Raises:
        InputError: it is not a record, or cannot be read.
    """
    content = read_json_object(url)
    for name in ("options", "summary"):
        if not isinstance(content.get(name, {}), dict):
            raise InputError(f"{url}: its {name} are not a JSON object; {_WRITE_AGAIN}")
    return content


def read_json_object(url: str) -> dict[str, Any]:
    """Read a small JSON file of a command.

    Raises:
        InputError: it is not a JSON object, or cannot be read.
    """
    with open_for_reading(url) as file:
        data = file.read()
    do = f"; {_WRITE_AGAIN}" if url.endswith("/run.json") else ""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{url}: is not valid JSON ({format_error(error)}){do}") from None
    if not isinstance(value, dict):
        raise InputError(f"{url}: is not a JSON object{do}")
    return value


def storage_error(url: str, error: Exception) -> InputError:
    """Return the error of a storage that cannot be reached, or whose library is missing."""
    missing = describe_missing_library(url) if isinstance(error, ImportError) else ""
    return InputError(f"{url}: {missing or f'cannot be reached ({format_error(error)})'}")


def part_files(url: str) -> list[str]:
    """Return the files of a table: the file itself, or where it is missing, its parts in order.

    The parts of ``out/votes.parquet`` are ``out/votes/part-00000.parquet`` and so on. If both
    exist, the one file counts, as it is removed when all parts are written.

    Raises:
        InputError: the storage cannot be reached, or a part is missing.
    """
    stem_, dot, ending = url.rpartition(".")
    try:
        fs, path = fsspec.url_to_fs(url)
        if fs.exists(path):
            return [url]
        folder = path.removesuffix(f"{dot}{ending}")
        inside = fs.ls(folder, detail=False) if ending in _PARTED and fs.isdir(folder) else []
    except Exception as error:  # noqa: BLE001 - every storage has its own errors
        raise storage_error(url, error) from None
    names = {name.rsplit("/", 1)[-1] for name in inside}
    parts = [name for name in names if PART.fullmatch(name) and name.endswith(ending)]
    parts.sort(key=lambda name: (len(name), name))
    for number, name in enumerate(parts):
        if name != part_name(number, ending):
            raise InputError(f"{stem_}: {part_name(number, ending)} is missing")
    return [f"{stem_}/{name}" for name in parts]


def part_name(number: int, ending: str) -> str:
    """Return the file name of one part of a table or text file."""
    return f"part-{number:05}.{ending}"


def list_directory(url: str) -> list[str] | None:
    """Return the sorted names in a directory; None if it is not a directory.

    A folder of parts is listed as the file that they form: ``votes`` as ``votes.parquet``.

    Raises:
        InputError: the storage cannot be reached.
    """
    try:
        fs, path = fsspec.url_to_fs(url)
        if not fs.isdir(path):
            return None
        names = set[str]()
        for entry in fs.ls(path, detail=True):
            name, folder = entry["name"].rstrip("/"), entry["type"] == "directory"
            held = [e for e in _PARTED if folder and fs.exists(f"{name}/{part_name(0, e)}")]
            names.add(name.rsplit("/", 1)[-1] + (f".{held[0]}" if held else ""))
        return sorted(names)
    except Exception as error:  # noqa: BLE001 - every storage has its own errors
        raise storage_error(url, error) from None


def file_stem(url: str) -> str:
    """Return a file's name without folder and endings: ``a/bm25.v2.run.gz`` is ``bm25.v2``."""
    name = url.rstrip("/").rsplit("/", 1)[-1]
    for packed in PACKED_ENDINGS:
        name = name.removesuffix(packed)
    return name.rsplit(".", 1)[0] or name


@contextlib.contextmanager
def name_file_in_errors(url: str) -> Iterator[None]:
    """Add the name of a file to an OSError of the block that names none."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = url
        raise


@contextlib.contextmanager
def open_for_writing(url: str) -> Iterator[Any]:
    """Open a file for writing bytes, packed if it ends in .gz or .zst; it appears when complete."""
    fs, path = fsspec.url_to_fs(url)
    if local := "file" in fs.protocol:
        # Two processes may write it at once.
        place = Path(f"{path}.{uuid.uuid4().hex[:12]}{_PARTIAL}")
        place.parent.mkdir(parents=True, exist_ok=True)
    else:
        handle, name = tempfile.mkstemp()
        os.close(handle)
        place = Path(name)
    codec = next((codec for ending, codec in _CODECS.items() if path.endswith(ending)), None)
    try:
        with (
            name_file_in_errors(url),
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
