"""Warn of judges that are not models, whose answers are not evidence."""

from collections.abc import Iterator, Sequence

from zelo_ray.report.model import Warn, name_some

_KINDS = {
    "offline": ("only matches words", "only match words"),
    "simulated": ("draws its answers at random", "draw their answers at random"),
    "recorded": ("replays recorded answers", "replay recorded answers"),
}


def warn_of_demonstration(judges: Sequence[str], section: str = "") -> Iterator[Warn]:
    """Yield a warning if judges are no models; names without a colon are of labels or panels."""
    named = [name for name in judges if ":" in name]
    kinds = {kind: [n for n in named if n.partition(":")[0] == kind] for kind in _KINDS}
    facts = [
        f"{name_some(names)} {_KINDS[kind][len(names) > 1]}"
        for kind, names in kinds.items()
        if names
    ]
    if not facts:
        return
    if all(not names for kind, names in kinds.items() if kind != "recorded"):
        text = f"{facts[0]}: the model might answer differently now"
        yield Warn("demonstration", "note", text, "Ask models: --judges openai:MODEL", section)
        return
    every = sum(map(len, kinds.values())) == len(named)
    text = f"{'; '.join(facts)}: this is {'' if every else 'partly '}a demonstration"
    advice = "Ask models that read: --judges openai:MODEL"
    yield Warn("demonstration", "wrong" if every else "doubtful", text, advice, section)
