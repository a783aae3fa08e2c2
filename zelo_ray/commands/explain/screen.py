"""Fit an explanation to a terminal: long texts to a few lines, judgments to the screen."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.cells import cell_len, chop_cells, set_cell_size

from zelo_ray.commands.explain.paragraphs import ExplanationPart
from zelo_ray.formats.wording import counted
from zelo_ray.protocols.narrative import DEEP

_TEXT_LINES, _REASON_LINES = 4, 2
_LEAST = 6
"""The fewest lines of judgments, however low the screen is."""
_NARROW = 40
"""The fewest cells of a line, however narrow the terminal is."""


def fit_to_screen(
    parts: Sequence[ExplanationPart], width: int, height: int, command: str
) -> Iterator[str]:
    """Yield the paragraphs as lines, cut to fit the terminal.

    Args:
        parts: of the explanation.
        width: cells of a line.
        height: lines of the terminal.
        command: the command that shows the whole explanation.
    """
    width, shown = max(width, _NARROW), list[str]()
    for kind, group in groupby(parts, lambda item: item.kind):
        if kind == "judgments":
            room = max(_LEAST, height - len(shown) - 3)
            shown += _judgments([*group], width, room, command)
            continue
        for part in group:
            lines = _cut(part, width)
            limit = max(2 * _LEAST, height - 6) if part.kind == "rows" else len(lines)
            shown += lines[:limit]
            if len(lines) > limit:
                more = counted(len(lines) - limit, "more line")
                shown.append(_cropped(f"… {more}: {command}", max(width, cell_len(command) + 24)))
            shown.append("")
    yield from shown[:-1] if shown and not shown[-1] else shown


def _cut(part: ExplanationPart, width: int) -> list[str]:
    if part.kind == "text":
        text = " ".join(line.strip() for line in part.lines[1:])
        return [*wrapped(part.lines[0], width), *_first_lines(f"    {text}", width, _TEXT_LINES)]
    if part.kind == "rows":
        return [
            line
            for paragraph in part.lines
            for line in (
                [_cropped(paragraph, width)] if paragraph[:1] == " " else wrapped(paragraph, width)
            )
        ]
    return [line for paragraph in part.lines for line in wrapped(paragraph, width)]


def _judgments(parts: Sequence[ExplanationPart], width: int, room: int, command: str) -> list[str]:
    """Return the first paragraphs that fit (at least one), and the number of others."""
    shown = list[str]()
    for number, part in enumerate(parts):
        lines = [line for paragraph in part.lines for line in _fit_line(paragraph, width)]
        if shown and len(shown) + len(lines) > room:
            return [*shown, f"… {len(parts) - number:,} more like this: {command}"]
        shown += [*lines, ""]
    return shown


def _fit_line(line: str, width: int) -> list[str]:
    deep = line.startswith(DEEP)
    return _first_lines(line, width, _REASON_LINES) if deep else wrapped(line, width)


def _first_lines(line: str, width: int, rows: int) -> list[str]:
    """Return the first lines of a text, and the number of words left out."""
    words, ahead = line.split(), line[: len(line) - len(line.lstrip())]
    begun = wrapped(ahead + " ".join(words[: rows * width])[: 4 * rows * width], width, ahead)
    if len(begun) <= rows and len(words) <= rows * width:
        return begun
    *first, last = begun[:rows]
    tail = last.split()
    before = sum(len(row.split()) for row in first)
    while tail and cell_len(ahead + " ".join(tail)) > width - 20:
        tail.pop()
    remainder = len(words) - before - len(tail)
    if remainder <= 0 or not tail:  # a script without spaces, or one long word
        return [*first, f"{set_cell_size(last, max(1, width - 9)).rstrip()} … (more)"]
    return [*first, f"{ahead}{' '.join(tail)} … ({counted(remainder, 'more word')})"]


def wrapped(line: str, width: int, ahead: str | None = None) -> list[str]:
    """Wrap a line into several that fit, by the cells that its characters take."""
    start = line[: len(line) - len(line.lstrip())]
    ahead = f"{start}    " if ahead is None and start else ahead or ""
    lines, now = list[str](), start
    for word in line.strip().split(" "):
        fresh = not now.strip()
        if not fresh and cell_len(now) + 1 + cell_len(word) > width:
            lines.append(now)
            now, fresh = ahead, True
        now += word if fresh else f" {word}"
        while cell_len(now) > width:
            head = chop_cells(now, width)[0]
            lines.append(head)
            now = ahead + now[len(head) :]
    return [*lines, now]


def _cropped(line: str, width: int) -> str:
    if cell_len(line) <= width:
        return line
    return f"{set_cell_size(line, max(1, width - 1)).rstrip()}…"
