"""The report of ``compare``: which way agrees most with people, at what cost, and how surely."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any

from zelo_ray.commands.compare.items import CHOICE, TEST
from zelo_ray.commands.compare.measure import LEVEL, MOST
from zelo_ray.evaluation.significance import TEST as TEST_NAME
from zelo_ray.files.wording import counted
from zelo_ray.report import charts
from zelo_ray.report.demonstration import warn_of_demonstration
from zelo_ray.report.figures import Shown, cell_of, figures_section
from zelo_ray.report.model import Cell, Chart, Report, Section, Table, Warn, chart, name_some, table
from zelo_ray.report.results import Results

CHOSEN = "chosen.yaml"
FEW = 10
"""With fewer labelled queries nothing can be shown: of halves each would have some five."""
_SHOWN = {
    "concordance": Shown("pairs in people's order, a tie counts half"),
    "agreement": Shown("pairs with people's verdict"),
    "calls": Shown("calls", ",.0f", ends=False),
    "tokens": Shown("tokens", ",.0f", ends=False),
    "dollars": Shown("US dollars", "$", ends=False),
    "dollars per correct pair": Shown("US dollars for a correct pair", ".3g"),
    "calls per correct pair": Shown("calls for a correct pair", ".2f"),
    "agreement, decided": Shown("pairs with people's verdict, where neither says a tie"),
    "alpha": Shown("Krippendorff's alpha"),
    "MCC": Shown("Matthews correlation, of A being better"),
}
_HALVES = {CHOICE: "to choose", TEST: "to test"}
_DOCUMENT, _STATEMENT = 200, 300  # characters
Row = Mapping[str, Any]


def build_report(results: Results) -> Report:
    """Build the report of `compare`."""
    record, options = results.record, results.record["options"]
    count = sum(part["queries"] for part in record["parts"].values())
    best, cost = _figure(results, record["chosen"]), record["cost"]["ledger"]
    tested = record["tested"]
    tiles: dict[str, Any] = {"closest to people": record["chosen"]}
    if best:
        tiles[options["measure"]] = cell_of(best)
    if tested:
        ends = (tested["low"], tested["high"])
        tiles["gain, on the queries to test"] = Cell(tested["difference"], "+.3f", *ends)
    tiles |= {"queries": count, "calls": round(cost["calls"]), "dollars": _dollars(cost)}
    sections = (_ways_section(results), _differences_section(results))
    return Report(
        title=f"{len(record['ways'])} ways of judging, on {_pairs(record)}",
        tiles=tiles,
        lead=[*_lead(results), _explain(results)],
        sections=[section for section in sections if section],
        page_sections=lambda: _misjudged_section(results),
        find_warnings=lambda: _warnings(results),
        notes=record["notes"],
        made=f"zelo-ray {record['versions']['zelo-ray']} compare, seed {options['seed']}.",
    )


def _pairs(record: Row) -> str:
    parts = record["parts"].values()
    queries = counted(sum(part["queries"] for part in parts), "query", "queries")
    return f"{counted(sum(part['items'] for part in parts), 'pair')} of {queries}"


def _dollars(cost: Row) -> Cell:
    return Cell(None if cost["unpriced"] else cost["dollars"], "$")


def _figure(results: Results, way: str, scale: str = "", what: str = "") -> Row | None:
    """Return a figure of a way, by default its share of pairs on the queries that all judged."""
    record = results.record
    what, scale = what or record["options"]["measure"], scale or next(iter(record["parts"]))
    return next(iter(results.rows("figures", of=way, what=what, scale=scale)), None)


def _missing(results: Results) -> list[tuple[str, int, int]]:
    """Return the ways that judged too few pairs to be chosen, with how many, and of how many."""
    first, part = next(iter(results.record["parts"].items()))
    found = [(way["name"], _figure(results, way["name"], first)) for way in results.record["ways"]]
    rows = [(name, row["items"] if row else 0, part["items"]) for name, row in found]
    return [(name, judged, of) for name, judged, of in rows if judged < MOST * of]


def _lead(results: Results) -> Iterator[str]:
    """Say which way agrees most with people, whether it is better, and what would show it."""
    record, chosen = results.record, results.record["chosen"]
    best, baseline = _figure(results, chosen), record["ways"][0]["name"]
    if not best or not best["items"]:
        yield "No way judged any pair."
        return
    where = " on the queries to choose" if CHOICE in record["parts"] else ""
    yield f"{chosen} agrees most with people{where}: {cell_of(best).text()}."
    if CHOICE not in record["parts"]:
        yield from _lead_of_all(results)
    elif chosen == baseline:
        yield "Those are the options as given: nothing was tested, and there is nothing to change."
    else:
        yield _describe_test(record, baseline)


def _lead_of_all(results: Results) -> Iterator[str]:
    """Say from which ways the best one does not differ, and which is cheapest for what it does."""
    chosen, alike = results.record["chosen"], list[str]()
    for row in results.rows("figures", what="difference"):
        pair = [row["of"], row["against"]]
        if chosen in pair and row["items"] and not (pair[0] == chosen and row["p"] <= LEVEL):
            alike += [name for name in pair if name != chosen]
    if alike:
        yield f"It is not significantly better than {name_some(alike, 5)}."
    unit = _unit(results)
    per_pair = results.rows("figures", what=f"{unit} per correct pair")
    priced = [row for row in per_pair if not isnan(row["value"])]
    if priced:
        least = min(priced, key=lambda row: row["value"])
        yield f"A correct pair costs least by {least['of']}: {_cost_cell(least).text()} {unit}."


def _describe_test(record: Row, baseline: str) -> str:
    """Say whether the chosen way is better on the queries to test, and what would show it."""
    gain = record["tested"]
    if not gain or not gain["items"]:
        return "On the queries to test nothing was judged by both ways, so nothing is shown."
    difference = Cell(gain["difference"], "+.3f", gain["low"], gain["high"]).text()
    figures = (
        f"{gain['value']:.3f}, and {baseline} {gain['other_value']:.3f}, a difference of "
        f"{difference} (p {gain['p']:.2g})"
    )
    if gain["p"] <= LEVEL and gain["difference"] > 0:
        return f"It is significantly better on the queries to test: {figures}."
    if gain["p"] <= LEVEL:
        return f"It is significantly worse on the queries to test: {figures}. Do not use it."
    text = f"It is not significantly better on the queries to test: {figures}."
    if gain["difference"] <= 0 or not gain["needed"]:
        return text
    queries = sum(part["queries"] for part in record["parts"].values())
    labels = round(2 * gain["needed"] * record["human"]["in_input"] / queries)
    return (
        f"{text} To show such a difference (level {LEVEL}, power .8) takes {gain['needed']:,} "
        f"queries to test instead of {gain['queries']:,}: some {labels:,} labels in all."
    )


def _explain(results: Results) -> str:
    options = results.record["options"]
    text = "Intervals are 95%, over samples of queries."
    if CHOICE in results.record["parts"]:
        text = (
            "Figures of the queries to choose flatter the way that was chosen; those to test had "
            f"no part in the choice, and one test was made on them. {text}"
        )
    budget = f" All of it had a budget of ${options['max_usd']:g}." if options["max_usd"] else ""
    return text + budget


def _unit(results: Results) -> str:
    """Return the unit of costs: calls if a price is unknown, or nothing cost anything."""
    rows = results.rows("figures", what="dollars")
    known = all(not isnan(row["value"]) for row in rows) and any(row["value"] for row in rows)
    return "dollars" if known else "calls"


def _cost_cell(row: Row) -> Cell:
    return cell_of(row, ".3g" if row["what"].startswith("dollars") else ".2f")


def _ways_section(results: Results) -> Section | None:
    """Show agreement and cost of each way, and in what it differs."""
    record, unit = results.record, _unit(results)
    measure = record["options"]["measure"]
    order = sorted(_SHOWN, key=lambda name: name != measure)
    shown = {name: _SHOWN[name] for name in order if "per" not in name or name.startswith(unit)}
    for name in ("tokens", "dollars"):
        if not any(row["value"] for row in results.rows("figures", what=name)):
            shown.pop(name)
    few = {name for name, *_ in _missing(results)}
    names = [way["name"] for way in record["ways"]]
    value = {n: row["value"] if (row := _figure(results, n)) else float("nan") for n in names}
    names.sort(key=lambda name: (name in few, isnan(value[name]), -value[name]))
    place = {name: number for number, name in enumerate(names)}
    rows = sorted(results.rows("figures"), key=lambda row: place[row["of"]])
    caption = (
        "Concordance: share of people's pairs in their order, a tie counts half; agreement: a tie "
        "is wrong. Costs are of all answers, also of those that several ways use; ledger: "
        f"{round(record['cost']['ledger']['calls']):,} calls."
    )
    baseline, *others = record["ways"]
    caption_of_ways = f"{baseline['name']} has the options as given."
    differ = table(others, {"way": "name", "differs in": "differs"}, caption_of_ways)
    more = [*_cost_chart(rows, measure, unit), differ]
    return figures_section(
        "ways",
        "Agreement and cost",
        rows,
        shown,
        caption,
        who="way",
        scale="queries",
        scales=_HALVES,
        more=more,
    )


def _cost_chart(rows: Sequence[Row], measure: str, unit: str) -> Iterator[Chart]:
    """Yield agreement against cost, on the queries that all ways judged."""
    by_way: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row["what"] in (measure, unit) and row["scale"] != TEST and not isnan(row["value"]):
            by_way.setdefault(row["of"], {})[row["what"]] = row
    points = [
        (way, _cost_cell(of[unit]), cell_of(of[measure]))
        for way, of in by_way.items()
        if len(of) == 2
    ]
    if len(points) > 1:
        yield chart(
            charts.scatter(points, unit, measure),
            "Higher is more like people, further left is cheaper. Lines are 95% intervals.",
        )


def _differences_section(results: Results) -> Section | None:
    """Compare ways on the pairs that both judged."""
    p = "p: of the interval, times the number of comparisons (Bonferroni)."
    if CHOICE in results.record["parts"]:
        p = f"p: of the one test, on the queries to test ({TEST_NAME}, two-sided)."
    caption = f"By how much a way agrees more with people than another, on what both judged. {p}"
    rows = sorted(results.rows("figures", what="difference"), key=lambda row: -row["value"])
    shown = {"difference": Shown("difference", "+.3f", 0.0)}
    return figures_section(
        "differences",
        "Differences",
        rows,
        shown,
        caption,
        who="way",
        scale="queries",
        scales=_HALVES,
    )


def _misjudged_section(results: Results) -> list[Section]:
    """Show the documents in the most wrong pairs, with what judges said of them."""
    rows, rank = list[list[Any]](), 0
    for row in results.rows("misjudged"):
        document = f"{row['doc_id']}: {row['document'][:_DOCUMENT]}"
        about = [row["query"], document, row["human"], f"{row['wrong']:,} of {row['pairs']:,}"]
        shown = about if row["rank"] != rank else [""] * len(about)  # in its first row alone
        rows.append([*shown, row["way"], row["judge"], row["statement"][:_STATEMENT]])
        rank = row["rank"]
    if not rows:
        return []
    caption = "Documents in the most pairs that ways order otherwise than people."
    if CHOICE in results.record["parts"]:
        caption += " None is of the queries to test: other instructions can still be tested there."
    columns = ("query", "document", "people", "wrong", "way", "judge", "said")
    parts = [Table(columns, rows, caption, file="misjudged.parquet", open_rows=12)]
    return [Section("misjudged", "Most often misjudged", parts)]


def _warnings(results: Results) -> Iterator[Warn]:
    record = results.record
    for name, judged, of in _missing(results):
        yield Warn(
            "missing",
            "doubtful",
            f"{name} judged {judged:,} of {counted(of, 'pair')}, which may be the easier ones, so "
            "it is not chosen",
            "Run the same command again, with a larger --max-usd if the budget stopped it",
            "ways",
        )
    queries = sum(part["queries"] for part in record["parts"].values())
    if queries < FEW:
        yield Warn(
            "few labels",
            "doubtful",
            f"People labelled {counted(queries, 'query', 'queries')}: with fewer than {FEW} "
            "nothing can be shown, whatever the ways do",
            "Label more: zelo-ray label",
            "differences",
        )
    judges = dict.fromkeys(judge for way in record["ways"] for judge in way["judges"])
    yield from warn_of_demonstration([*judges], "ways")
