"""What a person reads on the terminal after a bake-off: the table, and what it allows to say."""

from collections.abc import Iterator
from itertools import islice, pairwise

from rich.table import Table

from zelo_ray.bakeoff import Outcome
from zelo_ray.display import dollars
from zelo_ray.records import Comparison

_SURE = 0.05
_SENTENCES = 8


def standings(outcome: Outcome) -> Iterator[Table | str]:
    """The arms by the leading measure, then in words which differences are real."""
    queries = len(outcome.truth.query_ids)
    yield _table(outcome)
    sure = f"{outcome.confidence:.0%} intervals"
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
        cells = []
        for each in outcome.measures:
            mean = means[arm, str(each)]
            cells.append(f"{mean.mean:.4f} [{mean.low:.3f}, {mean.high:.3f}]")
        table.add_row(arm, *cells, *([spent[arm]] if paid else []))
    return table


def _labels(outcome: Outcome) -> str:
    if outcome.draws:
        return f"P counts in how sure the labels are ({outcome.draws:,} draws)."
    return "The labels are taken as they are."


def _differences(outcome: Outcome) -> Iterator[str]:
    """Each arm against the one below it, by the leading measure."""
    found = {(c.run_a, c.run_b): c for c in outcome.comparisons if c.measure == outcome.leading}
    order = outcome.standing
    for above, below in islice(pairwise(order), _SENTENCES):
        one = found.get((above, below)) or _turned(found[below, above])
        if one.queries < 2:
            yield f"{above} and {below} share too few queries to be compared"
            continue
        word = "is above" if one.p_holm < _SURE else "cannot be told from"
        yield (
            f"{above} {word} {below}: {one.difference:+.4f} "
            f"({one.low:+.4f} to {one.high:+.4f}), p {one.p:.3g}, {one.p_holm:.3g} after Holm, "
            f"P({above} is better) {one.p_better:.3f}; wins {one.wins:,}, ties {one.ties:,}, "
            f"losses {one.losses:,}"
        )
    if len(order) > 2:
        yield "All pairs and measures are in comparisons.parquet and in the report."


def _turned(one: Comparison) -> Comparison:
    """The same comparison, seen from the other arm."""
    return Comparison(
        run_a=one.run_b,
        run_b=one.run_a,
        measure=one.measure,
        mean_a=one.mean_b,
        mean_b=one.mean_a,
        difference=-one.difference,
        low=-one.high,
        high=-one.low,
        p=one.p,
        p_holm=one.p_holm,
        p_better=1 - one.p_better,
        queries=one.queries,
        wins=one.losses,
        ties=one.ties,
        losses=one.wins,
    )
