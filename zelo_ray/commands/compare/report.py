"""The report of ``compare``: which way agrees most with people, at what cost, and how surely."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import isnan

from zelo_ray.commands.compare.items import CHOICE, TEST
from zelo_ray.evaluation.pairs import MOST
from zelo_ray.evaluation.significance import ALPHA
from zelo_ray.evaluation.significance import TEST as TEST_NAME
from zelo_ray.files.wording import counted
from zelo_ray.report import charts
from zelo_ray.report.figures import Row, Shown, cell_of, figures_section, pick
from zelo_ray.report.model import (
    Cell,
    Report,
    Section,
    Value,
    Warn,
    chart,
    name_some,
    table,
    warn_of_demonstration,
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
    "agreement, decided": Shown("share of pairs, where neither says a tie"),
    "alpha": Shown("Krippendorff's alpha"),
    "MCC": Shown("Matthews correlation, of A being better"),
}
_PER_PAIR = {
    "dollars": Shown("US dollars for a correct pair", ".3g"),
    "calls": Shown("calls for a correct pair", ".2f"),
}
_MISJUDGED = 20  # documents
Document = tuple[str, str]
"""The ids of its query and itself."""


def build_report(results: Results) -> Report:
    """Build the report of `compare`."""
    record, options, cost = results.record, results.record["options"], results.record["cost"]
    items, queries = (
        sum(p[what] for p in record["parts"].values()) for what in ("items", "queries")
    )
    compared = _compared(results)
    tiles: dict[str, Value] = {"closest to people": record["chosen"]}
    if best := compared.get(record["chosen"]):
        tiles[options["measure"]] = cell_of(best)
    if tested := record["tested"]:
        ends = (tested["difference"], "+.3f", tested["low"], tested["high"])
        tiles["gain, on the queries to test"] = Cell(*ends)
    dollars = Cell(None if cost["unpriced"] else cost["dollars"], "$")
    tiles |= {"queries": queries, "calls": round(cost["calls"]), "dollars": dollars}
    return Report(
        title=f"{len(record['ways'])} ways of judging, on {counted(items, 'pair')} of "
        f"{counted(queries, 'query', 'queries')}",
        tiles=tiles,
        lead=[*_lead(results, best)],
        sections=[*_ways(results, compared), *_differences(results)],
        page_sections=lambda: [*_misjudged(results)],
        find_warnings=lambda: _warnings(results, queries),
        notes=record["notes"],
        made=f"zelo-ray {record['versions']['zelo-ray']} compare, seed {options['seed']}.",
        names=_judges(results),
    )


def _compared(results: Results) -> dict[str, Row]:
    """Return each way's share of pairs, on the queries that all ways judged."""
    record = results.record
    place = {"what": record["options"]["measure"], "scale": next(iter(record["parts"]))}
    return {row["of"]: row for row in results.rows("figures", **place)}


def _missing(results: Results) -> list[tuple[str, int, int]]:
    """Return the ways that judged too few pairs to be chosen, with how many, and of how many."""
    of = next(iter(results.record["parts"].values()))["items"]
    counts = {name: row["items"] for name, row in _compared(results).items()}
    return [(name, count, of) for name, count in counts.items() if count < MOST * of]


def _lead(results: Results, best: Row | None) -> Iterator[str]:
    """Say which way agrees most with people, whether it is better, and what would show it."""
    record, chosen = results.record, results.record["chosen"]
    if not best or not best["items"]:
        yield "No way judged any pair."
        return
    halves = CHOICE in record["parts"]
    where = " on the queries to choose" if halves else ""
    yield f"{chosen} agrees most with people{where}: {cell_of(best).text()}."
    if not halves:
        yield from _lead_of_all(results)
    elif chosen == record["ways"][0]["name"]:
        yield "Those are the options as given: nothing was tested, and there is nothing to change."
    else:
        yield _describe_test(results)
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
        cost = cell_of(least, _PER_PAIR[_unit(results)].form).text()
        yield f"A correct pair costs least by {least['of']}: {cost} {_unit(results)}."


def _describe_test(results: Results) -> str:
    """Say whether the chosen way is better on the queries to test, and what would show it."""
    record, gain = results.record, results.record["tested"]
    if not gain or not gain["items"]:
        return "On the queries to test nothing was judged by both ways, so nothing is shown."
    difference = Cell(gain["difference"], "+.3f", gain["low"], gain["high"]).text()
    figures = (
        f"on the queries to test: {gain['value']:.3f}, and {record['ways'][0]['name']} "
        f"{gain['other_value']:.3f}, a difference of {difference} (p {gain['p']:.2g})"
    )
    if gain["p"] <= ALPHA and gain["difference"] < 0:
        return f"It is significantly worse {figures}. Do not use it: the queries to choose misled."
    if gain["p"] <= ALPHA:
        return f"It is significantly better {figures}."
    text = f"It is not significantly better {figures}."
    if gain["difference"] <= 0 or not gain["needed"]:
        return text
    queries = sum(part["queries"] for part in record["parts"].values())
    labels = round(2 * gain["needed"] * record["labels"] / queries)
    return (
        f"{text} To show such a difference (level {ALPHA}, power .8) takes {gain['needed']:,} "
        f"queries to test instead of {gain['queries']:,}: some {labels:,} labels in all."
    )


def _unit(results: Results) -> str:
    """Return the unit of costs: calls if a price is unknown, or nothing cost anything."""
    values = [row["value"] for row in results.rows("figures", what="dollars")]
    return "dollars" if any(values) and not any(map(isnan, values)) else "calls"


def _ways(results: Results, compared: dict[str, Row]) -> list[Section]:
    """Show agreement and cost of each way, and in what it differs."""
    record, unit, rows = results.record, _unit(results), results.rows("figures")
    main, few = record["options"]["measure"], {name for name, *_ in _missing(results)}
    shown = {row["what"] for row in rows if row["value"]}  # tokens and dollars may all be 0
    order = sorted(shown & {*_SHOWN}, key=lambda name: (name != main, [*_SHOWN].index(name)))
    value = {name: row["value"] for name, row in compared.items()}
    names = sorted(value, key=lambda name: (name in few, isnan(value[name]), -value[name]))
    costs = {row["of"]: row for row in pick(rows, what=unit) if row["scale"] != TEST}
    points = [
        (way, cell_of(costs[way], _SHOWN[unit].form), cell_of(row))
        for way, row in compared.items()
        if not isnan(row["value"])
    ]
    baseline, *others = record["ways"]
    as_given = f"{baseline['name']} has the options as given."
    return figures_section(
        "ways",
        "Agreement and cost",
        sorted(rows, key=lambda row: names.index(row["of"])),
        {n: _SHOWN[n] for n in order} | {f"{unit} per correct pair": _PER_PAIR[unit]},
        "Concordance: share of people's pairs in their order, where a tie counts half; agreement: "
        "a tie is wrong. Costs count replies that several ways use for each of them.",
        who="way",
        scale="queries",
        more=[
            chart(
                charts.scatter(points, unit, main),
                "Higher is more like people, further left is cheaper. Lines are 95% intervals.",
            ),
            table(others, {"way": "name", "differs in": "differs"}, as_given),
        ],
    )


def _differences(results: Results) -> list[Section]:
    """Compare ways on the pairs that both judged."""
    p = "p: of the interval, times the number of comparisons (Bonferroni)."
    if CHOICE in results.record["parts"]:
        p = f"p: of the one test, on the queries to test ({TEST_NAME}, two-sided)."
    return figures_section(
        "differences",
        "Differences",
        sorted(results.rows("figures", what="difference"), key=lambda row: -row["value"]),
        {"difference": Shown("difference", "+.3f", 0.0)},
        f"By how much a way agrees more with people than another, on what both judged. {p}",
        who="way",
        scale="queries",
    )


def _misjudged(results: Results) -> Iterator[Section]:
    """List the documents in the most pairs that ways order otherwise than people."""
    ways, wrong, pairs = results.record["ways"], Counter[Document](), Counter[Document]()
    for row in results.rows("items"):
        verdicts = [v for way in ways if row.get("half") != TEST and (v := row[way["name"]])]
        for doc_id in (row["doc_id_a"], row["doc_id_b"]):
            pairs[row["query_id"], doc_id] += len(verdicts)
            wrong[row["query_id"], doc_id] += sum(v != row["human"] for v in verdicts)
    worst = sorted(+wrong, key=lambda each: (-wrong[each], -wrong[each] / pairs[each], each))
    columns: Mapping[str, Callable[[Document], Value]] = {
        "query": lambda each: each[0],
        "document": lambda each: each[1],
        "wrong": lambda each: wrong[each],
        "verdicts": lambda each: pairs[each],
    }
    folder = f"{results.out or 'DIR'}/ways/{ways[0]['folder']}"
    folder += f"/{CHOICE}" if CHOICE in results.record["parts"] else ""
    caption = (
        "Documents in the most pairs that ways order otherwise than people, over all ways. "
        f"What judges said: zelo-ray explain {folder} --query ID --doc ID."
    )
    if CHOICE in results.record["parts"]:
        caption += " None is of the queries to test: other instructions can still be tested there."
    if worst:
        part = table(worst[:_MISJUDGED], columns, caption, file="items.parquet", open_rows=12)
        yield Section("misjudged", "Most often misjudged", [part])


def _warnings(results: Results, queries: int) -> Iterator[Warn]:
    for name, judged, of in _missing(results):
        many = f"{name} judged {judged:,} of {counted(of, 'pair')}, which may be the easier ones"
        again = "Run the same command again, with a larger --max-usd if the budget stopped it"
        yield Warn("missing", "doubtful", f"{many}, so it is not chosen", again, "ways")
    if queries < FEW:
        few = f"People labelled {counted(queries, 'query', 'queries')}: with fewer than {FEW}"
        text = f"{few} nothing can be shown, whatever the ways do"
        yield Warn("few_labels", "doubtful", text, "Label more: zelo-ray label", "differences")
    yield from warn_of_demonstration(_judges(results), "ways")


def _judges(results: Results) -> list[str]:
    return [*dict.fromkeys(name for way in results.record["ways"] for name in way["judges"])]
