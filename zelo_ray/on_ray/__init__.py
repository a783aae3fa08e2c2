"""The job on Ray: read shards, ask each provider's judges side by side, fit, write.

This package is the only one that knows Ray, and this file is its shape. A query's pool stays one
row from the line it was read from to its scores, so every stage sees all of a query and nothing has
to be shuffled together again.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from itertools import groupby
from typing import Any

import pyarrow as pa

os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
if not os.environ.get("RAY_ADDRESS"):  # a private Ray: then all that it opens is on loopback
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
import ray
import ray.data

from zelo_ray.engine.batch import in_batches
from zelo_ray.engine.batch.parts import in_doubt
from zelo_ray.engine.bookkeeping import Tally, is_over_budget, maybe_billed
from zelo_ray.engine.count_input import Count, InputCount, count_input
from zelo_ray.engine.earlier import Earlier, keep_the_rest, put_aside
from zelo_ray.engine.learning import human_grades, with_scores
from zelo_ray.engine.ledger import Ledger, spent_in, told_damage
from zelo_ray.engine.sample_input import pilot_lines
from zelo_ray.engine.settle import settle
from zelo_ray.engine.write_results import Summary, write_results
from zelo_ray.errors import LedgerError, Stopped
from zelo_ray.formats.pools import Line, find_shards
from zelo_ray.formats.record import RUN, begin
from zelo_ray.formats.results import write_json
from zelo_ray.on_ray.actors import Send
from zelo_ray.on_ray.branches import (
    POOLS_AT_ONCE,
    Timer,
    Watch,
    ask_all,
    asking,
    claimed,
    new_run_id,
    placed,
)
from zelo_ray.on_ray.coordinator import open_coordinator
from zelo_ray.on_ray.dataset import Job, dataset_of, parsed
from zelo_ray.on_ray.known import all_known, settle_known, tallies_of
from zelo_ray.on_ray.limits_actor import limits_for
from zelo_ray.on_ray.placement import of_asking
from zelo_ray.on_ray.preflight import joined, look_for_batches, paid_before, warn
from zelo_ray.on_ray.session import on_ray
from zelo_ray.options import AnnotateOptions
from zelo_ray.own import found_again
from zelo_ray.protocols import Learned, load
from zelo_ray.providers import panel_of
from zelo_ray.providers.pricing import table_version
from zelo_ray.records import Judge

_SETTLERS = 4  # each holds the ledger's index


def annotate(options: AnnotateOptions, watch: Watch, *, spent: float | None = None) -> Summary:
    """Run the whole job: census, ask, fit, write.

    Args:
        options: of the job.
        watch: who is told how it goes.
        spent: dollars of its budget that are spent; None: all that the ledger tells.

    Raises:
        InputError, OptionError, PanelError, LockError, LedgerError: before anything was asked.
        Stopped: while asking; nothing that was paid for is lost.
    """
    timer = Timer()
    load(options.protocol)
    panel = panel_of(options, os.environ)
    options = placed(options)
    shards = find_shards(options.inputs, options.out)
    human = human_grades(options)
    with claimed(options, watch, "annotate"):
        shards, set_aside = joined(options, shards, watch)
        keep = options.blocks == "query"  # else it is told by now what is bad
        counts = {judge.name: _count(judge, panel, options) for judge in panel}
        census = count_input(shards, counts, options.out, keep=keep)
        in_all, only = census, None
        if options.pilot is not None and options.pilot < census.pools:
            only = frozenset(pilot_lines(census.places, options.pilot, options.seed))
            job = Job(options, panel, "", frozenset(), only)
            census = count_input(shards, counts, options.out, only=job.takes, keep=keep)
        timer.lap("read")
        most = "up to " if load(options.protocol).max_rounds != 1 else ""
        planned = f"{most}{sum(census.planned.values()):,} requests"
        watch.say(
            f"{census.pools:,} queries, {census.documents:,} documents: {planned} to "
            f"{', '.join(judge.name for judge in panel)}"
        )
        look_for_batches(options, panel, watch)
        warn(options, panel, watch)
        away = {judge.name for judge in panel if in_batches(judge, options)}
        paid = paid_before(options, watch, away)
        spent = paid.dollars if spent is None else spent + paid.of_damage
        job = Job(options, panel, new_run_id(), frozenset(census.repeated), only)
        put_aside(options)
        job, summary, tallies = _come_by(
            *(job, shards, census, watch), timer=timer, human=human, spent=spent
        )
        summary.rejected, summary.absent = set_aside + census.rejected, dict(job.absent)
        summary.pilot_of = in_all.pools if only else 0
        _add_up(summary, job)
        summary.seconds = timer.laps
        _write_run(job, summary, tallies)
        keep_the_rest(options)
    return summary


def _come_by(
    job: Job,
    shards: Sequence[str],
    census: InputCount,
    watch: Watch,
    *,
    timer: Timer,
    human: pa.Table | None,
    spent: float,
) -> tuple[Job, Summary, Mapping[str, Tally]]:
    """Ask, settle and write; without Ray where nothing is to be asked.

    Returns:
        The job with the judges that were lost, what it came to, and figures by judge.
    """
    known = all_known(job, shards, census.planned)
    timer.lap("look for replies")
    tallies: Mapping[str, Tally]
    if known and len(known) == census.pools:
        _begin(job)
        tallies = tallies_of(job, known)
        replies = sum(tally.known for tally in tallies.values())
        watch.say(f"all {replies:,} requests are known: nothing to ask")
        summary = settle_known(job, known)
        summary = with_scores(summary, job.options, human, partial(settle_known, job, known))
        timer.lap("fit and write")
        return job, summary, tallies
    with on_ray(job.options), limits_for(job.run_id):
        timer.lap("start Ray")
        _begin(job)
        job, summary, tallies = _sweep(job, shards, census, watch, timer, spent=spent)
        summary = with_scores(summary, job.options, human, partial(_settle, job, shards))
        timer.lap("learn and score")
    return job, summary, tallies


def _sweep(
    job: Job,
    shards: Sequence[str],
    census: InputCount,
    watch: Watch,
    timer: Timer,
    *,
    spent: float,
) -> tuple[Job, Summary, Mapping[str, Tally]]:
    """Ask and settle until nothing is missing: once, unless questions wait for other judges' words.

    Returns:
        The job with the judges that were lost, what it came to, and figures by judge.
    """
    desk, sweeps, came = open_coordinator(job.options, spent, watch.budget), 0, (-1, 0)
    while True:
        tallies, absent = _ask(job, shards, desk, census, watch)
        timer.lap("ask")
        job = replace(job, absent=absent, sweep=job.sweep + 1)
        summary = _settle(job, shards)
        timer.lap("fit and write")
        summary.sweeps = sweeps = sweeps + 1
        if summary.queries != census.pools:
            raise Stopped(f"the input held {census.pools:,} pools, now {summary.queries:,}")
        before, came = came, (sum(tally.answered for tally in tallies.values()), len(absent))
        if not summary.missing:
            return job, summary, tallies
        if came == before:
            raise Stopped(f"{summary.missing:,} replies are missing and no judge will give them")


def _count(judge: Judge, panel: Sequence[Judge], options: AnnotateOptions) -> Count:
    """How many requests a pool takes from one judge."""
    protocol = load(options.protocol)
    return lambda pool: protocol.count(pool, panel, options)[judge.name]


def _ask(
    job: Job, shards: Sequence[str], desk: Any, census: InputCount, watch: Watch
) -> tuple[dict[str, Tally], dict[str, str]]:
    """Ask every judge what the ledger does not hold, the providers side by side.

    Those that are lost already are asked nothing.

    Returns:
        Figures by judge, and the judges that are asked nothing more, with the reason.
    """
    online, sent = [], []
    panel = [judge for judge in job.panel if judge.name not in job.absent]
    for _, each in groupby(sorted(panel, key=lambda j: j.provider), lambda j: j.provider):
        judges = list(each)
        away = [judge for judge in judges if in_batches(judge, job.options)]
        for judge in away:  # an actor each, so that no judge's full queue holds up another
            actor: Any = Send
            sent.append(actor.options(**of_asking()).remote(job, [judge], desk).run.remote(shards))
        if here := [judge for judge in judges if judge not in away]:
            online.append(asking(job, shards, desk, here))
    tallies, reason, lost = ask_all(online, sent, desk, census.planned, watch)
    nobody = len(lost) == len(job.panel) and not any(map(is_over_budget, lost.values()))
    if reason or nobody:
        kept = sum(tally.answered for tally in tallies.values())
        why = reason or "; ".join(dict.fromkeys(lost.values()))
        raise Stopped(f"{why} ({kept:,} replies of this run are kept)")
    return tallies, lost


class Settle:
    """Turns replies into judgments and scores, for whole pools."""

    def __init__(self, job: Job, learned: Learned | None) -> None:
        self._job, self._learned = job, learned
        self._ledger = Ledger(job.options.books)
        self._earlier = Earlier(job.options.out, load(job.options.protocol))

    def __call__(self, block: pa.Table) -> pa.Table:
        """Settle the pools of a block."""
        lines = parsed(block)
        try:
            return self._settled(lines)
        except LedgerError:  # of what was damaged meanwhile it is left to know that it is missing
            self._ledger = Ledger(self._job.options.books)
            return self._settled(lines)

    def _settled(self, lines: Sequence[Line]) -> pa.Table:
        job = self._job
        return settle(
            *(lines, job.panel, job.options, self._ledger),
            absent=job.absent,
            learned=self._learned,
            earlier=self._earlier,
        )


def _settle(job: Job, shards: Sequence[str], learned: Learned | None = None) -> Summary:
    """Turn replies into results; into judgments only, where scores have to be learned first."""
    only = bool(load(job.options.protocol).learned_from(job.options)) and learned is None
    dataset = dataset_of(job, shards).map_batches(
        Settle,
        fn_constructor_args=(job, learned),
        batch_size=POOLS_AT_ONCE,
        batch_format="pyarrow",
        num_cpus=0,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=_SETTLERS),
    )
    blocks: Any = dataset.iter_batches(batch_size=None, batch_format="pyarrow")
    return write_results(blocks, job.options, judgments_only=only)


def _add_up(summary: Summary, job: Job) -> None:
    """The money, from the books: actors that died took their own figures with them."""
    paid = spent_in(job.options.books, job.run_id)
    summary.dollars_in_all, summary.damaged = paid.dollars, len(paid.damaged)
    summary.maybe_dollars = in_doubt(job.options.books)
    summary.notes += [maybe_billed(summary.maybe_dollars)] if summary.maybe_dollars else []
    summary.dollars, summary.unpriced = paid.of_run, paid.unpriced_of_run
    summary.notes += [told_damage(paid.damaged)] if paid.damaged else []


def _begin(job: Job) -> None:
    """Write what tells of a run that does not come to its end, from wherever one looks at it."""
    shards = find_shards(job.options.inputs, job.options.out)
    begin(job.options.out, RUN, _record(job) | {"shards": shards})


def _record(job: Job) -> dict[str, Any]:
    options = job.options.model_dump(mode="json")
    return {
        "kind": "annotate",
        "run_id": job.run_id,
        "options": {**options, "protocol": found_again(options["protocol"])},
        "judgments": list(load(job.options.protocol).tables),
        "panel": [{"judge": judge.name, "options": judge.options} for judge in job.panel],
    }


def _write_run(job: Job, summary: Summary, tallies: Mapping[str, Tally]) -> None:
    options = job.options
    packages = ("zelo-ray", "ray", "pydantic", "openai", "anthropic", "google-genai", "numpy")
    write_json(
        options.out,
        RUN,
        {
            **_record(job),
            "finished": True,
            "complete": summary.complete,
            "versions": {name: version(name) for name in packages}
            | {"prices": table_version(options.prices)},
            "summary": asdict(summary),
            "judges": {name: asdict(tally) for name, tally in tallies.items()},
        },
    )
