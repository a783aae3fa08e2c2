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

from zelo_ray.engine.build_results import build_results_from_steps
from zelo_ray.engine.count_input import count_input
from zelo_ray.engine.learning import learn_and_score, read_human_grades
from zelo_ray.engine.ledger import Ledger, sum_paid
from zelo_ray.engine.lock import is_run_active
from zelo_ray.engine.sample_input import pilot_lines
from zelo_ray.engine.tally import Tally
from zelo_ray.engine.write_results import Summary, write_results
from zelo_ray.errors import Stopped
from zelo_ray.formats.pools import Line, LineLimits, read_lines
from zelo_ray.formats.results import write_json
from zelo_ray.formats.run_record import RUN, unfinished_message
from zelo_ray.formats.sessions import join_sessions
from zelo_ray.protocols import Learned, Progress, Step, load_protocol, recorded_options
from zelo_ray.providers import parse_judge
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Judge, Pool

_POOLS_AT_ONCE = 32


class PartialResultsUnavailable(Exception):  # noqa: N818 - it names what is the matter
    """There are no partial results of an unfinished run; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class PartialResults:
    """Results of an unfinished run, in a folder that is removed afterwards."""

    folder: str
    """the folder, which looks like that of a finished run"""
    note: str
    """one line on how much of the run they rest on, to be shown first"""


@contextlib.contextmanager
def partial_results(
    out: str, record: Mapping[str, Any], query_id: str | None = None
) -> Iterator[PartialResults]:
    """Build results from what the ledger holds, in a folder that lasts as long as the context.

    Args:
        out: directory or URL of the run.
        record: what `zelo_ray.formats.run_record.unfinished_record` found there.
        query_id: build results of this query alone, where its scores rest on no other.

    Raises:
        PartialResultsUnavailable: it is no run of annotate, its input is gone, or its judges cannot
            be measured.
        InputError, LedgerError: what is there cannot be read.
    """
    if record.get("kind") != "annotate":
        raise PartialResultsUnavailable(unfinished_message(out))
    with TemporaryDirectory() as folder:
        try:
            replay = _Replay(out, record, folder, query_id)
            summary = replay.write_results()
        except Stopped as stopped:
            raise PartialResultsUnavailable(f"{unfinished_message(out)} ({stopped})") from None
        judges = {
            judge.name: asdict(Tally(known=replay.reply_counts[judge.name]))
            for judge in replay.panel
        }
        run = {**record, "summary": asdict(summary), "judges": judges}
        write_json(folder, RUN, run)
        yield PartialResults(folder, _describe_progress(out, replay, query_id))


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
            raise PartialResultsUnavailable(
                f"{unfinished_message(out)}, as its run.json cannot be read"
            ) from None
        if gone := [shard for shard in self.shards if not _is_there(shard)]:
            raise PartialResultsUnavailable(
                f"{unfinished_message(out)}; until then its input is needed: no {gone[0]}"
            )
        in_out = options.ledger_dir == options.out  # the directory may have been moved since
        self._ledger_dir = out if in_out else options.ledger_dir
        self.options = options.model_copy(update={"out": folder, "ledger": self._ledger_dir})
        self.protocol = load_protocol(options.protocol)
        self._query_id = query_id
        self._alone = None if self.protocol.learned_from(options) else query_id
        self._ledger = Ledger(self._ledger_dir)
        self.reply_counts, self.planned = Counter[str](), Counter[str]()

    def write_results(self) -> Summary:
        """Write results to the folder."""
        human = read_human_grades(self.options)
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

        summary = learn_and_score(write(), self.options, human, write)
        summary.rejected = set_aside + census.rejected
        paid = sum_paid(self._ledger_dir)
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
        self.reply_counts.clear()
        self.planned.clear()
        while part := list(islice(lines, _POOLS_AT_ONCE)):
            steps = [self._step(pool) for _, pool in part]
            yield build_results_from_steps([line for line, _ in part], steps, self.options, learned)

    def _step(self, pool: Pool) -> Step:
        """Return the state of a pool so far. A reply that is missing is no failure."""
        progress = Progress(self.protocol.rounds(pool, self.panel, self.options))
        step = progress.step(self._ledger)
        if self._query_id in (None, pool.query_id):
            self.reply_counts.update(step.reply_counts)
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
            failures_so_far=tuple(failed[False]),
            missing=step.missing,
            reply_counts=step.reply_counts,
        )


def _judge(fields: Mapping[str, Any]) -> Judge:
    return replace(parse_judge(fields["judge"]), options=fields["options"])


def _is_there(place: str) -> bool:
    fs, path = fsspec.url_to_fs(place)
    return bool(fs.exists(path))


def _describe_progress(out: str, replay: _Replay, query_id: str | None) -> str:
    replies, planned = replay.reply_counts.total(), replay.planned.total()
    qualifier = "up to " if replay.protocol.max_rounds != 1 else ""
    about = "" if query_id is None else " about this query"
    have = "has" if replies == 1 else "have"
    count = f"{replies:,} of {qualifier}{planned:,} requests{about} {have} a reply"
    if is_run_active(out):
        return f"This run is still in progress: {count} so far. Scores rest on these alone."
    return (
        f"This run was interrupted: {count}. Scores rest on these alone; the same command goes on."
    )
