"""See in texts what biased judges go by: the known faults of simulated judges (`simulated`).

Each feature is a number of a text, which an option ``biases: {NAME: x}`` adds x times to what the
judge perceives, in logits or grades.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Literal

BiasName = Literal["length", "stuffing", "injection", "popularity"]
_ORDERS = re.compile(
    r"\b(?:most relevant document|highest grade|perfectly relevant|(?:ignore|disregard) [^.]{0,40}"
    r"instructions)\b",
    re.IGNORECASE,
)
_REPUTE = re.compile(r"\bcited by\b|^source:", re.IGNORECASE)
_TYPICAL = 100
"""Words of a text whose length counts neither for nor against it."""


def _length(_query: str, text: str) -> float:
    """Return the doublings of 100 words that the text is long."""
    return math.log2(max(1, len(text.split())) / _TYPICAL)


def _stuffing(query: str, text: str) -> float:
    """Return 1 if the query's words stand in the text, one after another."""
    words, texts = (f" {' '.join(part.casefold().split())} " for part in (query, text))
    return float(words in texts)


def _injection(_query: str, text: str) -> float:
    """Return 1 if the text tells judges how to judge it."""
    return float(bool(_ORDERS.search(text)))


def _popularity(_query: str, text: str) -> float:
    """Return 1 if the text says who cites it, or begins with its source."""
    return float(bool(_REPUTE.search(text)))


FEATURES: Mapping[BiasName, Callable[[str, str], float]] = {
    "length": _length,
    "stuffing": _stuffing,
    "injection": _injection,
    "popularity": _popularity,
}


def perceived_bias(biases: Mapping[BiasName, float] | None, query: str, text: str) -> float:
    """Return what a judge's biases add to its perception of a text, in logits or grades."""
    return sum(bias * FEATURES[name](query, text) for name, bias in (biases or {}).items())
