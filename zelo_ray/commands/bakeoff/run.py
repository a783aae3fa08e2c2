"""Run a bake-off: rank, measure, compare, guard, correct, decide, write."""

from collections.abc import Collection, Iterator, Mapping
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
from zelo_ray.commands.bakeoff.measure import Measured, Slice, compute_slices, measure
from zelo_ray.commands.bakeoff.people import correct_by_people
from zelo_ray.commands.bakeoff.rank import (
    Asked,
    Rankers,
    Unranked,
    count_pools,
    with_pools_of_truth,
    without_own,
    write_annotated,
)
from zelo_ray.commands.bakeoff.report import build_report
from zelo_ray.engine.batch.parts import sum_possibly_billed
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
from zelo_ray.engine.refit import find_truth_run
from zelo_ray.errors import OptionError, Stopped
from zelo_ray.evaluation.gate import GateDecision
from zelo_ray.evaluation.measures import Truth, parse_measures
from zelo_ray.files.candidates import explain_mismatch, find_doubts
from zelo_ray.files.inputs import resolve_inputs
from zelo_ray.files.judgments import digest_judgments, read_qrels, read_runs
from zelo_ray.files.labels import read_labels
from zelo_ray.files.rows import open_source
from zelo_ray.files.run_record import RUN, last_record, record_start
from zelo_ray.files.schema import split_columns
from zelo_ray.files.tables import schema_of, table_of
from zelo_ray.names import did_you_mean
from zelo_ray.providers.pricing import table_version
from zelo_ray.records import Comparison, Mean, Metric, Ranked
from zelo_ray.report.command_lines import command_of, repeat_with, sibling_path
from zelo_ray.report.results import Results, finish
from zelo_ray.rerankers.ranking import QueryCost, sum_costs

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
    """Let rankers order the same documents, and find which differences are significant."""
    as_given, columns = options, split_columns(options.columns)
    with remove_folders_if_refused(options.out, options.ledger_dir):
        options, notes = resolve_inputs(
            *(with_pools_of_truth(options), absolute_place(options.out), watch.say),
            *("pools", columns),
        )
        options = with_absolute_places(options)
        parse_measures(options.measures)
        rankers = Rankers(options, new_run_id())
        about = {"run_id": rankers.run_id, "folder": str(Path.cwd()), "notes": notes}
        with claim_output(options, watch, "bakeoff"):
            results = _run(rankers, columns, as_given, about, watch)
    results.out = as_given.out
    return results


def _run(
    rankers: Rankers, columns: Any, as_given: BakeoffOptions, about: dict[str, Any], watch: Watch
) -> Results:
    """Run a bake-off in its output; ``about`` goes into the record."""
    options = rankers.options
    truth = read_qrels(options.truth, columns)
    labels = read_labels(options.human, columns) if options.human else None
    files = read_runs(options.runs, columns)
    columns.refuse_unused()
    _check_names(rankers.by_name, files, options.baseline)
    made_by = find_truth_run(options.truth)
    judges = made_by.judges if made_by else ()
    families = find_families(judges, rankers.models | {n: n for n in files}, options.families)
    about["truth"] = _describe_truth(truth, options) | {"judges": [*families.judges]}
    pools, truth = count_pools(truth, rankers.count, options, watch)
    asked = Asked()
    if pools.count and rankers.by_name:
        salt_of(options.ledger_dir)  # fails early if the ledger cannot be used
        start = {"kind": "bakeoff", "options": options.model_dump(mode="json"), **about}
        record_start(options.out, RUN, start | {"queries": pools.count.pools})
        asked = rankers.ask(JobLines(pools.shards, pools.count.lines), pools.count, watch)
    truth, runs, doubts = without_own(truth, asked.runs | files, pools, as_given)
    _refuse_strangers(runs, asked, truth, options.truth)
    measured = measure(Truth(truth), runs, options)
    guard = Guard(measured, families, made_by, options)
    means: list[Mean] = [*measured.means, *sum_costs(asked.costs)]
    comparisons = [*map(guard.check, measured.comparisons)]
    people = correct_by_people(measured, labels, options) if labels else None
    gate = decide_gates(measured, people, options) if options.baseline else []
    gate = [*map(guard.check_gate, gate)]
    if people:
        means, comparisons = [*means, *people.means], [*comparisons, *people.comparisons]
        about["people"] = people.about
    tables = _tables_of(measured, asked, families) | {
        "means": table_of(means, Mean),
        "comparisons": table_of(comparisons, Comparison),
        "gate": table_of(gate, GateDecision),
        "slices": table_of([*compute_slices(measured, options, pools.fields)], Slice),
    }
    if options.write_annotated:
        write_annotated(options.out, pools.ranked_lines(), runs)
    about |= {"not_refitted": guard.not_refitted(), "doubts": [*_find_doubts(measured), *doubts]}
    summary = {
        "queries": len(measured.truth.query_ids),
        "documents": len(measured.truth.relevance),
        "label_draws": measured.label_draws,
        "dollars": sum(tables["leaderboard"]["dollars"].to_pylist()),
        "maybe_dollars": sum_possibly_billed(options.ledger_dir),
        "damaged": asked.damaged,
    }
    is_whole = len(measured.names) == len(runs) and bool(measured.answered.all())
    return finish(
        "bakeoff",
        options,
        {name: table for name, table in tables.items() if len(table)},
        build_report,
        complete=is_whole and not any(row.reason for row in gate),
        is_worse=any(row.verdict == "worse" for row in gate),
        next_command=_next_command(as_given, failed=bool(asked.failures)),
        summary=summary,
        measures=[str(each) for each in measured.measures],
        judges={name: asdict(tally) for name, tally in asked.tallies.items()},
        prices=table_version(options.prices),
        **about,
    )


def _check_names(rankers: Collection[str], runs: Collection[str], baseline: str | None) -> None:
    """Raise `OptionError` if two rankers have one name, or the baseline is none of several."""
    names = [*rankers, *runs]
    if twins := {*rankers} & {*runs}:
        do = "--runs NAME=FILE"
        raise OptionError(f"two rankers are named {min(twins)}; name one of them, as {do}")
    if baseline and baseline not in names:
        near = did_you_mean(baseline, names)
        rankers_known = f"there are {', '.join(names)} (--runs NAME=FILE adds one)"
        raise OptionError(f"--baseline: {baseline} is no ranker{near}; {rankers_known}")
    if baseline and len(names) == 1:
        raise OptionError(f"--baseline: {baseline} is the only ranker; name --runs or --rerankers")


def _describe_truth(truth: pa.Table, options: BakeoffOptions) -> dict[str, Any]:
    """Return the truth's digest, and whether it is another one than in the last bake-off here."""
    last, digest = last_record(options.out), digest_judgments(truth)
    same = (last.get("options") or {}).get("truth") == options.truth
    before = (last.get("truth") or {}).get("digest", digest)
    return {"digest": digest, "changed": same and before != digest}


def _refuse_strangers(
    runs: Mapping[str, pa.Table], asked: Asked, truth: pa.Table, place: str
) -> None:
    """Raise `Stopped` if no ranker ranked any query of the truth, and say why."""
    judged, reasons = pc.unique(truth["query_id"]), []
    for name, table in runs.items():
        ids = pc.unique(table["query_id"])
        if pc.any(pc.is_in(ids, judged)).as_py():
            return
        why = [f"{each.status}, {each.reason}" for each in asked.failures if each.run == name]
        why = why or [explain_mismatch(name, ids.to_pylist(), place, judged.to_pylist())]
        reasons.append(f"{name}: {why[0]}")
    raise Stopped(f"no ranker ranked any query of the truth ({'; '.join(reasons)})")


def _find_doubts(measured: Measured) -> Iterator[dict[str, Any]]:
    """Yield reasons why the scores of a ranker may mislead."""
    ids, depth = pa.array(measured.truth.query_ids), measured.measures[0].cutoff
    for name in measured.names:
        table = measured.runs[name]
        doubts = find_doubts(table.filter(pc.is_in(table["query_id"], ids)), depth)
        for code, (some, every) in doubts.items():
            yield {"code": code, "run": name, "queries": some, "of_queries": every}


def _tables_of(measured: Measured, asked: Asked, families: Families) -> dict[str, pa.Table]:
    """Return the tables of rankers, and of what each ranked, missed and took."""
    queries, means = measured.truth.query_ids, {row.run: row for row in measured.leading_means}
    failures, places = [*asked.failures], list[Place]()
    for name in [*measured.leaderboard, *sorted({*measured.runs} - {*measured.names})]:
        answered = np.zeros(len(queries), bool)
        if name in measured.names:
            answered = measured.rankings[name].answered
        failed = {each.query_id for each in failures if each.run == name}
        lost = [queries[q] for q in np.flatnonzero(~answered) if queries[q] not in failed]
        failures += [Unranked(name, q, "missing", "it is not in the run", 0) for q in lost]
        mean, ranked = means.get(name, Mean("", "", nan, nan, nan, 0)), int(answered.sum())
        places.append(
            Place(
                *(name, measured.leading, mean.mean, mean.low, mean.high),
                *(ranked, len(queries) - ranked, *asked.paid(name), asked.notes.get(name, "")),
                families=tuple(sorted(families.shared(name))),
                judges=tuple(sorted(families.judges_like(name))),
            )
        )
    columns, rankers = schema_of(Ranked).names, measured.names
    runs = [
        table.select(columns).add_column(0, "run", pa.array([name] * len(table), pa.string()))
        for name, table in measured.runs.items()
    ]
    unjudged = [
        Unjudged(name, *each)
        for name, ranking in measured.rankings.items()
        for each in ranking.unjudged(_UNJUDGED_DEPTH)
    ]
    metrics = {
        "run": np.tile(np.repeat(rankers, len(queries)), len(measured.values)),
        "query_id": np.tile(queries, len(measured.values) * len(rankers)),
        "measure": np.repeat([*measured.values], len(rankers) * len(queries)),
        "value": np.concatenate([values.ravel() for values in measured.values.values()]),
    }
    return {
        "leaderboard": table_of(places, Place),
        "metrics": pa.table(metrics, schema=schema_of(Metric)),
        "runs": pa.concat_tables(runs),
        "failures": table_of(failures, Unranked),
        "unjudged": table_of(unjudged, Unjudged),
        "times": table_of(asked.costs, QueryCost),
    }


def _next_command(options: BakeoffOptions, *, failed: bool) -> str:
    """Return how to retry failed requests; else how to let people label what decides."""
    if failed and not options.retry_failures:
        return repeat_with(options, retry_failures=True)
    if options.human and open_source(options.human).kind == "labels":
        return command_of("label", "--out", options.human, "--more", "100")
    labels = ("--labels", "200", "--out", sibling_path(options.out, "labels"))
    return command_of("label", "--contest", options.out, *labels)
