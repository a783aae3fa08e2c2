"""Warn of judges that are not models, whose answers are not evidence."""

from collections.abc import Iterator, Sequence

from zelo_ray.report.model import Warn, name_some

_KINDS = {
    "offline": "match words",
    "simulated": "draw answers at random",
    "recorded": "replay recorded answers",
}


def warn_of_demonstration(judges: Sequence[str], section: str = "") -> Iterator[Warn]:
    """Yield a warning if judges are not models; names without a colon are of no judge."""
    judges = [name for name in judges if ":" in name]
    found = {name: name.partition(":")[0] for name in judges}
    found = {name: kind for name, kind in found.items() if kind in _KINDS}
    if not found:
        return
    habits = " or ".join(dict.fromkeys(_KINDS[kind] for kind in found.values()))
    are = "is no model" if len(found) == 1 else "are no models"
    text = f"{name_some([*found])} {are}: such judges {habits}, and the figures are no evidence"
    if {*found.values()} == {"recorded"}:
        text = f"{name_some([*found])} replays recorded answers; a model might now answer otherwise"
    yield Warn(
        "demonstration",
        "doubtful" if len(found) == len(judges) else "note",
        text,
        "Name models that read: --judges openai:MODEL",
        section,
    )
