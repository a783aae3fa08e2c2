"""Protocols at equal money, on Ray: each runs as `annotate` does, all out of one ledger."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from tempfile import TemporaryDirectory

from zelo_ray.bookkeeping import is_over_budget, money
from zelo_ray.census import take_census
from zelo_ray.config import Options, TrialsOptions
from zelo_ray.formats.files import writing
from zelo_ray.formats.pools import InputError, Limits, find_shards, read_lines
from zelo_ray.formats.results import write_json
from zelo_ray.formats.wording import counted
from zelo_ray.ledger import Ledger, read_rows
from zelo_ray.pipeline import annotate
from zelo_ray.pipeline.asking import Timer, Watch, claimed, placed
from zelo_ray.pipeline.before import joined
from zelo_ray.pipeline.session import on_ray
from zelo_ray.pricing import table_version
from zelo_ray.providers import panel_of
from zelo_ray.records import Judge
from zelo_ray.settle import Summary
from zelo_ray.trials import (
    RECORD,
    Bill,
    Item,
    Outcome,
    People,
    bills_of,
    by_query,
    capped,
    measure,
    plans,
    pools_in,
    read_people,
    requests_of,
    unused_by_all,
    words_of,
    write_outcome,
)

_KIND = "protocols"


@dataclass(frozen=True, slots=True)
class _Field:
    """What all protocols are asked about."""

    people: People
    items: list[Item]
    pools: str
    known: int
    """how many of the people's words are about documents of the input"""
    queries: int
    rejected: int
    """lines of the input that are bad"""


def protocols(
    options: TrialsOptions, watching: Callable[[], AbstractContextManager[Watch]]
) -> Outcome:
    """Run every protocol on what people labelled, and measure them all.

    Args:
        options: of the command.
        watching: makes the watch over one protocol's run.

    Raises:
        InputError, OptionError, PanelError, UnknownProtocol, ClaimError, LedgerError: before
            anything was asked.
        Stopped: while asking; nothing that was paid for is lost.
    """
    timer = Timer()
    options = placed(options)
    panel = panel_of(options, os.environ)
    pools = _pools_in(options.out)
    jobs = plans(options, (pools,))
    with watching() as watch, claimed(options, watch, _KIND):
        field = _take_in(options, options.out, watch)
        _tell(options, jobs, field, watch)
    timer.lap("read")
    ledger, summaries = Ledger(options.books), dict[str, Summary]()
    with on_ray(options):
        for name, own in jobs.items():
            with watching() as watch:
                watch.say(f"\n{name}")
                summaries[name] = annotate(capped(own, panel, ledger, pools_in(pools)), watch)
            ledger.refresh()
            timer.lap(name)
    with watching() as watch, claimed(options, watch, _KIND):
        outcome = _measure(options, jobs, panel, ledger, field)
        outcome.notes = [*_notes(options, outcome, field, summaries)]
        outcome.complete = not field.rejected and all(s.complete for s in summaries.values())
        write_outcome(options.out, outcome)
        timer.lap("measure")
        _write_record(options, outcome, field, summaries, timer)
    return outcome


@contextmanager
def planned(options: TrialsOptions, watch: Watch) -> Iterator[dict[str, Options]]:
    """The options of each protocol's run, with what its budget has left; for an estimate.

    The pools that they name are there until the context ends. Nothing else is written.

    Raises:
        InputError, OptionError, PanelError, UnknownProtocol: as `protocols` would.
    """
    panel, ledger = panel_of(options, os.environ, keys=False), Ledger(options.books)
    with TemporaryDirectory() as folder:
        pools = _pools_in(folder)
        _take_in(options, folder, watch)
        yield {
            name: capped(own, panel, ledger, pools_in(pools))
            for name, own in plans(options, (pools,)).items()
        }


def _take_in(options: TrialsOptions, folder: str, watch: Watch) -> _Field:
    """Write the pools that people labelled to a file of a folder; no other is asked about."""
    people = read_people(options.human, options.people, options.turn)
    shards = find_shards(options.inputs, options.out)
    shards, rejected = joined(options.model_copy(update={"out": folder}), shards, watch)
    keep = options.blocks == "query"  # else it is told by now what is bad
    census = take_census(shards, {}, folder, keep=keep)
    items: list[Item] = []
    known = queries = 0
    with writing(_pools_in(folder)) as file:
        for line in (line for shard in shards for line in read_lines(shard, Limits())):
            if not line.pool or (line.file, line.number) in census.repeated:
                continue
            query_id = line.pool.query_id
            doc_ids = [each.id for each in line.pool.documents[: options.document_limit]]
            known += people.knows(query_id, doc_ids)
            if found := [*people.items(query_id, doc_ids)]:
                items += found
                queries += 1
                file.write(line.raw + b"\n")
    if not items:
        about = counted(len(people.query_ids), "query", "queries")
        raise InputError(
            f"none of {counted(census.pools, 'pool')} of the input, such as "
            f"{census.places[0][2]!r}, holds a pair of documents of which {options.human} has a "
            f"word; it is about {about}, such as {min(people.query_ids)!r}"
        )
    return _Field(people, items, _pools_in(folder), known, queries, rejected + census.rejected)


def _pools_in(folder: str) -> str:
    return f"{folder.rstrip('/')}/pools.jsonl"


def _tell(options: TrialsOptions, jobs: Mapping[str, Options], field: _Field, watch: Watch) -> None:
    """Say what will be asked about, and what not."""
    watch.say(
        f"{len(field.items):,} pairs of documents of {field.queries:,} queries on which "
        f"people have a word; protocols: {', '.join(jobs)}"
    )
    if left := [f"--{name.replace('_', '-')}" for name in unused_by_all(options, jobs)]:
        watch.say(f"none of these protocols uses {', '.join(left)}")


def _measure(
    options: TrialsOptions,
    jobs: Mapping[str, Options],
    panel: tuple[Judge, ...],
    ledger: Ledger,
    field: _Field,
) -> Outcome:
    asked = {
        name: dict(requests_of(pools_in(field.pools), panel, own, ledger))
        for name, own in jobs.items()
    }
    keys = {key for queries in asked.values() for keys in queries.values() for key in keys}
    bills = bills_of(read_rows(options.books), keys)
    together = Bill()
    for bill in bills.values():
        together.add(bill)
    return measure(
        field.items,
        {name: words_of(own.out, field.items) for name, own in jobs.items()},
        {name: by_query(queries, bills) for name, queries in asked.items()},
        together,
        resamples=options.resamples,
        seed=options.seed,
    )


def _notes(
    options: TrialsOptions, outcome: Outcome, field: _Field, summaries: Mapping[str, Summary]
) -> Iterator[str]:
    """What is missing, and why."""
    spent = f"the budget of {money(options.max_usd or 0)} is used up"
    for trial in outcome.trials:
        summary = summaries[trial.protocol]
        why = "; ".join(
            dict.fromkeys(
                spent if is_over_budget(reason) else reason for reason in summary.absent.values()
            )
        )
        if left := trial.items - trial.judged:
            told = why or f"see {summary.out}/failures.parquet"
            yield f"{trial.protocol} gave no word on {left:,} of {trial.items:,} items: {told}"
        elif why:
            yield f"{trial.protocol}: {why}"
    if alone := field.people.said - field.known:
        what = "pairs" if field.people.kind == "votes" else "documents"
        limit = options.document_limit
        where = f"among the first {limit} documents of a query" if limit else "in the input"
        yield f"{alone:,} of {field.people.said:,} {what} in {options.human} are not {where}"
    if field.rejected:
        yield f"{field.rejected:,} bad input lines were set aside: see rejected.parquet"


def _write_record(
    options: TrialsOptions,
    outcome: Outcome,
    field: _Field,
    summaries: Mapping[str, Summary],
    timer: Timer,
) -> None:
    runs = {
        name: {
            "complete": summary.complete,
            "failures": summary.failures,
            "absent": summary.absent,
            "sweeps": summary.sweeps,
            "dollars": summary.dollars,
        }
        for name, summary in summaries.items()
    }
    names = ("zelo-ray", "ray", "numpy", "scipy", "pyarrow")
    record = {
        "kind": _KIND,
        "complete": outcome.complete,
        "options": options.model_dump(mode="json"),
        "versions": {each: version(each) for each in names}
        | {"prices": table_version(options.prices)},
        "items": len(field.items),
        "queries": field.queries,
        "people": {"kind": field.people.kind, "said": field.people.said, "known": field.known},
        "unit": outcome.unit,
        "together": asdict(outcome.together),
        "runs": runs,
        "notes": outcome.notes,
        "seconds": timer.laps,
    }
    write_json(options.out, RECORD, record)
