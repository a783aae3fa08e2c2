"""Votes that earlier plans of the same directory paid for, such as of a pool that has grown since.

A vote is fitted along while it would be asked for in the same words: a judge of the panel, and the
texts of today. Those votes are found in the earlier table of votes. As a run writes that table
anew, it first puts aside where they are, and at its end keeps aside those that the new table lacks,
such as of queries that it did not judge. So it does not matter when one is killed, or what another
was about. No more is held in memory than where each query's rows are, and some of the rows.
"""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.formats.results import Results, remove_tables
from zelo_ray.formats.stored import Span, Stored
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Protocol, Replies, Step
from zelo_ray.records import Failure, Judge, Pool, Vote

_ASIDE = "earlier"
_COLUMNS = ("query_id", "doc_id_a", "doc_id_b", "judge", "key")
_SCHEMA = pa.schema([(name, pa.string()) for name in _COLUMNS])
_ORDER = [(name, "ascending") for name in _COLUMNS]
_AT_ONCE = 1000
_HELD = 8


def put_aside(options: AnnotateOptions) -> None:
    """Keep where the votes of earlier runs are, before results are written."""
    votes, aside = _Table(options.out, "votes"), _Table(options.out, _ASIDE)
    if votes.queries:
        known = {*votes.queries}
        order = [*votes.queries, *(each for each in aside.queries if each not in known)]
        _write(options.out, (_once(votes.of(some), aside.of(some)) for some in _some(order)))


def keep_the_rest(options: AnnotateOptions) -> None:
    """The results are written: keep aside what the new table of votes lacks."""
    votes, aside = _Table(options.out, "votes"), _Table(options.out, _ASIDE)
    if aside.queries:
        _write(
            options.out,
            (
                _once(aside.of(some)).join(votes.of(some), _COLUMNS, join_type="left anti")
                for some in _some(list(aside.queries))
            ),
        )


class _Table:
    """Which votes a table holds, by query; none, where it is not there, broken or another one."""

    def __init__(self, out: str, name: str) -> None:
        self.queries: Mapping[str, Sequence[Span]] = {}
        """where the rows of each are, in the order of the table"""
        self._groups: dict[tuple[str, int], pa.Table] = {}
        with contextlib.suppress(InputError):
            self._stored = Stored(f"{out.rstrip('/')}/{name}.parquet", _SCHEMA)
            self.queries = self._stored.spans()

    def of(self, query_ids: Sequence[str]) -> pa.Table:
        """The rows of some queries, in no special order."""
        spans = sorted(span for name in query_ids for span in self.queries.get(name, ()))
        found = [
            self._group(place, group).slice(start, end - start)
            for place, group, start, end in spans
        ]
        return pa.concat_tables([_SCHEMA.empty_table(), *found])

    def _group(self, place: str, group: int) -> pa.Table:
        """A row group; the last few are held, as queries that follow each other lie in them."""
        if (place, group) not in self._groups:
            rows = _SCHEMA.empty_table()
            with contextlib.suppress(InputError):
                rows = self._stored.group(place, group, _COLUMNS).select(_COLUMNS).cast(_SCHEMA)
            if len(self._groups) == _HELD:
                del self._groups[next(iter(self._groups))]
            self._groups[place, group] = rows
        return self._groups[place, group]


class Earlier:
    """The votes of earlier runs, by query.

    Args:
        out: the directory or URL of the run.
        protocol: how it judges.
    """

    def __init__(self, out: str, protocol: Protocol) -> None:
        self._protocol = protocol
        before = protocol.asked_before is not None
        self._tables = [_Table(out, name) for name in (_ASIDE, "votes")] if before else []

    def added(
        self,
        step: Step,
        pool: Pool,
        panel: Sequence[Judge],
        options: AnnotateOptions,
        replies: Replies,
    ) -> Step:
        """A pool's judgments, and behind them the votes of earlier plans that still stand."""
        tables = [each for each in self._tables if pool.query_id in each.queries]
        if not tables or step.missing:
            return step
        known = {
            (one.key, one.doc_id_a, one.doc_id_b) for one in step.judgments if isinstance(one, Vote)
        }
        judges = {judge.name: judge for judge in panel}
        rows = _beyond(known, [each.of([pool.query_id]) for each in tables])
        there = replies.there([row["key"] for row in rows])
        found = [
            vote
            for row, is_there in zip(rows, there, strict=True)
            if row["judge"] in judges and is_there
            for vote in self._stands(row, pool, judges[row["judge"]], options, replies)
        ]
        return replace(step, judgments=(*step.judgments, *found)) if found else step

    def _stands(
        self,
        row: Mapping[str, str],
        pool: Pool,
        judge: Judge,
        options: AnnotateOptions,
        replies: Replies,
    ) -> list[Any]:
        """The vote, if it would be asked for in the same words today."""
        pair, questions = (row["doc_id_a"], row["doc_id_b"]), self._protocol.asked_before
        for asked in questions(pool, pair, judge, options) if questions else ():
            if row["key"] in (asked.request.key, asked.request.former_key):
                (reply,) = replies.read([row["key"]])
                heard = asked.read(reply)
                return [] if isinstance(heard, Failure) else [heard]
        return []


def _beyond(
    known: Collection[tuple[str, str, str]], tables: Sequence[pa.Table]
) -> Sequence[Mapping[str, str]]:
    """The rows of a query that are of no known vote, each once, in one order."""
    rest = []
    for table in tables:
        three = (table[name].to_pylist() for name in ("key", "doc_id_a", "doc_id_b"))
        rest.append(
            table.filter(
                pa.array([each not in known for each in zip(*three, strict=True)], pa.bool_())
            )
        )
    rows: list[dict[str, str]] = _once(*rest).to_pylist()
    return rows


def _once(*tables: pa.Table) -> pa.Table:
    """Their rows, each once, in one order."""
    rows = pa.concat_tables(tables)
    return rows.group_by(list(_COLUMNS), use_threads=False).aggregate([]).sort_by(_ORDER)


def _some(query_ids: Sequence[str]) -> Iterator[list[str]]:
    each = iter(query_ids)
    while some := list(islice(each, _AT_ONCE)):
        yield some


def _write(out: str, tables: Iterable[pa.Table]) -> None:
    """Write what is aside anew; remove it where that is nothing."""
    count = 0
    with Results(out, {_ASIDE: _SCHEMA}) as results:
        for rows in tables:
            count += len(rows)
            results.add(_ASIDE, rows.select(_COLUMNS).cast(_SCHEMA))
    if not count:
        remove_tables(out, [_ASIDE])
