"""Read the pools of the truth, let rerankers rank them, and collect rankings, failures and costs.

Each ranker has workers of its own, and its answers go through the ledger as a judge's do.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from math import fsum, isnan
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.where import JobSize, executor_of
from zelo_ray.engine.coordinator import CoordinatedRun
from zelo_ray.engine.count_input import Count, InputCount, count_input
from zelo_ray.engine.executor import AskedJudges
from zelo_ray.engine.job import Job, JobLines, Watch
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.preflight import check_spending
from zelo_ray.engine.tally import Tally
from zelo_ray.errors import InputError, LedgerError, OptionError, Stopped
from zelo_ray.files.candidates import explain_mismatch
from zelo_ray.files.collections import find_collection, find_own_queries, without_own_queries
from zelo_ray.files.inputs import holds_texts
from zelo_ray.files.judgments import pools_file_of_truth
from zelo_ray.files.pools import Line, LineLimits, annotate_line, read_lines
from zelo_ray.files.rows import open_source
from zelo_ray.files.storage import find_shards, open_for_writing
from zelo_ray.files.tables import schema_of
from zelo_ray.files.wording import counted
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import find_protocol
from zelo_ray.reasons import Disabled
from zelo_ray.records import Pool, Ranked, Status
from zelo_ray.rerankers import BakeoffRanker, asking_options, build_rankers
from zelo_ray.rerankers.ranking import QueryCost, query_fields, rank_lines


@dataclass(frozen=True, slots=True)
class Unranked:
    """One query that a ranker did not answer, and why; ``missing``: a run file does not hold it."""

    run: str
    query_id: str
    status: Status | Literal["missing"]
    reason: str
    attempts: int


@dataclass(slots=True)
class Asked:
    """What asking the rankers gave; ``notes`` say by ranker why it was asked no more."""

    runs: dict[str, pa.Table] = field(default_factory=dict)
    failures: list[Unranked] = field(default_factory=list)
    costs: list[QueryCost] = field(default_factory=list)
    tallies: Mapping[str, Tally] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    damaged: int = 0

    def paid(self, ranker: str) -> tuple[float, int]:
        """Return dollars, whichever run paid them, and the number of answers without a price."""
        tally = self.tallies.get(ranker, Tally())
        costs = [cost for cost in self.costs if cost.run == ranker]
        dollars = fsum(cost.dollars for cost in costs if not isnan(cost.dollars))
        unknown = sum(cost.requests for cost in costs if isnan(cost.dollars))
        return max(tally.dollars, dollars), max(tally.unpriced, unknown)


class Rankers:
    """The rerankers of a bake-off, each with the options that it is asked with."""

    def __init__(self, options: BakeoffOptions, run_id: str) -> None:
        self.options, self.run_id = options, run_id
        # If one has to stop, the others go on.
        alone = {"allow_missing_judges": True}
        self.by_name: dict[str, tuple[BakeoffRanker, AnnotateOptions]] = {
            ranker.name: (ranker, asking_options(ranker, options).model_copy(update=alone))
            for ranker in build_rankers(options, os.environ, run_id=run_id)
        }

    @property
    def models(self) -> dict[str, str]:
        """Return, by ranker, the model or protocol that it is."""
        every = {name: ranker for name, (ranker, _) in self.by_name.items()}
        return {name: r.judge.name if r.judge else r.protocol for name, r in every.items()}

    def count(self, pool: Pool) -> dict[str, int]:
        """Return how many requests a pool takes, by ranker that is asked."""
        return {
            name: sum(find_protocol(ranker.protocol).count(pool, (judge,), options).values())
            for name, (ranker, options) in self.by_name.items()
            if (judge := ranker.judge)
        }

    def _job(self, name: str, count: InputCount) -> Job:
        ranker, options = self.by_name[name]
        places = frozenset((file, number) for file, number, _ in count.places)
        panel = (ranker.judge,) if ranker.judge else ()
        return Job(options, panel, self.run_id, frozenset(), places, label=name)

    def ask(self, lines: JobLines, count: InputCount, watch: Watch) -> Asked:
        """Ask every ranker side by side, then collect how each ranked every pool."""
        options, planned = self.options, count.planned
        judges = {name: r.judge for name, (r, _) in self.by_name.items() if r.judge}
        spent, paid = check_spending(options, judges, watch)
        if options.max_usd is not None:
            watch.budget(options.max_usd, spent)
        run = CoordinatedRun(self.run_id, options.max_usd, spent)
        gpus = options.num_gpus
        size = JobSize(sum(planned.values()), count.bytes, options.actors * sum(gpus.values()))
        with executor_of(options, run, lines, size, watch) as executor:
            groups = [
                AskedJudges(self._job(name, count), (judge,), gpus=gpus.get(name, 0.0))
                for name, judge in judges.items()
            ]
            tallies, reason, disabled = executor.ask(groups, planned, watch)
            if reason:
                replies = sum(tally.answered for tally in tallies.values())
                raise Stopped(f"{reason} ({replies:,} replies of this run are recorded)")
            job = self._job(next(iter(self.by_name)), count)
            make = partial(_Builder, self.by_name, job.options.ledger_dir, disabled)
            asked = self._collect(executor.build(job, make))
        asked.notes = {name: each.message for name, each in disabled.items()}
        asked.tallies, asked.damaged = tallies, len(paid.damaged)
        return asked

    def _collect(self, blocks: Iterator[pa.Table]) -> Asked:
        asked, names = Asked(), [field.name for field in schema_of(Unranked)]
        parts: dict[str, list[pa.Table]] = {name: [] for name in self.by_name}
        for block in blocks:
            if missing := pc.sum(block["missing"]).as_py():
                raise Stopped(f"{missing:,} replies could not be obtained from any reranker")
            for name, lines in parts.items():
                lines.append(_lines_of(block.filter(pc.equal(block["run"], name))))
            failed = block.filter(pc.not_equal(block["status"], "ok")).select(names)
            asked.failures += [Unranked(**row) for row in failed.to_pylist()]
            asked.costs += [QueryCost(**cost) for cost in block["cost"].to_pylist() if cost]
        asked.runs = {name: pa.concat_tables(lines) for name, lines in parts.items()}
        return asked


def _lines_of(rows: pa.Table) -> pa.Table:
    """Return the lines of a run, from one ranker's rows of a query with documents and scores."""
    rows = rows.combine_chunks()
    query_ids = rows["query_id"].take(pc.list_parent_indices(rows["doc_ids"]))
    columns = [query_ids, pc.list_flatten(rows["doc_ids"]), pc.list_flatten(rows["scores"])]
    return pa.table(columns, schema=schema_of(Ranked))


class _Builder:
    """Turns replies into rankings of whole pools, where the executor is; see `rank_lines`."""

    def __init__(
        self,
        rankers: Mapping[str, tuple[BakeoffRanker, AnnotateOptions]],
        ledger_dir: str,
        disabled: Mapping[str, Disabled],
    ) -> None:
        self._rankers, self._place, self._disabled = rankers, ledger_dir, disabled
        self._ledger = Ledger(ledger_dir)

    def build(self, lines: Sequence[Line]) -> pa.Table:
        """Rank the pools of some lines."""
        try:
            return rank_lines(lines, self._rankers, self._ledger, self._disabled)
        except LedgerError:  # what was damaged since then counts as missing
            self._ledger.close()
            self._ledger = Ledger(self._place)
            return rank_lines(lines, self._rankers, self._ledger, self._disabled)

    def close(self) -> None:
        """Close the ledger."""
        self._ledger.close()


_ODD = re.compile(r"[^\w.+-]+")


@dataclass(slots=True)
class Pools:
    """The files of the pools, what they hold of the truth's queries, and the fields of these.

    ``count`` is None where nothing needs the pools.
    """

    shards: list[str] = field(default_factory=list)
    count: InputCount | None = None
    fields: dict[str, dict[str, str]] = field(default_factory=dict)

    def lines(self) -> Iterator[Line]:
        """Yield all lines."""
        return (line for shard in self.shards for line in read_lines(shard, LineLimits()))

    def ranked_lines(self) -> Iterator[Line]:
        """Yield the lines of the truth's queries."""
        places = {place[:2] for place in self.count.places} if self.count else set()
        return (line for line in self.lines() if (line.file, line.number) in places)


def with_pools_of_truth(options: BakeoffOptions) -> BakeoffOptions:
    """Take the truth as pools, if pools are needed and it holds texts in another format."""
    if not options.rerankers and not options.runs:
        raise OptionError("no rankers: name --rerankers, such as original bm25, or --runs FILE")
    lacks = _needs_pools(options) and not options.pools and not pools_file_of_truth(options.truth)
    if lacks and holds_texts(open_source(options.truth)):
        options = options.model_copy(update={"pools": (options.truth,)})
    for name in ("corpus", "queries"):
        if getattr(options, name) and not options.pools:
            raise OptionError(f"--{name} needs --pools; name some, or leave it out")
    return options


def _needs_pools(options: BakeoffOptions) -> bool:
    return bool(options.rerankers or options.pools or options.slices or options.write_annotated)


def count_pools(
    truth: pa.Table, count_requests: Count, options: BakeoffOptions, watch: Watch
) -> tuple[Pools, pa.Table]:
    """Find the pools, count those of the truth's queries if they are needed, and say so.

    Returns them, and the rows of the truth for queries that have one.
    """
    places = options.pools or tuple(filter(None, [pools_file_of_truth(options.truth)]))
    if _needs_pools(options) and not places:
        raise OptionError(f"--pools: name the documents to rank; {options.truth} has none")
    pools = Pools(find_shards(places) if places else [])
    if not _needs_pools(options):
        return pools, truth
    query_ids, others = set(pc.unique(truth["query_id"]).to_pylist()), set[str]()

    def is_judged(line: Line) -> bool:
        if line.pool is None or line.pool.query_id not in query_ids:
            others.update([line.pool.query_id] if line.pool else ())
            return False
        if options.slices:
            pools.fields[line.pool.query_id] = query_fields(line)
        return True

    try:
        pools.count = count = count_input(
            *(pools.shards, count_requests, options.out),
            only=is_judged,
            show=options.show_query,
            metadata=options.show_metadata,
        )
    except InputError:
        if not others:
            raise
        why = explain_mismatch("the input", others, options.truth, query_ids)
        raise InputError(f"no pool is of a query of the truth: {why}") from None
    names = sorted({name for record in pools.fields.values() for name in record})
    if unknown := [name for name in options.slices if name not in names]:
        has = f"they have {', '.join(names)}" if names else "they have none"
        raise OptionError(f"--slices {unknown[0]}: no query has this field; {has}")
    requests = ", ".join(f"{name} {n:,}" for name, n in count.planned.items()) or "none"
    sizes = f"{counted(count.pools, 'query', 'queries')}, {counted(count.documents, 'document')}"
    for line in (f"{sizes}; requests: {requests}", *count.own):
        watch.say(line)
    if count.rejected:
        bad = counted(count.rejected, "invalid input line")
        watch.say(f"Rejected {bad}; see rejected.parquet.")
    if (lost := len(query_ids) - count.pools) > 0:
        watch.say(f"{lost:,} queries of the truth have no pool, and are left out")
    ids = pa.array([query_id for *_, query_id in count.places], pa.string())
    return pools, truth.filter(pc.is_in(truth["query_id"], ids))


def without_own(
    truth: pa.Table, runs: Mapping[str, pa.Table], pools: Pools, options: BakeoffOptions
) -> tuple[pa.Table, dict[str, pa.Table], list[dict[str, Any]]]:
    """Remove queries that are their own candidates; return what a reader has to know of it."""
    query_ids = pc.unique(truth["query_id"]).to_pylist()
    collection = find_collection(options.truth)
    if options.corpus and options.queries:
        collection = options.corpus, options.queries
    same, others = find_own_queries([truth, *runs.values()], query_ids, pools.lines(), collection)
    doubts = [
        {"code": code, "run": "", "queries": len(left_out), "of_queries": len(query_ids)}
        for code, left_out in (("own_query", same), ("own_id", others))
        if left_out
    ]
    other_runs = {name: without_own_queries(table, same) for name, table in runs.items()}
    return without_own_queries(truth, same), other_runs, doubts


def write_annotated(out: str, lines: Iterable[Line], runs: Mapping[str, pa.Table]) -> None:
    """Write the pools once for each ranker, with its score on each document that it ranked.

    Scores that were in the input are kept as ``input_score``.
    """
    scores: dict[str, dict[str, dict[str, dict[str, float]]]] = {name: {} for name in runs}
    for name, table in runs.items():
        for row in table.select(["query_id", "doc_id", "score"]).to_pylist():
            documents = scores[name].setdefault(row["query_id"], {})
            documents[row["doc_id"]] = {"score": row["score"]}
    with ExitStack() as stack:
        places = (f"{out.rstrip('/')}/annotated/{name}.jsonl" for name in file_names(runs))
        files = [stack.enter_context(open_for_writing(place)) for place in places]
        for line in lines:
            query_id = line.pool.query_id if line.pool else ""
            for file, by_query in zip(files, scores.values(), strict=True):
                file.write(annotate_line(line.raw, by_query.get(query_id, {}), "score") + b"\n")


def file_names(names: Iterable[str]) -> Sequence[str]:
    """Return a distinct file name for each name; names may hold any characters."""
    by_lower_case = dict[str, str]()  # by lower case, which some file systems do not distinguish
    for name in names:
        plain = file_name = _ODD.sub("_", name).lstrip(".") or "_"
        while file_name.lower() in by_lower_case:
            file_name = f"{plain}-{len(by_lower_case) + 1}"
        by_lower_case[file_name.lower()] = file_name
    return [*by_lower_case.values()]
