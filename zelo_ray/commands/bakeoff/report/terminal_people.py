"""Show on the terminal what people's labels change in a bake-off."""

from collections.abc import Iterator
from itertools import islice
from math import isnan, nan

from rich.table import Table
from rich.text import Text

from zelo_ray.commands.bakeoff.outcome import Corrections, Outcome
from zelo_ray.commands.bakeoff.report.people import by_estimate, heading, remarks, sentences
from zelo_ray.formats.wording import printable

_SENTENCES = 8


def of_people(outcome: Outcome, people: Corrections, width: int) -> Iterator[Table | str]:
    """Yield the arms by the corrected measure, what that changes, and what more labels would do."""
    record = people.told()
    yield ""
    if people.way:
        measure = people.measures[0]
        yield heading(record)
        yield _table(outcome, people, measure, width)
        comparisons = by_estimate([*outcome.comparisons, *people.comparisons], measure)
        yield from islice(sentences(comparisons, record, outcome.confidence), _SENTENCES)
    yield from remarks(record)


def _table(outcome: Outcome, people: Corrections, measure: str, width: int) -> Table:
    """Build the table of means by the panel alone and corrected by people's labels, best first."""
    means = {
        (row.run, row.estimate): row.mean
        for row in (*outcome.means, *people.means)
        if row.measure == measure
    }
    table = Table(box=None, pad_edge=False, header_style="dim", width=min(width, 100))
    table.add_column("arm", overflow="fold")
    for head in (f"{measure} by the panel", "corrected by people"):
        table.add_column(head, justify="right")
    for arm in sorted(outcome.arms, key=lambda arm: -means[arm, "corrected"]):
        alone = means.get((arm, "graded"), means.get((arm, "panel"), nan))
        pair = (alone, means[arm, "corrected"])
        cells = ("-" if isnan(mean) else f"{mean:.4f}" for mean in pair)
        table.add_row(Text(printable(arm)), *cells)
    return table
