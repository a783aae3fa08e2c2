"""What a person reads on the terminal after a bake-off: the table, and what it allows to say."""

from collections.abc import Iterator
from math import isnan

from rich.table import Table

from zelo_ray.bakeoff import Outcome
from zelo_ray.bakeoff.verdicts import turned, verdict
from zelo_ray.display import dollars
from zelo_ray.records import Comparison, Mean

_SENTENCES = 8


def standings(outcome: Outcome) -> Iterator[Table | str]:
    """The arms by the leading measure, then in words which differences are real."""
    queries = len(outcome.truth.query_ids)
    yield _table(outcome)
    sure = f"{100 * outcome.confidence:g}% intervals"
    yield f"Means over {queries:,} queries with {sure}. {_labels(outcome)}"
    yield ""
    yield from _differences(outcome)
    for entry in outcome.entries:
        ranked = outcome.answered_by(entry.name)
        if entry.note:
            yield f"{entry.name}: {entry.note}"
        if ranked < queries:
            yield (
                f"{entry.name} ranked {ranked:,} of {queries:,} queries: the others count as 0 in "
                "its means, and it is compared on those that both arms ranked"
            )
        for reason, count in entry.reasons.most_common(2):
            yield f"  {count:,} times {reason}"


def _table(outcome: Outcome) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("arm", no_wrap=True)
    for each in outcome.measures:
        table.add_column(str(each), justify="right", no_wrap=True)
    paid = any(entry.dollars or entry.unpriced for entry in outcome.entries)
    for name in ("spent",) if paid else ():
        table.add_column(name, justify="right")
    means = {(each.run, each.measure): each for each in outcome.means}
    spent = {entry.name: dollars(entry.dollars, entry.unpriced) for entry in outcome.entries}
    for arm in outcome.standing:
        queries = len(outcome.truth.query_ids)
        cells = [_cell(means[arm, str(each)], queries) for each in outcome.measures]
        table.add_row(arm, *cells, *([spent[arm]] if paid else []))
    return table


def _cell(mean: Mean, queries: int) -> str:
    """A mean with its interval, and over how many queries, if not over all."""
    if isnan(mean.mean):
        return "-"
    ends = "" if isnan(mean.low) else f" [{mean.low:.3f}, {mean.high:.3f}]"
    over = f" over {mean.queries:,}" if mean.queries < queries else ""
    return f"{mean.mean:.4f}{ends}{over}"


def _labels(outcome: Outcome) -> str:
    if outcome.draws:
        return f"The labels have errors and were drawn {outcome.draws:,} times."
    return "The labels are taken as they are."


def _differences(outcome: Outcome) -> Iterator[str]:
    """The best arm against each other, by the leading measure; the nearest first."""
    found = {(c.run_a, c.run_b): c for c in outcome.comparisons if c.measure == outcome.leading}
    best, *others = outcome.standing
    against = [found.get((best, other)) or turned(found[other, best]) for other in others if found]
    for one in against[:_SENTENCES]:
        yield f"{_sentence(one)} {_figures(one, len(outcome.truth.query_ids))}"
    if rest := against[_SENTENCES:]:
        above = sum(verdict(one) == "above" for one in rest)
        yield f"Of the {len(rest):,} others, {best} is above {above:,}."
    if len(others) > 1:
        yield "All pairs and measures are in comparisons.parquet and in the report."


def _sentence(one: Comparison) -> str:
    above, below = one.run_a, one.run_b
    match verdict(one):
        case "above":
            return f"{above} is above {below}:"
        case "below":
            return f"{above} has the higher mean, but where both ranked {below} is above it:"
        case "open":
            return f"{above} cannot be told from {below}:"
        case "labels":
            return f"{above} cannot be told from {below}, as the labels are too unsure:"
        case "few":
            return f"{above} and {below} share too few queries to be compared:"


def _figures(one: Comparison, queries: int) -> str:
    """The figures behind a sentence."""
    sure = [f"p {one.p:.2g}, {one.p_holm:.2g} after Holm"]
    if not isnan(one.p_better):
        sure.append(f"P({one.run_a} is better) {one.p_better:.3f}")
    if not isnan(one.p_labels):
        sure.append(f"above in {one.p_labels:.0%} of the draws of the labels")
    common = f" on {one.queries:,} common queries" if one.queries < queries else ""
    return (
        f"{one.difference:+.4f} ({_end(one.low)} to {_end(one.high)}){common}; {'; '.join(sure)}; "
        f"wins {one.wins:,}, ties {one.ties:,}, losses {one.losses:,}"
    )


def _end(value: float) -> str:
    return "?" if isnan(value) else f"{value:+.4f}"
