"""Run a bake-off: rank, measure, compare, guard, correct, decide, write."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff.families import Families, Guard, find_families
from zelo_ray.commands.bakeoff.gate import decide_gates
from zelo_ray.commands.bakeoff.measure import Measured, measure
from zelo_ray.commands.bakeoff.parts import (
    Contrast,
    Slice,
    compute_slices,
    describe_contrast,
    find_contrasts,
)
from zelo_ray.commands.bakeoff.people import Forecast, correct_by_people
from zelo_ray.commands.bakeoff.rank import Asked, Rankers, Unranked, sum_costs
from zelo_ray.commands.bakeoff.refit import find_truth_run
from zelo_ray.commands.bakeoff.report import build_report
from zelo_ray.engine.batch.parts import sum_possibly_billed
from zelo_ray.engine.count_input import InputCount, count_input
from zelo_ray.engine.exposure import sum_uncounted
from zelo_ray.engine.job import (
    JobLines,
    Watch,
    absolute_place,
    claim_output,
    new_run_id,
    with_absolute_places,
)
from zelo_ray.engine.ledger import salt_of
from zelo_ray.engine.lock import remove_folders_if_refused
from zelo_ray.errors import OptionError, Stopped
from zelo_ray.evaluation.gate import GateDecision
from zelo_ray.evaluation.measures import Truth, parse_measures
from zelo_ray.files.candidates import explain_mismatch, find_doubts
from zelo_ray.files.inputs import holds_texts, resolve_inputs
from zelo_ray.files.judgments import digest_judgments, pools_file_of_truth, read_qrels, read_runs
from zelo_ray.files.labels import PeoplesLabels, read_labels
from zelo_ray.files.own_queries import find_collection, find_own_queries, without_own_queries
from zelo_ray.files.pools import Line, LineLimits, annotate_line, read_lines
from zelo_ray.files.rows import open_source
from zelo_ray.files.run_record import RUN, last_record, record_start
from zelo_ray.files.schema import split_columns
from zelo_ray.files.storage import find_shards, open_for_writing
from zelo_ray.files.tables import schema_of, table_of
from zelo_ray.files.wording import counted
from zelo_ray.names import did_you_mean
from zelo_ray.providers.pricing import table_version
from zelo_ray.records import Comparison, Mean, Metric, Pool, Ranked
from zelo_ray.report.results import Results, finish
from zelo_ray.reports.command_lines import command_from_options, command_of, sibling_path
from zelo_ray.rerankers.ranking import QueryCost, query_fields

_ODD = re.compile(r"[^\w.+-]+")
_UNJUDGED_DEPTH = 10


@dataclass(frozen=True, slots=True)
class Place:
    """A ranker on the leaderboard; those that ranked nothing come last, without a mean.

    ``families`` are those that it shares with the ``judges`` of the truth, ``unpriced`` counts
    answers without a known price, and ``note`` says why it was asked no more.
    """

    run: str
    measure: str
    mean: float
    low: float
    high: float
    ranked: int
    missing: int
    dollars: float
    unpriced: int
    note: str
    families: tuple[str, ...]
    judges: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unjudged:
    """An unjudged document among the first of a run."""

    run: str
    query_id: str
    doc_id: str
    rank: int


def run(options: BakeoffOptions, watch: Watch) -> Results:
    """Let rankers order the same documents, and find which differences are significant.

    Raises:
        OptionError, InputError, PanelError, LockError, LedgerError: before anything was asked.
        Stopped: while asking; nothing that was paid for is lost.
    """
    with remove_folders_if_refused(options.out, options.ledger_dir):
        run_id, columns, given = new_run_id(), split_columns(options.columns), options
        options, notes = resolve_inputs(
            *(_with_pools_of_truth(options), absolute_place(options.out), watch.say),
            *("pools", columns),
        )
        options = with_absolute_places(options)
        parse_measures(options.measures)
        rankers = Rankers(options, run_id)
        with claim_output(options, watch, "bakeoff"):
            truth = read_qrels(options.truth, columns)
            labels = read_labels(options.human, columns) if options.human else None
            files = read_runs(options.runs, columns)
            columns.refuse_unused()
            _check_names([*rankers.by_name], [*files], options.baseline)
            about = {"run_id": run_id, "notes": notes} | _about_truth(truth, options)
            families, made_by = _find_families(rankers, files, options)
            about["truth"]["judges"] = [*families.judges]
            shards, census, fields = _count_pools(truth, rankers, options)
            if census:
                truth = _with_pools(truth, census, watch)
            asked = Asked()
            if census and rankers.by_name:
                salt_of(options.ledger_dir)  # fails early if the ledger cannot be used
                record = {"kind": "bakeoff", **_places(options), "queries": census.pools}
                record_start(options.out, RUN, record | {"run_id": run_id})
                asked = rankers.ask(JobLines(shards, census.held), census, watch)
            runs = asked.runs | files
            truth, runs, doubts = _without_own(truth, runs, shards, given)
            _refuse_strangers(runs, asked, truth, options.truth)
            measured = measure(Truth(truth), runs, options)
            guard = Guard(measured, families, made_by, options)
            tables, more = _compare(
                *(measured, guard, labels, sum_costs(asked.costs, options), options)
            )
            about |= {"doubts": [*_find_doubts(measured), *doubts], **more}
            tables |= _describe_rankers(measured, asked, families)
            tables["slices"] = table_of([*compute_slices(measured, options, fields)], Slice)
            chosen = find_contrasts(measured)
            wanted = {measured.truth.query_ids[q] for *_, q in chosen}
            pools = dict[str, Pool]()
            for line in _lines(shards) if wanted else ():
                if line.pool and line.pool.query_id in wanted:
                    pools.setdefault(line.pool.query_id, line.pool)
            tables["contrasts"] = table_of(
                [row for each in chosen for row in describe_contrast(measured, *each, pools)],
                Contrast,
            )
            if options.write_annotated:
                ranked = {(file, number) for file, number, _ in census.places} if census else ()
                lines = (line for line in _lines(shards) if (line.file, line.number) in ranked)
                _write_annotated(options.out, lines, runs)
            return _finish(measured, asked, tables, about, (given, options))


def _with_pools_of_truth(options: BakeoffOptions) -> BakeoffOptions:
    """Take the truth as pools, if pools are needed and it holds texts in another format.

    Raises:
        OptionError: nothing is to be ranked, or an option says how to read pools without any.
    """
    if not options.rerankers and not options.runs:
        raise OptionError("no rankers: name --rerankers, such as original bm25, or --runs FILE")
    needed = options.rerankers or options.slices or options.write_annotated
    lacks = needed and not options.pools and not pools_file_of_truth(options.truth)
    if lacks and holds_texts(open_source(options.truth)):
        options = options.model_copy(update={"pools": (options.truth,)})
    for name in ("corpus", "queries"):
        if getattr(options, name) and not options.pools:
            raise OptionError(f"--{name} needs --pools; name some, or leave it out")
    return options


def _check_names(rankers: Sequence[str], runs: Sequence[str], baseline: str | None) -> None:
    """Raise `OptionError` if two rankers have one name, or the baseline is none of several."""
    names = [*rankers, *runs]
    if twins := sorted({name for name in names if names.count(name) > 1}):
        do = "--runs NAME=FILE" if twins[0] in runs else "--rerankers NAME=RERANKER"
        raise OptionError(f"two rankers are named {twins[0]}; name one of them, as {do}")
    if baseline and baseline not in names:
        near = did_you_mean(baseline, names)
        there = f"there are {', '.join(names)} (--runs NAME=FILE adds one)"
        raise OptionError(f"--baseline: {baseline} is no ranker{near}; {there}")
    if baseline and len(names) == 1:
        raise OptionError(f"--baseline: {baseline} is the only ranker; name --runs or --rerankers")


def _about_truth(truth: pa.Table, options: BakeoffOptions) -> dict[str, Any]:
    """Return the truth's digest, and whether it is another one than in the last bake-off here."""
    last, digest = last_record(options.out), digest_judgments(truth)
    same = (last.get("options") or {}).get("truth") == options.truth
    before = (last.get("truth") or {}).get("digest", digest)
    return {"truth": {"digest": digest, "changed": same and before != digest}}


def _find_families(
    rankers: Rankers, files: Mapping[str, pa.Table], options: BakeoffOptions
) -> tuple[Families, Any]:
    """Return the model families of judges and rankers, and the run that made the truth, if any."""
    made_by = find_truth_run(options.truth)
    what = {
        name: ranker.judge.name if ranker.judge else ranker.protocol
        for name, (ranker, _) in rankers.by_name.items()
    }
    names = {name: name for name in files}
    judges = made_by.judges if made_by else ()
    return find_families(judges, what | names, options.families), made_by


def _count_pools(
    truth: pa.Table, rankers: Rankers, options: BakeoffOptions
) -> tuple[list[str], InputCount | None, dict[str, dict[str, str]]]:
    """Find the files of the pools; count those of the truth's queries, if they are needed.

    Returns:
        The files, the count, and for slices the fields of each query.
    """
    needed = rankers.by_name or options.pools or options.slices or options.write_annotated
    places = options.pools or tuple(filter(None, [pools_file_of_truth(options.truth)]))
    if needed and not places:
        raise OptionError(f"--pools: name the documents to rank; {options.truth} has none")
    shards, fields = find_shards(places) if places else [], dict[str, dict[str, str]]()
    if not needed:
        return shards, None, fields
    query_ids = set(pc.unique(truth["query_id"]).to_pylist())

    def is_judged(line: Line) -> bool:
        if line.pool is None or line.pool.query_id not in query_ids:
            return False
        if options.slices:
            fields[line.pool.query_id] = query_fields(line)
        return True

    census = count_input(
        *(shards, rankers.counts(), options.out),
        only=is_judged,
        show=options.show_query,
        metadata=options.show_metadata,
    )
    names = sorted({name for record in fields.values() for name in record})
    if unknown := [name for name in options.slices if name not in names]:
        has = f"they have {', '.join(names)}" if names else "they have none"
        raise OptionError(f"--slices {unknown[0]}: no query has this field; {has}")
    return shards, census, fields


def _with_pools(truth: pa.Table, census: InputCount, watch: Watch) -> pa.Table:
    """Return the rows of the truth for queries that have pools, and say what these are."""
    requests = ", ".join(f"{name} {n:,}" for name, n in census.planned.items()) or "none"
    sizes = f"{counted(census.pools, 'query', 'queries')}, {counted(census.documents, 'document')}"
    for line in (f"{sizes}; requests: {requests}", *census.reports, *census.own):
        watch.say(line)
    if census.rejected:
        bad = counted(census.rejected, "invalid input line")
        watch.say(f"Rejected {bad}; see rejected.parquet.")
    if (lost := len(pc.unique(truth["query_id"])) - census.pools) > 0:
        watch.say(f"{lost:,} queries of the truth have no pool, and are left out")
    ids = pa.array([query_id for *_, query_id in census.places], pa.string())
    return truth.filter(pc.is_in(truth["query_id"], ids))


def _lines(shards: Sequence[str]) -> Iterator[Line]:
    return (line for shard in shards for line in read_lines(shard, LineLimits()))


def _without_own(
    truth: pa.Table, runs: Mapping[str, pa.Table], shards: Sequence[str], given: BakeoffOptions
) -> tuple[pa.Table, dict[str, pa.Table], list[dict[str, Any]]]:
    """Remove queries that are their own candidates; return what a reader has to know of it."""
    query_ids = pc.unique(truth["query_id"]).to_pylist()
    collection = find_collection(given.truth)
    if given.corpus and given.queries:
        collection = given.corpus, given.queries
    same, others = find_own_queries([truth, *runs.values()], query_ids, shards, collection)
    counts = {"own_query": len(same), "own_id": len(others)}
    doubts = [
        {"code": code, "run": "", "queries": count, "of_queries": len(query_ids)}
        for code, count in counts.items()
        if count
    ]
    if not same:
        return truth, dict(runs), doubts
    rest = {name: without_own_queries(table, same) for name, table in runs.items()}
    return without_own_queries(truth, same), rest, doubts


def _refuse_strangers(
    runs: Mapping[str, pa.Table], asked: Asked, truth: pa.Table, place: str
) -> None:
    """Raise `Stopped` if no ranker ranked any query of the truth, and say why."""
    known, reasons = pc.unique(truth["query_id"]), []
    for name, table in runs.items():
        ids = pc.unique(table["query_id"])
        if pc.any(pc.is_in(ids, known)).as_py():
            return
        why = [f"{each.status}, {each.reason}" for each in asked.failures if each.run == name]
        why = why or [explain_mismatch(name, ids.to_pylist(), place, known.to_pylist())]
        reasons.append(f"{name}: {why[0]}")
    raise Stopped(f"no ranker ranked any query of the truth ({'; '.join(reasons)})")


def _find_doubts(measured: Measured) -> Iterator[dict[str, Any]]:
    """Yield reasons why the scores of a ranker may mislead."""
    ids, depth = pa.array(measured.truth.query_ids), measured.measures[0].cutoff
    for name in measured.names:
        table = measured.runs[name]
        found = find_doubts(table.filter(pc.is_in(table["query_id"], ids)), depth)
        for code, (some, every) in found.items():
            yield {"code": code, "run": name, "queries": some, "of_queries": every}


def _compare(
    measured: Measured,
    guard: Guard,
    labels: PeoplesLabels | None,
    costs: Iterable[Mean],
    options: BakeoffOptions,
) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """Return means, comparisons and the gate, guarded and corrected, with a part of the record."""
    people = correct_by_people(measured, labels, options) if labels else None
    comparisons = [*map(guard.check, measured.comparisons)]
    gate = decide_gates(measured, people, options) if options.baseline else []
    tables = {"gate": table_of([*map(guard.check_gate, gate)], GateDecision)}
    means: list[Mean] = [*measured.means, *costs]
    if people:
        means += people.means
        comparisons += people.comparisons
        tables["forecasts"] = table_of(people.forecasts, Forecast)
    tables |= {"means": table_of(means, Mean), "comparisons": table_of(comparisons, Comparison)}
    record = {"not_refitted": guard.not_refitted()}
    return tables, record | ({"people": people.about} if people else {})


def _describe_rankers(measured: Measured, asked: Asked, families: Families) -> dict[str, pa.Table]:
    """Return the tables of rankers, and of what each ranked, missed and cost."""
    failures, names = [*asked.failures], schema_of(Ranked).names
    means = {row.run: row for row in measured.means if row.measure == measured.leading}
    queries, places, runs = measured.truth.query_ids, list[Place](), list[pa.Table]()
    for name in [*measured.leaderboard, *(n for n in measured.runs if n not in measured.names)]:
        answered = np.zeros(len(queries), np.bool_)
        if name in measured.rankings:
            answered = measured.rankings[name].answered
        known = {each.query_id for each in failures if each.run == name}
        lost = {queries[q] for q in np.flatnonzero(~answered)} - known
        why = "it is not in the run"
        failures += [Unranked(name, q, "missing", why, 0) for q in queries if q in lost]
        mean, ranked = means.get(name), int(answered.sum())
        places.append(
            Place(
                name,
                measured.leading,
                *((mean.mean, mean.low, mean.high) if mean else (nan, nan, nan)),
                ranked,
                len(queries) - ranked,
                *asked.paid(name),
                asked.notes.get(name, ""),
                tuple(sorted(families.shared(name))),
                tuple(sorted(families.judges_like(name))),
            )
        )
    for name, table in measured.runs.items():
        column = pa.array([name] * len(table), pa.string())
        runs.append(table.select(names).add_column(0, "run", column))
    unjudged = [
        Unjudged(name, *each)
        for name, ranking in measured.rankings.items()
        for each in ranking.unjudged(_UNJUDGED_DEPTH)
    ]
    return {
        "leaderboard": table_of(places, Place),
        "times": table_of(asked.costs, QueryCost),
        "metrics": _metrics(measured),
        "runs": pa.concat_tables(runs),
        "unjudged": table_of(unjudged, Unjudged),
        "failures": table_of(failures, Unranked),
    }


def _metrics(measured: Measured) -> pa.Table:
    ids, tables = pa.array(measured.truth.query_ids, pa.string()), list[pa.Table]()
    for name, values in measured.values.items():
        for ranker, row in zip(measured.names, values, strict=True):
            columns = [pa.array([text] * len(ids), pa.string()) for text in (ranker, name)]
            values_ = [columns[0], ids, columns[1], pa.array(row)]
            tables.append(pa.table(values_, schema=schema_of(Metric)))
    return pa.concat_tables(tables)


def _write_annotated(out: str, lines: Iterable[Line], runs: Mapping[str, pa.Table]) -> None:
    """Write the pools once for each ranker, with its score on each document that it ranked.

    Scores that were in the input are kept as ``input_score``.
    """
    scores: dict[str, dict[str, dict[str, dict[str, float]]]] = {name: {} for name in runs}
    for name, table in runs.items():
        for row in table.select(["query_id", "doc_id", "score"]).to_pylist():
            of_query = scores[name].setdefault(row["query_id"], {})
            of_query[row["doc_id"]] = {"score": row["score"]}
    with ExitStack() as stack:
        places = (f"{out.rstrip('/')}/annotated/{name}.jsonl" for name in file_names(runs))
        files = [stack.enter_context(open_for_writing(place)) for place in places]
        for line in lines:
            query_id = line.pool.query_id if line.pool else ""
            for file, by_query in zip(files, scores.values(), strict=True):
                file.write(annotate_line(line.raw, by_query.get(query_id, {}), "score") + b"\n")


def file_names(names: Iterable[str]) -> list[str]:
    """Return a distinct file name for each name; names may hold any characters."""
    found = dict[str, str]()  # by lower case, which some file systems do not distinguish
    for name in names:
        plain = file_name = _ODD.sub("_", name).lstrip(".") or "_"
        number = 1
        while file_name.lower() in found:
            number += 1
            file_name = f"{plain}-{number}"
        found[file_name.lower()] = file_name
    return [*found.values()]


def _places(options: BakeoffOptions) -> dict[str, Any]:
    """Return the options; their relative paths are relative to the folder."""
    return {"folder": str(Path.cwd()), "options": options.model_dump(mode="json")}


def _finish(
    measured: Measured,
    asked: Asked,
    tables: Mapping[str, pa.Table],
    about: dict[str, Any],
    options: tuple[BakeoffOptions, BakeoffOptions],
) -> Results:
    """Write tables and record; ``options`` are those given, and those with absolute places."""
    given, full = options
    truth, gate = measured.truth, tables["gate"].to_pylist()
    about["truth"] |= {"kind": truth.kind, "whole": bool((truth.relevance % 1 == 0).all())}
    dollars = tables["leaderboard"]["dollars"].to_pylist()
    summary = {
        "queries": len(truth.query_ids),
        "documents": len(truth.relevance),
        "label_draws": measured.label_draws,
        "dollars": sum(dollars),
        "maybe_dollars": sum_possibly_billed(full.ledger_dir),
        "damaged": asked.damaged,
    }
    is_whole = len(measured.names) == len(measured.runs) and bool(measured.answered.all())
    failed = any(status != "missing" for status in tables["failures"]["status"].to_pylist())
    results = finish(
        "bakeoff",
        full,
        {name: table for name, table in tables.items() if len(table)},
        build_report,
        complete=is_whole and not any(row["reason"] for row in gate),
        is_worse=any(row["verdict"] == "worse" for row in gate),
        next_command=_next_command(given, failed=failed),
        folder=str(Path.cwd()),
        summary=summary,
        measures=[str(each) for each in measured.measures],
        uncounted=dict(sum_uncounted(full.ledger_dir)),
        judges={name: asdict(tally) for name, tally in asked.tallies.items()},
        prices=table_version(full.prices),
        **about,
    )
    results.out = given.out
    return results


def _next_command(options: BakeoffOptions, *, failed: bool) -> str:
    """Return how to retry failed requests; else how to let people label what decides."""
    if failed and not options.retry_failures:  # what a run file lacks, nobody can be asked for
        return command_from_options(options.model_copy(update={"retry_failures": True}))
    if options.human and open_source(options.human).kind == "labels":
        return command_of("label", "--out", options.human, "--more", "100")
    labels = ("--labels", "200", "--out", sibling_path(options.out, "labels"))
    return command_of("label", "--contest", options.out, *labels)
