"""Build the results of an unfinished run from the replies it has so far, in another place.

Nothing is written where the run writes: the results there may be an earlier run's.
"""

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any

import fsspec
import pyarrow as pa
from pydantic import ValidationError

from zelo_ray.engine.bookkeeping import Tally
from zelo_ray.engine.count_input import count_input
from zelo_ray.engine.learning import human_grades, with_scores
from zelo_ray.engine.ledger import Ledger, paid_in
from zelo_ray.engine.lock import at_work
from zelo_ray.engine.sample_input import pilot_lines
from zelo_ray.engine.settle import settled
from zelo_ray.engine.write_results import Summary, write_results
from zelo_ray.errors import Stopped
from zelo_ray.formats.pools import Line, LineLimits, read_lines
from zelo_ray.formats.record import RUN, not_finished
from zelo_ray.formats.results import write_json
from zelo_ray.formats.sessions import join_sessions
from zelo_ray.protocols import Learned, Progress, Step, load, recorded_options
from zelo_ray.providers import parse_judge
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Judge, Pool

_POOLS_AT_ONCE = 32


class Untold(Exception):  # noqa: N818 - it names what is the matter
    """There are no partial results of an unfinished run; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class SoFar:
    """Results of an unfinished run, in a folder that is removed afterwards."""

    folder: str
    """the folder, which looks like that of a finished run"""
    told: str
    """one line on how much of the run they rest on, to be shown first"""


@contextlib.contextmanager
def so_far(out: str, record: Mapping[str, Any], query_id: str | None = None) -> Iterator[SoFar]:
    """Build results from what the ledger holds, in a folder that lasts as long as the context.

    Args:
        out: directory or URL of the run.
        record: what `zelo_ray.formats.record.unfinished` found there.
        query_id: settle this query alone, where its scores rest on no other.

    Raises:
        Untold: it is no run of annotate, its input is gone, or its judges cannot be measured.
        InputError, LedgerError: what is there cannot be read.
    """
    if record.get("kind") != "annotate":
        raise Untold(not_finished(out))
    with TemporaryDirectory() as folder:
        try:
            replay = _Replay(out, record, folder, query_id)
            summary = replay.settle()
        except Stopped as stopped:
            raise Untold(f"{not_finished(out)} ({stopped})") from None
        judges = {
            judge.name: asdict(Tally(known=replay.heard[judge.name])) for judge in replay.panel
        }
        run = {**record, "summary": asdict(summary), "judges": judges}
        write_json(folder, RUN, run)
        yield SoFar(folder, _told(out, replay, query_id))


class _Replay:
    """Replay of an annotate run as far as its recorded replies reach."""

    def __init__(
        self, out: str, record: Mapping[str, Any], folder: str, query_id: str | None
    ) -> None:
        try:
            options = recorded_options(record)
            self.shards = [str(shard) for shard in record["shards"]]
            self.panel = tuple(_judge(row) for row in record["panel"])
        except (KeyError, TypeError, ValidationError):
            raise Untold(f"{not_finished(out)}, as its run.json cannot be read") from None
        if gone := [shard for shard in self.shards if not _is_there(shard)]:
            raise Untold(f"{not_finished(out)}; until then its input is needed: no {gone[0]}")
        in_out = options.books == options.out  # the directory may have been moved since
        self.books = out if in_out else options.books
        self.options = options.model_copy(update={"out": folder, "ledger": self.books})
        self.protocol = load(options.protocol)
        self._query_id = query_id
        self._alone = None if self.protocol.learned_from(options) else query_id
        self._ledger = Ledger(self.books)
        self.heard, self.planned = Counter[str](), Counter[str]()

    def settle(self) -> Summary:
        """Write results to the folder."""
        human = human_grades(self.options)
        shards, set_aside = self.shards, 0
        if self.options.blocks == "session":
            joined = join_sessions(shards, self.options.out)
            shards, set_aside = [joined.path], joined.rejected
        census = count_input(shards, {}, self.options.out, keep=self.options.blocks == "query")
        places = frozenset((file, number) for file, number, _ in census.places)
        pilot = self.options.pilot
        if pilot is not None and pilot < census.pools:
            places = pilot_lines(census.places, pilot, self.options.seed)

        def write(learned: Learned | None = None) -> Summary:
            blocks = self._blocks(self._lines(shards, places), learned)
            only = bool(self.protocol.learned_from(self.options)) and learned is None
            return write_results(blocks, self.options, judgments_only=only)

        summary = with_scores(write(), self.options, human, write)
        summary.rejected = set_aside + census.rejected
        paid = paid_in(self.books)
        summary.dollars_in_all, summary.unpriced = paid.dollars(), paid.unpriced()
        return summary

    def _lines(
        self, shards: Sequence[str], places: Collection[tuple[str, int]]
    ) -> Iterator[tuple[Line, Pool]]:
        for line in (line for shard in shards for line in read_lines(shard, LineLimits())):
            pool, is_listed = line.pool, (line.file, line.number) in places
            if pool and is_listed and self._alone in (None, pool.query_id):
                yield line, pool

    def _blocks(
        self, lines: Iterator[tuple[Line, Pool]], learned: Learned | None
    ) -> Iterator[pa.Table]:
        self.heard.clear()
        self.planned.clear()
        while part := list(islice(lines, _POOLS_AT_ONCE)):
            steps = [self._step(pool) for _, pool in part]
            yield settled([line for line, _ in part], steps, self.options, learned)

    def _step(self, pool: Pool) -> Step:
        """Return the state of a pool so far. A reply that is missing is no failure."""
        progress = Progress(self.protocol.rounds(pool, self.panel, self.options))
        step = progress.step(self._ledger)
        if self._query_id in (None, pool.query_id):
            self.heard.update(step.heard)
            self.planned.update(self.protocol.count(pool, self.panel, self.options))
        if not step.missing:
            return step
        missing = Disabled(StopReason.MISSING, "not yet")
        ended = progress.step(self._ledger, {judge.name: missing for judge in self.panel})
        failed = {False: list[Any](), True: list[Any]()}
        for failure in ended.failures:
            failed[not failure.key or self._ledger.has(failure.key)].append(failure)
        return replace(
            ended,
            failures=tuple(failed[True]),
            unheard=tuple(failed[False]),
            missing=step.missing,
            heard=step.heard,
        )


def _judge(fields: Mapping[str, Any]) -> Judge:
    return replace(parse_judge(fields["judge"]), options=fields["options"])


def _is_there(place: str) -> bool:
    fs, path = fsspec.url_to_fs(place)
    return bool(fs.exists(path))


def _told(out: str, replay: _Replay, query_id: str | None) -> str:
    replies, planned = replay.heard.total(), replay.planned.total()
    qualifier = "up to " if replay.protocol.max_rounds != 1 else ""
    about = "" if query_id is None else " about this query"
    have = "has" if replies == 1 else "have"
    count = f"{replies:,} of {qualifier}{planned:,} requests{about} {have} a reply"
    if at_work(out):
        return f"This run is still in progress: {count} so far. Scores rest on these alone."
    return (
        f"This run was interrupted: {count}. Scores rest on these alone; the same command goes on."
    )
