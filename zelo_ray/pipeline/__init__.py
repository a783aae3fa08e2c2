"""The job on Ray: read shards, ask each provider's judges side by side, fit, write.

This package is the only one that knows Ray, and this file is its shape. A query's pool stays one
row from the line it was read from to its scores, so every stage sees all of a query and nothing has
to be shuffled together again.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from itertools import groupby
from typing import Any

import pyarrow as pa

os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
import ray
import ray.data

from zelo_ray.batch import in_batches
from zelo_ray.batch.parts import Parts
from zelo_ray.bookkeeping import Stopped, Tally, is_over_budget
from zelo_ray.census import Census, Count, take_census
from zelo_ray.claim import claim
from zelo_ray.config import Options
from zelo_ray.formats.pools import find_shards
from zelo_ray.formats.results import write_json
from zelo_ray.humans import human_grades
from zelo_ray.ledger import Ledger, drop_reserves, read_rows
from zelo_ray.pipeline.asking import (
    POOLS_AT_ONCE,
    Timer,
    Watch,
    absolute,
    ask_all,
    asking,
    new_run_id,
)
from zelo_ray.pipeline.desk import open_desk
from zelo_ray.pipeline.fill import Send
from zelo_ray.pipeline.learning import learn
from zelo_ray.pipeline.quota import limits_for
from zelo_ray.pipeline.rows import Job, dataset_of, parsed
from zelo_ray.pipeline.session import on_ray
from zelo_ray.pricing import table_version, unpriced
from zelo_ray.protocols import Learned, unused
from zelo_ray.protocols import module as protocol_module
from zelo_ray.providers import PanelError, panel_of
from zelo_ray.providers import module as provider_module
from zelo_ray.records import Judge
from zelo_ray.settle import Summary, settle, write_results
from zelo_ray.survey import pilot_lines

_SETTLERS = 4  # each holds the ledger's index


def annotate(options: Options, watch: Watch) -> Summary:
    """Run the whole job: census, ask, fit, write.

    Raises:
        InputError, OptionError, PanelError, ClaimError, LedgerError: before anything was asked.
        Stopped: while asking; nothing that was paid for is lost.
    """
    timer = Timer()
    panel = panel_of(options, os.environ)
    options = options.model_copy(update={"out": absolute(options.out)})
    shards = find_shards(options.inputs, options.out)
    human = human_grades(options)
    with claim(options.out, watch.say):
        drop_reserves(options.out)
        counts = {judge.name: _count(judge, panel, options) for judge in panel}
        census = take_census(shards, counts, options.out)
        in_all, only = census, None
        if options.pilot is not None and options.pilot < census.pools:
            only = frozenset(pilot_lines(census.places, options.pilot, options.seed))
            job = Job(options, panel, "", frozenset(), only)
            census = take_census(shards, counts, options.out, only=job.takes)
        timer.lap("read")
        watch.say(
            f"{census.pools:,} queries, {census.documents:,} documents: "
            f"{sum(census.planned.values()):,} requests to {', '.join(j.name for j in panel)}"
        )
        _look_for_batches(options, panel, watch)
        _warn(options, panel, watch)
        run_id = new_run_id()
        job = Job(options, panel, run_id, frozenset(census.repeated), only)
        with on_ray(options), limits_for(run_id):
            timer.lap("start Ray")
            desk = open_desk(options)
            missing = -1
            while missing:  # one sweep for protocols of one round
                tallies, absent = _ask(job, shards, desk, census, watch)
                timer.lap("ask")
                summary = _settle(job, shards, absent)
                timer.lap("fit and write")
                if summary.queries != census.pools:
                    raise Stopped(f"the input held {census.pools:,} pools, now {summary.queries:,}")
                if summary.missing == missing:
                    raise Stopped(f"{missing:,} replies are missing and no judge will give them")
                missing = summary.missing
            if protocol_module(options.protocol).LEARNS:
                learned = learn(options, human)
                summary = _settle(job, shards, absent, learned)
                summary.raters, summary.shares = list(learned.raters), list(learned.shares)
                summary.notes = list(learned.notes)
                timer.lap("learn and score")
        drop_reserves(options.out)
        summary.rejected, summary.absent = census.rejected, absent
        summary.pilot_of = in_all.pools if only else 0
        _add_up(summary, run_id)
        summary.seconds = timer.laps
        _write_run(job, summary, tallies)
    return summary


def _count(judge: Judge, panel: Sequence[Judge], options: Options) -> Count:
    """How many requests a pool takes from one judge."""
    protocol = protocol_module(options.protocol)
    return lambda pool: protocol.count(pool, panel, options)[judge.name]


def _look_for_batches(options: Options, panel: Sequence[Judge], watch: Watch) -> None:
    """What lies in batches is paid for: nobody may ask it online meanwhile.

    Raises:
        PanelError: a judge that is to be asked online has open batches.
    """
    lying = Counter[str]()
    for part in Parts(options.out):
        if part.is_open:
            lying[part.judge] += part.requests
    for judge in panel:
        if lying.pop(judge.name, 0) and not in_batches(judge, options):
            raise PanelError(
                f"requests to {judge.name} lie in batches; collect them with --mode batch (to end "
                f"them first: zelo-ray batches {options.out} --cancel)"
            )
    for name, count in lying.items():
        watch.say(f"{count:,} requests to {name}, who is not on this panel, lie in batches still")


def _warn(options: Options, panel: Sequence[Judge], watch: Watch) -> None:
    """Say what will not be as one might think."""
    names = [judge.name for judge in panel]
    if strangers := [n for n in {**options.limits, **options.prices} if n not in names]:
        watch.say(f"limits or prices that are not used, as the panel is another: {strangers}")
    if left := [f"--{name.replace('_', '-')}" for name in unused(options)]:
        watch.say(f"--protocol {options.protocol} does not use {', '.join(left)}")
    for name in unpriced(panel, options.prices):
        watch.say(f"{name}: its price is unknown and not counted; give it in the options (prices:)")
    rounds = protocol_module(options.protocol).ROUNDS
    if rounds > 1 and any(in_batches(judge, options) for judge in panel):
        watch.say(f"{options.protocol} asks {rounds} rounds of batches, each may take a day")
    for judge in panel:
        given = options.limits.get(judge.name)
        rpm = provider_module(judge.provider).RATES.get("rpm")
        if in_batches(judge, options):
            watch.say(f"{judge.name}: in batches, which may take a day; Ctrl-C leaves them running")
        elif rpm and not judge.base_url and not (given and given.rpm):
            watch.say(
                f"{judge.name}: its limits are not known; it starts at a cautious {rpm:,.0f} "
                "requests a minute and goes by what the server says (or give limits: rpm, tpm)"
            )


def _ask(
    job: Job, shards: Sequence[str], desk: Any, census: Census, watch: Watch
) -> tuple[dict[str, Tally], dict[str, str]]:
    """Ask every judge what the ledger does not hold, the providers side by side.

    Returns:
        Figures by judge, and the judges that are asked nothing more, with the reason.
    """
    online, sent = [], []
    for _, each in groupby(sorted(job.panel, key=lambda j: j.provider), lambda j: j.provider):
        judges = list(each)
        away = [judge for judge in judges if in_batches(judge, job.options)]
        for judge in away:  # an actor each, so that no judge's full queue holds up another
            actor: Any = Send
            sent.append(actor.remote(job, [judge], desk).run.remote(shards))
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

    def __init__(self, job: Job, absent: Mapping[str, str], learned: Learned | None) -> None:
        self._job, self._absent, self._learned = job, absent, learned
        self._ledger = Ledger(job.options.out)

    def __call__(self, block: pa.Table) -> pa.Table:
        """Settle the pools of a block."""
        job = self._job
        lines = parsed(block)
        return settle(
            *(lines, job.panel, job.options, self._ledger),
            absent=self._absent,
            learned=self._learned,
        )


def _settle(
    job: Job,
    shards: Sequence[str],
    absent: Mapping[str, str],
    learned: Learned | None = None,
) -> Summary:
    """Turn replies into results; into judgments only, where scores have to be learned first."""
    only = bool(protocol_module(job.options.protocol).LEARNS) and learned is None
    dataset = dataset_of(job, shards).map_batches(
        Settle,
        fn_constructor_args=(job, absent, learned),
        batch_size=POOLS_AT_ONCE,
        batch_format="pyarrow",
        num_cpus=0,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=_SETTLERS),
    )
    blocks: Any = dataset.iter_batches(batch_size=None, batch_format="pyarrow")
    return write_results(blocks, job.options, judgments_only=only)


def _add_up(summary: Summary, run_id: str) -> None:
    """The money, from the books: actors that died took their own figures with them."""
    for row in read_rows(summary.out):
        summary.dollars_in_all += row.dollars or 0.0
        if row.run_id == run_id:
            summary.dollars += row.dollars or 0.0
            summary.unpriced += row.dollars is None


def _write_run(job: Job, summary: Summary, tallies: Mapping[str, Tally]) -> None:
    options = job.options
    packages = ("zelo-ray", "ray", "pydantic", "openai", "anthropic", "google-genai", "numpy")
    write_json(
        options.out,
        "run.json",
        {
            "run_id": job.run_id,
            "complete": summary.complete,
            "options": options.model_dump(mode="json"),
            "panel": [{"judge": judge.name, "options": judge.options} for judge in job.panel],
            "versions": {name: version(name) for name in packages}
            | {"prices": table_version(job.options.prices)},
            "summary": asdict(summary),
            "judges": {name: asdict(tally) for name, tally in tallies.items()},
        },
    )
