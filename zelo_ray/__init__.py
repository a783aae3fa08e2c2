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
    from zelo_ray.api.annotation import Run, annotate, estimate
    from zelo_ray.api.bakeoff import Bakeoff, bakeoff
    from zelo_ray.api.comparisons import (
        JudgeDrift,
        LabelComparison,
        ProtocolComparison,
        RaterAgreement,
        Tuning,
        agree,
        compare_labels,
        compare_protocols,
        drift,
        tune,
    )
    from zelo_ray.api.doctor import doctor
    from zelo_ray.api.in_memory import fit_votes, measure
    from zelo_ray.api.load import load_run
    from zelo_ray.api.probing import JudgeProbe, probe
    from zelo_ray.api.prompts import Prompts, prompt
    from zelo_ray.api.report import report
    from zelo_ray.api.tables import Table
    from zelo_ray.errors import ZeloError
    from zelo_ray.options import AnnotateOptions
    from zelo_ray.protocols import Judgments, Protocol, ScoreKind
    from zelo_ray.providers import Connection, Provider
    from zelo_ray.records import Document, Judge, Pool
    from zelo_ray.rerankers.custom import Reranker, RerankerInput

__version__ = "0.2.0"

__all__ = [
    "AnnotateOptions",
    "Bakeoff",
    "Connection",
    "Document",
    "Judge",
    "JudgeDrift",
    "JudgeProbe",
    "Judgments",
    "LabelComparison",
    "Pool",
    "Prompts",
    "Protocol",
    "ProtocolComparison",
    "Provider",
    "RaterAgreement",
    "Reranker",
    "RerankerInput",
    "Run",
    "ScoreKind",
    "Table",
    "Tuning",
    "ZeloError",
    "agree",
    "annotate",
    "bakeoff",
    "compare_labels",
    "compare_protocols",
    "doctor",
    "drift",
    "estimate",
    "fit_votes",
    "load_run",
    "measure",
    "probe",
    "prompt",
    "report",
    "tune",
]

_MODULES = {
    "zelo_ray.api.annotation": ("Run", "annotate", "estimate"),
    "zelo_ray.api.comparisons": (
        *("JudgeDrift", "LabelComparison", "ProtocolComparison", "RaterAgreement", "Tuning"),
        *("agree", "compare_labels", "compare_protocols", "drift", "tune"),
    ),
    "zelo_ray.api.bakeoff": ("Bakeoff", "bakeoff"),
    "zelo_ray.api.doctor": ("doctor",),
    "zelo_ray.api.load": ("load_run",),
    "zelo_ray.api.probing": ("JudgeProbe", "probe"),
    "zelo_ray.api.in_memory": ("fit_votes", "measure"),
    "zelo_ray.api.prompts": ("Prompts", "prompt"),
    "zelo_ray.api.report": ("report",),
    "zelo_ray.api.tables": ("Table",),
    "zelo_ray.errors": ("ZeloError",),
    "zelo_ray.options": ("AnnotateOptions",),
    "zelo_ray.protocols": ("Judgments", "Protocol", "ScoreKind"),
    "zelo_ray.providers": ("Connection", "Provider"),
    "zelo_ray.records": ("Document", "Judge", "Pool"),
    "zelo_ray.rerankers.custom": ("Reranker", "RerankerInput"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
