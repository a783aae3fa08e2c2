"""Shorten judges' names to a width: still distinct, and with the model's name if possible."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len

from zelo_ray.files.wording import printable
from zelo_ray.providers import PROVIDERS, RERANKERS

_OWN = r"[^:@]+:[A-Z][A-Z0-9_]*"  # such as my_module:PROVIDER
_SHORT = "|".join(name for name in (*PROVIDERS, *RERANKERS) if name != "recorded")
"""Providers whose names may be left out; ``recorded`` is always kept."""
_PROVIDER = re.compile(rf"(^|:)({_SHORT}|{_OWN}):(?=.)")
_SHORTER = (
    (re.compile(r"@https?://"), "@"),
    (_PROVIDER, r"\1"),
    (re.compile(r"(@[^/]+)/.*"), r"\1"),  # the path of a URL
    (re.compile(r"(@[^.:]+)\.[^:]*"), r"\1"),  # of a host, all but its own name
    (re.compile(r"(@[^:]*):\d+$"), r"\1"),
    (re.compile(r"^(?!recorded:)[^/@]+/(?=[^@])"), ""),  # who made a model
    (re.compile(r"@[^@]*$"), ""),
)
"""Parts that may be left out of a name, the least important first."""
_LEAST = 6  # cells; with fewer, a name is a number


def shorter_forms(names: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """Yield shorter and shorter names that still differ, by the whole name."""
    short_names = {name: printable(name) for name in names}
    yield short_names
    for pattern, by in _SHORTER:
        short_names = {name: pattern.sub(by, text, count=1) for name, text in short_names.items()}
        if len(set(short_names.values())) == len(short_names):
            yield short_names


def shorten_names(names: Sequence[str], width: int) -> Mapping[str, str]:
    """Shorten names to at most ``width`` cells, all different.

    If no form fits, the middle of names is cut, and names that are then equal get their number on
    the panel.
    """
    for form in shorter_forms(names):
        if widest(form) <= width:
            return form
    cut = {name: shorten_middle(text, width) for name, text in form.items()}
    often = Counter(cut.values())
    numbered = {name: f"#{n}" for n, name in enumerate(names, 1) if often[cut[name]] > 1}
    for name, mark in numbered.items():
        room = width - len(mark)
        cut[name] = (shorten_middle(form[name], room) if room >= _LEAST else "") + mark
    return cut


def widest(form: Mapping[str, str]) -> int:
    """Return the cells that the longest of the names takes."""
    return max(map(cell_len, form.values()), default=0)


def shorten_middle(text: str, width: int) -> str:
    """Shorten a text to a width in terminal cells, keeping its beginning and its end."""
    if cell_len(text) <= width:
        return text
    tail = (width - 1) // 3
    return shorten_end(text, width - tail) + shorten_end(text[::-1], tail + 1)[-2::-1]


def shorten_end(text: str, width: int) -> str:
    """Shorten a text to a width in terminal cells, with … in place of its end."""
    if cell_len(text) <= width:
        return text
    head, room = "", width - 1
    for char in text:
        room -= cell_len(char)
        if room < 0:
            break
        head += char
    return head + "…" if width > 0 else ""
