"""Format the findings of `doctor` for the terminal."""

import textwrap
from collections.abc import Iterator, Sequence

from zelo_ray.commands.doctor.finding import Finding
from zelo_ray.files.wording import counted, printable

_WHAT = 28


def describe_findings(findings: Sequence[Finding], width: int) -> Iterator[str]:
    """Yield lines for each check, with what to do below it, and a summary."""
    wide = min(_WHAT, max((len(printable(each.check)) for each in findings), default=0))
    for finding in findings:
        what, result = printable(finding.check), printable(finding.finding)
        first = f"{finding.state:5}  {what:{wide}}  {result}"
        yield from textwrap.wrap(first, width, subsequent_indent=" " * 9, break_long_words=False)
        if finding.advice and finding.state in ("warn", "wrong"):
            do = f"{' ' * 7}→ {printable(finding.advice)}"
            yield from textwrap.wrap(do, width, subsequent_indent=" " * 9, break_long_words=False)
        elif finding.advice:
            yield f"{' ' * 9}({printable(finding.advice)})"
    wrong, warned = (sum(check.state == name for check in findings) for name in ("wrong", "warn"))
    yield f"{counted(len(findings), 'check')}: {wrong} wrong, {warned} to look at"
