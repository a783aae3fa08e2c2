"""Write the files of a run: next to their place, then moved into it when complete."""

import contextlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from zelo_ray.errors import InputError
from zelo_ray.formats.files import PART, name_file_in_errors, part_files, part_name
from zelo_ray.formats.stored import StoredTable
from zelo_ray.formats.tables import defaults_of, schema_of

_ROWS = 50_000
_PARTIAL = ".partial"


class ResultsWriter:
    """Writes the tables and lines of one run under a directory or URL.

    Rows are grouped by their number alone, so that equal rows make equal Parquet files. Leaving the
    ``with`` block without an exception moves the files to their places. With ``part`` they are
    parts: ``votes/part-00012.parquet`` of ``votes.parquet``; two processes may write the same one.
    """

    def __init__(
        self,
        out: str,
        tables: Mapping[str, pa.Schema],
        lines: Iterable[str] = (),
        rows: int = 0,
        part: int | None = None,
    ) -> None:
        self._rows = rows or _ROWS
        self._part = part
        self._beside = _PARTIAL if part is None else f".{uuid4().hex}{_PARTIAL}"
        self._fs, self._root = fsspec.url_to_fs(out)
        self._local = "file" in self._fs.protocol
        self._fs.makedirs(self._root, exist_ok=True)
        names = [f"{name}.parquet" for name in tables] + list(lines)
        for name in names if part is not None else ():
            self._fs.makedirs(f"{self._root}/{name.rpartition('.')[0]}", exist_ok=True)
        self._files, self._writers = dict[str, Any](), dict[str, pq.ParquetWriter]()
        self._pending: dict[str, list[pa.Table]] = {name: [] for name in tables}
        try:
            for name in names:
                self._files[name] = self._fs.open(self._path(name), "wb")
            for name, schema in tables.items():
                file = f"{name}.parquet"
                with name_file_in_errors(self._place(file)):
                    self._writers[name] = pq.ParquetWriter(
                        self._files[file], schema, compression="zstd"
                    )
        except BaseException:
            self._discard()
            raise

    def _place(self, name: str) -> str:
        if self._part is None:
            return f"{self._root}/{name}"
        folder, _, ending = name.rpartition(".")
        return f"{self._root}/{folder}/{part_name(self._part, ending)}"

    def _path(self, name: str) -> str:
        return self._place(name) + (self._beside if self._local else "")

    def add(self, name: str, table: pa.Table) -> None:
        """Append rows to a table."""
        self._pending[name].append(table)
        if sum(part.num_rows for part in self._pending[name]) >= self._rows:
            pending = pa.concat_tables(self._pending[name])
            while pending.num_rows >= self._rows:
                with name_file_in_errors(self._place(f"{name}.parquet")):
                    self._writers[name].write_table(pending.slice(0, self._rows).combine_chunks())
                pending = pending.slice(self._rows)
            self._pending[name] = [pending]

    def add_line(self, name: str, line: bytes) -> None:
        """Append a line to a text file."""
        with name_file_in_errors(self._place(name)):
            self._files[name].write(line + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._discard()
            return
        try:
            self._finish()
        except BaseException:
            self._discard()  # the disk may be full
            raise

    def _finish(self) -> None:
        for name, writer in self._writers.items():
            pending = pa.concat_tables(self._pending[name] or [writer.schema.empty_table()])
            with name_file_in_errors(self._place(f"{name}.parquet")):
                if pending.num_rows:
                    writer.write_table(pending.combine_chunks())
                writer.close()
        for name, file in self._files.items():
            with name_file_in_errors(self._place(name)):
                file.close()
            if self._local:
                self._fs.mv(self._path(name), self._place(name))

    def _discard(self) -> None:
        for writer in self._writers.values():
            with contextlib.suppress(OSError):
                writer.close()
        for name, file in self._files.items():
            if self._local:
                with contextlib.suppress(OSError):
                    file.close()
                with contextlib.suppress(FileNotFoundError):  # it was moved to its place already
                    self._fs.rm_file(self._path(name))
            elif not file.closed:
                file.discard()
                file.closed = True  # else fsspec would upload it when it is garbage-collected


def write_tables(out: str, tables: Mapping[str, pa.Table]) -> None:
    """Write tables by name, which replace all of their names once they are complete."""
    with ResultsWriter(out, {name: table.schema for name, table in tables.items()}) as results:
        for name, table in tables.items():
            results.add(name, table)


def read_table(out: str, name: str, columns: Sequence[str], *records: type) -> pa.Table:
    """Read those of the columns that a table has.

    Args:
        out: directory or URL.
        name: of the table.
        columns: their names.
        records: the types of which its rows may be.

    Raises:
        InputError: it cannot be read, or is of none of these types.
    """
    url, defaults = f"{out.rstrip('/')}/{name}.parquet", defaults_of(*records)
    return StoredTable(url, *map(schema_of, records), defaults=defaults).read(columns)


def remove_tables(out: str, names: Iterable[str]) -> None:
    """Remove those of the tables that exist, files and parts."""
    fs, root = fsspec.url_to_fs(out)
    for name in names:
        if fs.exists(path := f"{root}/{name}.parquet"):
            fs.rm_file(path)
    remove_parts(out, names)


def remove_parts(out: str, names: Iterable[str], keep: int = 0) -> None:
    """Remove parts of tables, also unfinished ones of killed workers.

    Only parts are removed: a table of a user's protocol may have the name of another directory.

    Args:
        out: directory or URL.
        names: of tables, or of lines.
        keep: how many of the first parts are kept.
    """
    fs, root = fsspec.url_to_fs(out)
    for name in names:
        folder = f"{root}/{name}"
        if not fs.isdir(folder):
            continue
        for path in fs.ls(folder, detail=False):
            called = path.rstrip("/").rsplit("/", 1)[-1]
            if (part := PART.match(called)) and (
                called.endswith(_PARTIAL) or int(part["number"]) >= keep
            ):
                fs.rm_file(path)
        with contextlib.suppress(OSError):  # it has other files
            fs.rmdir(folder)


def remove_foreign_scores(out: str, schema: pa.Schema) -> None:
    """Remove scores, and the annotated lines, if their columns are those of another protocol."""
    fs, root = fsspec.url_to_fs(out)
    url = f"{out.rstrip('/')}/scores.parquet"
    try:
        if not part_files(url):
            return
        columns = StoredTable(url).names
    except InputError:  # it is damaged
        columns = []
    if columns != schema.names:
        remove_tables(out, ["scores"])
        if fs.exists(f"{root}/annotated.jsonl"):
            fs.rm_file(f"{root}/annotated.jsonl")
        remove_parts(out, ["annotated"])


def write_text(out: str, name: str, text: str) -> None:
    """Write one small file atomically; on a local disk it is durable when this returns."""
    fs, root = fsspec.url_to_fs(out)
    path = f"{root}/{name}"
    if "file" not in fs.protocol:
        fs.pipe_file(path, text.encode())
        return
    draft = Path(path + _PARTIAL)
    try:
        with draft.open("wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise OSError(error.errno, error.strerror, path) from None
    handle = os.open(draft.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(out: str, name: str, value: Mapping[str, Any]) -> None:
    """Write one small JSON file atomically; numbers that JSON lacks become null."""
    text = json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False)
    write_text(out, name, text + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
