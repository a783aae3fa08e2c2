"""Write progress in words: the lines below the table, and the line shown without a terminal."""

from collections.abc import Mapping

from rich.cells import cell_len

from zelo_ray.engine.bookkeeping import format_dollars
from zelo_ray.engine.tally import Tally
from zelo_ray.files.wording import printable
from zelo_ray.report.progress.figures import JudgeProgress, RunProgress, duration
from zelo_ray.report.progress.names import shorten_end, shorten_names

_NAME = 32  # characters of a name in a line
_LINE = 240  # characters of what is said of the last trouble there
_LONG = 100_000  # from which on a number may be shortened
_CENTS = 100.0  # dollars below which cents are always shown


def progress_line(sums: RunProgress, now: float) -> str:
    """Return the total, each judge, and the last trouble; ``now`` is in seconds since 1970."""
    total = sums.whole
    tally = total.tally
    called = shorten_names([standing.name for standing in sums.judges], _NAME)
    parts = [
        f"{total.done:,}/{total.needed:,} replies",
        "" if total.ended and not total.rate else f"{total.rate:,.1f} calls/s",
        f"{total.failures:,} failures",
        f"{tally.throttled:,} 429s" if tally.throttled else "",
        f"{tally.retries:,} retries" if tally.retries else "",
        spent_of(total, sums.cap),
        f"{cached_share(tally)} of the input cached" if tally.cached_tokens else "",
        f"{tally.in_flight:,} in flight",
        f"{tally.waiting:,} waiting" if tally.waiting else "",
        f"{tally.batched:,} in batches" if tally.batched else "",
        f"left: {total.time_left}",
        ", ".join(f"{called[standing.name]} {_progress(standing)}" for standing in sums.judges),
        *disabled_lines(sums, called, _LINE),
        *trouble_line(sums, called, now, _LINE),
    ]
    return " · ".join(part for part in parts if part)


def cached_share(tally: Tally) -> str:
    """Return the share of input tokens that were billed as cached by the provider."""
    return f"{tally.cached_tokens / tally.input_tokens:.0%}" if tally.cached_tokens else ""


def _progress(standing: JudgeProgress) -> str:
    failed = f" ({standing.failures:,} failed)" if standing.failures else ""
    return f"{short(standing.done)}/{short(standing.needed)}{failed}"


def earlier_line(sums: RunProgress, width: int) -> list[str]:
    """Return a line on the part of the budget that was spent before this run, if any."""
    if not (sums.cap and sums.cap[1]):
        return []
    return [
        shorten_end(f"{format_dollars(sums.cap[1])} of the budget was spent before this run", width)
    ]


def trouble_line(sums: RunProgress, called: Mapping[str, str], now: float, width: int) -> list[str]:
    """Return the reason of the last failure or retry, if any, in at most ``width`` cells."""
    standing = sums.last_troubled
    if standing is None:
        return []
    name, trouble = standing.name, standing.tally.trouble
    reason = _in_one_line(trouble.reason)
    head = f"last trouble: {called[name]}: "
    tail = f", {duration(max(0.0, now - trouble.at))} ago"
    room = width - cell_len(head) - len(tail)
    return [shorten_end(f"{head}{shorten_end(reason, max(room, 1))}{tail}", width)]


def disabled_lines(sums: RunProgress, called: Mapping[str, str], width: int) -> list[str]:
    """Return which judges are asked nothing more and why, one line per reason."""
    lines = []
    for reason, names in sums.disabled.items():
        judges = ", ".join(called[name] for name in names)
        lines.append(shorten_end(f"stopped: {judges}: {_in_one_line(reason.message)}", width))
    return lines


def _in_one_line(reason: str) -> str:
    """Return a reason as it can be shown in one line."""
    return printable(" ".join(reason.split()))


def dollars(amount: float, unpriced: int = 0) -> str:
    """Format US dollars, with a mark if there are calls of unknown price."""
    return format_dollars(amount) + (" + ?" if unpriced else "")


def spent_of(
    standing: JudgeProgress, cap: tuple[float, float] | None = None, *, exact: bool = True
) -> str:
    """Return the dollars spent; under a cap, by all runs that share it, with the cap."""
    before = cap[1] if cap else 0.0
    more = " + ?" if standing.tally.unpriced else ""
    spent = _money(standing.tally.dollars + before, exact=exact) + more
    return f"{spent} of {_money(cap[0], exact=exact)}" if cap else spent


def _money(amount: float, *, exact: bool) -> str:
    if exact or amount < _CENTS:
        return format_dollars(amount)
    return f"${amount:,.0f}" if amount < 100 * _CENTS else f"${amount / 1000:,.1f}k"


def short(number: int) -> str:
    """Format a count, a large one in few digits, rounded down."""
    if number < _LONG:
        return f"{number:,}"
    return f"{number // 1000:,}k" if number < 10 * _LONG else f"{number // _LONG / 10:,.1f}M"
