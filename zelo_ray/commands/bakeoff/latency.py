"""Time some queries again, one at a time: how long one takes when no other is in flight.

The times of the contest itself are under load: many queries are in flight, and all rankers work
side by side. The requests have keys of their own, so that a run that goes on finds their replies.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from zelo_ray.commands.bakeoff.outcome import MeasuredRanker
from zelo_ray.engine.job import Watch
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.tally import Tally
from zelo_ray.errors import Stopped
from zelo_ray.formats.pools import Line, LineLimits, read_lines
from zelo_ray.formats.wording import counted
from zelo_ray.options import AnnotateOptions, BakeoffOptions
from zelo_ray.protocols import AGAIN, find_protocol
from zelo_ray.ray.branches import run_branches
from zelo_ray.ray.coordinator import RunCoordinator
from zelo_ray.ray.dataset import Job
from zelo_ray.ray.one_at_a_time import ask_one_at_a_time
from zelo_ray.reasons import Disabled
from zelo_ray.records import Pool
from zelo_ray.rerankers import BakeoffRanker
from zelo_ray.rerankers.query_costs import QueryCost
from zelo_ray.rerankers.ranking import costs_in, rank_lines

Place = tuple[str, int]
"""A file, and the number of a line in it."""
RankerWithOptions = tuple[BakeoffRanker, AnnotateOptions]


@dataclass(slots=True)
class TimedAlone:
    """Results of asking rankers again: costs and figures by the name of the ranker."""

    costs: dict[str, list[QueryCost]] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)

    @property
    def labelled_tallies(self) -> dict[str, Tally]:
        """Return the figures by the names under which progress shows them."""
        return {_label(name): tally for name, tally in self.tallies.items()}

    def add_to(self, entries: Iterable[MeasuredRanker]) -> None:
        """Add the costs to the rankers that they are of."""
        for entry in entries:
            tally = self.tallies.get(entry.name, Tally())
            entry.costs += self.costs.get(entry.name, [])
            entry.dollars += tally.dollars
            entry.latency_dollars, entry.unpriced = tally.dollars, entry.unpriced + tally.unpriced


def choose_places(
    places: Iterable[tuple[str, int, str]], options: BakeoffOptions
) -> frozenset[Place]:
    """Choose the lines of the queries to time: as many as wanted, at random by the seed."""
    ordered = sorted(places, key=lambda place: _draw(options.seed, place[2]))
    return frozenset((file, number) for file, number, _ in ordered[: options.latency_queries])


def _draw(seed: int, query_id: str) -> str:
    return hashlib.sha256(f"{seed}:latency:{query_id}".encode()).hexdigest()


def time_queries_alone(
    rankers: Mapping[str, RankerWithOptions],
    lines: Sequence[Line],
    options: BakeoffOptions,
    coordinator: RunCoordinator,
    *,
    num_gpus: Mapping[str, float],
    run_id: str,
    planned: Mapping[str, int],
    watch: Watch,
    disabled: Mapping[str, Disabled],
) -> TimedAlone:
    """Ask each ranker about some pools again, one ranker and one pool after another.

    Args:
        rankers: those of the contest, each with its options.
        lines: the pools.
        options: of the bake-off.
        coordinator: of the run, which keeps its limits and its budget.
        num_gpus: by ranker, the GPUs that its actor takes.
        run_id: the run that pays.
        planned: the requests of the contest, by ranker.
        watch: gets messages and progress.
        disabled: rankers that are asked nothing more.

    Raises:
        Stopped: while asking; replies that came are kept.
    """
    to_time = {
        name: _again(*pair)
        for name, pair in rankers.items()
        if pair[0].judge and name not in disabled
    }
    if not (to_time and lines):
        return TimedAlone()
    queries = counted(len(lines), "query", "queries")
    watch.say(f"Asking {', '.join(to_time)} about {queries} again, one at a time, to time them")
    timed, requests = TimedAlone(), dict(planned)
    for name, (ranker, arm_options) in to_time.items():
        if ranker.judge is None:
            continue
        label = _label(name)
        job = Job(arm_options, (ranker.judge,), run_id, frozenset(), label=label)
        requests[label] = _count(ranker, arm_options, lines)
        gpus = num_gpus.get(name, 0)
        begin = partial(ask_one_at_a_time, job, lines, coordinator.client, ranker.judge, gpus)
        tallies, reason, _ = run_branches(begin, coordinator, requests, watch)
        if reason:
            raise Stopped(f"{reason} (replies that came are recorded)")
        timed.tallies[name] = tallies.get(label, Tally())
        block = rank_lines(lines, {name: (ranker, arm_options)}, Ledger(options.ledger_dir), {})
        timed.costs[name] = [replace(cost, is_alone=True) for cost in costs_in(block)]
    return timed


def lines_at(places: frozenset[Place], shards: Sequence[str]) -> list[Line]:
    """Read the lines at some places of the pools."""
    return [*_lines_at(places, shards)] if places else []


def _lines_at(places: frozenset[Place], shards: Sequence[str]) -> Iterator[Line]:
    for shard in shards:
        for line in read_lines(shard, LineLimits()):
            if (line.file, line.number) in places:
                yield line


def _label(ranker: str) -> str:
    return f"{ranker}, again"


def _again(ranker: BakeoffRanker, options: AnnotateOptions) -> RankerWithOptions:
    """Return the ranker with its options as it is asked again."""
    protocol = f"{AGAIN}{ranker.protocol}"
    changes = {"protocol": protocol, "actors": 1}
    return replace(ranker, protocol=protocol), options.model_copy(update=changes)


def _count(ranker: BakeoffRanker, options: AnnotateOptions, lines: Sequence[Line]) -> int:
    """Count the requests that some pools take."""
    panel, protocol = (ranker.judge,) if ranker.judge else (), find_protocol(ranker.protocol)
    pools: Iterator[Pool] = (line.pool for line in lines if line.pool)
    return sum(sum(protocol.count(pool, panel, options).values()) for pool in pools)
