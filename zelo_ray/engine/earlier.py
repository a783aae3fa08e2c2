"""Votes that earlier plans of the same directory paid for, such as of a pool that has grown since.

A vote is fitted along while it would be asked for in the same words: a judge of the panel, and the
texts of today. Those votes are found in the earlier table of votes. As a run writes that table
anew, it first puts aside where they are, and at its end keeps aside those that the new table lacks,
such as of queries that it did not judge. So it does not matter when one is killed, or what another
was about.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.formats.files import pieces
from zelo_ray.formats.results import Results, read_table, remove_tables
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Protocol, Replies, Step
from zelo_ray.records import Failure, Judge, Pool, Vote

_ASIDE = "earlier"
_COLUMNS = ("query_id", "doc_id_a", "doc_id_b", "judge", "key")
_SCHEMA = pa.schema([(name, pa.string()) for name in _COLUMNS])


def put_aside(options: AnnotateOptions) -> None:
    """Keep where the votes of earlier runs are, before results are written."""
    _write(options.out, _both(options.out))


def keep_the_rest(options: AnnotateOptions) -> None:
    """The results are written: keep aside what the new table of votes lacks."""
    aside = _read(options.out, _ASIDE)
    if len(aside):
        _write(
            options.out, aside.join(_read(options.out, "votes"), _COLUMNS, join_type="left anti")
        )


class Earlier:
    """The votes of earlier runs, by query.

    Args:
        out: the directory or URL of the run.
        protocol: how it judges.
    """

    def __init__(self, out: str, protocol: Protocol) -> None:
        self._protocol = protocol
        self._rows = _SCHEMA.empty_table()
        if protocol.asked_before is not None:
            self._rows = _both(out)
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
        known = {
            (one.key, one.doc_id_a, one.doc_id_b) for one in step.judgments if isinstance(one, Vote)
        }
        judges = {judge.name: judge for judge in panel}
        found = [
            vote
            for row in self._rows.slice(start, end - start).to_pylist()
            if (row["key"], row["doc_id_a"], row["doc_id_b"]) not in known
            and row["judge"] in judges
            and replies.has(row["key"])
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


def _both(out: str) -> pa.Table:
    """What is aside and what is in the table of votes, each once, in one order."""
    rows = pa.concat_tables([_read(out, name) for name in (_ASIDE, "votes")])
    once = rows.group_by(list(_COLUMNS), use_threads=False).aggregate([])
    return once.sort_by([(name, "ascending") for name in _COLUMNS])


def _read(out: str, name: str) -> pa.Table:
    """The rows of a table; none of one that is not there, is broken, or is of another kind."""
    with contextlib.suppress(InputError):
        if pieces(f"{out.rstrip('/')}/{name}.parquet"):
            table = read_table(out, name, _COLUMNS)
            if table.num_columns == len(_COLUMNS):
                return table.select(_COLUMNS).cast(_SCHEMA)
    return _SCHEMA.empty_table()


def _write(out: str, rows: pa.Table) -> None:
    if not len(rows):
        remove_tables(out, [_ASIDE])
        return
    with Results(out, {_ASIDE: _SCHEMA}) as results:
        results.add(_ASIDE, rows.select(_COLUMNS).cast(_SCHEMA))
