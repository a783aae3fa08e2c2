"""Open, list and write files at paths and URLs: unpacked when read, whole when written."""

import contextlib
import gzip
import hashlib
import io
import json
import math
import os
import re
import stat
import tempfile
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fsspec
import orjson
import pyarrow as pa

from zelo_ray.errors import InputError, UnreadableFile, format_error
from zelo_ray.files.wording import describe_other_bytes
from zelo_ray.names import describe_missing_library, did_you_mean

PACKED_ENDINGS = (".gz", ".zst")
READ_ERRORS = (OSError, EOFError, zlib.error)
_LINES = (".jsonl", ".ndjson")
_BOM = b"\xef\xbb\xbf"
_BUFFER_BYTES = 2**16
_LONGEST_LINE = 2**30
BLOCK_BYTES = 2**23
_CODECS = {".gz": "gzip", ".zst": "zstd"}
INPUT_FOLDER = "input"
"""The folder of an output that holds what was converted, or was in memory."""
PARTIAL = ".partial"
"""The ending of a file that is being written."""


def unpacked_name(url: str) -> str:
    """Return a file's name in lower case, without its folder and without .gz or .zst."""
    name = url.rstrip("/").rpartition("/")[2].lower()
    packed = next((ending for ending in PACKED_ENDINGS if name.endswith(ending)), "")
    return name.removesuffix(packed)


def is_jsonl(url: str) -> bool:
    """Return whether a file is JSON lines by its name, packed or not."""
    return unpacked_name(url).endswith(_LINES)


def file_stem(url: str) -> str:
    """Return a file's name without folder and endings: ``a/bm25.v2.run.gz`` is ``bm25.v2``."""
    name = url.rstrip("/").rsplit("/", 1)[-1]
    for packed in PACKED_ENDINGS:
        name = name.removesuffix(packed)
    return name.rsplit(".", 1)[0] or name


@contextlib.contextmanager
def reach(url: str) -> Iterator[tuple[Any, str]]:
    """Give the file system of a path or URL, and the path there; explain what goes wrong."""
    try:
        yield fsspec.url_to_fs(url)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - every storage has its own errors
        missing = describe_missing_library(url) if isinstance(error, ImportError) else ""
        why = missing or f"cannot be reached ({format_error(error)})"
        raise InputError(f"{url}: {why}") from None


def exists(url: str) -> bool:
    """Return whether there is a file or directory."""
    with reach(url) as (fs, path):
        return bool(fs.exists(path))


def list_directory(url: str) -> list[str] | None:
    """Return the sorted names in a directory; None if it is not a directory."""
    with reach(url) as (fs, path):
        names = fs.ls(path, detail=False) if fs.isdir(path) else None
        return None if names is None else sorted(n.rstrip("/").rsplit("/", 1)[-1] for n in names)


def find_shards(patterns: Sequence[str], out: str = "") -> list[str]:
    """List the files that paths, directories, globs and URLs name, each once, in a stable order.

    Files in ``out``, the run's own directory, are left out of directories and globs.
    """
    files: dict[str, None] = {}
    for pattern in patterns:
        with reach(pattern) as (fs, path):
            if fs.isdir(path):
                root = path.rstrip("/")
                names = [n for n in fs.find(path) if is_jsonl(n) and "/." not in n[len(root) :]]
            else:
                names = [path] if fs.exists(path) else fs.glob(path)
        if out and names != [path]:
            own = fsspec.url_to_fs(out)[1].rstrip("/") + "/"
            names = [name for name in names if not name.startswith(own)]
        if not names:
            folder, _, name = pattern.rstrip("/").rpartition("/")
            near = did_you_mean(name, list_directory(folder or ".") or ())
            raise InputError(f"{pattern}: no such file, and no JSON lines there{near}")
        files |= dict.fromkeys(name_urls(fs, sorted(names)))
    return [*files]


def name_urls(fs: Any, names: Sequence[str]) -> list[str]:
    """Return the paths or URLs of names that a file system gave; refuse what is not UTF-8."""
    if message := next(filter(None, map(describe_other_bytes, names)), ""):
        raise InputError(message)
    return [name if "file" in fs.protocol else fs.unstrip_protocol(name) for name in names]


@contextlib.contextmanager
def open_unpacked(file: str) -> Iterator[Any]:
    """Open a file, unpacked, as a stream that reads lines; a torn one raises `READ_ERRORS`."""
    with contextlib.suppress(OSError, ValueError):
        mode = Path(file).stat().st_mode if "://" not in file and file != os.devnull else 0
        if mode and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # and it may block for ever
            raise InputError(f"{file}: is a pipe or a device: write it to a file first")
    if file.lower().endswith(".zst"):  # Arrow notices a truncated file, fsspec's codec does not
        with fsspec.open(file, "rb") as raw, pa.CompressedInputStream(raw, "zstd") as plain:
            yield io.BufferedReader(plain, _BUFFER_BYTES)
    else:
        packer = "gzip" if file.lower().endswith(".gz") else None
        with fsspec.open(file, "rb", compression=packer) as plain:
            gz = isinstance(plain, gzip.GzipFile)
            yield plain if gz else io.BufferedReader(plain, _BUFFER_BYTES)


@contextlib.contextmanager
def open_for_reading(url: str) -> Iterator[Any]:
    """Open a file, unpacked; what is wrong with it is an `InputError`."""
    if message := describe_other_bytes(url):
        raise InputError(message)
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
        piece = stream.read(BLOCK_BYTES).removeprefix(_BOM)
        while piece:
            rest = stream.readline(_LONGEST_LINE)
            if len(rest) == _LONGEST_LINE:
                raise UnreadableFile(f"{url}: cannot be read (a line is longer than 1 GB)")
            yield piece + rest
            piece = stream.read(BLOCK_BYTES)


def number_lines(blocks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of blocks that are not blank, with their numbers."""
    number = 0
    for block in blocks:
        for at, line in enumerate(block.split(b"\n"), number + 1):
            if line.strip():
                yield at, line.rstrip(b"\r")
        number += block.count(b"\n")


def read_placed_lines(url: str) -> Iterator[tuple[str, bytes]]:
    """Yield the place (``file:number``) and the bytes of each line that is not blank."""
    return ((f"{url}:{number}", line) for number, line in number_lines(read_blocks(url)))


def read_json_object(url: str) -> dict[str, Any]:
    """Read a small JSON file."""
    with open_for_reading(url) as file:
        data = file.read()
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{url}: is not valid JSON ({format_error(error)})") from None
    if not isinstance(value, dict):
        raise InputError(f"{url}: is not a JSON object")
    return value


@contextlib.contextmanager
def name_file_in_errors(url: str, draft: str | None = None) -> Iterator[None]:
    """Name a file in an OSError of the block that names none, or only its draft."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename in (None, draft):
            error.filename = url
        raise


@contextlib.contextmanager
def open_for_writing(url: str, ending: str = "") -> Iterator[Any]:
    """Open a file for writing bytes, packed if it ends in .gz or .zst.

    It appears, or replaces an earlier one, when the block ends without an exception, and on a local
    disk it is then durable. Until then it has a name with the ``ending``; without one it is a name
    of its own, as two processes may write the file at once.
    """
    fs, path = fsspec.url_to_fs(url)
    if local := "file" in fs.protocol:
        draft = Path(path + (ending or f".{uuid.uuid4().hex[:12]}{PARTIAL}"))
    else:
        handle, name = tempfile.mkstemp()
        os.close(handle)
        draft = Path(name)
    codec = next((name for ending, name in _CODECS.items() if path.endswith(ending)), None)
    is_draft = True
    try:
        with name_file_in_errors(path if local else url, str(draft)):
            if local:
                draft.parent.mkdir(parents=True, exist_ok=True)
            with (
                draft.open("wb") as raw,
                pa.CompressedOutputStream(raw, codec) if codec else raw as file,
            ):
                yield file
            if local:
                sync_path(draft)
                draft.replace(path)
                is_draft = False  # what has its name from here on is another writer's
                sync_path(draft.parent)
            else:
                fs.put_file(str(draft), path)
    finally:
        if is_draft:
            draft.unlink(missing_ok=True)


def write_by_content(out: str, name: str, ending: str, pieces: Iterable[bytes]) -> str:
    """Write a file below ``input`` of an output, under a name that follows from its content.

    So a run that is given the same asks the same. A file that is there already stays as it is.
    """
    folder, digest = f"{out.rstrip('/')}/{INPUT_FOLDER}", hashlib.sha256()
    draft = f"{folder}/.{uuid.uuid4().hex}{ending}"
    with open_for_writing(draft) as file:
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
    name = re.sub(r"[^\w.-]+", "_", name)
    place = f"{folder}/{name}-{digest.hexdigest()[:12]}{ending}"
    (fs, old), new = fsspec.url_to_fs(draft), fsspec.url_to_fs(place)[1]
    if fs.exists(new) and fs.size(new) == fs.size(old):
        fs.rm_file(old)
    else:
        fs.mv(old, new)
    return place


def remove_file(url: str) -> None:
    """Remove a file, if it is there."""
    with reach(url) as (fs, path):
        if fs.exists(path):
            fs.rm_file(path)


def sync_path(path: Path) -> None:
    """Make the content of a file, or the names in a folder, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(out: str, name: str, text: str) -> None:
    """Write a small file of a directory; on a local disk it is durable when this returns."""
    with open_for_writing(f"{out.rstrip('/')}/{name}", PARTIAL) as file:
        file.write(text.encode())


def write_json(out: str, name: str, value: Mapping[str, Any]) -> None:
    """Write a small JSON file like `write_text`; numbers that JSON lacks become null."""
    text = json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False)
    write_text(out, name, text + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
