"""Show the findings of `doctor` in lines for the terminal."""

import textwrap
from collections.abc import Iterator, Sequence

from zelo_ray.commands.doctor import Finding
from zelo_ray.formats.wording import counted, printable

_WHAT = 28


def told(findings: Sequence[Finding], width: int) -> Iterator[str]:
    """Yield a line for each check, with what to do below it, and how many are wrong."""
    wide = min(_WHAT, max((len(printable(each.what)) for each in findings), default=0))
    for each in findings:
        what, found = printable(each.what), printable(each.found)
        first = f"{each.state:5}  {what:{wide}}  {found}"
        yield from textwrap.wrap(first, width, subsequent_indent=" " * 9, break_long_words=False)
        if each.do and each.state in ("warn", "wrong"):
            do = f"{' ' * 7}→ {printable(each.do)}"
            yield from textwrap.wrap(do, width, subsequent_indent=" " * 9, break_long_words=False)
        elif each.do:
            yield f"{' ' * 9}({printable(each.do)})"
    wrong, warned = (sum(each.state == name for each in findings) for name in ("wrong", "warn"))
    yield f"{counted(len(findings), 'check')}: {wrong} wrong, {warned} to look at"
