"""What stands out where judges are measured: by people, in their votes, and in their grades."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from zelo_ray.formats.wording import counted
from zelo_ray.present.findings.finding import Finding
from zelo_ray.present.findings.judging import ORDER, prefers_place

Row = Mapping[str, Any]
LITTLE = 0.2
"""Below this (by custom "slight" agreement) a judge helps nobody, however the truth lies."""
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
    against = [row for row in known if row["high"] < 0]
    useless = [row for row in known if row["low"] <= 0 <= row["high"] < LITTLE]
    open_ = [row for row in known if row["low"] <= 0 and row["high"] >= LITTLE]
    none = bool(known) and len(useless) + len(against) == len(known)
    if none:
        yield Finding(
            90,
            f"No judge agrees with these people better than chance ({coefficient}: {_each(known)})",
            "labels of this panel are no evidence of what these people want",
            "Give judges the people's rubric, or take other models",
            target,
        )
    if against:
        yield Finding(
            78,
            f"{_agree(against)} with people worse than chance ({coefficient}: {_each(against)})",
            "what they mean is often the opposite of what people mean",
            "Read why with zelo-ray explain, and mend the prompt or the people's scale",
            target,
        )
    if useless and not none:
        yield Finding(
            68,
            f"{_agree(useless)} with people no better than chance ({coefficient}: "
            f"{_each(useless)})",
            "whoever does so adds noise to the panel",
            "Leave it out of --judges, or read why with zelo-ray explain",
            target,
        )
    if open_:
        items = min(row["items"] for row in open_)
        names = ", ".join(row["rater_b"] for row in open_[:3]) + _rest(open_)
        yield Finding(
            62,
            f"{names} cannot be told from chance yet on {counted(items, 'item')} "
            f"({coefficient}: {_each(open_)})",
            "these labels are too few to say whether to trust such a judge",
            "Label more: zelo-ray label",
            target,
        )


def _agree(rows: Sequence[Row]) -> str:
    if len(rows) == 1:
        return f"{rows[0]['rater_b']} agrees"
    return f"{', '.join(row['rater_b'] for row in rows[:3])}{_rest(rows)} agree"


def _each(rows: Sequence[Row]) -> str:
    if len(rows) == 1:
        return _span(rows[0])
    return ", ".join(f"{row['rater_b']} {_span(row)}" for row in rows[:3]) + _rest(rows)


def _rest(rows: Sequence[Row]) -> str:
    return f" and {len(rows) - 3} more" if len(rows) > 3 else ""


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
