"""Show a comparison of protocols on the terminal."""

from collections.abc import Iterator
from math import isnan

from rich.table import Table
from rich.text import Text

from zelo_ray.commands.compare_protocols.apart import told_apart
from zelo_ray.commands.compare_protocols.costs import Bill
from zelo_ray.commands.compare_protocols.outcome import Outcome, Trial
from zelo_ray.evaluation.agreement.differences import Difference
from zelo_ray.evaluation.agreement.estimates import Estimate
from zelo_ray.formats.wording import counted, printable

_SENTENCES = 10


def terminal(outcome: Outcome, width: int = 160) -> Iterator[Table | str]:
    """Yield the protocols by agreement with people, the sure differences, and what is missing.

    Args:
        outcome: of the comparison.
        width: characters that a line of the table may take; where it has no room for them,
            intervals are left out, from the right.
    """
    yield _table(outcome, width)
    items, queries = outcome.trials[0].items, len({cost.query_id for cost in outcome.costs})
    yield (
        f"right: share of judged items on which a protocol says what people say; {items:,} items "
        f"of {queries:,} queries, 95% intervals over queries"
    )
    if outcome.unit == "calls":
        free = not any(trial.bill.unpriced for trial in outcome.trials)
        why = "nothing cost any dollars" if free else "a price is unknown (give it in prices:)"
        yield f"{why}, so calls stand for dollars"
    yield from _shared(outcome)
    if few := [trial.protocol for trial in outcome.standing if trial.is_partial]:
        yield f"below the others, as they judged fewer than nine tenths: {', '.join(few)}"
    yield ""
    yield from _differences(outcome)
    yield from outcome.notes


def _table(outcome: Outcome, width: int) -> Table:
    per = "$ / right" if outcome.unit == "dollars" else "calls / right"
    heads = ("protocol", "judged", "right", "decided", "alpha", "calls", "dollars", per)
    for detail in (2, 1, 0):
        rows = [_row(trial, outcome.unit, detail) for trial in outcome.standing]
        columns = zip(heads, *rows, strict=True)
        if sum(2 + max(map(len, column)) for column in columns) - 2 <= width:
            break
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in heads:
        table.add_column(head, justify="left" if head == "protocol" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _row(trial: Trial, unit: str, items: int) -> list[str]:
    """Return the cells of a protocol; the first ``items`` with an interval show it."""
    figures = trial.figures
    return [
        printable(trial.protocol),
        f"{trial.judged:,}/{trial.items:,}",
        _cell(figures["agreement"], ".2f", percent=items > 0),
        _cell(figures["agreement_decided"], ".2f"),
        _cell(figures["alpha"], "z.2f"),
        f"{trial.bill.calls:,}",
        trial.bill.told,
        _cell(figures[f"{unit}_per_correct"], ".2g", percent=items > 1),
    ]


def _cell(figure: Estimate, form: str, *, percent: bool = False) -> str:
    """Format a figure; if whole, with its interval."""
    if isnan(figure.value):
        return "-"
    ends = [_number(end, form) for end in (figure.low, figure.high) if percent and not isnan(end)]
    return _number(figure.value, form) + (f" [{', '.join(ends)}]" if ends else "")


def _number(value: float, form: str) -> str:
    """Format a number; one with two significant digits is never written with an exponent."""
    if not form.endswith("g"):
        return f"{value:{form}}"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{float(f'{value:{form}}'):.12f}".rstrip("0").rstrip(".")


def _shared(outcome: Outcome) -> Iterator[str]:
    """Say how many calls several protocols shared, and what was paid in all."""
    sums = Bill()
    for trial in outcome.trials:
        sums.add(trial.bill)
    if shared := sums.calls - outcome.together.calls:
        yield (
            f"paid in all: {outcome.together.told} for {outcome.together.calls:,} calls; "
            f"{shared:,} more are counted above, for replies that several protocols use"
        )
    if outcome.paid.calls > outcome.together.calls:
        yield (
            f"the ledger holds {outcome.paid.calls:,} calls, {outcome.paid.told}: also what other "
            "protocols, options or input took"
        )


def _differences(outcome: Outcome) -> Iterator[str]:
    """Say which of two protocols agrees more with people, where that is sure."""
    groups = told_apart(outcome.differences)
    count = len(groups.sure) + len(groups.alike)
    for difference in groups.sure[:_SENTENCES]:
        yield sentence(difference)
    if remainder := groups.sure[_SENTENCES:]:
        yield f"… and {len(remainder):,} more: see differences.parquet"
    if groups.sure and count > 1:
        yield f"(sure also with intervals widened for {count:,} pairs of protocols: Bonferroni)"
    if groups.alike:
        pairs = counted(count, "pair")
        yield (
            f"{len(groups.alike):,} of {pairs} of protocols do not differ significantly in how "
            "far they agree with people"
        )
    if groups.unknown:
        yield (
            f"{counted(len(groups.unknown), 'pair')} of protocols: too few queries to say which "
            "agrees more with people"
        )


def sentence(difference: Difference) -> str:
    """Say a difference in words, with its figures."""
    return (
        f"{difference.rater_a} agrees more with people than {difference.rater_b}: "
        f"{difference.value_a:.2f} against {difference.value_b:.2f}, {difference.difference:+.2f} "
        f"({difference.low:+.2f} to {difference.high:+.2f}) on {difference.items:,} items "
        "that both judged"
    )
