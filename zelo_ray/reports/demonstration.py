"""Warn of judges that are no models: what they say is no evidence."""

from collections.abc import Iterator, Mapping, Sequence

from zelo_ray.formats.wording import counted
from zelo_ray.reports.warning import ResultWarning
from zelo_ray.reports.warning_codes import WarningCode

_KINDS = {
    "offline": ("sees words only", "see words only"),
    "simulated": (
        "answers by drawing numbers, as its options say, and reads nothing",
        "answer by drawing numbers, as their options say, and read nothing",
    ),
    "recorded": (
        "plays answers back that were recorded, and is asked nothing",
        "play answers back that were recorded, and are asked nothing",
    ),
}


def warn_of_demonstration(
    judges: Sequence[str], section: str, whose: str = "of this run", again: str = "Name"
) -> Iterator[ResultWarning]:
    """Yield a warning for judges that are no models: what they say is no evidence.

    Args:
        judges: all; what is no judge, such as a panel or labels, has no colon and is left out.
        section: the page's section.
        whose: of what they are the judges.
        again: how other ones are named: "Name models that read: --judges openai:MODEL".
    """
    judges = [name for name in judges if ":" in name]
    kinds = {kind: [n for n in judges if n.partition(":")[0] == kind] for kind in _KINDS}
    kinds = {kind: names for kind, names in kinds.items() if names}
    if not kinds:
        return
    count = sum(map(len, kinds.values()))
    all_of_them = count == len(judges)
    consequence = "take this for a demonstration, and no number of it for a measurement"
    if {*kinds} == {"recorded"}:
        consequence = "these are recordings, and say nothing of what the model would answer now"
    elif not all_of_them:
        consequence = "the scores are in part a demonstration"
    values = {
        "judges": _describe(kinds, len(judges), whose),
        "consequence": consequence,
        "again": again,
        "section": section,
    }
    yield ResultWarning(WarningCode.DEMONSTRATION, values, 30 * all_of_them)


def _describe(kinds: Mapping[str, Sequence[str]], judges: int, whose: str) -> str:
    """Say of judges that are no models what they do instead of reading."""
    count = sum(map(len, kinds.values()))
    if count == 1:
        [(kind, [name])] = kinds.items()
        return f"{name} {_KINDS[kind][0]}"
    if count == judges and len(kinds) == 1:
        return f"Every judge {whose} {_KINDS[next(iter(kinds))][0]}"
    habits = "; ".join(f"{len(n)} {_KINDS[kind][len(n) > 1]}" for kind, n in kinds.items())
    if count == judges:
        return f"Every judge {whose} is a demonstration ({habits})"
    return f"{count} of {counted(judges, 'judge')} {whose} are demonstrations ({habits})"
