"""The report of ``compare``: which way agrees most with people, at what cost, and how surely."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan, nan
from typing import Any

from zelo_ray.commands.compare.items import CHOICE, TEST
from zelo_ray.evaluation.pairs import MOST
from zelo_ray.evaluation.significance import ALPHA
from zelo_ray.evaluation.significance import TEST as TEST_NAME
from zelo_ray.files.wording import counted
from zelo_ray.report import charts
from zelo_ray.report.demonstration import warn_of_demonstration
from zelo_ray.report.figures import Shown, cell_of, figures_section
from zelo_ray.report.model import (
    Cell,
    Report,
    Section,
    Table,
    Value,
    Warn,
    chart,
    name_some,
    table,
)
from zelo_ray.report.results import Results

CHOSEN = "chosen.yaml"
FEW = 10
"""With fewer labelled queries nothing can be shown: of halves each would have some five."""
_SHOWN = {
    "concordance": Shown("share of pairs, a tie counts half"),
    "agreement": Shown("share of pairs, a tie is wrong"),
    "calls": Shown("calls", ",.0f", ends=False),
    "tokens": Shown("tokens", ",.0f", ends=False),
    "dollars": Shown("US dollars", "$", ends=False),
    "dollars per correct pair": Shown("US dollars for a correct pair", ".3g"),
    "calls per correct pair": Shown("calls for a correct pair", ".2f"),
    "agreement, decided": Shown("share of pairs, where neither says a tie"),
    "alpha": Shown("Krippendorff's alpha"),
    "MCC": Shown("Matthews correlation, of A being better"),
}
_HALVES = {CHOICE: "to choose", TEST: "to test"}
_DOCUMENT, _STATEMENT = 200, 300  # characters
Row = Mapping[str, Any]


def build_report(results: Results) -> Report:
    """Build the report of `compare`."""
    record, options, cost = results.record, results.record["options"], results.record["cost"]
    items, queries = (_count(record, name) for name in ("items", "queries"))
    tiles: dict[str, Value] = {"closest to people": record["chosen"]}
    if best := _figure(results, record["chosen"]):
        tiles[options["measure"]] = cell_of(best)
    if tested := record["tested"]:
        ends = (tested["difference"], "+.3f", tested["low"], tested["high"])
        tiles["gain, on the queries to test"] = Cell(*ends)
    dollars = Cell(None if cost["unpriced"] else cost["dollars"], "$")
    tiles |= {"queries": queries, "calls": round(cost["calls"]), "dollars": dollars}
    pairs = f"{counted(items, 'pair')} of {counted(queries, 'query', 'queries')}"
    sections = (_ways_section(results), _differences_section(results))
    return Report(
        title=f"{len(record['ways'])} ways of judging, on {pairs}",
        tiles=tiles,
        lead=[*_lead(results)],
        sections=[section for section in sections if section],
        page_sections=lambda: _misjudged_section(results),
        find_warnings=lambda: _warnings(results),
        notes=record["notes"],
        made=f"zelo-ray {record['versions']['zelo-ray']} compare, seed {options['seed']}.",
    )


def _count(record: Row, name: str) -> int:
    return sum(part[name] for part in record["parts"].values())


def _figure(results: Results, way: str) -> Row | None:
    """Return a way's share of pairs, on the queries that all ways judged."""
    record = results.record
    place = {"what": record["options"]["measure"], "scale": next(iter(record["parts"]))}
    return next(iter(results.rows("figures", of=way, **place)), None)


def _missing(results: Results) -> list[tuple[str, int, int]]:
    """Return the ways that judged too few pairs to be chosen, with how many, and of how many."""
    of = next(iter(results.record["parts"].values()))["items"]
    found = {way["name"]: _figure(results, way["name"]) for way in results.record["ways"]}
    counts = {name: row["items"] if row else 0 for name, row in found.items()}
    return [(name, count, of) for name, count in counts.items() if count < MOST * of]


def _lead(results: Results) -> Iterator[str]:
    """Say which way agrees most with people, whether it is better, and what would show it."""
    record, chosen = results.record, results.record["chosen"]
    best, baseline = _figure(results, chosen), record["ways"][0]["name"]
    if not best or not best["items"]:
        yield "No way judged any pair."
        return
    halves = CHOICE in record["parts"]
    where = " on the queries to choose" if halves else ""
    yield f"{chosen} agrees most with people{where}: {cell_of(best).text()}."
    if not halves:
        yield from _lead_of_all(results)
    elif chosen == baseline:
        yield "Those are the options as given: nothing was tested, and there is nothing to change."
    else:
        yield _describe_test(record, baseline)
    flattered = "Figures of the queries to choose flatter the way that was chosen; those to test "
    flattered += "had no part in the choice, and one test was made on them. "
    yield f"{flattered if halves else ''}Intervals are 95%, over samples of queries."


def _lead_of_all(results: Results) -> Iterator[str]:
    """Say from which ways the best one does not differ, and which is cheapest for what it does."""
    chosen, alike = results.record["chosen"], list[str]()
    for row in results.rows("figures", what="difference"):
        pair = [row["of"], row["against"]]
        if chosen in pair and row["items"] and not (pair[0] == chosen and row["p"] <= ALPHA):
            alike += [name for name in pair if name != chosen]
    if alike:
        yield f"It is not significantly better than {name_some(alike, 5)}."
    rows = results.rows("figures", what=f"{_unit(results)} per correct pair")
    if priced := [row for row in rows if not isnan(row["value"])]:
        least = min(priced, key=lambda row: row["value"])
        cost = cell_of(least, _SHOWN[least["what"]].form).text()
        yield f"A correct pair costs least by {least['of']}: {cost} {_unit(results)}."


def _describe_test(record: Row, baseline: str) -> str:
    """Say whether the chosen way is better on the queries to test, and what would show it."""
    gain = record["tested"]
    if not gain or not gain["items"]:
        return "On the queries to test nothing was judged by both ways, so nothing is shown."
    difference = Cell(gain["difference"], "+.3f", gain["low"], gain["high"]).text()
    figures = (
        f"on the queries to test: {gain['value']:.3f}, and {baseline} {gain['other_value']:.3f}, a "
        f"difference of {difference} (p {gain['p']:.2g})"
    )
    if gain["p"] <= ALPHA:
        is_better = gain["difference"] > 0
        advice = "" if is_better else " Do not use it: the queries to choose misled."
        return f"It is significantly {'better' if is_better else 'worse'} {figures}.{advice}"
    text = f"It is not significantly better {figures}."
    if gain["difference"] <= 0 or not gain["needed"]:
        return text
    labels = round(2 * gain["needed"] * record["labels"] / _count(record, "queries"))
    return (
        f"{text} To show such a difference (level {ALPHA}, power .8) takes {gain['needed']:,} "
        f"queries to test instead of {gain['queries']:,}: some {labels:,} labels in all."
    )


def _unit(results: Results) -> str:
    """Return the unit of costs: calls if a price is unknown, or nothing cost anything."""
    values = [row["value"] for row in results.rows("figures", what="dollars")]
    return "dollars" if any(values) and not any(map(isnan, values)) else "calls"


def _ways_section(results: Results) -> Section | None:
    """Show agreement and cost of each way, and in what it differs."""
    record, unit, rows = results.record, _unit(results), results.rows("figures")
    main, few = record["options"]["measure"], {name for name, *_ in _missing(results)}
    known = {row["what"] for row in rows if row["value"]}  # tokens and dollars may all be 0
    order = sorted(known & {*_SHOWN}, key=lambda n: (n != main, [*_SHOWN].index(n)))
    shown = {name: _SHOWN[name] for name in order if "per" not in name or name.startswith(unit)}
    baseline, *others = record["ways"]
    found = {way["name"]: _figure(results, way["name"]) for way in record["ways"]}
    value = {name: row["value"] if row else nan for name, row in found.items()}
    names = sorted(value, key=lambda name: (name in few, isnan(value[name]), -value[name]))
    rows.sort(key=lambda row: names.index(row["of"]))
    caption = (
        "Concordance: share of people's pairs in their order, where a tie counts half; agreement: "
        "a tie is wrong. Costs count replies that several ways use for each of them."
    )
    costs = {row["of"]: row for row in rows if row["what"] == unit and row["scale"] != TEST}
    points = [
        (way, cell_of(costs[way], _SHOWN[unit].form), cell_of(row))
        for way, row in found.items()
        if row and not isnan(row["value"])
    ]
    higher = "Higher is more like people, further left is cheaper. Lines are 95% intervals."
    as_given = f"{baseline['name']} has the options as given."
    differ = table(others, {"way": "name", "differs in": "differs"}, as_given)
    picture = chart(charts.scatter(points, unit, main), higher)
    return _section("ways", rows, shown, caption, picture, differ)


def _section(
    name: str, rows: Sequence[Row], shown: Mapping[str, Shown], caption: str, *more: Any
) -> Section | None:
    title = {"ways": "Agreement and cost", "differences": "Differences"}[name]
    headings = {"who": "way", "scale": "queries"}
    return figures_section(name, title, rows, shown, caption, **headings, scales=_HALVES, more=more)


def _differences_section(results: Results) -> Section | None:
    """Compare ways on the pairs that both judged."""
    p = "p: of the interval, times the number of comparisons (Bonferroni)."
    if CHOICE in results.record["parts"]:
        p = f"p: of the one test, on the queries to test ({TEST_NAME}, two-sided)."
    caption = f"By how much a way agrees more with people than another, on what both judged. {p}"
    rows = sorted(results.rows("figures", what="difference"), key=lambda row: -row["value"])
    shown = {"difference": Shown("difference", "+.3f", 0.0)}
    return _section("differences", rows, shown, caption)


def _misjudged_section(results: Results) -> Sequence[Section]:
    """Show the documents in the most wrong pairs, with what judges said of them."""
    rows, rank = list[list[Any]](), 0
    for row in results.rows("misjudged"):
        document = f"{row['doc_id']}: {row['document'][:_DOCUMENT]}"
        about = [row["query"], document, row["human"], f"{row['wrong']:,} of {row['pairs']:,}"]
        shown = about if row["rank"] != rank else [""] * len(about)  # in its first row alone
        rows.append([*shown, row["way"], row["judge"], row["statement"][:_STATEMENT]])
        rank = row["rank"]
    caption = "Documents in the most pairs that ways order otherwise than people."
    if CHOICE in results.record["parts"]:
        caption += " None is of the queries to test: other instructions can still be tested there."
    columns = ("query", "document", "people", "wrong", "way", "judge", "said")
    parts = [Table(columns, rows, caption, file="misjudged.parquet", open_rows=12)]
    return [Section("misjudged", "Most often misjudged", parts)] if rows else []


def _warnings(results: Results) -> Iterator[Warn]:
    record = results.record
    for name, judged, of in _missing(results):
        many = f"{name} judged {judged:,} of {counted(of, 'pair')}, which may be the easier ones"
        again = "Run the same command again, with a larger --max-usd if the budget stopped it"
        yield Warn("missing", "doubtful", f"{many}, so it is not chosen", again, "ways")
    if (queries := _count(record, "queries")) < FEW:
        few = f"People labelled {counted(queries, 'query', 'queries')}: with fewer than {FEW}"
        text = f"{few} nothing can be shown, whatever the ways do"
        yield Warn("few_labels", "doubtful", text, "Label more: zelo-ray label", "differences")
    judges = dict.fromkeys(judge for way in record["ways"] for judge in way["judges"])
    yield from warn_of_demonstration([*judges], "ways")
