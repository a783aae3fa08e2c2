"""What stands out where judges are measured: by people, in their votes, and in their grades."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from zelo_ray.present.findings.finding import Finding
from zelo_ray.present.findings.judging import ORDER, prefers_place

Row = Mapping[str, Any]
FLIPS = 0.25
"""Of pairs seen in both orders. Coins reach .5: above half of that, half of one order is noise."""
LENGTH = 0.1
"""Grades per doubling of length: a document four times as long gains a fifth of a grade."""
LENIENT = 0.5
"""Grades above people: from half a grade on, most documents near a threshold change sides."""
_DECIDED = 10
"""Documents, votes or pairs below which no bias is spoken of."""


def of_people(rows: Sequence[Row], target: str, coefficient: str) -> Iterator[Finding]:
    """How judges do beside people, of a coefficient that is 0 by chance.

    Args:
        rows: a row a judge: rater_b, value, low, high, items.
        target: the section.
        coefficient: its name.
    """
    known = [row for row in rows if row["low"] == row["low"]]
    poor = [row for row in known if row["low"] <= 0]
    told = ", ".join(f"{row['rater_b']} {_span(row)}" for row in poor[:3])
    if known and len(poor) == len(known):
        yield Finding(
            90,
            f"No judge agrees with these people better than chance ({coefficient}: {told})",
            "labels of this panel are no evidence of what these people want",
            "Give judges the people's rubric, or take other models; with few items, label more: "
            "zelo-ray label",
            target,
        )
        return
    for row in poor:
        worse = row["high"] < 0
        yield Finding(
            78 if worse else 68,
            f"{row['rater_b']} agrees with people "
            + ("worse than chance" if worse else "no better than chance")
            + f" ({coefficient} {_span(row)})",
            "it says the opposite of them" if worse else "it adds noise to the panel",
            "Leave it out of --judges, or read why with zelo-ray explain",
            target,
        )


def of_biases(grading: Sequence[Row], voting: Sequence[Row]) -> Iterator[Finding]:
    """How judges err whatever the documents say; each row a judge and a bias."""
    for row in (*voting, *grading):
        if row["items"] < _DECIDED or row["low"] != row["low"]:
            continue
        if make := _BIASES.get((row["bias"], row["against"])):
            yield from make(row)


def _first(row: Row) -> Iterator[Finding]:
    if row["low"] > 0.5 + ORDER or row["high"] < 0.5 - ORDER:
        so = "its comparisons tell less about the documents"
        orders = "Ask each pair in both orders (annotate --repeats 2)"
        yield replace(prefers_place(row["judge"], _span(row), so, orders), target="voting")


def _flips(row: Row) -> Iterator[Finding]:
    if row["low"] > FLIPS:
        yield Finding(
            52 + row["value"],
            f"{row['judge']} changes its winner with the order on {_span(row)} of pairs",
            "a vote in one order is worth little",
            "Count pairs in both orders only, or put another model in its place",
            "voting",
        )


def _length(row: Row) -> Iterator[Finding]:
    if row["low"] > LENGTH or row["high"] < -LENGTH:
        side = "longer" if row["value"] > 0 else "shorter"
        beside = " than the other judges do" if row["against"] == "others" else ""
        yield Finding(
            50 + min(abs(row["value"]), 1),
            f"{row['judge']} grades {side} documents higher{beside}: {_span(row, '+.2f')} grades "
            "for each doubling of length",
            "length counts where content should",
            "Show less of long documents (--document-tokens), say in the rubric that length is no "
            "merit, or take another model",
            "grading",
        )


def _leniency(row: Row) -> Iterator[Finding]:
    if row["low"] > LENIENT or row["high"] < -LENIENT:
        side = "milder" if row["value"] > 0 else "harsher"
        yield Finding(
            46 + min(abs(row["value"]) / 3, 1),
            f"{row['judge']} is {side} than people by {_span(row, '+.2f')} grades",
            "a threshold of its grades is not the people's",
            "Let people's grades correct the panel's: annotate --protocol graded --human FILE",
            "grading",
        )


_BIASES = {
    ("first", ""): _first,
    ("flips", ""): _flips,
    ("length", "human"): _length,
    ("length", "others"): _length,
    ("leniency", "human"): _leniency,
}


def _span(row: Row, form: str = ".2f") -> str:
    return f"{row['value']:{form}} [{row['low']:{form}}, {row['high']:{form}}]"
