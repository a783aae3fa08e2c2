"""Count what the input holds, before anything is asked or paid for."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from zelo_ray.errors import InputError
from zelo_ray.files.make_pools import ShownFields
from zelo_ray.files.pools import Line, LineLimits, Notes, read_lines
from zelo_ray.files.tables import Rejected, ResultsWriter, schema_of, table_of
from zelo_ray.records import Pool

FEW_BYTES = 16 * 2**20
"""Lines that come to no more are held in memory."""
Count = Callable[[Pool], Mapping[str, int]]
"""How many requests a pool takes, by judge or ranker."""


@dataclass(slots=True)
class InputCount:
    """The number of pools, documents and lines in the input, and of requests planned for it."""

    pools: int = 0
    documents: int = 0
    rejected: int = 0
    repeated: set[tuple[str, int]] = field(default_factory=set)
    """file and number of each line whose query id came before"""
    planned: Counter[str] = field(default_factory=Counter)
    """requests by judge or ranker"""
    places: list[tuple[str, int, str]] = field(default_factory=list)
    """file, number and query id of each pool"""
    bytes: int = 0
    """of their lines"""
    own: list[str] = field(default_factory=list)
    """which queries are among their own candidates"""
    lines: list[Line] | None = field(default_factory=list)
    """the lines that were counted, where they are few; None: too many"""


def count_input(
    shards: Sequence[str],
    count: Count,
    out: str,
    *,
    only: Callable[[Line], bool] = lambda _: True,
    show: Sequence[str] = (),
    metadata: Sequence[str] = (),
    keep: bool = True,
) -> InputCount:
    """Read all the input once; ``keep``: write what is bad to ``rejected.parquet`` in ``out``.

    Good lines are counted if ``only`` says so; ``count`` gives the requests of a pool. Judges are
    shown the fields ``show`` of queries, and ``metadata`` of documents.

    Raises:
        InputError: there is no good line in it, or none to count.
        OptionError: none has a field of ``show`` or ``metadata``.
    """
    found, query_ids, first_rejection = InputCount(), set[str](), ""
    shown, own_queries = ShownFields(show, metadata), Notes()
    tables = {"rejected": schema_of(Rejected)}
    with ResultsWriter(out, tables, rows=1000) if keep else nullcontext() as results:
        for line in (line for shard in shards for line in read_lines(shard, LineLimits())):
            pool, reason = line.pool, line.reason
            if pool and pool.query_id in query_ids:
                reason = f"query id {pool.query_id!r} has come before"
                if pool.session_id:  # an id may be of its session only
                    reason += "; --blocks session joins the turns of a session"
                found.repeated.add((line.file, line.number))
            if reason or not pool:
                if results:
                    bad = Rejected(line.file, line.number, reason, line.text)
                    results.add("rejected", table_of([bad], Rejected))
                found.rejected += 1
                first_rejection = first_rejection or f"{line.file}, line {line.number}: {reason}"
                continue
            query_ids.add(pool.query_id)
            if not only(line):
                continue
            found.places.append((line.file, line.number, pool.query_id))
            found.bytes += len(line.raw)
            if found.bytes > FEW_BYTES:
                found.lines = None
            elif found.lines is not None:
                found.lines.append(line)
            shown.add(pool.about, pool.documents)
            own_queries.count_own_query(line)
            found.pools += 1
            found.documents += len(pool.documents)
            found.planned.update(count(pool))
    if not found.pools:
        others = f"it holds {len(query_ids):,} others, such as {min(query_ids, default='')!r}"
        why = first_rejection or (others if query_ids else "it is empty")
        raise InputError(f"the input holds no pool; {why}")
    shown.check("the input")
    found.own = own_queries.lines()
    return found
