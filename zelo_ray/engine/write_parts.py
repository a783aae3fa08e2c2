"""Write the results of many pools in parts, each by the worker that built them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

import fsspec
import pyarrow as pa

from zelo_ray.engine.count_input import InputCount
from zelo_ray.engine.write_results import (
    LINE_PARTS,
    ResultCounts,
    ResultTables,
    Summary,
    add_blocks,
    remove_foreign,
    written_scores,
)
from zelo_ray.errors import Stopped
from zelo_ray.formats.files import part_name
from zelo_ray.formats.pools import is_unpacked
from zelo_ray.formats.results import ResultsWriter, remove_foreign_scores, remove_parts
from zelo_ray.options import AnnotateOptions

ONE_FILE = 5_000
"""Pools up to which each table is one file. At 300 votes a pool that is 1.5 million rows: one
process writes them in minutes, and a person's pandas holds them. It goes by pools, which are known
before anything is asked, so that a resumed run has the form of the first."""
PART_POOLS = 1_000
"""Pools of a part: some tens of MB of votes."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Lines of a file, from one on."""

    file: str
    number: int
    """of the first line"""
    offset: int
    """where that begins"""
    pools: int
    """how many good lines it has"""


@dataclass(frozen=True, slots=True)
class InputPart:
    """The part of the input that one worker reads, and the parts of the results it makes."""

    first: int
    """the number of its first part"""
    stretches: tuple[Stretch, ...]

    @property
    def pools(self) -> int:
        """Count the pools of the group."""
        return sum(stretch.pools for stretch in self.stretches)

    @property
    def parts(self) -> int:
        """Count the parts that come of the group."""
        return -(-self.pools // PART_POOLS)


def needs_parts(pools: int) -> bool:
    """Return whether results of so many pools are written in parts."""
    return pools > ONE_FILE


def plan_parts(census: InputCount) -> list[InputPart]:
    """Group the input by worker, so that no part is smaller than it must be.

    A part holds `PART_POOLS` pools that follow each other in a group, the last one fewer. Plain
    files are cut after so many; a packed one is read from its start, by one worker. Equal input
    makes equal parts.
    """
    groups: list[InputPart] = []
    stretches, pools, first = list[Stretch](), 0, 0
    for stretch in _stretches(census):
        stretches.append(stretch)
        pools += stretch.pools
        if pools >= PART_POOLS:
            groups.append(InputPart(first, tuple(stretches)))
            first += groups[-1].parts
            stretches, pools = [], 0
    if pools:
        groups.append(InputPart(first, tuple(stretches)))
    return groups


def _stretches(census: InputCount) -> Iterator[Stretch]:
    places = zip(census.places, census.offsets, strict=True)
    for file, group in groupby(places, key=lambda place: place[0][0]):
        limit = PART_POOLS if is_unpacked(file) else None
        while some := list(islice(group, limit)):
            (_, number, _), offset = some[0]
            start = (number, offset) if limit else (1, 0)
            yield Stretch(file, *start, len(some))


def write_part(
    number: int,
    blocks: Iterable[pa.Table],
    options: AnnotateOptions,
    *,
    judgments_only: bool = False,
) -> pa.Table:
    """Write one part of every table, and of the annotated lines; in a worker.

    Its files appear when they are whole, under names that follow from its number: what is written
    again takes the place of what was. Rows keep the order of the input, in which a query's rows
    stand together: readers go by that, and find a query by its column of ids alone.

    Args:
        number: of the part, from 0.
        blocks: what `build_results` gave of its pools, in order.
        options: of the job.
        judgments_only: as `write_results` takes it.

    Returns:
        One small row for `collect_parts`: part, counted.
    """
    written = ResultTables.for_options(options, judgments_only=judgments_only)
    with ResultsWriter(options.out, written.tables, written.lines, part=number) as results:
        counted = add_blocks(results, blocks, written)
    figures = counted.to_json()
    return pa.table({"part": pa.array([number], pa.int64()), "counted": pa.array([figures])})


def collect_parts(
    rows: Iterable[pa.Table], options: AnnotateOptions, parts: int, *, judgments_only: bool = False
) -> Summary:
    """Make results of parts that were written; in the driver.

    One file of an earlier, smaller run counts until here, and is removed as all parts are there;
    so a run that is killed before leaves either the old results or, in part form, an unfinished
    run that its record tells of.

    Args:
        rows: what `write_part` returned, in any order.
        options: of the job.
        parts: how many there are.
        judgments_only: as `write_part` had it.

    Raises:
        Stopped: a part is missing.
    """
    written = ResultTables.for_options(options, judgments_only=judgments_only)
    figures = dict[int, ResultCounts]()
    for table in rows:
        for row in table.to_pylist():
            figures[row["part"]] = ResultCounts.from_json(row["counted"])
    counted = ResultCounts()
    for number in range(parts):
        if number not in figures:
            raise Stopped(f"part {number:,} of {parts:,} of the results was not written")
        counted.join(figures[number])
    folders = dict.fromkeys(written.tables, "parquet")
    if written.lines:
        folders[LINE_PARTS] = "jsonl"
    _refuse_missing(options.out, folders, parts)
    if "scores" not in written.tables:
        remove_foreign_scores(options.out, written_scores(options))
    remove_parts(options.out, folders, keep=parts)
    fs, root = fsspec.url_to_fs(options.out)
    for name, ending in folders.items():
        if fs.exists(path := f"{root}/{name}.{ending}"):
            fs.rm_file(path)
    remove_foreign(options)
    return counted.summary(options.out)


def _refuse_missing(out: str, folders: dict[str, str], parts: int) -> None:
    fs, root = fsspec.url_to_fs(out)
    fs.invalidate_cache()  # others wrote these
    for name, ending in folders.items():
        names: Sequence[str] = fs.ls(f"{root}/{name}", detail=False) if parts else ()
        file_names = {path.rsplit("/", 1)[-1] for path in names}
        for number in range(parts):
            if part_name(number, ending) not in file_names:
                raise Stopped(f"{out}/{name}: lacks {part_name(number, ending)}")
