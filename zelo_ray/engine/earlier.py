"""Votes that earlier plans of the same directory paid for, such as of a pool that has grown since.

A vote is fitted along while it would be asked for in the same words: a judge of the panel, and the
texts of today. Those votes are found in the earlier table of votes. As a run writes that table
anew, it first puts aside where they are, and drops that at its end; so it does not matter when one
is killed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa

from zelo_ray.formats.results import Results, read_table, remove_tables
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Protocol, Replies, Step, load
from zelo_ray.records import Failure, Judge, Pool

_ASIDE = "earlier"
_COLUMNS = ("query_id", "doc_id_a", "doc_id_b", "judge", "key")
_SCHEMA = pa.schema([(name, pa.string()) for name in _COLUMNS])


def put_aside(options: AnnotateOptions) -> None:
    """Keep where the votes of earlier runs are, until `drop`: before results are written."""
    if load(options.protocol).asked_before is None:
        return
    there = [name for name in ("votes", _ASIDE) if _is_there(options.out, name)]
    if there:
        rows = pa.concat_tables([_read(options.out, name) for name in there])
        with Results(options.out, {_ASIDE: _SCHEMA}) as results:
            results.add(_ASIDE, rows.group_by(list(_COLUMNS), use_threads=False).aggregate([]))


def drop(options: AnnotateOptions) -> None:
    """The table of votes is written, and holds all of them."""
    remove_tables(options.out, [_ASIDE])


class Earlier:
    """The votes of earlier runs, by query.

    Args:
        out: the directory or URL of the run.
        protocol: how it judges.
    """

    def __init__(self, out: str, protocol: Protocol) -> None:
        self._protocol = protocol
        names = [name for name in (_ASIDE, "votes") if _is_there(out, name)]
        self._rows = _SCHEMA.empty_table()
        if protocol.asked_before is not None and names:
            self._rows = _read(out, names[0]).sort_by([(name, "ascending") for name in _COLUMNS])
        queries = self._rows["query_id"].to_numpy(zero_copy_only=False)
        ids, starts = np.unique(queries, return_index=True)
        spans = pairwise([*starts.tolist(), len(queries)])
        self._at = dict(zip(ids.tolist(), spans, strict=True))

    def added(
        self,
        step: Step,
        pool: Pool,
        panel: Sequence[Judge],
        options: AnnotateOptions,
        replies: Replies,
    ) -> Step:
        """A pool's judgments, and behind them the votes of earlier plans that still stand."""
        if pool.query_id not in self._at or step.missing:
            return step
        start, end = self._at[pool.query_id]
        known = {one.key for one in (*step.judgments, *step.failures)}
        judges = {judge.name: judge for judge in panel}
        found = [
            vote
            for row in self._rows.slice(start, end - start).to_pylist()
            if row["key"] not in known and row["judge"] in judges and replies.has(row["key"])
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


def _read(out: str, name: str) -> pa.Table:
    return read_table(out, name, _COLUMNS).select(_COLUMNS).cast(_SCHEMA)


def _is_there(out: str, name: str) -> bool:
    fs, root = fsspec.url_to_fs(out)
    return bool(fs.exists(f"{root}/{name}.parquet"))
