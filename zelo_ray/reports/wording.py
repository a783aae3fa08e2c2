"""Format numbers, intervals, counts and amounts of money as reports show them."""

from math import isnan, nan
from typing import Self

from zelo_ray.engine.bookkeeping import format_dollars

_DASH = "\N{EN DASH}"


class Quantity(str):
    """A number as text, such as ``0.756 [0.700, 0.812]``, that still knows its value.

    Attributes:
        value: NaN where it is not known.
        low: the lower end of its interval; NaN where it has none.
        high: the upper end.
        without_interval: the same text without the interval.
    """

    __slots__ = ("high", "low", "value", "without_interval")
    value: float
    low: float
    high: float
    without_interval: str

    def __new__(
        cls, text: str, value: float, ends: tuple[float, float] = (nan, nan), short: str = ""
    ) -> Self:
        """Return the text, with its value, interval and text without the interval."""
        quantity = super().__new__(cls, text)
        quantity.value, (quantity.low, quantity.high) = value, ends
        quantity.without_interval = short or text
        return quantity


def escape_markup(text: str) -> str:
    """Escape text for a chart, whose only markup is ``<br>`` and entities."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def short(text: str, length: int) -> str:
    """Cut text to a length, with an ellipsis where it goes on."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def format_number(value: float | None, form: str = ".3f") -> Quantity:
    """Format a number; return an en dash for NaN, which is null in JSON."""
    if value is None or isnan(value):
        return Quantity(_DASH, nan)
    return Quantity(f"{value:{form}}", value)


def format_interval(low: float | None, high: float | None, form: str = ".3f") -> str:
    """Format an interval, such as [0.700, 0.812]; return an en dash where there is none."""
    return _DASH if low is None or isnan(low) else f"[{low:{form}}, {high:{form}}]"


def format_estimate(
    value: float | None, low: float | None, high: float | None, form: str = ".3f"
) -> Quantity:
    """Format a number and its interval, as far as they are known."""
    alone = format_number(value, form)
    if low is None or high is None or isnan(low):
        return alone
    return Quantity(f"{alone} {format_interval(low, high, form)}", alone.value, (low, high), alone)


def format_probability(value: float) -> Quantity:
    """Format a probability in percent, never rounded to 0% or 100%."""
    if 0 < value < 0.001:
        return Quantity("<0.1%", value)
    return Quantity(">99.9%", value) if 0.999 < value < 1 else format_number(value, ".1%")


def format_cost(dollars: float, unpriced: int = 0) -> str:
    """Format an amount; ``free`` where nothing was charged, ``?`` where no price is known.

    Args:
        dollars: US dollars that are known.
        unpriced: how many answers had no known price.
    """
    if not dollars:
        return "?" if unpriced else "free"
    return format_dollars(dollars) + (" + ?" if unpriced else "")
