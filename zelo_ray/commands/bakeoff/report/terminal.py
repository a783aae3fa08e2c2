"""Show the result of a bake-off on the terminal: the table, and what follows from it."""

from collections.abc import Iterator, Sequence
from math import isnan

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from zelo_ray.commands.bakeoff import Outcome
from zelo_ray.commands.bakeoff.gate import gate_lines
from zelo_ray.commands.bakeoff.kinship import kin_told
from zelo_ray.commands.bakeoff.report.significance import sentence_of
from zelo_ray.commands.bakeoff.report.terminal_kin import without_kin
from zelo_ray.commands.bakeoff.report.terminal_people import of_people
from zelo_ray.commands.bakeoff.significance import Significance, significance_of, turned
from zelo_ray.engine.bookkeeping import maybe_billed
from zelo_ray.engine.ledger import told_damage
from zelo_ray.formats.wording import counted, printable
from zelo_ray.records import Comparison, Mean
from zelo_ray.report.progress.display import dollars

_SENTENCES, _PAIRS = 8, 6
_NAME = 30  # characters of an arm before it is broken into lines


def standings(outcome: Outcome, width: int = 160) -> Iterator[Table | str]:
    """Yield a table of arms by the leading measure, then sentences on real differences.

    Args:
        outcome: of the contest.
        width: characters that a line of the table may take.
    """
    queries = len(outcome.truth.query_ids)
    if outcome.kin:
        yield from kin_told(outcome.kin.kinship.of_arms, outcome.kin.kinship.shared)
    yield _table(outcome, width)
    sure = f"{100 * outcome.confidence:g}% intervals"
    yield f"Means over {counted(queries, 'query', 'queries')} with {sure}. {_labels(outcome)}"
    yield ""
    yield from _differences(outcome)
    yield from without_kin(outcome)
    if outcome.people:
        yield from of_people(outcome, outcome.people, width)
    yield from gate_lines(outcome.gate)
    if outcome.damaged:
        yield told_damage(outcome.damaged)
    if outcome.maybe_dollars:
        yield maybe_billed(outcome.maybe_dollars, outcome.uncounted)
    for entry in outcome.entries:
        ranked = outcome.answered_by(entry.name)
        if not ranked:
            yield f"{entry.name} takes no part: {entry.note or 'it ranked no query of the truth'}"
        elif ranked < queries:
            yield (
                f"{entry.name} ranked {ranked:,} of {queries:,} queries: the others count as 0 in "
                "its means, and it is compared on those that both arms ranked"
            )
        for reason, count in entry.reasons.most_common(2):
            yield f"  {count:,} times {reason}"


def _table(outcome: Outcome, width: int) -> Table:
    """Build the table of means; where there is no room, intervals are left out, from the right."""
    queries = len(outcome.truth.query_ids)
    means = {(mean.run, mean.measure): mean for mean in outcome.means}
    names = [str(measure) for measure in outcome.measures]
    rows = [[means[arm, name] for name in names] for arm in outcome.standing]
    spent = {entry.name: dollars(entry.dollars, entry.unpriced) for entry in outcome.entries}
    paid = [[spent[arm]] for arm in outcome.standing]
    if all(entry.dollars == 0 == entry.unpriced for entry in outcome.entries):
        paid = [[] for _ in rows]
    longest = min(_NAME, max(cell_len(printable(arm)) for arm in outcome.arms))
    for intervals in range(len(names), -1, -1):
        cells = [
            [_cell(mean, queries, complete=n < intervals) for n, mean in enumerate(row)] + more
            for row, more in zip(rows, paid, strict=True)
        ]
        heads = [*names, *(["spent"] if paid[0] else [])]
        columns = zip(heads, *cells, strict=True)
        if longest + sum(2 + max(map(len, column)) for column in columns) <= width:
            break
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("arm", overflow="fold", min_width=longest)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for arm, row in zip(outcome.standing, cells, strict=True):
        table.add_row(Text(printable(arm)), *row)
    return table


def _cell(mean: Mean, queries: int, *, complete: bool) -> str:
    """Format a mean; if whole, with its interval and its number of queries, if not all."""
    if isnan(mean.mean):
        return "-"
    if not complete:
        return f"{mean.mean:.4f}"
    ends = "" if isnan(mean.low) else f" [{mean.low:.3f}, {mean.high:.3f}]"
    over = f" over {mean.queries:,}" if mean.queries < queries else ""
    return f"{mean.mean:.4f}{ends}{over}"


def _labels(outcome: Outcome) -> str:
    if outcome.draws:
        return f"The labels have errors and were drawn {outcome.draws:,} times."
    return "The labels are taken as they are."


def _differences(outcome: Outcome) -> Iterator[str]:
    """Compare the best arm with each other by the leading measure, the nearest first."""
    by_pair = {(c.run_a, c.run_b): c for c in outcome.comparisons if c.measure == outcome.leading}
    best, *others = outcome.standing
    against = [
        by_pair.get((best, rival)) or turned(by_pair[rival, best]) for rival in others if by_pair
    ]
    for comparison in against[:_SENTENCES]:
        yield f"{sentence_of(comparison)} {_figures(comparison, len(outcome.truth.query_ids))}"
    if remainder := against[_SENTENCES:]:
        above = sum(significance_of(row) is Significance.ABOVE for row in remainder)
        yield f"Of the {len(remainder):,} others, {best} is above {above:,}."
    yield from _among(outcome, others)
    if len(others) > 1:
        yield "All pairs and measures are in comparisons.parquet and in the report."


def _among(outcome: Outcome, others: Sequence[str]) -> Iterator[str]:
    """Say which of the other arms differ significantly from each other, the better one first."""
    place = {arm: n for n, arm in enumerate(others)}
    pairs = [c for c in outcome.comparisons if c.measure == outcome.leading]
    pairs = [
        c for c in pairs if {c.run_a, c.run_b} <= place.keys() and significance_of(c).is_significant
    ]
    pairs = [
        pair if significance_of(pair) is Significance.ABOVE else turned(pair) for pair in pairs
    ]
    pairs.sort(key=lambda pair: (place[pair.run_a], place[pair.run_b]))
    for comparison in pairs[:_PAIRS]:
        yield f"{sentence_of(comparison)} {_figures(comparison, len(outcome.truth.query_ids))}"
    if tail := pairs[_PAIRS:]:
        more = counted(len(tail), "more pair")
        yield f"{more} of the others {'differs' if len(tail) == 1 else 'differ'} significantly."


def _figures(comparison: Comparison, queries: int) -> str:
    """Return the figures for a sentence."""
    score = f"wins {comparison.wins:,}, ties {comparison.ties:,}, losses {comparison.losses:,}"
    if significance_of(comparison) is Significance.TOO_FEW_QUERIES:
        return score
    sure = [f"p {comparison.p:.2g}, {comparison.p_holm:.2g} after Holm"]
    sure.append(f"P({comparison.run_a} is better) {comparison.p_better:.3f}")
    if not isnan(comparison.p_labels):
        sure.append(f"above in {comparison.p_labels:.0%} of the draws of the labels")
    common = f" on {comparison.queries:,} common queries" if comparison.queries < queries else ""
    return (
        f"{comparison.difference:+.4f} ({comparison.low:+.4f} to {comparison.high:+.4f}){common}; "
        f"{'; '.join(sure)}; {score}"
    )
