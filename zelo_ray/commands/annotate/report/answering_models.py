"""Compare the models that answered, as servers name them, with the one that was asked."""

import re
from collections.abc import Mapping

from zelo_ray.families import FAMILIES, families_of

_SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)b(?![a-z0-9])")  # 32b, in billions of weights


def list_models(judge: str, models: Mapping[str, int]) -> str:
    """Return the models that answered with their counts; empty if it is just the one asked."""
    if {_plain(model) for model in models} <= {_plain(_asked(judge))}:
        return ""
    ordered = sorted(models.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{model} {count:,}" for model, count in ordered)


def is_another_model(judge: str, models: Mapping[str, int]) -> bool:
    """Return whether several models answered, or one of another family or size than was asked.

    A name that says nothing of either, such as that of a deployment, may stand for any model.
    """
    names = {_plain(model) for model in models}
    others = names - {_plain(_asked(judge))}
    if len(others) > 1 or (len(names) > 1 and not _is_snapshot(judge, *others)):
        return True
    asked = families_of(judge) & FAMILIES
    sizes = set(_SIZE.findall(_plain(_asked(judge))))
    return any(
        (asked and (family := families_of(model) & FAMILIES) and not asked & family)
        or (sizes and (size := set(_SIZE.findall(_plain(model)))) and not sizes & size)
        for model in models
    )


def _is_snapshot(judge: str, model: str) -> bool:
    """Return whether a model is the one asked, with a date."""
    return bool(re.fullmatch(re.escape(_plain(_asked(judge))) + r"-\d{4}-?\d{2}-?\d{2}", model))


def _asked(judge: str) -> str:
    return judge.partition("@")[0].partition(":")[2]


def _plain(model: str) -> str:
    """Return a model's name without its owner, in lower case."""
    return model.lower().rpartition("/")[2]
