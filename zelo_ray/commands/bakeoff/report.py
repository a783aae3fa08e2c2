"""Build the report of a bake-off: which ranker is best, by how much, and where rankers differ."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from markupsafe import Markup

from zelo_ray.commands.bakeoff.breakdown import sections
from zelo_ray.commands.bakeoff.families import TRUTH
from zelo_ray.commands.bakeoff.gate import gate_line
from zelo_ray.commands.bakeoff.people_report import people_lead, people_section
from zelo_ray.commands.bakeoff.rows import (
    FOREST,
    Place,
    Unranked,
    against,
    best_by,
    both_ways,
    comparisons_of,
    ends,
    forest,
    means_of,
    rankers_of,
)
from zelo_ray.commands.bakeoff.warnings import find_warnings
from zelo_ray.engine.bookkeeping import describe_possibly_billed, format_dollars
from zelo_ray.evaluation.gate import GateDecision
from zelo_ray.evaluation.significance import (
    ALPHA,
    TEST,
    TIE,
    count_tested,
    significance_of,
)
from zelo_ray.files.wording import counted, without_passwords
from zelo_ray.records import Comparison, Mean
from zelo_ray.report import charts
from zelo_ray.report.model import (
    Cell,
    Part,
    Report,
    Section,
    Value,
    chart,
    estimate,
    name_some,
    table,
)
from zelo_ray.report.results import Results
from zelo_ray.report.significance import compare_leader, significance_cell

_COSTS = {
    "seconds p50": ("seconds_p50", ",.3g"),
    "p95": ("seconds_p95", ",.3g"),
    "$ for 1,000 queries": ("usd_per_1000", "$"),
}
"""By column, what a query takes a ranker, and the form of the figure."""
CHANCES = """P(the row's ranker beats the column's): the chance that its mean over all queries of
this kind is the higher one, by Student's t over these queries."""
_ROWS, _MATRIX = 1000, 30
"""How many comparisons the table shows, and how many rankers the matrix."""


def build_report(results: Results) -> Report:
    """Build the report of a bake-off."""
    record, people, lead = results.record, people_lead(results), _lead(results)
    summary, alone = record["summary"], " by the panel alone" if people else ""
    draws = f"{summary['label_draws']:,} draws of the labels"
    return Report(
        title=f"Bake-off of {counted(len(results['leaderboard']), 'ranker')} on "
        f"{counted(summary['queries'], 'query', 'queries')}",
        tiles=_tiles(results, alone),
        lead=[people, f"By the panel alone: {lead}"] if people else [lead],
        sections=[
            *_gate(results),
            *_leaderboard(results, alone),
            *_differences(results, alone),
            *people_section(results),
            *_failures(results),
        ],
        page_sections=lambda: sections(results),
        find_warnings=lambda: find_warnings(results),
        notes=[*_notes(record)],
        made=f"Run {record['run_id']} of zelo-ray {record['versions']['zelo-ray']}: truth "
        f"{without_passwords(record['options']['truth'])}, seed {record['options']['seed']}, "
        f"{draws if summary['label_draws'] else 'labels taken as they are'}.",
        banner=_banner(results),
    )


def _tiles(results: Results, alone: str) -> dict[str, Value]:
    """Return the leader's mean and lead, and what was judged and spent."""
    best, leading = rankers_of(results)[0], results.record["measures"][0]
    mean = means_of(results)[leading][best]
    tiles: dict[str, Value] = {f"{leading} of {best}{alone}": estimate("mean")(mean)}
    for row in against(best, comparisons_of(results).get(leading, ()))[:1]:
        tiles[f"{best} minus {row.run_b}"] = estimate("difference", "+z.3f")(row)
    tiles["judged documents"] = results.record["summary"]["documents"]
    board = results.records("leaderboard", Place)
    dollars, unpriced = sum(row.dollars for row in board), sum(row.unpriced for row in board)
    return tiles | ({"spent": _cost(dollars, unpriced)} if dollars or unpriced else {})


def _cost(dollars: float, unpriced: int) -> str:
    """Return an amount, with a question mark where some answers have no known price."""
    known = format_dollars(dollars) if dollars else ""
    return " + ".join(filter(None, [known, "?" if unpriced else ""])) or "free"


def _lead(results: Results) -> str:
    """Say which ranker leads, and from which others it differs significantly."""
    (best, *others), leading = rankers_of(results), results.record["measures"][0]
    if not others:
        return f"{best} is the only ranker, so there is nothing to compare."
    means = {name: row.mean for name, row in means_of(results)[leading].items()}
    equal = [name for name in others if abs(means[best] - means[name]) <= TIE]
    found = against(best, comparisons_of(results).get(leading, ()))
    rivals = {row.run_b: significance_of(row) for row in found if row.run_b not in equal}
    text = f"{best} has the highest {leading}."
    if equal:
        text = f"{name_some([best, *equal], 5)} share the highest {leading}."
    order = {name: rivals[name] for name in others if name in rivals}
    return f"{text} {compare_leader(best if equal else 'It', order)}".strip()


def _banner(results: Results) -> str:
    """Name the rankers that are of the same model family as judges; empty if there are none."""
    related = [row for row in results.records("leaderboard", Place) if row.judges]
    if not related:
        return ""
    sentences = [
        "Self-preference: judges of the truth are of the same model family as rankers.",
        "No difference is called significant that only they support.",
    ]
    for row in related[:8]:
        judges = ", ".join(row.judges).replace(TRUTH, "unnamed judges")
        sentences.append(f"{row.run} ({', '.join(row.families)}) is judged by {judges}.")
    if more := related[8:]:
        sentences.append(f"So are {len(more):,} more: see leaderboard.parquet.")
    sentences += [f"Without {n}: {why}." for n, why in results.record["not_refitted"].items()]
    return " ".join(sentences)


def _notes(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a reader has to know of the ledger."""
    if damaged := record["summary"]["damaged"]:
        yield f"The ledger held {counted(damaged, 'damaged line')}, set aside and asked again."
    if dollars := record["summary"]["maybe_dollars"]:
        text = describe_possibly_billed(dollars, record["uncounted"])
        yield f"{text[0].upper()}{text[1:]}."


def _gate(results: Results) -> Iterator[Section]:
    """Show which rankers may replace the baseline, in lines that scripts can parse."""
    if rows := results.records("gate", GateDecision):
        yield Section("gate", "May they replace the baseline?", [*map(gate_line, rows)])


def _leaderboard(results: Results, alone: str) -> Iterator[Section]:
    """Show the means of rankers with intervals, and what each ranked and cost."""
    rankers, means, costs = rankers_of(results), means_of(results), means_of(results, "cost")
    board, queries = results.records("leaderboard", Place), results.record["summary"]["queries"]
    pictures = {
        measure: charts.intervals(rankers, {"": ends([rows[n] for n in rankers], "mean")}, measure)
        for measure, rows in means.items()
    }
    caption = "Each ranker's mean over queries, with its interval."
    if len(rankers) > 1:
        caption += " Two intervals may overlap and the difference be significant: see below."
    columns: dict[str, Any] = {"ranker": "run"}
    columns |= {measure: _mean(rows) for measure, rows in means.items()}
    if any(row.missing for row in board):
        columns["ranked"] = lambda row: f"{row.ranked:,} of {queries:,}"
    if any(row.dollars or row.unpriced for row in board):
        columns["spent"] = lambda row: _cost(row.dollars, row.unpriced)
    if costs:
        columns |= {name: _mean(costs.get(of, {}), form) for name, (of, form) in _COSTS.items()}
    parts: list[Part] = [chart(pictures, caption, "measure"), *_share_of_pairs(results)]
    parts.append(table(board, columns, _explain_means(results, means), file="means.parquet"))
    yield Section("leaderboard", f"Leaderboard{alone}", parts)


def _mean(rows: Mapping[str, Mean], form: str = ".3f") -> Callable[[Place], Cell]:
    """Return what takes the mean of a ranker, if it has one."""
    cell = estimate("mean", form)
    return lambda row: cell(rows[row.run]) if row.run in rows else Cell(None)


def _explain_means(results: Results, means: Mapping[str, Mapping[str, Mean]]) -> str:
    sure, queries = results.record["options"]["confidence"], results.record["summary"]["queries"]
    text = (
        f"Means over {counted(queries, 'query', 'queries')} with {sure:.0%} intervals. A query "
        "that a ranker did not rank counts as 0, a document that nobody judged as not relevant."
    )
    for measure, rows in means.items():
        if (count := next(iter(rows.values())).queries) < queries:
            text += f" {measure} is defined for {counted(count, 'query', 'queries')}."
    if len(results.part("times", None)):
        text += " Seconds are of a query's calls, without waiting, failed tries and loading."
    return text


def _share_of_pairs(results: Results) -> Iterator[str]:
    """Say how many of the pairs of documents the leader orders as the truth does."""
    best = rankers_of(results)[0]
    row = means_of(results).get("Pairs", {}).get(best)
    if row and not np.isnan(row.mean):  # else all documents of a query are equal
        whom = "the panel" if results.record["truth"]["judges"] else "the truth"
        share = estimate("mean", ".0%")(row).text()
        yield f"{best} orders {share} of the pairs of documents as {whom} does."


def _differences(results: Results, alone: str) -> Iterator[Section]:
    """Show which differences between rankers are significant."""
    rankers, found, means = rankers_of(results), comparisons_of(results), means_of(results)
    if not found:
        return
    forests = {n: forest(best_by(means[n], rankers), rows) for n, rows in found.items()}
    chances = {
        measure: _chances(rankers[:_MATRIX], rows)
        for measure, rows in found.items()
        if not all(np.isnan(row.p_better) for row in rows)
    }
    parts: list[Part] = [chart(forests, FOREST, "measure")]
    parts += [chart(chances, CHANCES, "measure")] if chances else []
    yield Section("differences", f"Differences{alone}", [*parts, _comparisons(results, found)])


def _chances(rankers: Sequence[str], rows: Sequence[Comparison]) -> Markup:
    pairs = {key[1:]: row for key, row in both_ways(rows).items()}

    def chance(one: str, other: str) -> tuple[float, str]:
        row = pairs[one, other]
        found = estimate("difference", "+.4f")(row).text()
        return row.p_better, f"{found}, p {row.p:.3g}, {row.p_holm:.3g} after Holm"

    return charts.pair_matrix(rankers, chance)


def _comparisons(results: Results, found: Mapping[str, Sequence[Comparison]]) -> Any:
    leading, rows = next(iter(found.items()))
    place = {name: n for n, name in enumerate(rankers_of(results))}
    shown = sorted(rows, key=lambda row: sorted((place[row.run_a], place[row.run_b])))[:_ROWS]
    columns: dict[str, Any] = {
        "A": "run_a",
        "B": "run_b",
        "significance": significance_cell,
        "A minus B": estimate("difference", "+z.3f"),
        "p (Holm)": lambda row: Cell(row.p_holm, ".3g"),
        "P(A beats B)": lambda row: Cell(row.p_better, "p"),
    }
    if results.record["summary"]["label_draws"]:
        columns["A above in draws"] = lambda row: Cell(row.p_labels, ".0%")
    columns["wins / ties / losses"] = lambda row: f"{row.wins:,} / {row.ties:,} / {row.losses:,}"
    if any(row.missing for row in results.records("leaderboard", Place)):
        columns["queries"] = "queries"
    significant = sum(significance_of(row).is_significant for row in rows)
    tested = count_tested(chain.from_iterable(found.values()))
    are = "is" if significant == 1 else "are"
    text = (
        f"{leading}: of {counted(len(rows), 'difference')} {significant:,} {are} significant "
        f"({TEST}, p < {ALPHA} after Holm's correction for {counted(tested, 'comparison')} by all "
        "measures)."
    )
    return table(shown, columns, text, file="comparisons.parquet", total=len(rows), open_rows=30)


def _failures(results: Results) -> Iterator[Section]:
    """Count the queries that a ranker did not rank, by reason."""
    found = results.records("failures", Unranked)
    reasons = Counter((row.run, f"{row.status}: {row.reason}"[:200]) for row in found)
    rows = [(run, count, why) for (run, why), count in reasons.most_common()]
    for place in results.records("leaderboard", Place):
        rows += [(place.run, place.missing, place.note[:300])] if place.note else []
    if rows:
        caption = (
            "They count as 0 in the means of a ranker; two rankers are compared on the queries "
            "that both ranked. A ranker that ranked none takes no part."
        )
        columns = {name: itemgetter(n) for n, name in enumerate(("ranker", "queries", "why"))}
        part = table(sorted(rows, key=lambda r: r[0]), columns, caption, file="failures.parquet")
        yield Section("failures", "Queries that were not ranked", [part])
