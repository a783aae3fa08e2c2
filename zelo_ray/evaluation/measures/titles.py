"""Write measures as people say them: ``R@10``, and once in words what its parameters mean."""

from collections.abc import Iterable, Mapping

from zelo_ray.errors import OptionError
from zelo_ray.evaluation.measures import load_measure, parse_measure


def title_measures(names: Iterable[str]) -> dict[str, str]:
    """Return the title of each measure of a report, by its name.

    A title has no parameters where `describe_measures` has words for them, unless these are other
    gains (``nDCG(dcg='zelo')@10`` is never called ``nDCG@10``, which other reports show), or
    another measure would have the same title.

    Args:
        names: of measures, such as ``nDCG(dcg='zelo')@10``.
    """
    short = {name: _shorten(name) for name in dict.fromkeys(names)}
    titles = list(short.values())
    return {name: title if titles.count(title) == 1 else name for name, title in short.items()}


def title_measure(name: str) -> str:
    """Return a measure with what its parameters mean, such as ``R@10 (documents …)``."""
    title = title_measures([name])[name]
    meanings = _all_meanings(name)
    return f"{title} ({'; '.join(meanings)})" if meanings else name


def describe_measures(titles: Mapping[str, str]) -> list[str]:
    """Return sentences with what the parameters of measures mean, such as ``R@10: …``.

    Args:
        titles: of measures, by their names.
    """
    by_meaning: dict[str, list[str]] = {}
    for name, title in titles.items():
        if meanings := _all_meanings(name):
            by_meaning.setdefault("; ".join(meanings), []).append(title)
    return [f"{', '.join(named)}: {meaning}." for meaning, named in by_meaning.items()]


def _shorten(name: str) -> str:
    if not _all_meanings(name):
        return name
    measure = parse_measure(name)
    if "dcg" in dict(measure.parameters):
        return name
    return measure.name if measure.cutoff is None else f"{measure.name}@{measure.cutoff}"


def _all_meanings(name: str) -> list[str]:
    """Return what each parameter means, in words; empty unless there are words for all."""
    try:
        measure = parse_measure(name)
    except OptionError:  # of a plug-in that is not here any more
        return []
    kinds = load_measure(measure.name).parameters
    meanings = [kinds[parameter].describe(value) for parameter, value in measure.parameters]
    return [meaning for meaning in meanings if meaning] if all(meanings) else []
