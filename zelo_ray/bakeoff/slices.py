"""Results by parts of the queries: by a field of theirs, and by how hard they are."""

from collections.abc import Iterable, Mapping

import numpy as np

from zelo_ray.bakeoff.outcome import Floats, Outcome, Slice
from zelo_ray.config import BakeoffOptions
from zelo_ray.significance import means

_DIFFICULTY = ("hard", "medium", "easy")


def slices_of(
    outcome: Outcome, options: BakeoffOptions, fields: Mapping[str, Mapping[str, str]]
) -> Iterable[Slice]:
    """Means over the queries of each value of a field, and by difficulty for all arms together."""
    ids = outcome.truth.query_ids
    groups = {name: [fields.get(q, {}).get(name, "") for q in ids] for name in options.slices}
    if len(ids) >= len(_DIFFICULTY) * 2:
        groups["difficulty"] = _difficulty(outcome.values[outcome.leading])
    for name, labels in groups.items():
        for value in sorted(set(labels), key=_order):
            chosen = np.array([label == value for label in labels])
            for one, values in outcome.values.items():
                mean, low, high = means(
                    values[:, chosen],
                    resamples=options.resamples,
                    confidence=options.confidence,
                    seed=options.seed,
                )
                ends = zip(mean.tolist(), low.tolist(), high.tolist(), strict=True)
                for arm, three in zip(outcome.arms, ends, strict=True):
                    yield Slice(name, value, arm, one, *three, int(chosen.sum()))


def _order(value: str) -> tuple[int, str]:
    return (_DIFFICULTY.index(value) if value in _DIFFICULTY else -1, value)


def _difficulty(values: Floats) -> list[str]:
    """Thirds of the queries by the mean of all arms."""
    mean = np.nan_to_num(values).mean(axis=0)
    thirds = np.argsort(np.argsort(mean, kind="stable"), kind="stable") * 3 // len(mean)
    return [_DIFFICULTY[third] for third in thirds]
