"""Run `compare`: let every way judge what people labelled, over one ledger, and measure them."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import combinations
from math import isnan, nan
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from zelo_ray.command_options import CompareOptions
from zelo_ray.commands.annotate.run import judge_pools
from zelo_ray.commands.compare.items import ALL, TEST, Item, Labelled, collect_items
from zelo_ray.commands.compare.report import CHOSEN, build_report
from zelo_ray.commands.compare.ways import Way, make_ways, options_as_yaml, plan_way
from zelo_ray.commands.dry_run import estimate_jobs
from zelo_ray.commands.where import on_one_ray
from zelo_ray.engine.job import Watch, claim_output, with_absolute_places
from zelo_ray.engine.ledger import Ledger, read_rows, salt_of
from zelo_ray.engine.lock import remove_folders_if_refused
from zelo_ray.engine.replacement import refuse_other_options
from zelo_ray.engine.write_results import Summary
from zelo_ray.evaluation.agreement import Estimate, RatingMatrix, estimate, quotient
from zelo_ray.evaluation.coefficients import COEFFICIENTS
from zelo_ray.evaluation.pairs import Gain, LabelledPairs, choose, measure_gain, p_of_interval
from zelo_ray.evaluation.ranking import Floats, Ints
from zelo_ray.evaluation.votes import (
    A_BETTER,
    A_OR_NOT,
    B_BETTER,
    DECIDED,
    TIE,
    WITH_TIES,
    agreement_with_people,
)
from zelo_ray.files.judges import HUMAN
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.files.run_record import RUN, record_start
from zelo_ray.files.storage import write_text
from zelo_ray.files.tables import read_table
from zelo_ray.files.wording import counted
from zelo_ray.options import AnnotateOptions, flag_of
from zelo_ray.protocols import Progress, Replies, load_protocol
from zelo_ray.protocols.shared_error import shown_example_queries
from zelo_ray.providers import panel_of
from zelo_ray.providers.pricing import table_version
from zelo_ray.reasons import Disabled, StopReason, describe_disabled
from zelo_ray.records import Judge, Reply
from zelo_ray.report.command_lines import command_of, sibling_path, values_of
from zelo_ray.report.figures import Figure, figures_table
from zelo_ray.report.results import Results, finish

KIND = "compare"
Cost = Floats
COST = ("calls", "tokens", "dollars", "unpriced")
"""What a cost is made of: tokens of input and output, and answers without a price."""
_WORDS = {A_BETTER: "A", TIE: "tie", B_BETTER: "B", -1: None}


@dataclass(slots=True)
class Judged:
    """The ways, what they are to judge, and their verdicts by part of the labelled queries.

    Plans and summaries are by way and part; ``chosen`` is the way that agrees most with people.
    """

    options: CompareOptions
    ways: Sequence[Way]
    labelled: Labelled
    plans: dict[tuple[str, str], AnnotateOptions] = field(default_factory=dict)
    summaries: dict[tuple[str, str], Summary] = field(default_factory=dict)
    verdicts: dict[str, dict[str, Ints]] = field(default_factory=dict)
    chosen: str = ""


def run(options: CompareOptions, watch: Watch) -> Results:
    """Let ways judge what people labelled, and measure them; with halves choose one, test it."""
    if options.dry_run:
        with _plans_for_estimate(options, watch) as plans:
            return estimate_jobs(plans, options)
    as_given, options = options, with_absolute_places(options)
    ways, notes = make_ways(options)
    with remove_folders_if_refused(options.out, options.ledger_dir):
        with claim_output(options, watch, KIND):
            salt_of(options.ledger_dir)
            labelled = collect_items(options, options.out, watch, _examples(options, ways))
            judged = Judged(options, ways, labelled)
            for way in ways:
                for name, part in labelled.parts.items():
                    folder = f"{options.out.rstrip('/')}/ways/{way.folder}"
                    folder += f"/{name}" if name != ALL else ""
                    plan = plan_way(options, way, (part.pools,), folder)
                    refuse_other_options(plan, panel_of(plan, os.environ))
                    judged.plans[way.name, name] = plan
            for line in (f"Ways: {', '.join(way.name for way in ways)}", *notes):
                watch.say(line)
            started = {"kind": KIND, "options": options.model_dump(mode="json")}
            record_start(options.out, RUN, started)
        with on_one_ray(options):
            _judge(judged, watch)
        with claim_output(options, watch, KIND):
            return _finish(judged, notes, _next_command(as_given))


@contextmanager
def _plans_for_estimate(
    options: CompareOptions, watch: Watch
) -> Iterator[dict[str, AnnotateOptions]]:
    """Yield the options of each way's run; their pools exist until it ends.

    With halves, the way that will be chosen is not known: all but the first have one half alone.
    """
    ways, notes = make_ways(options)
    with TemporaryDirectory() as folder:
        labelled = collect_items(options, folder, watch, _examples(options, ways))
        first, *others = [part.pools for part in labelled.parts.values()]
        late = ["The chosen way judges the second half, too, which is not estimated."]
        for note in notes + late * bool(others):
            watch.say(note)
        pools = {way.name: [first] if n else [first, *others] for n, way in enumerate(ways)}
        yield {way.name: plan_way(options, way, pools[way.name], options.out) for way in ways}


def _examples(options: CompareOptions, ways: Sequence[Way]) -> frozenset[str]:
    """Return the queries of the worked examples that judges of any way see."""
    plans = (plan_way(options, way, ("-",), "-") for way in ways)
    return frozenset().union(*(shown_example_queries(dict(plan)) for plan in plans))


def _judge(judged: Judged, watch: Watch) -> None:
    """Let all ways judge, and find the one that agrees most; with halves let that one be tested."""
    (first, part), options = next(iter(judged.labelled.parts.items())), judged.options
    names = [way.name for way in judged.ways]
    for name in names:
        _judge_part(judged, name, first, watch)
    judged.chosen = choose(part.pairs, judged.verdicts[first], options.measure)
    for name in dict.fromkeys((names[0], judged.chosen)) if options.halves else ():
        _judge_part(judged, name, TEST, watch)


def _judge_part(judged: Judged, way: str, part: str, watch: Watch) -> None:
    plan, items = judged.plans[way, part], judged.labelled.parts[part].items
    watch.say("")
    watch.say(way if part == ALL else f"{way}, queries to {part}")
    judged.summaries[way, part] = judge_pools(plan, watch)
    scores = read_scores(plan.out)
    judged.verdicts.setdefault(part, {})[way] = verdicts_of(scores, items)


def _next_command(options: CompareOptions) -> str:
    """Return how to judge the whole input as was chosen, over the same ledger."""
    out, words = options.out.rstrip("/"), ["annotate", *options.inputs]
    for name in ("corpus", "queries", "columns"):
        if value := getattr(options, name):
            words += [flag_of(name), *values_of(value)]
    words += ["--config", f"{out}/{CHOSEN}", "--out", sibling_path(out, "judged")]
    return command_of(*words, "--ledger", options.ledger_dir, "--dry-run")


def _finish(judged: Judged, notes: Sequence[str], next_command: str) -> Results:
    """Measure the ways; write tables, the options of the chosen one, and the record."""
    options, labelled, ways, chosen = judged.options, judged.labelled, judged.ways, judged.chosen
    ledger, costs = Ledger(options.ledger_dir), cost_requests(read_rows(options.ledger_dir))
    figures = list[Figure]()
    for part, by_way in judged.verdicts.items():
        pairs = labelled.parts[part].pairs
        for way, verdicts in by_way.items():
            plan = judged.plans[way, part]
            asked = find_requests(plan, panel_of(plan, os.environ), ledger)
            figures += agreement_figures(way, part, pairs, verdicts)
            by_query = cost_queries(asked, costs)
            figures += cost_figures(way, part, pairs, verdicts, by_query)
    paid = [sum(each) for each in zip(*costs.values(), strict=True)] or [0.0] * len(COST)
    gains = _gains(judged)
    compared = 0 if options.halves else sum(not isnan(gain.low) for _, gain in gains)
    figures += [gain_figure(gain, part, compared) for part, gain in gains]
    tested = [asdict(gain) for _, gain in gains if not isnan(gain.p)]
    best = next(way for way in ways if way.name == chosen)
    write_text(
        options.out, CHOSEN, options_as_yaml(plan_way(options, best, options.inputs, options.out))
    )
    return finish(
        KIND,
        options,
        {"figures": figures_table(figures), "items": _items_table(judged)},
        build_report,
        sources=[options.human],
        complete=not labelled.rejected and all(s.complete for s in judged.summaries.values()),
        next_command=next_command,
        prices=table_version(options.prices),
        chosen=chosen,
        ways=[way.describe(options) for way in ways],
        parts={n: {"queries": p.queries, "items": len(p.items)} for n, p in labelled.parts.items()},
        labels=labelled.judgments,
        tested=tested[0] if tested else None,
        cost=dict(zip(COST, map(float, paid), strict=True)),
        notes=[*notes, *_gaps(judged), *labelled.notes],
    )


def _gains(judged: Judged) -> list[tuple[str, Gain]]:
    """Return the differences by part: of every two ways; with halves from the options as given."""
    options, gains, baseline = judged.options, list[tuple[str, Gain]](), judged.ways[0].name
    for part, verdicts in judged.verdicts.items():
        pairs, others = judged.labelled.parts[part].pairs, [n for n in verdicts if n != baseline]
        both = [(n, baseline) for n in others] if options.halves else [*combinations(verdicts, 2)]
        for two in both:
            tested = part == TEST and two[0] == judged.chosen
            gain = measure_gain(pairs, verdicts, *two, measure=options.measure, tested=tested)
            if gain.difference < 0 and not options.halves:  # seen from the one that agrees more
                gain = measure_gain(pairs, verdicts, *two[::-1], measure=options.measure)
            gains.append((part, gain))
    return gains


def _items_table(judged: Judged) -> pa.Table:
    """Return the table of people's pairs, with a column for the verdict of each way."""
    rows = [
        {
            **{name: getattr(item, name) for name in ("query_id", "doc_id_a", "doc_id_b")},
            **({"half": name} if judged.options.halves else {}),
            "human": _WORDS[item.verdict],
            **{way.name: None for way in judged.ways},
            **{way: _WORDS[int(row[n])] for way, row in judged.verdicts.get(name, {}).items()},
        }
        for name, part in judged.labelled.parts.items()
        for n, item in enumerate(part.items)
    ]
    return pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in rows[0]]))


def _gaps(judged: Judged) -> Iterator[str]:
    """Yield notes on what was not judged, and why."""
    for (way, part), summary in judged.summaries.items():
        verdicts, reasons = judged.verdicts[part][way], [*describe_disabled(summary.disabled)]
        if unjudged := int((verdicts < 0).sum()):
            many = f"{unjudged:,} of {counted(len(verdicts), 'pair')}"
            reasons.append(f"see {summary.out}/failures.parquet")
            yield f"{way} did not judge {many}: {'; '.join(reasons)}."
        elif reasons:
            yield f"{way}: {'; '.join(reasons)}."


Scores = Mapping[tuple[str, str], float]
"""By query and document."""
_COEFFICIENTS = {name: COEFFICIENTS[name] for name in ("agreement", "alpha-nominal", "mcc")}
FIGURES = {
    (WITH_TIES, "agreement"): "agreement",
    (WITH_TIES, "alpha-nominal"): "alpha",
    (A_OR_NOT, "mcc"): "MCC",
    (DECIDED, "agreement"): "agreement, decided",
    (DECIDED, "alpha-nominal"): "alpha, decided",
    (DECIDED, "mcc"): "MCC, decided",
}
"""By scale and coefficient, how a figure is called; decided: where neither says a tie."""
_SAME_SCORE = 1e-9


def read_scores(out: str) -> Scores:
    """Read the scores of a run."""
    columns = ("query_id", "doc_id", "score")
    table = read_table(out, "scores", columns)
    rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
    return {(query_id, doc_id): nan if s is None else s for query_id, doc_id, s in rows}


def verdicts_of(scores: Scores, items: Iterable[Item]) -> Ints:
    """Return which document of each item scores higher; -1 where a score is missing."""
    ids = [(item.query_id, doc) for item in items for doc in (item.doc_id_a, item.doc_id_b)]
    a, b = np.array([scores.get(each, nan) for each in ids]).reshape(-1, 2).T
    verdicts = np.select([np.abs(a - b) <= _SAME_SCORE, a > b], [TIE, A_BETTER], B_BETTER)
    return np.where(np.isfinite(a) & np.isfinite(b), verdicts, -1)


def agreement_figures(
    way: str, part: str, pairs: LabelledPairs, verdicts: Ints
) -> Iterator[Figure]:
    """Yield how far a way agrees with people on the pairs of a part."""
    judged = int((verdicts >= 0).sum())
    yield _figure(way, "concordance", part, pairs.share(pairs.credit(verdicts)), judged)
    grades = np.array([pairs.verdicts, verdicts], np.int16)
    weights = None if len(np.unique(pairs.weights)) < 2 else pairs.weights
    ratings = RatingMatrix((HUMAN, way), grades, pairs.queries, 3, weights)
    for row in agreement_with_people(ratings, _COEFFICIENTS):
        if what := FIGURES.get((row.scale, row.coefficient)):
            yield _figure(way, what, part, row.estimate, row.items)


def cost_figures(
    way: str, part: str, pairs: LabelledPairs, verdicts: Ints, costs: Mapping[str, Cost]
) -> Iterator[Figure]:
    """Yield what a way's verdicts cost, and a correct one, over queries; NaN without a price."""
    right = np.bincount(pairs.queries, verdicts == pairs.verdicts, len(pairs.query_ids))
    every = np.ones(len(right), np.bool_)  # those without a correct verdict cost money too
    spent = np.array([costs.get(query_id, np.zeros(len(COST))) for query_id in pairs.query_ids])
    spent[spent[:, 3] > 0, 2] = nan
    for column, what in enumerate(COST[:3]):
        table, judged = np.stack([spent[:, column], right], axis=1), int((verdicts >= 0).sum())
        yield _figure(way, what, part, estimate(table, every, lambda sums: sums[..., 0]), judged)
        if what != "tokens":
            each = estimate(table, every, quotient)
            yield _figure(way, f"{what} per correct pair", part, each, judged)


def _figure(of: str, what: str, scale: str, estimate: Estimate, items: int) -> Figure:
    ends = (estimate.value, estimate.low, estimate.high, nan)
    return Figure(of, "", what, scale, *ends, items, estimate.queries)


def gain_figure(gain: Gain, part: str, tests: int) -> Figure:
    """Return a difference as a figure; without a test its p is corrected for so many ``tests``."""
    ends = (gain.difference, gain.low, gain.high)
    p = p_of_interval(*ends, gain.queries, tests) if isnan(gain.p) and tests else gain.p
    return Figure(gain.way, gain.other, "difference", part, *ends, p, gain.items, gain.queries)


# What requests cost, by the ledger


def find_requests(
    options: AnnotateOptions, panel: Sequence[Judge], replies: Replies
) -> dict[str, list[str]]:
    """Return the keys of all answered requests of a run about files of pools, by query id.

    Missing replies count as failed, so that requests of interrupted runs, and of runs that went on
    without some judges, are found too.
    """
    protocol, missing = load_protocol(options.protocol), Disabled(StopReason.MISSING, "not there")
    disabled, asked = {judge.name: missing for judge in panel}, dict[str, list[str]]()
    for line in (line for file in options.inputs for line in read_lines(file, LineLimits())):
        if line.pool:
            progress = Progress(protocol.rounds(line.pool, panel, options))
            progress.step(replies, disabled)
            keys = progress.answered_keys().values()
            asked[line.pool.query_id] = [key for each in keys for key in each]
    return asked


def cost_requests(rows: Iterable[Reply]) -> dict[str, Cost]:
    """Return the cost of each request by its key: of all billed answers, used or not."""
    costs = defaultdict[str, Cost](lambda: np.zeros(len(COST)))
    attempts = dict[tuple[str, str], int]()  # by run, too, because each run counts from 1
    for row in rows:
        before = attempts.get((row.key, row.run_id), 0)
        attempts[row.key, row.run_id] = after = max(before, row.attempts)
        tokens, dollars = row.input_tokens + row.output_tokens, row.dollars
        costs[row.key] += (after - before, tokens, dollars or 0.0, dollars is None)
    return dict(costs)


def cost_queries(asked: Mapping[str, Sequence[str]], costs: Mapping[str, Cost]) -> dict[str, Cost]:
    """Return the cost of each query. A request of two queries counts for the first."""
    counted, totals = set[str](), dict[str, Cost]()
    for query_id, keys in asked.items():
        new = [costs[key] for key in dict.fromkeys(keys) if key in costs and key not in counted]
        totals[query_id] = sum(new, np.zeros(len(COST)))
        counted |= {*keys}
    return totals
