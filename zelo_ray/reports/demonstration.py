"""Warn of judges that are not models, whose answers are not evidence."""

from collections.abc import Iterator, Mapping, Sequence

from zelo_ray.files.wording import counted
from zelo_ray.reports.warning import ResultWarning
from zelo_ray.reports.warning_codes import WarningCode

_KINDS = {
    "offline": ("only matches words", "only match words"),
    "simulated": (
        "draws its answers at random by its options, and reads nothing",
        "draw their answers at random by their options, and read nothing",
    ),
    "recorded": (
        "replays recorded answers, and is asked nothing",
        "replay recorded answers, and are asked nothing",
    ),
}


def warn_of_demonstration(
    judges: Sequence[str], section: str, whose: str = "of this run", again: str = "Name"
) -> Iterator[ResultWarning]:
    """Yield a warning if judges are not models, so that their answers are not evidence.

    Args:
        judges: names of all judges; names without a colon, of panels or labels, are ignored.
        section: the page's section.
        whose: what they are the judges of, for the sentence.
        again: the verb of the advice, as in "Name models that read: --judges openai:MODEL".
    """
    judges = [name for name in judges if ":" in name]
    kinds = {kind: [n for n in judges if n.partition(":")[0] == kind] for kind in _KINDS}
    kinds = {kind: names for kind, names in kinds.items() if names}
    if not kinds:
        return
    count = sum(map(len, kinds.values()))
    all_of_them = count == len(judges)
    consequence = "take this as a demonstration, and none of its numbers as a measurement"
    if {*kinds} == {"recorded"}:
        consequence = "these are recordings, and the model might answer differently now"
    elif not all_of_them:
        consequence = "the scores are partly a demonstration"
    values = {
        "judges": _describe(kinds, len(judges), whose),
        "consequence": consequence,
        "again": again,
        "section": section,
    }
    yield ResultWarning(WarningCode.DEMONSTRATION, values, 30 * all_of_them)


def _describe(kinds: Mapping[str, Sequence[str]], judges: int, whose: str) -> str:
    """Return a clause on what judges that are not models do instead of reading."""
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
