"""Rerankers that a caller holds: written to a file below the results, where actors find them."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from zelo_ray.api.given import keep
from zelo_ray.errors import OptionError
from zelo_ray.rerankers.custom import PACKED

_NO_LABEL = str.maketrans(dict.fromkeys(":/=@", "_"))


def named_rerankers(rerankers: Any, out: str) -> tuple[str, ...]:
    """Return the arms as the command line would write them.

    Args:
        rerankers: one or several: texts, classes, objects or functions; or a mapping from names.
        out: directory or URL of the results.

    Raises:
        OptionError: something is none of these, or cannot be sent to another process.
    """
    if isinstance(rerankers, Mapping):
        return tuple(_named(str(name), reranker, out) for name, reranker in rerankers.items())
    is_single = isinstance(rerankers, str) or callable(rerankers) or hasattr(rerankers, "score")
    arms: Iterable[Any] = (rerankers,) if is_single else rerankers
    return tuple(r if isinstance(r, str) else _named(_name_of(r), r, out) for r in arms)


def _named(name: str, reranker: Any, out: str) -> str:
    label = name.translate(_NO_LABEL)
    if isinstance(reranker, str):
        return f"{label}={reranker}"
    if not (callable(reranker) or hasattr(reranker, "score")):
        kind = type(reranker).__name__
        raise OptionError(
            f"rerankers: {name} is a {kind}; write a name such as bm25, a function of query and "
            "documents, or what has score(query, documents)"
        )
    from zelo_ray.ray.packed import packed  # noqa: PLC0415 - Ray takes seconds to import

    try:
        data = packed(reranker)
    except Exception as error:  # noqa: BLE001 - whatever the caller's own objects raise
        raise OptionError(
            f"rerankers: {name} cannot be sent to another process ({error}); make what cannot be "
            "copied where it is first used, or name it module:Class"
        ) from None
    return f"{label}=custom:{keep(out, label, PACKED, data)}"


def _name_of(reranker: Any) -> str:
    plain = inspect.isclass(reranker) or inspect.isroutine(reranker)
    return str(getattr(reranker if plain else type(reranker), "__name__", "reranker"))
