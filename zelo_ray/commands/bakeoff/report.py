"""Build the report of a bake-off: which ranker is best, by how much, and where rankers differ."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import isnan, nan
from operator import itemgetter
from typing import Any

from markupsafe import Markup

from zelo_ray.commands.bakeoff.comparisons import (
    FOREST,
    against,
    both_ways,
    compare_leader,
    comparison_table,
    comparisons_of,
    difference,
    forest,
    means_of,
    people_lead,
    people_section,
    rankers_of,
)
from zelo_ray.commands.bakeoff.families import TRUTH
from zelo_ray.commands.bakeoff.gate import gate_line
from zelo_ray.commands.bakeoff.warnings import find_warnings
from zelo_ray.engine.replies import describe_possibly_billed
from zelo_ray.evaluation.gate import GateDecision
from zelo_ray.evaluation.significance import ALPHA, TEST, TIE, count_tested, significance_of
from zelo_ray.files.wording import counted, without_passwords
from zelo_ray.records import Comparison
from zelo_ray.report import charts
from zelo_ray.report.figures import Shown, best_first, cell_of, figures_section, pick
from zelo_ray.report.model import Cell, Part, Report, Section, Value, chart, name_some, table
from zelo_ray.report.results import Results

_COSTS = {
    "seconds_p50": ("seconds p50", Shown("seconds", ",.3g")),
    "seconds_p95": ("seconds p95", Shown("seconds", ",.3g")),
    "usd_per_1000": ("$ for 1,000 queries", Shown("US dollars", "$")),
    "spent": ("spent", Shown("US dollars", "$")),
    "ranked": ("ranked", Shown("queries", ",.0f")),
}
"""What a query takes a ranker, as it is called and shown; and what its ranking cost and covers."""
CHANCES = """P(the row's ranker beats the column's): the chance that its mean over all queries of
this kind is the higher one, by Student's t over these queries."""
_ROWS, _MATRIX, _SERIES = 1000, 30, 8
"""The most comparisons in a table, and rankers in a matrix and of slices."""
_RIVALS, _WIDEST = 5, 5
"""Rivals of the best ranker, and queries of each."""


def build_report(results: Results) -> Report:
    """Build the report of a bake-off."""
    record, people, lead = results.record, people_lead(results), _lead(results)
    summary, options = record["summary"], record["options"]
    alone = " by the panel alone" if people else ""
    draws = f"{summary['label_draws']:,} draws of the labels"
    gates = [*map(gate_line, results.records("gate", GateDecision))]  # scripts parse these lines
    prompt = f" Instructions: {options['instructions']}" if options.get("instructions") else ""
    return Report(
        title=f"Bake-off of {counted(len(results['leaderboard']), 'ranker')} on "
        f"{counted(summary['queries'], 'query', 'queries')}",
        tiles=_tiles(results, alone),
        lead=[people, f"By the panel alone: {lead}"] if people else [lead],
        sections=[
            *([Section("gate", "May they replace the baseline?", gates)] if gates else []),
            *_leaderboard(results, alone),
            *_differences(results, alone),
            *people_section(results),
            *_failures(results),
        ],
        page_sections=lambda: [*_distribution(results), *_slices(results), *_contrasts(results)],
        find_warnings=lambda: find_warnings(results),
        notes=[*_notes(record)],
        made=f"Run {record['run_id']} of zelo-ray {record['versions']['zelo-ray']}: truth "
        f"{without_passwords(options['truth'])}, seed {options['seed']}, "
        f"{draws if summary['label_draws'] else 'labels taken as they are'}.{prompt}",
        banner=_banner(results),
        names=[*record["truth"]["judges"], *rankers_of(results)],
    )


def _tiles(results: Results, alone: str) -> dict[str, Value]:
    """Return the leader's mean and lead, and what was judged and spent."""
    best, leading = rankers_of(results)[0], results.record["measures"][0]
    [mean] = pick(means_of(results), of=best, what=leading)
    tiles: dict[str, Value] = {f"{leading} of {best}{alone}": cell_of(mean)}
    for row in against(best, comparisons_of(results).get(leading, ()))[:1]:
        tiles[f"{best} minus {row.run_b}"] = difference(row)
    tiles["judged documents"] = results.record["summary"]["documents"]
    if spent := _spent(results):
        tiles["spent"] = Cell(sum(row["value"] for row in spent), "$")
    return tiles


def _spent(results: Results) -> list[dict[str, Any]]:
    """Return what each ranker cost, NaN where an answer has no known price; none if all is free."""
    board = results.rows("leaderboard")
    return [
        {"of": row["run"], "value": nan if row["unpriced"] else row["dollars"]}
        for row in board
        if any(each["dollars"] or each["unpriced"] for each in board)
    ]


def _lead(results: Results) -> str:
    """Say which ranker leads, and from which others it differs significantly."""
    (best, *others), leading = rankers_of(results), results.record["measures"][0]
    if not others:
        return f"{best} is the only ranker, so there is nothing to compare."
    means = {row["of"]: row["value"] for row in pick(means_of(results), what=leading)}
    equal = [name for name in others if abs(means[best] - means[name]) <= TIE]
    comparisons = against(best, comparisons_of(results).get(leading, ()))
    rivals = {row.run_b: significance_of(row) for row in comparisons if row.run_b not in equal}
    text = f"{best} has the highest {leading}."
    if equal:
        text = f"{name_some([best, *equal], 5)} share the highest {leading}."
    order = {name: rivals[name] for name in others if name in rivals}
    return f"{text} {compare_leader(best if equal else 'It', order)}".strip()


def _banner(results: Results) -> str:
    """Name the rankers that are of the same model family as judges; empty if there are none."""
    related = results.rows("leaderboard")
    related = [row for row in related if row["judges"]]
    if not related:
        return ""
    sentences = [
        "Self-preference: judges of the truth are of the same model family as rankers.",
        "No difference is called significant that only they support.",
    ]
    for row in related[:8]:
        judges = ", ".join(row["judges"]).replace(TRUTH, "unnamed judges")
        sentences.append(f"{row['run']} ({', '.join(row['families'])}) is judged by {judges}.")
    if more := related[8:]:
        sentences.append(f"So are {len(more):,} more: see leaderboard.parquet.")
    sentences += [f"Without {n}: {why}." for n, why in results.record["not_refitted"].items()]
    return " ".join(sentences)


def _notes(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a reader has to know of the ledger."""
    if damaged := record["summary"]["damaged"]:
        yield f"The ledger held {counted(damaged, 'damaged line')}, set aside and asked again."
    if dollars := record["summary"]["maybe_dollars"]:
        text = describe_possibly_billed(dollars)
        yield f"{text[0].upper()}{text[1:]}."


def _leaderboard(results: Results, alone: str) -> list[Section]:
    """Show the means of rankers with intervals, and what each ranked and cost."""
    means, queries = means_of(results), results.record["summary"]["queries"]
    board = results.rows("leaderboard")
    whats = [*dict.fromkeys(row["what"] for row in means)]
    more = [*means_of(results, "cost"), *({**row, "what": "spent"} for row in _spent(results))]
    if any(row["missing"] for row in board):
        more += [{"of": row["run"], "what": "ranked", "value": row["ranked"]} for row in board]
    plain = {"against": "", "scale": "", "low": nan, "high": nan, "p": nan, "items": 0}
    return figures_section(
        "leaderboard",
        f"Leaderboard{alone}",
        [*means, *({**plain, **row, "what": _COSTS[row["what"]][0]} for row in more)],
        {what: Shown(what) for what in whats} | dict(_COSTS.values()),
        _explain_means(results, queries),
        who="ranker",
        items="queries",
        file="means.parquet",
        more=[*_share_of_pairs(results)],
    )


def _share_of_pairs(results: Results) -> Iterator[str]:
    """Say how many of the pairs of documents the leader orders as the truth does."""
    best = rankers_of(results)[0]
    for row in pick(means_of(results), of=best, what="Pairs"):
        if not isnan(row["value"]):  # else all documents of a query are equal
            whom = "the panel" if results.record["truth"]["judges"] else "the truth"
            share = cell_of(row, ".0%").text()
            yield f"{best} orders {share} of the pairs of documents as {whom} does."


def _explain_means(results: Results, queries: int) -> str:
    sure = results.record["options"]["confidence"]
    text = (
        f"Means over {counted(queries, 'query', 'queries')} with {sure:.0%} intervals. A query "
        "that a ranker did not rank counts as 0, a document that nobody judged as not relevant. "
        "Two intervals may overlap and the difference be significant: see below."
    )
    for row in pick(means_of(results), of=rankers_of(results)[0]):
        if row["queries"] < queries:
            defined = counted(row["queries"], "query", "queries")
            text += f" {row['what']} is defined for {defined}."
    if "times" in results:
        text += " Seconds are of a query's calls, without waiting, failed tries and loading."
    return text


def _differences(results: Results, alone: str) -> Iterator[Section]:
    """Show which differences between rankers are significant."""
    rankers, by_measure, means = rankers_of(results), comparisons_of(results), means_of(results)
    if not by_measure:
        return
    forests = {
        name: forest(best_first(pick(means, what=name))[0], rows)
        for name, rows in by_measure.items()
    }
    chances = {
        measure: _chances(rankers[:_MATRIX], rows)
        for measure, rows in by_measure.items()
        if not all(isnan(row.p_better) for row in rows)
    }
    parts: list[Part] = [chart(forests, FOREST, "measure")]
    parts += [chart(chances, CHANCES, "measure")] if chances else []
    (leading, rows), place = next(iter(by_measure.items())), {n: at for at, n in enumerate(rankers)}
    shown = sorted(rows, key=lambda row: sorted((place[row.run_a], place[row.run_b])))
    columns: dict[str, Any] = {"P(A beats B)": lambda row: Cell(row.p_better, "p")}
    if results.record["summary"]["label_draws"]:
        columns["A above in draws"] = lambda row: Cell(row.p_labels, ".0%")
    columns["wins / ties / losses"] = lambda row: f"{row.wins:,} / {row.ties:,} / {row.losses:,}"
    columns["queries"] = "queries"
    significant = sum(significance_of(row).is_significant for row in rows)
    tested = counted(count_tested(chain.from_iterable(by_measure.values())), "comparison")
    text = (
        f"Significant differences by {leading}: {significant:,} of {len(rows):,} ({TEST}, p < "
        f"{ALPHA} after Holm's correction for {tested} by all measures)."
    )
    parts.append(comparison_table(shown[:_ROWS], columns, text, len(rows)))
    yield Section("differences", f"Differences{alone}", parts)


def _chances(rankers: Sequence[str], rows: Sequence[Comparison]) -> Markup:
    pairs = {key[1:]: row for key, row in both_ways(rows).items()}

    def chance(one: str, other: str) -> tuple[float, str]:
        row = pairs[one, other]
        text = f"{difference(row).text()}, p {row.p:.3g}, {row.p_holm:.3g} after Holm"
        return row.p_better, text

    return charts.pair_matrix(rankers, chance)


def _failures(results: Results) -> Iterator[Section]:
    """Count the queries that a ranker did not rank, by reason."""
    failures = results.rows("failures")
    reasons = Counter((row["run"], f"{row['status']}: {row['reason']}"[:200]) for row in failures)
    rows = [(run, count, why) for (run, why), count in reasons.most_common()]
    for place in results.rows("leaderboard"):
        rows += [(place["run"], place["missing"], place["note"][:300])] if place["note"] else []
    if rows:
        caption = (
            "They count as 0 in the means of a ranker; two rankers are compared on the queries "
            "that both ranked. A ranker that ranked none takes no part."
        )
        columns = {name: itemgetter(n) for n, name in enumerate(("ranker", "queries", "why"))}
        part = table(sorted(rows, key=itemgetter(0)), columns, caption, file="failures.parquet")
        yield Section("failures", "Queries that were not ranked", [part])


# on the page alone


def _distribution(results: Results) -> Iterator[Section]:
    """Show the distribution of the leading measure over queries."""
    leading, values = results.record["measures"][0], dict[str, list[float]]()
    lost = {(row["run"], row["query_id"]) for row in results.rows("failures")}
    for row in results.rows("metrics", measure=leading):
        if (row["run"], row["query_id"]) not in lost:
            values.setdefault(row["run"], []).append(row["value"])
    pictures = {
        name: charts.histogram(values[name], leading, "queries")
        for name in rankers_of(results)[:_MATRIX]
    }
    caption = (
        f"Distribution of {leading} over queries: a ranker may be mediocre on all of them, or "
        "perfect on most and lost on some."
    )
    yield Section("distribution", "Query by query", [chart(pictures, caption, "ranker")])


def _slices(results: Results) -> list[Section]:
    """Show means over parts of the queries."""
    leading, rankers = results.record["measures"][0], rankers_of(results)[:_SERIES]
    rows = [row for row in results.rows("slices", measure=leading) if row["run"] in rankers]
    return figures_section(
        "slices",
        "Slices",
        [
            {
                **row,
                "of": row["value"],
                "against": row["run"],
                "scale": "",
                "what": row["slice"],
                "value": row["mean"],
                "p": nan,
                "items": row["queries"],
            }
            for row in rows
        ],
        {row["slice"]: Shown(leading) for row in rows},
        f"Mean {leading} and its interval on parts of the queries.",
        who="queries",
        against="ranker",
        file="slices.parquet",
    )


def _contrasts(results: Results) -> Iterator[Section]:
    """Show the queries on which the best ranker and its nearest rivals differ most."""
    (best, *others), leading = rankers_of(results), results.record["measures"][0]
    lost = {(row["run"], row["query_id"]) for row in results.rows("failures")}
    values: dict[str, dict[str, float]] = {}
    for row in results.rows("metrics", measure=leading):
        if (row["run"], row["query_id"]) not in lost and not isnan(row["value"]):
            values.setdefault(row["run"], {})[row["query_id"]] = row["value"]
    rows = list[tuple[str, str, Cell, Cell]]()
    for rival in others[:_RIVALS]:
        own, other = values.get(best, {}), values.get(rival, {})
        gaps = {name: abs(own[name] - other[name]) for name in own if name in other}
        widest = sorted(gaps, key=lambda name: -gaps[name])[:_WIDEST]
        rows += [(name, rival, Cell(own[name]), Cell(other[name])) for name in widest if gaps[name]]
    names = ("query", "rival", best, "rival's value")
    caption = f"The queries on which {best} and its nearest rivals differ most in {leading}."
    columns = {name: itemgetter(n) for n, name in enumerate(names)}
    if rows:
        part = table(rows, columns, caption, file="metrics.parquet")
        yield Section("contrasts", "Where two rankers differ most", [part])
