"""Read waiting times and rate limits from a response's headers."""

import math
import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|d|h|m|s)")
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def server_delay(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds that a response asks to wait; None without a readable header.

    It is ``retry-after-ms``, else ``retry-after`` as a number or an HTTP date.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            delay = float(value) / unit
        except ValueError:
            try:
                delay = parsedate_to_datetime(value).timestamp() - now()
            except ValueError:
                continue
        if math.isfinite(delay):
            return max(0.0, delay)
    return None


def limit_in(headers: Mapping[str, str], name: str) -> float | None:
    """Return the limit in a header; None unless it is above 0."""
    try:
        limit = float(headers.get(name) or 0)
    except ValueError:
        return None
    return limit if 0 < limit < math.inf else None


def duration(text: str) -> float | None:
    """Return the seconds of a duration as Go writes it: ``8m38.4s``, ``120ms``; else None."""
    parts = _DURATION.findall(text)
    if not parts or "".join(map("".join, parts)) != text:
        return None
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))
