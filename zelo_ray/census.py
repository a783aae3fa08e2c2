"""What the input holds, counted before anything is asked or paid for."""

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from zelo_ray.config import Options
from zelo_ray.formats.pools import InputError, Limits, read_lines
from zelo_ray.formats.results import Results
from zelo_ray.formats.tables import Rejected, schema_of, table_of
from zelo_ray.protocols import module as protocol_module
from zelo_ray.records import Judge


@dataclass(slots=True)
class Census:
    """What the input holds, and what it will take."""

    pools: int = 0
    documents: int = 0
    rejected: int = 0
    first_rejection: str = ""
    repeated: set[tuple[str, int]] = field(default_factory=set)
    """file and number of each line whose query id came before"""
    planned: dict[str, int] = field(default_factory=dict)
    """requests by judge"""
    places: list[tuple[str, int, str]] = field(default_factory=list)
    """file, number and query id of each pool"""


def take_census(
    shards: Sequence[str],
    panel: Sequence[Judge],
    options: Options,
    *,
    only: Collection[tuple[str, int]] | None = None,
    keep: bool = True,
) -> Census:
    """Read all the input once; write what is bad to ``rejected.parquet``.

    Args:
        shards: the files of the input.
        panel: the judges.
        options: the job's.
        only: file and number of the lines to count, of those that are good; None: all.
        keep: whether to write anything.

    Raises:
        InputError: there is no good line in it.
    """
    census, seen = Census(planned={judge.name: 0 for judge in panel}), set[str]()
    protocol = protocol_module(options.protocol)
    tables = {"rejected": schema_of(Rejected)}
    with Results(options.out, tables, rows=1000) if keep else nullcontext() as results:
        for line in (line for shard in shards for line in read_lines(shard, Limits())):
            reason = line.reason
            if line.pool and line.pool.query_id in seen:
                reason = f"query id {line.pool.query_id!r} has come before"
                census.repeated.add((line.file, line.number))
            if reason or not line.pool:
                raw = line.raw.decode("utf-8", "backslashreplace")
                bad = Rejected(line.file, line.number, reason, raw)
                if results:
                    results.add("rejected", table_of([bad], Rejected))
                census.rejected += 1
                where = f"{line.file}, line {line.number}"
                census.first_rejection = census.first_rejection or f"{where}: {reason}"
                continue
            seen.add(line.pool.query_id)
            if only is not None and (line.file, line.number) not in only:
                continue
            census.places.append((line.file, line.number, line.pool.query_id))
            census.pools += 1
            census.documents += len(line.pool.documents)
            for judge in panel:
                census.planned[judge.name] += protocol.count(line.pool, [judge], options)
    if not census.pools:
        raise InputError(f"the input holds no pool; {census.first_rejection or 'it is empty'}")
    return census
