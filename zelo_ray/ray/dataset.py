"""Define the job as it is sent to actors, and read its input as rows: a line of JSON each."""

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa

from zelo_ray.engine.request_plans import RequestPlans
from zelo_ray.formats.pools import Line, LineLimits, parse_line, read_lines
from zelo_ray.options import AnnotateOptions
from zelo_ray.plugins import PluginFolders
from zelo_ray.protocols import load_protocol
from zelo_ray.ray.placement import reading_task_options
from zelo_ray.reasons import Disabled
from zelo_ray.records import Judge, Pool

_LINES_SCHEMA = pa.schema(
    [("file", pa.string()), ("number", pa.int64()), ("raw", pa.large_binary())]
)


@dataclass(frozen=True, slots=True)
class Job:
    """Job as it is sent to the actors. It holds no key."""

    options: AnnotateOptions
    panel: tuple[Judge, ...]
    run_id: str
    repeated: frozenset[tuple[str, int]]
    only: frozenset[tuple[str, int]] | None = None
    """the lines to take, such as a pilot's; None: all"""
    label: str = ""
    """the name of its one judge where figures are shown; empty: the judge's own name"""
    disabled: Mapping[str, Disabled] = field(default_factory=dict)
    """judges of the panel that are asked nothing more, with the reason"""
    sweep: int = 1
    """how often this run has gone over all pools, this time included"""

    def __reduce__(self) -> tuple[Any, ...]:
        """Send options as values: no other process has the class of a user's own protocol."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = type(self.options) is AnnotateOptions  # as of what orders a pool
        protocol = "" if plain else self.options.protocol
        values["options"] = (protocol, dict(self.options), self.options.model_fields_set)
        return _rebuild, (PluginFolders(), values)

    def open_plans(self) -> RequestPlans:
        """Open the plans of the job's pools for reading."""
        return RequestPlans(self.options)

    def display_name(self, judge: str) -> str:
        """Return the name of a judge where figures are shown."""
        return self.label or judge

    def includes(self, line: Line) -> bool:
        """Return whether a line is to be judged."""
        place = (line.file, line.number)
        chosen = self.only is None or place in self.only
        return line.pool is not None and place not in self.repeated and chosen


def _rebuild(_folders: None, fields: dict[str, Any]) -> Job:
    """Build the job in another process, which loads the protocol itself."""
    protocol, values, fields_set = fields["options"]
    kind = load_protocol(protocol).options if protocol else AnnotateOptions
    return Job(**{**fields, "options": kind.model_construct(fields_set, **values)})


def _read_shards(block: pa.Table, job: Job) -> Iterator[pa.Table]:
    """Read the good lines of some shards, in tables of about 2 MB."""
    rows: list[tuple[str, int, bytes]] = []
    size = 0
    for shard in block["file"].to_pylist():
        for line in read_lines(shard, LineLimits()):
            if not job.includes(line):
                continue
            rows.append((line.file, line.number, line.raw))
            size += len(line.raw)
            if size > 2 * 2**20:
                yield lines_table(rows)
                rows, size = [], 0
    yield lines_table(rows)


def lines_table(rows: Sequence[tuple[str, int, bytes]]) -> pa.Table:
    """Return lines as a table with the columns file, number and raw."""
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table([list(column) for column in columns], schema=_LINES_SCHEMA)


def set_up_ray_data(*, verbose: bool) -> Any:
    """Set up Ray Data to keep rows in order and, unless verbose, to print nothing."""
    import ray.data  # noqa: PLC0415 - two seconds, paid where it is used

    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.execution_options.verbose_progress = False
    context.execution_no_progress_timeout_s = -1  # a judge may well think for half an hour
    context.enable_progress_bars = verbose
    context.print_on_execution_start = verbose
    if not verbose:
        warnings.filterwarnings("ignore", module=r"ray\.data\.")
        for handler in logging.getLogger("ray.data").handlers:
            if type(handler).__name__ == "PlainRayHandler":
                handler.setLevel(logging.ERROR)
    return ray.data


def lines_dataset(job: Job, shards: Sequence[str]) -> Any:
    """Return the lines that a job is to judge: columns file, number, raw."""
    rows = [{"file": shard} for shard in shards]
    dataset: Any = set_up_ray_data(verbose=job.options.verbose).from_items(
        rows, override_num_blocks=min(len(rows), 256)
    )
    return dataset.map_batches(
        _read_shards,
        batch_size=None,
        batch_format="pyarrow",
        fn_args=(job,),
        **reading_task_options(),
    )


def parse_lines(block: pa.Table) -> list[Line]:
    """Parse the lines of a block again."""
    return [
        parse_line(row["file"], row["number"], row["raw"], LineLimits())
        for row in block.to_pylist()
    ]


def read_pools(job: Job, shards: Sequence[str]) -> Iterator[Pool]:
    """Read the pools of a job in this process."""
    for shard in shards:
        for line in read_lines(shard, LineLimits()):
            if job.includes(line) and line.pool:
                yield line.pool
