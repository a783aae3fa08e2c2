"""Write measures as people say them: ``nDCG@10``, and once in words what its parameters mean."""

from collections.abc import Iterable, Mapping

from zelo_ray.errors import MeasureError
from zelo_ray.evaluation.measures import load_measure, parse_measure


def title_measures(names: Iterable[str]) -> dict[str, str]:
    """Return the title of each measure of a report, by its name.

    A title has no parameters where `describe_measures` has words for them, and no other measure
    would have the same title.

    Args:
        names: of measures, such as ``nDCG(dcg='zelo')@10``.
    """
    short = {name: _shorten(name) for name in dict.fromkeys(names)}
    titles = list(short.values())
    return {name: title if titles.count(title) == 1 else name for name, title in short.items()}


def title_measure(name: str) -> str:
    """Return a measure with what its parameters mean, such as ``nDCG@10 (gains are …)``."""
    title = title_measures([name])[name]
    return f"{title} ({'; '.join(_meanings(name))})" if title != name else name


def describe_measures(titles: Mapping[str, str]) -> list[str]:
    """Return sentences with what the parameters mean that titles leave out, such as ``nDCG@10: …``.

    Args:
        titles: of measures, by their names.
    """
    by_meaning: dict[str, list[str]] = {}
    for name, title in titles.items():
        if title != name:
            by_meaning.setdefault("; ".join(_meanings(name)), []).append(title)
    return [f"{', '.join(named)}: {meaning}." for meaning, named in by_meaning.items()]


def _shorten(name: str) -> str:
    try:
        measure = parse_measure(name)
    except MeasureError:  # of a plug-in that is not here any more
        return name
    if len(_meanings(name)) < len(measure.parameters):
        return name
    return measure.name if measure.cutoff is None else f"{measure.name}@{measure.cutoff}"


def _meanings(name: str) -> list[str]:
    measure = parse_measure(name)
    kinds = load_measure(measure.name).parameters
    return [
        meaning
        for parameter, value in measure.parameters
        if (meaning := kinds[parameter].describe(value))
    ]
