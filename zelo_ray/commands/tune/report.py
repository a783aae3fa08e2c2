"""The report of ``tune``: which candidate was chosen, and whether it is better than what is."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import isnan
from typing import Any

from zelo_ray.commands.compare_protocols.outcome import MOST
from zelo_ray.commands.tune.candidates import AS_IT_IS
from zelo_ray.commands.tune.choice import LEVEL, Gain
from zelo_ray.commands.tune.halves import FIRST, SECOND
from zelo_ray.commands.tune.misjudged import OF_ONE_QUERY, ChangedSide, WorthReading
from zelo_ray.commands.tune.outcome import CHOSEN, CandidateFigures
from zelo_ray.evaluation.significance import TEST
from zelo_ray.files.run_record import TUNE
from zelo_ray.files.wording import counted
from zelo_ray.reports.charts.figures import intervals, spans
from zelo_ray.reports.demonstration import warn_of_demonstration
from zelo_ray.reports.kind import Record, ReportKind
from zelo_ray.reports.parts import Cells, Chart, Report, ReportTable, Section, Sentences, TextCell
from zelo_ray.reports.source import Source, without_credentials
from zelo_ray.reports.warning import rank_warnings
from zelo_ray.reports.wording import (
    Quantity,
    format_cost,
    format_estimate,
    format_number,
    short,
)

Row = Mapping[str, Any]
_MEASURES = {
    "concordance": (
        "Agreement with people is the share of their pairs that are ordered alike, where a tie "
        "counts half (concordance)."
    ),
    "agreement": (
        "Agreement with people is the share of their pairs that are ordered alike; a tie is wrong."
    ),
}
_ROWS, _SAID, _DOCUMENT = 12, 300, 200


class TuneResults:
    """Tables of a tuning, each read once."""

    def __init__(self, source: Source, record: Record) -> None:
        self.source, self.record = source, record
        self.chosen: str = record["chosen"]
        self.measure: str = record["options"]["measure"]

    @cached_property
    def figures(self) -> list[Row]:
        """Return one row per candidate and half, the best on the first half first."""
        rows: list[Row] = self.source.table("candidates").to_pylist()
        first = {row["candidate"]: row[self.measure] for row in rows if row["half"] == FIRST}
        measured = {name: value for name, value in first.items() if not isnan(value)}
        best = sorted(measured, key=lambda name: (name != self.chosen, -measured[name]))
        order = [*best, *(name for name in first if name not in measured)]
        place = {name: number for number, name in enumerate(order)}
        return sorted(rows, key=lambda row: place[row["candidate"]])

    @cached_property
    def gains(self) -> list[Row]:
        """Return the differences from what is as it is, by candidate and half."""
        rows: list[Row] = self.source.table("differences").to_pylist()
        return sorted(rows, key=lambda row: (row["candidate"] != self.chosen, row["half"]))

    @cached_property
    def tested(self) -> Gain | None:
        """Return the one difference that was tested; None if nothing else was chosen."""
        tested = [Gain(**row) for row in self.gains if not isnan(row["p"])]
        return tested[0] if tested else None

    @cached_property
    def judged_little(self) -> list[str]:
        """Return the candidates that judged too little of the first half to be chosen."""
        return [
            row["candidate"]
            for row in self.figures
            if row["half"] == FIRST and row["judged"] < MOST * row["items"]
        ]

    def figure(self, candidate: str, half: str) -> Row | None:
        """Return the figures of a candidate on a half; None if it did not judge it."""
        rows = (row for row in self.figures if (row["candidate"], row["half"]) == (candidate, half))
        return next(rows, None)


def build_report(source: Source, record: Record) -> Report:
    """Build the report of `tune`."""
    results = TuneResults(source, record)
    options = record["options"]
    count = len({row["candidate"] for row in results.figures})
    queries = counted(record["queries"], "labelled query", "labelled queries")
    return Report(
        title=f"{counted(count, 'candidate')} on {queries}",
        tiles=_tiles(results),
        lead=[*describe_outcome(results), _explain(record)],
        sections=[make(results) for make in SECTIONS],
        find_warnings=lambda: rank_warnings(
            [*warn_of_demonstration(_judges(record), "candidates", "asked")],
            "whether judges are models was looked at",
        ),
        notes=record["notes"],
        made=(
            f"zelo-ray {record['versions']['zelo-ray']} tune: people "
            f"{without_credentials(options['human'])}, seed {options['seed']}."
        ),
    )


def _judges(record: Record) -> list[str]:
    options = record["options"]
    return [*options.get("judges", ()), *options.get("try_judges", ())]


def _tiles(results: TuneResults) -> list[tuple[str, str]]:
    """Return the figures at the top, the most telling first."""
    record, gain = results.record, results.tested
    difference = f"{gain.difference:+z.3f}" if gain else "none"
    halves = record["halves"]
    return [
        ("chosen", short(results.chosen, 40)),
        ("gain on the second half", difference),
        ("queries to choose on", f"{halves[FIRST]['queries']:,}"),
        ("queries to measure on", f"{halves[SECOND]['queries']:,}"),
        ("calls paid in all", f"{record['paid']['calls']:,}"),
        ("paid in all", format_cost(record["paid"]["dollars"], record["paid"]["unpriced"])),
    ]


def describe_outcome(results: TuneResults) -> Iterator[str]:
    """Say which candidate was chosen, whether it is better, and what would show a difference."""
    row = results.figure(results.chosen, FIRST)
    share = _estimate(row, results.measure) if row else "unknown"
    few = results.judged_little
    of_those = " of those that judged enough" if few and results.chosen not in few else ""
    if results.chosen == AS_IT_IS:
        change = "others may be better" if few else "there is nothing to change"
        yield (
            f"Chosen is what is as it is: no candidate{of_those} agrees more with people on the "
            f"first half ({share}). Nothing was tested, and {change}."
        )
    else:
        yield (
            f"Chosen is {results.chosen}, which{of_those} agrees most with people on the first "
            f"half: {share}."
        )
    if few:
        yield (
            f"Less than {MOST:.0%} of the first half was judged by {', '.join(few)}: whether these "
            "agree more with people is not known."
        )
    if results.chosen == AS_IT_IS:
        return
    if (gain := results.tested) is None or not gain.items:
        yield "On the second half nothing was judged both by it and as it is, so nothing is shown."
        return
    figures = format_estimate(gain.difference, gain.low, gain.high, "+z.3f")
    measured = (
        f"on the second half it agrees with people on {gain.value:.3f} of the pairs, and what "
        f"is as it is on {gain.as_it_is:.3f}, a difference of {figures} (p {_p(gain.p)})"
    )
    if gain.is_better:
        yield f"It is better: {measured}. {CHOSEN} has its options."
    elif gain.is_worse:
        yield f"It is worse: {measured}. Do not use it: the first half misled."
    else:
        yield f"It is not significantly better: {measured}. Nothing here says that it is."
        yield _describe_need(results, gain)


def _describe_need(results: TuneResults, gain: Gain) -> str:
    """Say how many labelled queries, and labels, would show a difference of the size seen."""
    if gain.difference <= 0:
        return "It gained nothing on the second half, so more labels are not likely to show a gain."
    if not gain.needed:
        return "How many labels would show such a difference cannot be told from so few queries."
    labels = results.record["people"]["known"] / results.record["queries"]
    return (
        f"To show a difference of {gain.difference:.3f} (level {LEVEL}, power .8) the second half "
        f"would need some {counted(gain.needed, 'query', 'queries')} instead of {gain.queries:,}: "
        f"{2 * gain.needed:,} labelled queries in all, with some {2 * gain.needed * labels:,.0f} "
        "labels."
    )


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1g}"


def _explain(record: Record) -> str:
    test = "One test was made, on the second half, so it needs no correction. "
    text = (
        "Candidates were chosen on the first half of the queries; figures of that half flatter "
        f"the best of them. {'' if record['chosen'] == AS_IT_IS else test}"
        f"{_MEASURES[record['options']['measure']]} "
        "Intervals are 95%, over samples of queries."
    )
    if cap := record["options"].get("max_usd"):
        text += f" All of it together had a budget of ${cap:g}."
    return text


def candidates_section(results: TuneResults) -> Section:
    """Show the figures of each candidate on both halves."""
    has_kappa = any(not isnan(row["kappa"]) for row in results.figures)
    main, second_measure = sorted(_MEASURES, key=lambda name: name != results.measure)
    columns = ["candidate", "half", main, "judged", "calls", "tokens", "dollars"]
    columns += ["kappa"] if has_kappa else []
    columns += [second_measure, "decided only", "differs in"]
    cells: list[Cells] = [
        [
            TextCell(row["candidate"]),
            row["half"],
            _estimate(row, main),
            f"{row['judged']:,} of {row['items']:,}",
            f"{row['calls']:,}",
            f"{row['tokens']:,}",
            format_cost(row["dollars"], row["unpriced"]),
            *([_estimate(row, "kappa")] if has_kappa else []),
            format_number(row[second_measure]),
            format_number(row["decided"]),
            TextCell(row["differs"]),
        ]
        for row in results.figures
    ]
    together = results.record["together"]
    shared = sum(row["calls"] for row in results.figures) - together["calls"]
    caption = "Concordance: a tie counts half; agreement: nothing; decided only: without ties."
    if has_kappa:
        caption += " Kappa is Cohen's, weighted by squares, of whole grades with people's."
    if shared > 0:
        cost = format_cost(together["dollars"], together["unpriced"])
        caption += (
            f" Paid for all of these: {counted(together['calls'], 'call')}, {cost}. The table "
            f"counts {shared:,} more, for replies that several candidates use."
        )
    numbers = frozenset(columns) - {"candidate", "half", "differs in"}
    table = ReportTable(columns, cells, caption, numbers, file="candidates.parquet")
    return Section("candidates", "Candidates", (*_chart(results), table))


def _chart(results: TuneResults) -> Iterator[Chart]:
    figures = {}
    for half in (FIRST, SECOND):
        name = results.measure
        rows = [row for row in results.figures if row["half"] == half and not isnan(row[name])]
        if rows:
            ends = (name, f"{name}_low", f"{name}_high")
            names = [row["candidate"] for row in rows]
            figures[f"{half} half"] = intervals(names, {"": spans(rows, ends)}, name)
    if figures:
        yield Chart(figures, "Agreement with people, with 95% intervals.", "half")


def differences_section(results: TuneResults) -> Section | None:
    """Compare each candidate with what is as it is, on what both judged."""
    cells: list[Cells] = [
        [
            TextCell(row["candidate"]),
            row["half"],
            format_estimate(row["difference"], row["low"], row["high"], "+z.3f"),
            Quantity(_p(row["p"]), row["p"]) if not isnan(row["p"]) else "not tested",
            f"{row['better']:,}",
            f"{row['worse']:,}",
            f"{row['queries']:,}",
            f"{row['items']:,}",
        ]
        for row in results.gains
    ]
    if not cells:
        return None
    columns = ("candidate", "half", "difference", "p", "better", "worse", "queries", "pairs")
    caption = (
        "By how much a candidate agrees more with people than what is as it is, on the pairs that "
        "both judged; better, worse: on how many queries. Only the chosen one was tested, on the "
        f"second half ({TEST}, two-sided)."
    )
    numbers = frozenset(columns) - {"candidate", "half"}
    table = ReportTable(columns, cells, caption, numbers, _ROWS, file="differences.parquet")
    return Section("differences", "Against what is as it is", (table,))


def changed_section(results: TuneResults) -> Section | None:
    """Show the pairs that changed sides on the first half, and counts of both halves."""
    if results.chosen == AS_IT_IS:
        return None
    lines = []
    for half, counts in results.record["changed"].items():
        total = sum(counts.values())
        lines.append(
            f"On the {half} half {counted(total, 'pair')} changed sides: to the people's side "
            f"{counts['chosen']:,}, away from it {counts[AS_IT_IS]:,}, neither "
            f"{counts['neither']:,}."
        )
    rows = results.source.table("changed").to_pylist()
    names = ("query_id", "doc_id_a", "doc_id_b", "people", "as_it_is", "chosen", "right")
    cells: list[Cells] = [[TextCell(str(row[name])) for name in names] for row in rows[:100]]
    caption = "Pairs of the first half: the better document by people, as it is, and as chosen."
    columns = ("query", "A", "B", "people", "as it is", "chosen", "right")
    table = ReportTable(
        columns, cells, caption, open_rows=_ROWS, file="changed.parquet", total=len(rows)
    )
    return Section("changed", "What changed sides", (Sentences(lines), *([table] if cells else [])))


def reading_section(results: TuneResults) -> Section | None:
    """Show the documents that are most worth reading."""
    cells, rank = list[Cells](), 0
    for row in results.source.table("worth_reading").to_pylist():
        document = [
            str(row["rank"]),
            TextCell(short(row["query"], _DOCUMENT)),
            TextCell(f"{row['doc_id']}: {short(row['document'], _DOCUMENT)}"),
            row["people"],
            f"{row['wrong']:,} of {row['pairs']:,}",
        ]
        judgment = (row["candidate"], row["judge"], short(row["statement"], _SAID))
        # A document stands in the first row of its judgments alone.
        shown = document if row["rank"] != rank else [""] * len(document)
        cells.append([*shown, *map(TextCell, judgment)])
        rank = row["rank"]
    if not cells:
        return None
    columns = ("", "query", "document", "people", "wrong", "candidate", "judge", "said")
    caption = (
        "Documents in the most pairs that candidates order otherwise than people, at most "
        f"{OF_ONE_QUERY} of a query. All are of the first half: who reads these and writes other "
        "instructions can still measure them on the second."
    )
    table = ReportTable(
        columns, cells, caption, frozenset({"wrong"}), _ROWS, file="worth_reading.parquet"
    )
    return Section("reading", "Most worth reading", (table,))


def texts_section(results: TuneResults) -> Section | None:
    """Show the instructions of candidates."""
    texts: Mapping[str, str] = results.record["texts"]
    cells: list[Cells] = [[TextCell(name), TextCell(text)] for name, text in texts.items()]
    if not cells:
        return None
    table = ReportTable(("candidate", "instructions"), cells)
    return Section("texts", "Instructions", (table,))


SECTIONS = (
    candidates_section,
    differences_section,
    changed_section,
    reading_section,
    texts_section,
)


def _estimate(row: Row, name: str) -> Quantity:
    return format_estimate(row[name], row[f"{name}_low"], row[f"{name}_high"])


TUNE_REPORT = ReportKind(
    TUNE,
    ("candidates.parquet", "differences.parquet", "worth_reading.parquet", CHOSEN),
    frozenset({"options", "chosen", "halves"}),
    {
        "candidates": (CandidateFigures,),
        "differences": (Gain,),
        "changed": (ChangedSide,),
        "worth_reading": (WorthReading,),
    },
    build_report,
    lambda record: bool(record.get("complete")),
)
"""How results of `tune` become a report."""
