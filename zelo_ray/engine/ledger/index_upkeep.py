"""Keep the index beside a ledger valid and small: choose its tables, add to them, merge them.

A table names segments with the size and the last change that they had when it was made. Of one that
has changed since, nothing is taken from it.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import fsspec
import numpy as np

from zelo_ray.engine.ledger.draft import MOST_NAMES, Draft
from zelo_ray.engine.ledger.listing import (
    INDEX,
    Segment,
    folder_of,
    lines_of,
    list_folder,
    replies_in,
)
from zelo_ray.engine.ledger.table import ReplyTable
from zelo_ray.engine.ledger.table_file import drop_stale, read_table, write_table

_LEAST_BYTES = 2**20  # of segments: it is quicker to read less than to look for its index
_DRAFT_ROWS = 500_000
_SMALL = 10_000  # rows
_DOUBTED: set[tuple[str, str]] = set()
"""Segments with their last change, of which this process has read a line that was damaged since."""

Cover = list[tuple[ReplyTable, list[bool]]]
"""Tables, and of each which of its segments are to be looked for in it."""


def is_worth(size: int) -> bool:
    """Return whether segments of so many bytes together are worth an index."""
    return size >= _LEAST_BYTES


def choose_tables(
    folder: str, segments: Mapping[str, Segment], tables: Iterable[ReplyTable]
) -> tuple[Cover, set[str]]:
    """Return which tables to use for which segments, largest first, and the segments covered."""
    cover: Cover = []
    covered = set[str]()
    candidates = [table for table in tables if table.segments]
    for table in sorted(candidates, key=lambda table: (-len(table), table.segments[0].name)):
        flags = []
        for segment in table.segments:
            current = segments.get(segment.name)
            fits = current == Segment(segment.size, segment.stamp) and bool(segment.stamp)
            fits &= (f"{folder}/{segment.name}", segment.stamp) not in _DOUBTED
            flags.append(fits and segment.name not in covered)
        if any(flags):
            cover.append((table, flags))
            covered.update(e.name for e, valid in zip(table.segments, flags, strict=True) if valid)
    return cover, covered


def mark_for_rereading(
    fs: fsspec.AbstractFileSystem, folder: str, name: str, segment: Segment
) -> None:
    """Mark a segment that does not match its index, so that all processes read it again."""
    _DOUBTED.add((f"{folder}/{name}", segment.stamp))
    with contextlib.suppress(Exception):  # where nothing may be written, others find out as well
        if "file" in fs.protocol:
            os.utime(f"{folder}/{name}")  # so that it fits no index any more
        else:
            for table_name in list_folder(fs, folder).tables:
                table = read_table(fs, f"{folder}/{INDEX}", table_name)
                if table is not None and name in (covered.name for covered in table.segments):
                    fs.rm_file(f"{folder}/{INDEX}/{table_name}")


def update_index(out: str) -> None:
    """Write what is missing of the index, and merge its tables into few.

    Only while `claim_folder` is held. Where that cannot be, nothing is lost but time.
    """
    with contextlib.suppress(Exception):  # every storage has its own errors
        drop_stale()
        _keep(*folder_of(out))


def _keep(fs: fsspec.AbstractFileSystem, folder: str) -> None:
    listing, place = list_folder(fs, folder), f"{folder}/{INDEX}"
    tables = {name: read_table(fs, place, name) for name in listing.tables}
    sound_tables = {name: table for name, table in tables.items() if table is not None}
    cover, covered = choose_tables(folder, listing.segments, sound_tables.values())
    names = {id(table): name for name, table in sound_tables.items()}
    used = {names[id(table)]: (table, flags) for table, flags in cover}
    segments = {n: s for n, s in listing.segments.items() if s.stamp}
    missing = {name: segment for name, segment in segments.items() if name not in covered}
    if is_worth(sum(segment.size for segment in missing.values())):
        for table in _tables_of(fs, folder, missing):
            flags = [True] * len(table.segments)
            name = write_table(fs, place, [(table, np.array(flags))])
            if (new_table := read_table(fs, place, name)) is not None:
                used[name] = (new_table, flags)
    gone = [name for name in listing.tables if name not in used]
    for group in group_tables_to_merge(used):
        new = write_table(fs, place, [(used[n][0], np.array(used[n][1])) for n in group])
        gone += [name for name in group if name != new]
    for name in [*gone, *listing.others]:
        fs.rm_file(f"{place}/{name}")


def group_tables_to_merge(
    tables: Mapping[str, tuple[ReplyTable, Sequence[bool]]],
) -> Iterator[list[str]]:
    """Yield the tables to merge, so that each one left is larger than all smaller ones together.

    So a reply is written again only into a table half as large again: n replies cost n log n.
    """
    group, rows, names = list[str](), 0, set[object]()
    for name in sorted(tables, key=lambda name: len(tables[name][0])):
        table = tables[name][0]
        names |= {*(segment.name for segment in table.segments), *table.payers}
        if group and (len(table) > 2 * max(rows, _SMALL) or len(names) > MOST_NAMES):
            if len(group) > 1:
                yield group
                return
            group, rows = [], 0
        group.append(name)
        rows += len(table)
    if len(group) > 1:
        yield group


def _tables_of(
    fs: fsspec.AbstractFileSystem, folder: str, segments: Mapping[str, Segment]
) -> Iterator[ReplyTable]:
    """Yield tables of the segments that have none, of some 500,000 replies each."""
    draft = Draft()
    for name, segment in segments.items():
        if len(draft) > _DRAFT_ROWS or draft.full:
            yield draft.table()
            draft = Draft()
        read_segment_into(fs, folder, name, draft)
        number = draft.note(name, segment.size)
        draft.segments[number].stamp = segment.stamp
    if draft.segments:
        yield draft.table()


def read_segment_into(fs: fsspec.AbstractFileSystem, folder: str, name: str, draft: Draft) -> None:
    """Read a segment into a draft."""
    for at, line, row in lines_of(fs, f"{folder}/{name}"):
        if row is None:
            draft.set_aside(name, at, len(line), replies_in(line))
        else:
            draft.add(name, at, len(line), row)


def merge_own_tables(
    fs: fsspec.AbstractFileSystem, folder: str, own_tables: dict[str, ReplyTable], largest: int
) -> None:
    """Make few of the tables that one writer has written, of those with no more rows than this."""
    small = {n: (t, [True] * len(t.segments)) for n, t in own_tables.items() if len(t) <= largest}
    place = f"{folder}/{INDEX}"
    for group in group_tables_to_merge(small):
        new = write_table(
            fs,
            place,
            [(own_tables[n], np.ones(len(own_tables[n].segments), bool)) for n in group],
        )
        if (table := read_table(fs, place, new)) is not None:
            for name in group:
                del own_tables[name]
                fs.rm_file(f"{place}/{name}")
            own_tables[new] = table
