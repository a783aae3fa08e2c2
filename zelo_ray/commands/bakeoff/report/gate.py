"""The section of a bake-off on its baseline: which candidates may replace it."""

from collections.abc import Mapping
from math import nan
from typing import Any

from zelo_ray.commands.bakeoff.report.results import Contest
from zelo_ray.evaluation.gate import Gate, Gated
from zelo_ray.report.parts import Cells, Section, Table, Text
from zelo_ray.report.wording import interval, number

_SAID: dict[Gate, str] = {
    "better": "better",
    "not worse": "not worse by more than the margin",
    "worse": "worse",
    "not enough data": "not enough data",
    "only kin": "not known without kin",
}


def gate_section(contest: Contest) -> Section | None:
    """Compare each candidate with the baseline."""
    candidates = [_read(row) for row in contest.summary.get("gate", ())]
    if not candidates:
        return None
    first = candidates[0]
    draws = bool(contest.summary["label_draws"]) and first.estimate == "panel"
    alone = first.estimate == "panel"
    rows: list[Cells] = [
        [
            *(Text(candidate.run), _SAID[candidate.verdict], Text(candidate.reason)),
            *(
                number(candidate.difference, "+.4f"),
                interval(candidate.low, candidate.high, "+.4f"),
            ),
            *([number(candidate.labels, ".0%")] if draws else []),
            *(
                f"{candidate.queries:,}",
                *([f"{candidate.enough:,}" if candidate.enough else number(nan)] * alone),
            ),
        ]
        for candidate in candidates
    ]
    numbers = (
        *("difference", "limits"),
        *(["in draws"] if draws else []),
        *("queries", *(["enough queries"] * alone)),
    )
    caption = (
        f"{first.measure} of each candidate minus {first.baseline}'s, "
        f"{'by the panel' if alone else 'corrected by people'}, with a margin of "
        f"{first.margin:g}. Each limit is one-sided, at {first.confidence:.0%}: a candidate passes "
        "if the lower one is not below the margin, and is worse if it is and the upper one is "
        "below 0. Each candidate is a decision of its own."
    )
    if alone:
        caption += (
            " So many queries as are enough would show in 80% of cases that an equal candidate is "
            "not worse."
        )
    if draws:
        caption += " In so many draws of the labels it is not worse by more than the margin."
    columns = ("candidate", "it is", "why", *numbers)
    return Section(
        "gate",
        "May they replace the baseline?",
        (Table(columns, rows, caption, frozenset(numbers)),),
    )


def _read(row: Mapping[str, Any]) -> Gated:
    """Read a verdict of the gate, with null as NaN."""
    fields: dict[str, Any] = {k: nan if v is None else v for k, v in row.items()}
    return Gated(**fields)
