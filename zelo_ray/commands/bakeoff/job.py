"""Run a bake-off: read pools, let every reranker order them in parallel, measure, write.

Each ranker has workers of its own, and its answers go through the ledger as a judge's do.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff import measure
from zelo_ray.commands.bakeoff.contrasts import build_contrasts, contrasting_queries
from zelo_ray.commands.bakeoff.costs import sum_costs
from zelo_ray.commands.bakeoff.files import build_record, write_annotated, write_outcome
from zelo_ray.commands.bakeoff.model_families import FamilyOverlap, find_family_overlap
from zelo_ray.commands.bakeoff.outcome import BakeoffOutcome, Caution, MeasuredRanker, Unranked
from zelo_ray.commands.bakeoff.own_queries import TextSources, remove_own_queries
from zelo_ray.commands.bakeoff.ranking_builder import RankingBuilder
from zelo_ray.commands.bakeoff.self_preference import guard_against_self_preference
from zelo_ray.commands.bakeoff.truth_without_judges import find_truth_run
from zelo_ray.commands.where import JobSize, executor_of
from zelo_ray.engine.batch.parts import sum_possibly_billed
from zelo_ray.engine.coordinator import CoordinatedRun
from zelo_ray.engine.count_input import Count, InputCount, count_input
from zelo_ray.engine.executor import AskedJudges, Executor
from zelo_ray.engine.exposure import sum_uncounted
from zelo_ray.engine.job import (
    Job,
    JobLines,
    Timer,
    Watch,
    absolute_place,
    claim_output,
    new_run_id,
    with_absolute_places,
)
from zelo_ray.engine.ledger import Damaged, salt_of
from zelo_ray.engine.preflight import check_spending, refuse_small_cap
from zelo_ray.engine.tally import Tally
from zelo_ray.errors import InputError, OptionError, Stopped
from zelo_ray.evaluation.measures import Truth, parse_measures
from zelo_ray.files.candidates import explain_mismatch
from zelo_ray.files.inputs import holds_texts, resolve_inputs
from zelo_ray.files.judgments import digest_judgments, pools_file_of_truth, read_qrels, read_runs
from zelo_ray.files.labels import read_labels
from zelo_ray.files.pools import Line, LineLimits, read_lines
from zelo_ray.files.rows import open_source
from zelo_ray.files.run_record import RUN, last_record, record_start
from zelo_ray.files.schema import Columns, split_columns
from zelo_ray.files.storage import find_shards, write_json
from zelo_ray.files.tables import schema_of
from zelo_ray.files.wording import counted
from zelo_ray.names import did_you_mean
from zelo_ray.options import AnnotateOptions
from zelo_ray.plugins import loaded_packages
from zelo_ray.protocols import find_protocol
from zelo_ray.providers.pricing import table_version
from zelo_ray.reasons import Disabled
from zelo_ray.records import Judge, Pool, Ranked
from zelo_ray.rerankers import BakeoffRanker, asking_options, build_rankers
from zelo_ray.rerankers.ranking import QueryCost, costs_in, query_fields


@dataclass(frozen=True, slots=True)
class _AskedRankers:
    """The rankers that are asked, each with its options, and the pools that they order."""

    rankers: Mapping[str, tuple[BakeoffRanker, AnnotateOptions]]
    lines: JobLines
    places: frozenset[tuple[str, int]]
    run_id: str

    @property
    def judges(self) -> dict[str, Judge]:
        """Return the judges that are asked, by the name of the reranker."""
        return {name: ranker.judge for name, (ranker, _) in self.rankers.items() if ranker.judge}

    def job(self, name: str) -> Job:
        """Return the job of one reranker that is asked."""
        ranker, options = self.rankers[name]
        panel = (ranker.judge,) if ranker.judge else ()
        return Job(options, panel, self.run_id, frozenset(), self.places, label=name)


@dataclass(slots=True)
class _AskedResults:
    """Results of asking the rankers."""

    rankers: list[MeasuredRanker]
    tallies: dict[str, Tally] = field(default_factory=dict)
    damaged: list[Damaged] = field(default_factory=list)


def measure_rankers(options: BakeoffOptions, watch: Watch) -> BakeoffOutcome:
    """Run the whole bake-off: rank, measure, compare, write.

    Raises:
        OptionError, InputError, PanelError, LockError, LedgerError: before anything was asked.
        Stopped: while asking; nothing that was paid for is lost.
    """
    timer, run_id, raw_options = Timer(), new_run_id(), options
    columns = split_columns(options.columns)
    options, input_notes = resolve_inputs(
        _use_truth_as_pools(options), absolute_place(options.out), watch.say, "pools", columns
    )
    options = with_absolute_places(options)
    parse_measures(options.measures)
    rankers = {
        ranker.name: (ranker, _options_to_ask(ranker, options))
        for ranker in build_rankers(options, os.environ, run_id=run_id)
    }
    if not rankers and not options.runs:
        raise OptionError("no rankers: name --rerankers, such as original bm25, or --runs FILE")
    with claim_output(options, watch, "bakeoff"):
        table = read_qrels(options.truth, columns)
        labels = read_labels(options.human, columns) if options.human else None
        digest, changed = _check_truth_changes(options, table)
        runs = [MeasuredRanker(name, run) for name, run in read_runs(options.runs, columns).items()]
        baseline = _baseline(options, [*rankers, *(e.name for e in runs)], columns)
        columns.refuse_unused()
        runs.extend(baseline)
        baseline_name = baseline[0].name if baseline else options.baseline
        _refuse_duplicate_names([*rankers], [entry.name for entry in runs])
        _say_mismatches(table, runs, options.truth, watch)
        judged = find_truth_run(options.truth)
        kinship = _find_families(
            *(judged.judges if judged else (), [ranker for ranker, _ in rankers.values()]),
            *(runs, options),
        )
        wants_pools = rankers or options.pools or options.slices or options.write_annotated
        shards = _shards(options) if wants_pools else []
        fields: dict[str, dict[str, str]] = {}
        census = _count_pools(table, shards, rankers, options, fields) if shards else InputCount()
        timer.lap("read")
        if shards:
            table = _truth_with_pools(table, census, watch)
        places = frozenset((file, number) for file, number, _ in census.places)
        asked = _AskedRankers(rankers, JobLines(shards, census.held), places, run_id)
        ranked = _rank_asked(asked, options, census, watch, timer)
        ranked.rankers.extend(runs)
        measured = options.model_copy(update={"baseline": baseline_name})
        table, own_cautions = _remove_own(
            table, ranked.rankers, (raw_options, options), shards, watch
        )
        cautions = own_cautions + changed
        outcome = measure(Truth(table), ranked.rankers, measured, fields, labels, cautions=cautions)
        guard_against_self_preference(outcome, kinship, judged, measured)
        outcome.costs = sum_costs(outcome.rankers, measured)
        outcome.truth_digest, outcome.damaged = digest, ranked.damaged
        outcome.possibly_billed = sum_possibly_billed(options.ledger_dir)
        outcome.uncounted = sum_uncounted(options.ledger_dir)
        timer.lap("measure")
        write_outcome(options.out, outcome)
        if options.write_annotated:
            write_annotated(options.out, _ranked_lines(shards, census), outcome.rankers)
        contrasted = build_contrasts(outcome, _pools(options, shards, contrasting_queries(outcome)))
        timer.lap("write")
        figures = build_record(outcome, contrasted, timer.laps)
        _write_run(options, run_id, figures | {"notes": input_notes}, ranked.tallies)
    return outcome


_OWN_QUERY_MESSAGES: Mapping[str, str] = {
    "own_query": "removed the query itself (same id and text) from runs and truth, as in BEIR's "
    "evaluation: of {}",
    "own_id": "kept a document with the id of its query, whose text differs or is unknown: of {}",
}


def _find_families(
    judges: Iterable[str],
    rankers: Iterable[BakeoffRanker],
    runs: Sequence[MeasuredRanker],
    options: BakeoffOptions,
) -> FamilyOverlap:
    """Return the model families of rankers and of the truth's judges."""
    who = {
        ranker.name: ranker.judge.name if ranker.judge else ranker.protocol for ranker in rankers
    }
    who |= {entry.name: entry.name for entry in runs}
    return find_family_overlap(judges, who, options.families)


def _say_mismatches(
    truth: pa.Table, runs: Sequence[MeasuredRanker], place: str, watch: Watch
) -> None:
    """Say which runs share no query, or no document of a query, with the truth, and why."""
    for entry in runs:
        for name, noun in (("query_id", "query"), ("doc_id", "document")):
            ids, others = (pc.unique(table[name]) for table in (entry.run, truth))
            if len(ids) and not pc.any(pc.is_in(ids, value_set=others)).as_py():
                why = explain_mismatch(entry.name, ids.to_pylist(), place, others.to_pylist())
                watch.say(f"no {noun} of {entry.name} is in the truth: {why}")
                break


def _check_truth_changes(options: BakeoffOptions, table: pa.Table) -> tuple[str, list[Caution]]:
    """Return the digest of the truth; warn if it has changed since the last bake-off here."""
    digest, last = digest_judgments(table), last_record(options.out)
    same = (last.get("options") or {}).get("truth") == options.truth
    new = same and last["summary"]["truth"].get("digest", digest) != digest
    return digest, [Caution("new_truth")] * new


def _remove_own(
    table: pa.Table,
    entries: Sequence[MeasuredRanker],
    options: tuple[BakeoffOptions, BakeoffOptions],
    shards: Sequence[str],
    watch: Watch,
) -> tuple[pa.Table, list[Caution]]:
    """Remove queries that are their own candidates from runs and truth, and say so.

    Args:
        table: the truth.
        entries: the rankers.
        options: as given, which may name a corpus; and with all inputs converted to pools.
        shards: the files of the pools, if they were read.
        watch: gets messages.
    """
    raw_options, read = options
    texts = TextSources(
        partial(_any_shards, read, shards), raw_options.corpus, raw_options.queries, read.truth
    )
    table, cautions = remove_own_queries(table, entries, texts)
    for caution in cautions:
        watch.say(
            _OWN_QUERY_MESSAGES[caution.code].format(counted(caution.queries, "query", "queries"))
        )
    return table, cautions


def _options_to_ask(ranker: BakeoffRanker, options: BakeoffOptions) -> AnnotateOptions:
    """Return the options to ask a ranker with; if one has to stop, the others go on."""
    return asking_options(ranker, options).model_copy(update={"allow_missing_judges": True})


def _use_truth_as_pools(options: BakeoffOptions) -> BakeoffOptions:
    """Use the truth as pools, if pools are needed and it holds texts in another format.

    Raises:
        OptionError: an option says how to read pools, and there are none.
    """
    wanted = options.rerankers or options.slices or options.write_annotated
    pools, texts = (
        options.pools,
        wanted and not options.pools and not pools_file_of_truth(options.truth),
    )
    if texts and holds_texts(open_source(options.truth)):
        pools = (options.truth,)
    for name in ("corpus", "queries"):
        if getattr(options, name) and not pools:
            raise OptionError(f"--{name} needs --pools; name some, or leave it out")
    return options if pools == options.pools else options.model_copy(update={"pools": pools})


def _shards(options: BakeoffOptions) -> list[str]:
    """Return the files of the pools, which may be next to the truth."""
    truth_pools = () if options.pools else (pools_file_of_truth(options.truth) or "",)
    if truth_pools == ("",):
        raise OptionError(f"--pools: name the documents to rank; {options.truth} has none")
    return find_shards(options.pools or truth_pools)


def _baseline(
    options: BakeoffOptions, rankers: Sequence[str], columns: Columns
) -> list[MeasuredRanker]:
    """Return the baseline as one more ranker, if it is the file of a run.

    Raises:
        OptionError: it is neither a ranker nor a run, or there is no other ranker.
        InputError: it is not a run.
    """
    name = options.baseline
    if name is None or name in rankers:
        if name and len(rankers) == 1:
            raise OptionError(f"--baseline: {name} is the only ranker; name --runs or --rerankers")
        return []
    try:
        runs = read_runs([name], columns)
    except InputError as error:
        near = did_you_mean(name, rankers)
        raise OptionError(
            f"--baseline: {name} is neither one of the rankers {', '.join(rankers)}{near} nor a "
            f"run: {error}"
        ) from None
    if len(runs) > 1:
        raise OptionError(f"--baseline: {name} holds {len(runs):,} runs; name a file of one")
    return [MeasuredRanker(*pair) for pair in runs.items()]


def _refuse_duplicate_names(rankers: Sequence[str], runs: Sequence[str]) -> None:
    names = [*rankers, *runs]
    if twins := sorted({name for name in names if names.count(name) > 1}):
        do = "--runs NAME=FILE" if twins[0] in runs else "--rerankers NAME=RERANKER"
        raise OptionError(f"two rankers are named {twins[0]}; name one of them, as {do}")


def _count_pools(
    table: pa.Table,
    shards: Sequence[str],
    rankers: Mapping[str, tuple[BakeoffRanker, AnnotateOptions]],
    options: BakeoffOptions,
    fields: dict[str, dict[str, str]],
) -> InputCount:
    """Count the pools whose query is in the truth; the others are ignored.

    For slices, the fields of each query are added to ``fields``.
    """
    query_ids = set(pc.unique(table["query_id"]).to_pylist())
    pool_ids = set[str]()
    counts = {name: _count(*ranker) for name, ranker in rankers.items() if ranker[0].judge}

    def wanted(line: Line) -> bool:
        if line.pool is None:
            return False
        pool_ids.add(line.pool.query_id)
        if line.pool.query_id not in query_ids:
            return False
        if options.slices:
            fields[line.pool.query_id] = query_fields(line)
        return True

    try:
        census = count_input(
            *(shards, counts, options.out),
            only=wanted,
            show=options.show_query,
            metadata=options.show_metadata,
        )
    except InputError as error:
        if not pool_ids:
            raise
        why = explain_mismatch("the input", pool_ids, options.truth, query_ids)
        raise InputError(f"no query of the input is in the truth: {why}") from error
    names = sorted({name for record in fields.values() for name in record})
    if unknown := [name for name in options.slices if name not in names]:
        has = f"they have {', '.join(names)}" if names else "they have none"
        raise OptionError(f"--slices {unknown[0]}: no query has this field; {has}")
    return census


def _count(ranker: BakeoffRanker, options: AnnotateOptions) -> Count:
    protocol, panel = find_protocol(ranker.protocol), (ranker.judge,) if ranker.judge else ()
    return lambda pool: sum(protocol.count(pool, panel, options).values())


def _truth_with_pools(table: pa.Table, census: InputCount, watch: Watch) -> pa.Table:
    """Return the rows of the truth for queries that have pools."""
    held = len(pc.unique(table["query_id"]))
    watch.say(
        f"{counted(census.pools, 'query', 'queries')}, "
        f"{counted(census.documents, 'document')}; requests: "
        + (", ".join(f"{name} {n:,}" for name, n in census.planned.items()) or "none")
    )
    for line in (*census.reports, *census.own):
        watch.say(line)
    if census.rejected:
        bad = counted(census.rejected, "invalid input line")
        watch.say(f"Rejected {bad}; see rejected.parquet.")
    if held > census.pools:
        watch.say(f"{held - census.pools:,} queries of the truth have no pool, and are left out")
    ids = pa.array([query_id for *_, query_id in census.places], pa.string())
    return table.filter(pc.is_in(table["query_id"], ids))


def _rank_asked(
    asked: _AskedRankers,
    options: BakeoffOptions,
    census: InputCount,
    watch: Watch,
    timer: Timer,
) -> _AskedResults:
    """Ask the rankers, if there are any; record before that the run has begun."""
    if not asked.rankers:
        return _AskedResults([])
    salt_of(options.ledger_dir)  # fails early if the ledger cannot be used
    queries = {"queries": len(asked.places)}
    record_start(options.out, RUN, _record(options, asked.run_id) | queries)
    return _rank_all(asked, options, census, watch, timer)


def _rank_all(
    field: _AskedRankers,
    options: BakeoffOptions,
    census: InputCount,
    watch: Watch,
    timer: Timer,
) -> _AskedResults:
    """Ask every ranker, then collect how each ranked every pool."""
    planned = census.planned
    judges, gpus = field.judges, options.num_gpus
    paid = check_spending(options, judges, watch)
    panels = [
        (arm_options, (ranker.judge,))
        for ranker, arm_options in field.rankers.values()
        if ranker.judge
    ]
    refuse_small_cap(options.max_usd, paid.dollars, panels, field.lines.shards)
    if options.max_usd is not None:
        watch.budget(options.max_usd, paid.dollars)
    run = CoordinatedRun(field.run_id, options.max_usd, paid.dollars)
    size = JobSize(sum(planned.values()), census.bytes, options.actors * sum(gpus.values()))
    with executor_of(options, run, field.lines, size, watch) as executor:
        timer.lap("start")
        asked = [
            AskedJudges(field.job(name), (judge,), gpus=gpus.get(name, 0.0))
            for name, judge in judges.items()
        ]
        tallies, reason, disabled = executor.ask(asked, planned, watch)
        timer.lap("ask")
        if reason:
            replies = sum(tally.answered for tally in tallies.values())
            raise Stopped(f"{reason} ({replies:,} replies of this run are recorded)")
        ranked = _collect_rankings(field, executor, disabled)
        timer.lap("gather")
    for entry in ranked.rankers:
        tally = tallies.get(entry.name, Tally())
        entry.dollars, entry.unpriced = tally.dollars, tally.unpriced
        if entry.name in disabled:
            entry.note = disabled[entry.name].message
        entry.count_earlier_runs()
    ranked.tallies, ranked.damaged = tallies, paid.damaged
    return ranked


def _collect_rankings(
    field: _AskedRankers, executor: Executor, disabled: Mapping[str, Disabled]
) -> _AskedResults:
    """Collect how each ranker ranked every pool.

    Raises:
        Stopped: replies are missing that no reranker will give.
    """
    job = field.job(next(iter(field.rankers)))
    ranked = _AskedResults([])
    parts: dict[str, list[pa.Table]] = {name: [] for name in field.rankers}
    failures: dict[str, list[Unranked]] = {name: [] for name in field.rankers}
    costs: dict[str, list[QueryCost]] = {name: [] for name in field.rankers}
    make = partial(RankingBuilder, field.rankers, job.options.ledger_dir, disabled)
    for block in executor.build(job, make):
        if missing := pc.sum(block["missing"]).as_py():
            raise Stopped(f"{missing:,} replies could not be obtained from any reranker")
        for name in field.rankers:
            rows = block.filter(pc.equal(block["run"], name))
            parts[name].append(_lines_of(rows))
            failures[name].extend(_failures_of(rows))
            costs[name].extend(costs_in(rows))
    for name in field.rankers:
        entry = MeasuredRanker(name, pa.concat_tables(parts[name]), failures[name])
        entry.costs = costs[name]
        ranked.rankers.append(entry)
    return ranked


def _lines_of(rows: pa.Table) -> pa.Table:
    """Return the lines of a run, from one ranker's rows of a query with documents and scores."""
    rows = rows.combine_chunks()
    query_ids = rows["query_id"].take(pc.list_parent_indices(rows["doc_ids"]))
    columns = [query_ids, pc.list_flatten(rows["doc_ids"]), pc.list_flatten(rows["scores"])]
    return pa.table(columns, schema=schema_of(Ranked))


def _failures_of(rows: pa.Table) -> Iterator[Unranked]:
    names = ["run", "query_id", "status", "reason", "attempts"]
    for row in rows.filter(pc.not_equal(rows["status"], "ok")).select(names).to_pylist():
        yield Unranked(**row)


def _ranked_lines(shards: Sequence[str], census: InputCount) -> Iterator[Line]:
    """Yield the lines of the pools that were ranked."""
    places = {(file, number) for file, number, _ in census.places}
    for line in (line for shard in shards for line in read_lines(shard, LineLimits())):
        if (line.file, line.number) in places:
            yield line


def _any_shards(options: BakeoffOptions, shards: Sequence[str]) -> Sequence[str]:
    """Return the files of the pools, if there are any, also where nothing needed them yet."""
    if not shards and (options.pools or pools_file_of_truth(options.truth)):
        return _shards(options)
    return shards


def _pools(options: BakeoffOptions, shards: Sequence[str], wanted: set[str]) -> dict[str, Pool]:
    """Read the pools of some queries again, for their texts."""
    pools: dict[str, Pool] = {}
    for shard in _any_shards(options, shards):
        for line in read_lines(shard, LineLimits()):
            if line.pool and line.pool.query_id in wanted:
                pools.setdefault(line.pool.query_id, line.pool)
            if len(pools) == len(wanted):
                return pools
    return pools


def _write_run(
    options: BakeoffOptions, run_id: str, figures: Mapping[str, Any], tallies: Mapping[str, Tally]
) -> None:
    packages = ("zelo-ray", "ray", "pydantic", "numpy")
    versions = {name: version(name) for name in packages}
    record = {
        **_record(options, run_id),
        "finished": True,
        "versions": versions | {"prices": table_version(options.prices), **loaded_packages()},
        "judges": {name: asdict(tally) for name, tally in tallies.items()},
        **figures,
    }
    write_json(options.out, RUN, record)


def _record(options: BakeoffOptions, run_id: str) -> dict[str, Any]:
    """Return the record of the run; relative paths of the options are relative to its folder."""
    record = {"kind": "bakeoff", "run_id": run_id, "folder": str(Path.cwd())}
    return {**record, "options": options.model_dump(mode="json")}
