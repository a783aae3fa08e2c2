"""Say which judges are no models, so that their answers are no evidence."""

from collections.abc import Iterable, Iterator

from zelo_ray.report.model import Warn, name_some

_HABITS = {
    "offline": "matches words",
    "simulated": "draws its answers at random",
    "recorded": "replays recorded answers",
}


def demonstration_banner(judges: Iterable[str]) -> str:
    """Return a sentence if all of these judges are no models; empty if not."""
    models, habits = _split(judges)
    if models or not habits:
        return ""
    if [*habits] == ["recorded"]:
        return (
            "Every judge replays recorded answers: its model might answer differently now. Name "
            "models that read: --judges openai:MODEL."
        )
    what = " or ".join(_HABITS[kind] for kind in habits)
    return (
        f"A demonstration, no measurement: every judge {what}. Name models that read: --judges "
        "openai:MODEL."
    )


def warn_of_demonstration(judges: Iterable[str], section: str) -> Iterator[Warn]:
    """Yield a warning if some of these judges are no models, and others are."""
    models, habits = _split(judges)
    if models and habits:
        names = [name for kind in habits.values() for name in kind]
        are = "is no model" if len(names) == 1 else "are no models"
        text = f"{name_some(names)} {are}, so the scores are partly a demonstration"
        advice = "Name models that read: --judges openai:MODEL"
        yield Warn("demonstration", "doubtful", text, advice, section)


def _split(judges: Iterable[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the models, and the judges that are none by their kind; labels are neither."""
    models, habits = list[str](), dict[str, list[str]]()
    for name in judges:
        kind, colon, _ = name.partition(":")
        if colon and kind in _HABITS:
            habits.setdefault(kind, []).append(name)
        elif colon:
            models.append(name)
    return models, habits
