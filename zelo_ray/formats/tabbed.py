"""Split lines with tabs to cells; a quote that does not enclose a whole cell is text."""

import re
from collections import deque
from collections.abc import Iterator, Sequence

_WHOLE = re.compile(r'"((?:[^"]++|"")*+)"(?=\t|\Z)')
_WITHOUT_TABS = re.compile(r'"((?:[^"\t]++|"")*+)"(?=\t|\Z)')
_OPEN = re.compile(r'"(?:[^"]++|"")*+\Z')
_INSIDE = re.compile(r'(?:[^"]++|"")*+')
_MANY = 1000
"""How many lines an open cell may span, if each of them is a complete row; and how many lines with
quotes are enough to tell how the writer quotes."""


def tab_rows(texts: Iterator[str], width: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line in which each row begins, and its cells.

    A cell may be quoted over several lines, as pandas and spreadsheets write it. But if each of
    these lines has all columns by itself, the quotes are text, unless earlier lines show that the
    writer quotes cells that need it.

    Args:
        texts: the lines, with their ends.
        width: how many columns there are.
    """
    lines = _Lines(texts)
    for text in lines:
        number, line = lines.number, without_end(text)
        if '"' not in line:
            yield number, line.split("\t")
        elif line.startswith('"') or '\t"' in line:
            yield number, _row(text, lines, width)
        else:
            lines.has_bare = True
            yield number, line.split("\t")


def split_tabs(line: str) -> list[str]:
    """Split one line that is a row into its cells."""
    return _split(line, _WHOLE)[0]


def without_end(text: str) -> str:
    """Remove the end of a line, which some programs write as CR, CR, LF."""
    return text.rstrip("\r\n")


class _Lines:
    """Lines of which some can be put back, and what they show of the writer's quoting.

    ``has_bare``: there are quotes in cells that are not quoted. ``has_quoted``: cells that contain
    quotes or tabs are quoted.
    """

    def __init__(self, texts: Iterator[str]) -> None:
        self.number = 0
        self.has_bare = self.has_quoted = False
        self._learned = 0
        self._texts = texts
        self._ahead = deque[str]()

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        text = self._ahead.popleft() if self._ahead else next(self._texts)
        self.number += 1
        return text

    @property
    def are_quoted(self) -> bool:
        """Return whether the writer quotes cells that need it, as far as the lines show."""
        return self.has_quoted and not self.has_bare

    def learn(self, line: str, cells: Sequence[str]) -> None:
        """Update ``has_bare`` and ``has_quoted`` by a line; only the first lines count."""
        self._learned += 1
        if self.has_bare or self._learned > _MANY:
            return
        for cell in (cell for cell in cells if '"' in cell or "\t" in cell):
            quoted = '"' + cell.replace('"', '""') + '"'
            if quoted in line:
                self.has_quoted = True
            else:
                self.has_bare = True

    def put_back(self, texts: Sequence[str]) -> None:
        self._ahead.extendleft(reversed(texts))
        self.number -= len(texts)


def _row(text: str, lines: _Lines, width: int) -> list[str]:
    """Return the cells of the row that begins with a line, and consume its further lines."""
    cells, is_open = joined, goes_on = _cells(without_end(text), width)
    texts = [text]
    while goes_on:
        if not _is_closed_after(texts, lines, width):
            break
        joined, goes_on = _cells(without_end("".join(texts)), width)
    is_one = is_open and not goes_on and not (_are_rows(texts, width) and not lines.are_quoted)
    if is_one and (len(joined) == width or len(cells) != width):
        lines.has_quoted = True
        return joined
    lines.put_back(texts[1:])
    lines.learn(without_end(text), cells)
    return cells


def _is_closed_after(parts: list[str], lines: _Lines, width: int) -> bool:
    """Return whether the open cell is closed where a cell ends; add the lines read to ``parts``."""
    for text in lines:
        parts.append(text)
        line = without_end(text)
        inside = _INSIDE.match(line)
        if inside and inside.end() < len(line):
            return line[inside.end() + 1 : inside.end() + 2] in ("", "\t")
        if len(parts) == _MANY and _are_rows(parts, width):
            return False
    return False


def _are_rows(texts: Sequence[str], width: int) -> bool:
    """Return whether each line that is not blank has all columns by itself."""
    return all(text.count("\t") == width - 1 for text in texts if text.strip())


def _cells(text: str, width: int) -> tuple[list[str], bool]:
    """Return the cells of a text, and whether its last quote may be closed in a later line."""
    cells, is_open = _split(text, _WHOLE)
    if len(cells) != width and not is_open and "\n" not in text:
        narrow, _ = _split(text, _WITHOUT_TABS)
        return (narrow if len(narrow) == width else cells), False
    return cells, is_open


def _split(text: str, quoted: re.Pattern[str]) -> tuple[list[str], bool]:
    cells, at, is_open = list[str](), 0, False
    while at <= len(text):
        if enclosed := quoted.match(text, at):
            cells.append(enclosed[1].replace('""', '"'))
            end = enclosed.end()
        else:
            end = text.find("\t", at)
            end = len(text) if end < 0 else end
            is_open = is_open or bool(_OPEN.match(text, at))
            cells.append(text[at:end])
        at = end + 1
    return cells, is_open
