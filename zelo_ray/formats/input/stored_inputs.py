"""Store converted input below the results, so that a later run finds it.

The name of a file follows from its content: the same input makes the same file, and asks the same.
"""

import contextlib
import hashlib
import json
import os
import re
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fsspec
import orjson
from fsspec.core import has_magic

from zelo_ray.files.storage import open_for_writing, storage_error

FOLDER = "input"
_DAY = 24 * 60 * 60  # seconds
_NOTES = ".notes.json"
_LEFT = "left-out"
_ODD = re.compile(r"[^\w.-]+")
_TIMES = ("mtime", "created", "LastModified", "last_modified", "ETag", "etag", "updated", "md5Hash")
"""What file systems call that by which a file is seen to have changed."""


def store_input(out: str, name: str, suffix: str, data: bytes, mark: str = "") -> str:
    """Write a file below the results, unless it is there; return where it is.

    Args:
        out: directory or URL of the results.
        name: what the file's name begins with.
        suffix: and what it ends with.
        data: what it holds.
        mark: what stands between these; if empty a hash of the data, and it is written once.
    """
    between = mark or hashlib.sha256(data).hexdigest()[:12]
    place = f"{_folder(out)}/{_ODD.sub('_', name)}-{between}{suffix}"
    fs, path = fsspec.url_to_fs(place)
    is_there = not mark and fs.exists(path) and bool(fs.size(path))
    if not is_there:
        with open_for_writing(place) as file:
            file.write(data)
    return place


def store_pools(out: str, pools: Iterable[Mapping[str, Any]]) -> tuple[str, int, int]:
    """Write pools as JSON lines below the results, one at a time.

    Returns:
        Where they are, how many, and how many documents they have.
    """
    queries = documents = 0

    def lines() -> Iterator[bytes]:
        nonlocal queries, documents
        for pool in pools:
            held = pool.get("documents")  # of a bad pool anything
            queries += 1
            documents += len(held) if isinstance(held, list) else 0
            yield pool_to_line(pool)

    return store_lines(out, lines()), queries, documents


def store_lines(out: str, lines: Iterable[bytes]) -> str:
    """Write lines of pools below the results, one at a time; return where they are."""
    folder = _folder(out)
    fs, path = fsspec.url_to_fs(folder)
    if local := "file" in fs.protocol:
        Path(path).mkdir(parents=True, exist_ok=True)
        _remove_old_drafts(Path(path))
    draft = Path(path if local else tempfile.gettempdir()) / f".pools-{uuid.uuid4().hex}.partial"
    digest = hashlib.sha256()
    try:
        with draft.open("wb") as file:
            for line in lines:
                digest.update(line)
                file.write(line)
        name = f"pools-{digest.hexdigest()[:12]}.jsonl"
        place, size = f"{path}/{name}", draft.stat().st_size
        if size and not (fs.exists(place) and fs.size(place) == size):
            if local:
                draft.replace(place)
            else:
                fs.put_file(str(draft), place)
    finally:
        draft.unlink(missing_ok=True)
    return f"{folder}/{name}"


def _remove_old_drafts(folder: Path) -> None:
    """Remove the drafts of runs that were killed a day ago or longer."""
    for draft in folder.glob(".pools-*.partial"):
        with contextlib.suppress(FileNotFoundError):  # another run may do the same
            if time.time() - draft.stat().st_mtime > _DAY:
                draft.unlink()


def pool_to_line(pool: Mapping[str, Any]) -> bytes:
    """Return a pool as a JSON line, in the same form for input of every kind."""
    text = json.dumps(pool, ensure_ascii=False, default=_plain)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def hash_sources(sources: Iterable[str], out: str, *told: object) -> str:
    """Hash the state of files and how they are read; return "" where the state is not known.

    Args:
        sources: files, and folders; what a folder holds below ``out`` does not count.
        out: directory or URL of the results.
        told: what else decides what is made of them.

    Raises:
        InputError: the storage of a source cannot be reached.
    """
    state: list[Any] = [repr(told)]
    prefix = fsspec.url_to_fs(out)[1].rstrip("/") + "/"
    for source in sources:
        files = _infos(source, prefix)
        if not files:
            return ""  # which is told where it is read
        for file, info in files:
            times = [str(info[name]) for name in _TIMES if name in info]
            if not times:
                return ""
            state.append((file, info.get("size"), times))
    return hashlib.sha256(repr(state).encode()).hexdigest()[:12]


def _infos(source: str, own_prefix: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the files of a place, each with its file system's info; none if it does not exist."""
    try:
        fs, path = fsspec.url_to_fs(source)
        paths = fs.glob(path) if has_magic(path) and not fs.exists(path) else [path]
        files = fs.find(path) if fs.isdir(path) else paths
        # Results may lie in the folder, not it in them.
        is_around = not f"{path}/".startswith(own_prefix)
        return [(e, fs.info(e)) for e in files if not (is_around and e.startswith(own_prefix))]
    except FileNotFoundError:
        return []
    except Exception as error:  # noqa: BLE001 - every storage has its own errors
        raise storage_error(source, error) from None


def find_conversion(out: str, mark: str) -> tuple[str, list[str]] | None:
    """Return the file that an earlier run made of the same sources, and its messages, or None."""
    place = f"{_folder(out)}/made-{mark}.json"
    fs, path = fsspec.url_to_fs(place)
    if not mark or not fs.exists(path):
        return None
    try:
        record = orjson.loads(fs.cat_file(path))
        file = f"{_folder(out)}/{record['file']}"
        is_whole = fs.size(fsspec.url_to_fs(file)[1]) == record["size"]
        return (file, record["told"]) if is_whole else None
    except (FileNotFoundError, orjson.JSONDecodeError, KeyError, TypeError):
        return None


def record_conversion(out: str, mark: str, file: str, lines: list[str]) -> None:
    """Note what was made of some sources."""
    if mark:
        fs, path = fsspec.url_to_fs(file)
        name, size = file.rsplit("/", 1)[-1], fs.size(path)
        data = orjson.dumps({"file": name, "size": size, "told": lines})
        store_input(out, "made", ".json", data, mark)


def write_notes(place: str, lines: Sequence[str]) -> None:
    """Keep beside a file of pools what was left out of it or made up, for later readers."""
    fs, path = fsspec.url_to_fs(f"{place}{_NOTES}")
    if lines or fs.exists(path):
        with open_for_writing(f"{place}{_NOTES}") as file:
            file.write(orjson.dumps([*lines]))


def write_folder_notes(out: str, lines: Sequence[str]) -> None:
    """Keep below the results what was left out of the folders of the input."""
    write_notes(f"{_folder(out)}/{_LEFT}", lines)


def read_notes(places: Iterable[str], out: str = "") -> list[str]:
    """Read the notes beside files of pools, and those on the folders of a run's input."""
    notes = list[str]()
    folders = [f"{_folder(out)}/{_LEFT}"] if out else []
    for place in [*folders, *filter(is_converted, places)]:
        fs, path = fsspec.url_to_fs(f"{place}{_NOTES}")
        if fs.exists(path):
            with contextlib.suppress(orjson.JSONDecodeError, TypeError):
                notes += map(str, orjson.loads(fs.cat_file(path)))
    return list(dict.fromkeys(notes))


def is_converted(place: str) -> bool:
    """Return whether a file of pools was made of other input, so that it may have notes."""
    return f"/{FOLDER}/pools-" in place


def absolute_path(out: str) -> str:
    """Return the path as an absolute one, which all processes on this machine share."""
    return out if "://" in out else os.path.abspath(out)  # noqa: PTH100 - a link stays a link


def _folder(out: str) -> str:
    return f"{absolute_path(out).rstrip('/')}/{FOLDER}"


def _plain(value: Any) -> Any:
    """Convert a number or an array of numpy to a plain Python value."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no type of JSON")
