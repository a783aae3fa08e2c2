"""Relevance labels from panels of LLM judges, and fair comparisons of rerankers, on Ray.

    from zelo_ray import annotate

    run = annotate("pools/*.jsonl", out="judged", judges="offline")
    run.scores.to_pandas()

All names below are imported on first use, so that importing this module is fast.
"""

import zelo_ray.libraries  # noqa: F401, I001 - first: it decides where all others are imported from

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zelo_ray.api import agree as agree
    from zelo_ray.api import annotate as annotate
    from zelo_ray.api import bakeoff as bakeoff
    from zelo_ray.api import compare as compare
    from zelo_ray.api import convert as convert
    from zelo_ray.api import doctor as doctor
    from zelo_ray.api import explain as explain
    from zelo_ray.api import fit as fit
    from zelo_ray.api import label as label
    from zelo_ray.api import load_run as load_run
    from zelo_ray.api import measure as measure
    from zelo_ray.api import probe as probe
    from zelo_ray.api import prompt as prompt
    from zelo_ray.errors import ZeloError as ZeloError
    from zelo_ray.options import AnnotateOptions as AnnotateOptions
    from zelo_ray.protocols import Judgments as Judgments
    from zelo_ray.protocols import Protocol as Protocol
    from zelo_ray.protocols import ScoreKind as ScoreKind
    from zelo_ray.providers import Connection as Connection
    from zelo_ray.providers import Provider as Provider
    from zelo_ray.records import Document as Document
    from zelo_ray.records import Judge as Judge
    from zelo_ray.records import Pool as Pool
    from zelo_ray.report.results import Results as Results
    from zelo_ray.report.results import Table as Table
    from zelo_ray.rerankers.custom import Reranker as Reranker
    from zelo_ray.rerankers.custom import RerankerInput as RerankerInput

__version__ = "0.3.0"

_MODULES = {
    "zelo_ray.api": (
        *("agree", "annotate", "bakeoff", "compare", "convert", "doctor", "explain", "fit"),
        *("label", "load_run", "measure", "probe", "prompt"),
    ),
    "zelo_ray.errors": ("ZeloError",),
    "zelo_ray.options": ("AnnotateOptions",),
    "zelo_ray.protocols": ("Judgments", "Protocol", "ScoreKind"),
    "zelo_ray.providers": ("Connection", "Provider"),
    "zelo_ray.records": ("Document", "Judge", "Pool"),
    "zelo_ray.rerankers.custom": ("Reranker", "RerankerInput"),
    "zelo_ray.report.results": ("Results", "Table"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [*_HOMES]  # noqa: PLE0604 - strings, by module


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
