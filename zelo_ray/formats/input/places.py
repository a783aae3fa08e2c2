"""Resolve the places that users name (files, folders, globs and URLs) to files."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import fsspec
from fsspec.core import has_magic

from zelo_ray.errors import InputError
from zelo_ray.formats.files import list_directory, storage_error
from zelo_ray.formats.input.collection import Collection, find_collection
from zelo_ray.formats.pools import (
    find_shards,
    has_data_ending,
    is_jsonl,
    unpacked_name,
)
from zelo_ray.formats.wording import is_utf8, not_utf8_message
from zelo_ray.names import did_you_mean

_RESULTS = re.compile(r"/(run\.json$|replies/[^/]+\.v\d+\.|input/(made|pools)-[0-9a-f]{12}\.json)")
"""What lies in the results of a run, and nowhere else."""
_SHOWN = 5
_TOLD = 10


@dataclass(slots=True)
class Places:
    """Folders that are collections, and all other files, in order."""

    folders: list[Collection] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """by file, the folder that was named in its place; empty where it was named itself"""
    left_out: list[str] = field(default_factory=list)
    """what was left out of folders, each a line that begins with the file"""
    errors: list[InputError] = field(default_factory=list)
    """why files of folders with the endings of data were left out"""

    def leave(self, error: InputError, file: str) -> None:
        """Leave out a file of a folder.

        Raises:
            InputError: the file was named itself.
        """
        if not self.files.pop(file):
            raise error
        self.left_out.append(str(error))
        if has_data_ending(file):
            self.errors.append(error)

    def describe_left_out(self) -> list[str]:
        """Return what was left out of folders, in words."""
        lines = [f"left out {line}" for line in self.left_out[:_TOLD]]
        if files := [line.partition(": ")[0] for line in self.left_out[_TOLD:]]:
            more = " ..." if files[_SHOWN:] else ""
            lines.append(f"left out {len(files):,} more files: {', '.join(files[:_SHOWN])}{more}")
        return lines

    def refuse_if_empty(self) -> None:
        """Refuse folders of which no file is left.

        Raises:
            InputError: nothing is left of what was named.
        """
        if not self.folders and not self.files:
            raise self.errors[0] if self.errors else InputError("; ".join(self.left_out))


def find_places(patterns: Sequence[str], out: str) -> Places:
    """Find the folders that are collections, and all other files.

    Args:
        patterns: paths, directories, globs and URLs.
        out: directory or URL of the results, which are no input.

    Raises:
        InputError: a pattern names nothing, or its storage cannot be reached.
    """
    places = Places()
    for pattern in (place for glob in patterns for place in _expand_pattern(glob)):
        if collection := find_collection(pattern):
            places.folders.append(collection)
        elif list_directory(pattern) is None:
            try:
                names = find_shards([pattern], out)
            except InputError as error:
                raise InputError(f"{error}{_near(pattern)}") from None
            places.files.update(dict.fromkeys(names, ""))
        else:
            _open_folder(pattern, out, places)
    return places


def _expand_pattern(pattern: str) -> Iterator[str]:
    """Yield the pattern, or what it matches if it is a glob that matches directories."""
    try:
        fs, path = fsspec.url_to_fs(pattern)
        matched = fs.glob(path, detail=True) if has_magic(path) and not fs.exists(path) else {}
    except Exception as error:  # noqa: BLE001 - every storage has its own errors
        raise storage_error(pattern, error) from None
    if not any(info["type"] == "directory" for info in matched.values()):
        yield pattern
        return
    yield from (name if "file" in fs.protocol else fs.unstrip_protocol(name) for name in matched)


def _open_folder(pattern: str, out: str, places: Places) -> None:
    """Take the files of a directory that may hold data, and note the others."""
    fs, path = fsspec.url_to_fs(pattern)
    prefix = fsspec.url_to_fs(out)[1].rstrip("/") + "/" if out else "\0"
    root = path.rstrip("/")
    names = [name for name in sorted(fs.find(path)) if not name.startswith(prefix)]
    names = _not_of_runs(names, root)
    if any(name == f"{root}/run.json" for name in names):  # whose tables are no input
        names = [name for name in names if is_jsonl(name)]
    count = 0
    for name in names:
        place = name if "file" in fs.protocol else fs.unstrip_protocol(name)
        if not is_utf8(name):
            places.left_out.append(not_utf8_message(place))
        elif "/." in name.removeprefix(root):
            if has_data_ending(name):
                places.left_out.append(f"{place}: is hidden")
        elif has_data_ending(name) or "." not in unpacked_name(name):
            places.files.setdefault(place, pattern)
            count += 1
        else:
            places.left_out.append(f"{place}: its name ends as no data's does")
    if odd := [name for name in names if not is_utf8(name)] if not count else []:
        raise InputError(not_utf8_message(odd[0]))
    if not count:
        raise InputError(f"{pattern}: holds no file of data{_near(pattern) or '; it is empty'}")


def _near(pattern: str) -> str:
    """Return a hint on what exists where nothing was found, as the end of a message."""
    folder, _, name = pattern.rstrip("/").rpartition("/")
    with contextlib.suppress(InputError):
        if names := list_directory(pattern):
            return f"; it holds {', '.join(names[:_SHOWN])}{' ...' if names[_SHOWN:] else ''}"
        if names is not None:  # it is there
            return ""
        return did_you_mean(name, list_directory(folder or ".") or ())
    return ""


def _not_of_runs(names: Sequence[str], folder: str) -> list[str]:
    """Return the files of a folder, without the results of runs within it."""
    runs = {name[: mark.start()] for name in names for mark in _RESULTS.finditer(name)}
    within = tuple(f"{run}/" for run in runs if len(run) > len(folder))
    return [name for name in names if not name.startswith(within)]
