"""Measures of how well runs order the documents of a truth, query by query.

    truth = Truth(qrels)
    ranking = rank(truth, run)
    metrics = evaluate(parse_measures(["nDCG@10", "AP(rel=2)", "R@20"]), ranking)

Measures are written as in ir_measures, and where it or trec_eval has the same measure, the
metrics are equal. A new measure is one object in one module, ``MEASURE = MeasureKind(...)``, and a
line in ``MEASURES``; or one of the user's own, ``my_module:MEASURE@10`` or
``path/to/file.py:MEASURE``; or one that an installed package declares in ``zelo_ray.measures``.

Conventions, for every measure:

* The queries are those of the truth. One that the run lacks gets 0 (trec_eval -c), except where
  the truth alone leaves the measure undefined; queries that only the run has are counted and left
  out. A query without a relevant document gets 0.
* An unjudged document is not relevant, and keeps its place in the ranking. Negative
  relevance is not relevant and gains nothing.
* Ideal orders and numbers of relevant documents are those of all judged documents of the query,
  returned or not.
* Two documents are tied where their scores are equal as 32-bit floats, which is what trec_eval
  compares. The greater doc_id comes first, byte by byte. Tau and Pairs define ties themselves.
* A metric is NaN where the truth leaves it undefined: Tau and Pairs of a query without two
  documents that differ in relevance. Tau of a run whose scores are all equal is 0.
"""

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from zelo_ray.errors import OptionError, format_error
from zelo_ray.evaluation.measures.lists import Floats, Lists
from zelo_ray.evaluation.measures.ranking import Ranking, rank_run
from zelo_ray.evaluation.measures.spec import REQUIRED, Linear, MeasureKind, Parameter, Value
from zelo_ray.evaluation.measures.truth import Truth
from zelo_ray.names import did_you_mean
from zelo_ray.plugins import add_installed, find_installed, load_installed, load_plugin

__all__ = [
    "MEASURES",
    "Linear",
    "Lists",
    "Measure",
    "MeasureKind",
    "Parameter",
    "Ranking",
    "Truth",
    "default_measures",
    "evaluate",
    "linear_of",
    "load_measure",
    "parse_measure",
    "parse_measures",
    "rank_run",
]

MEASURES = {
    "nDCG": "zelo_ray.evaluation.measures.ndcg",
    "AP": "zelo_ray.evaluation.measures.average_precision",
    "RR": "zelo_ray.evaluation.measures.reciprocal_rank",
    "R": "zelo_ray.evaluation.measures.recall",
    "P": "zelo_ray.evaluation.measures.precision",
    "RBP": "zelo_ray.evaluation.measures.rank_biased_precision",
    "Success": "zelo_ray.evaluation.measures.success",
    "Rprec": "zelo_ray.evaluation.measures.r_precision",
    "ERR": "zelo_ray.evaluation.measures.expected_reciprocal_rank",
    "Grade": "zelo_ray.evaluation.measures.mean_grade",
    "Judged": "zelo_ray.evaluation.measures.judged",
    "RBO": "zelo_ray.evaluation.measures.rank_biased_overlap",
    "Tau": "zelo_ray.evaluation.measures.tau",
    "Pairs": "zelo_ray.evaluation.measures.pairs",
}
_OTHER_NAMES = {"MAP": "AP", "MRR": "RR", "Recall": "R", "Precision": "P"}
_BY_WORD = {name.lower(): name for name in MEASURES} | {
    word.lower(): name for word, name in _OTHER_NAMES.items()
}
"""The measure by each of its names in lower case, for people write them in any."""

CHUNK_CELLS = 2**17
"""Cells of a matrix of documents by draws that is measured at once: a megabyte."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One definition, such as nDCG@10; equal however it was written."""

    name: str
    cutoff: int | None = None
    parameters: tuple[tuple[str, Value], ...] = ()
    """those that differ from their default, in the order of the kind's parameters"""

    @property
    def of_labels(self) -> bool:
        """Return whether the measure describes the labels rather than the run."""
        return load_measure(self.name).of_labels

    def __str__(self) -> str:
        inside = ",".join(f"{name}={value!r}" for name, value in self.parameters)
        at = "" if self.cutoff is None else f"@{self.cutoff}"
        return f"{self.name}({inside}){at}" if inside else f"{self.name}{at}"


def parse_measures(texts: Iterable[str]) -> tuple[Measure, ...]:
    """Parse measures, without duplicates.

    Raises:
        OptionError: a text is not a measure.
    """
    return tuple(dict.fromkeys(parse_measure(text) for text in texts))


def parse_measure(text: str) -> Measure:
    """Parse a measure, such as ``nDCG@10`` or ``AP(rel=2)@100``.

    Raises:
        OptionError: there is no such measure; the message, one line, lists those that exist.
    """
    name, arguments = _split(text)
    if name not in MEASURES and name not in find_installed("measures"):
        name = _BY_WORD.get(name.lower(), name)
    kind = load_measure(name)
    cutoff = arguments.pop("cutoff", None)
    if cutoff is not None and kind.cutoff == "none":
        raise OptionError(f"{text!r}: {name} has no cutoff")
    if cutoff is None and kind.cutoff == "required":
        raise OptionError(f"{text!r}: {name} needs a cutoff, such as {name}@10")
    if cutoff is not None and (type(cutoff) is not int or cutoff < 1):
        raise OptionError(f"{text!r}: a cutoff is a whole number from 1, not {cutoff!r}")
    for unknown in arguments.keys() - kind.parameters.keys():
        choices = ", ".join(kind.parameters) or "none"
        raise OptionError(f"{text!r}: {name} has no parameter {unknown!r}; it has {choices}")
    parameters = []
    for key, parameter in kind.parameters.items():
        value = arguments.get(key, parameter.default)
        if value is REQUIRED:
            raise OptionError(f"{text!r}: {name} needs {key}, {parameter.what}")
        if key in arguments and not parameter.accepts(value):
            raise OptionError(f"{text!r}: {key} is {parameter.what}, not {value!r}")
        if key in arguments:
            value = parameter.read(value)
        if value != parameter.default:
            is_integer = isinstance(value, float) and value.is_integer()
            parameters.append((key, int(value) if is_integer else value))
    if len(parameters) > 1 and kind.exclusive:
        raise OptionError(
            f"{text!r}: {' and '.join(key for key, _ in parameters)} exclude each other"
        )
    return Measure(name, cutoff, tuple(parameters))


def _split(text: str) -> tuple[str, dict[str, Any]]:
    """Split a measure into its name and its parameters as written, including the cutoff."""
    where, is_own, expression = text.strip().partition(":")
    if not is_own or "(" in where:  # the colon is in a parameter's value
        where, expression = "", text.strip()
    try:
        node = ast.parse(expression, mode="eval").body
        written: list[tuple[str | None, Any]] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            written.append(("cutoff", ast.literal_eval(node.right)))
            node = node.left
        if isinstance(node, ast.Call) and not node.args:
            written += [(k.arg, ast.literal_eval(k.value)) for k in node.keywords]
            node = node.func
        arguments = {key: value for key, value in written if key}
        if isinstance(node, ast.Name) and len(arguments) == len(written):
            return f"{where}:{node.id}" if where else node.id, arguments
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        pass  # the error below speaks of measures and not of Python
    names = ", ".join(add_installed(MEASURES, "measures"))
    raise OptionError(
        f"{text!r} is not a measure; write for example nDCG@10, AP(rel=2)@100 or "
        f"nDCG(dcg='zelo')@10; there are {names}"
    )


def load_measure(name: str) -> MeasureKind:
    """Load a kind of measure by its name, or a plug-in; imported when first used.

    Raises:
        OptionError: nothing has that name, or it is not a measure.
    """
    if name in MEASURES:
        kind: MeasureKind = import_module(MEASURES[name]).MEASURE
        return kind
    if ":" in name:
        return load_plugin(name, MeasureKind, OptionError)
    if installed := load_installed("measures", name, MeasureKind, OptionError):
        return installed
    names = add_installed(MEASURES, "measures")
    raise OptionError(
        f"unknown measure {name!r}{did_you_mean(name, [*names, *_OTHER_NAMES])}; there are "
        f"{', '.join(names)}, and your own as my_module:MEASURE"
    )


def evaluate(
    measures: Sequence[Measure], ranking: Ranking, relevance: ArrayLike | None = None
) -> Floats:
    """Compute the metrics of one run.

    Args:
        measures: what to measure.
        ranking: the run, ranked against its truth.
        relevance: float64 [rows] or [draws, rows], in the order of the truth's table, instead of
            the truth's own. The ranking is reused, so draws cost little.

    Returns:
        float64 [measures, queries], to 12 decimals, queries in the order of ``truth.query_ids``;
        with draws [draws, measures, queries].

    Raises:
        OptionError: a measure of the user's own fails.
        ValueError: the relevance has another number of rows than the truth, or is not finite.
    """
    default = ranking.truth.relevance
    labels = default if relevance is None else np.asarray(relevance, np.float64)
    if (
        labels.ndim not in (1, 2)
        or labels.shape[-1] != len(default)
        or not np.isfinite(labels).all()
    ):
        raise ValueError(
            f"relevance must be finite, of shape [{len(default)}] or [draws, {len(default)}]"
        )
    draws = np.pad(np.atleast_2d(labels), ((0, 0), (0, 1)), constant_values=np.nan)
    metrics = np.empty((len(draws), len(measures), len(ranking.truth.query_ids)))
    for block in ranking.blocks:
        step = max(1, CHUNK_CELLS // (block.rows.size + block.judged.size))
        for start in range(0, len(draws), step):
            lists = Lists(block, draws[start : start + step])
            for i, measure in enumerate(measures):
                metrics[start : start + step, i, block.queries] = _values(measure, lists)
    # Digits past the twelfth are rounding, which must not break a tie of two runs.
    metrics = np.round(metrics, 12)
    return metrics[0] if labels.ndim == 1 else metrics


def linear_of(measure: Measure) -> Linear:
    """Return a measure as a sum of discounts times gains, which people's labels can correct.

    Raises:
        OptionError: it is not linear in the labels.
    """
    kind = load_measure(measure.name)
    if kind.linear is None:
        names = ", ".join(name for name in MEASURES if load_measure(name).linear)
        raise OptionError(f"{measure} is not linear in the labels; these are: {names}")
    return kind.linear(measure.cutoff, **_parameters(measure, kind))


def _parameters(measure: Measure, kind: MeasureKind) -> dict[str, Any]:
    defaults = {name: parameter.default for name, parameter in kind.parameters.items()}
    return {**defaults, **dict(measure.parameters)}


def _values(measure: Measure, lists: Lists) -> Floats:
    """Return the metrics of some queries, [draws, queries]."""
    kind = load_measure(measure.name)
    parameters = _parameters(measure, kind)
    if measure.name in MEASURES:
        return kind.metrics(lists, measure.cutoff, **parameters)
    try:
        values = np.asarray(kind.metrics(lists, measure.cutoff, **parameters), np.float64)
    except Exception as error:  # noqa: BLE001 - it is the user's own code
        raise OptionError(f"{measure} failed: {format_error(error)}") from None
    if values.shape != (wanted := lists.judged.shape[:-1]):
        raise OptionError(f"{measure}: metrics of shape {values.shape} instead of {wanted}")
    return values


def default_measures(truth: Truth) -> tuple[Measure, ...]:
    """Return the default measures for a truth of this kind, the main one first.

    Scores count by their sizes. For measures of binary relevance, grades of the upper half of the
    scale are relevant: from 2 of 3 on, as in the TREC Deep Learning tracks.
    """
    if truth.kind == "scores":
        return parse_measures(["nDCG(dcg='zelo')@10", "Pairs", "R(k_gt=5)@10", "Judged@10"])
    half = float(np.ceil(truth.relevance.max(initial=0))) / 2
    is_integer = (truth.relevance == np.floor(truth.relevance)).all()
    rel = max(1, int(np.ceil(half))) if is_integer else half  # 1.5 of mean grades up to 3
    of_relevant = [f"AP(rel={rel})", f"RR(rel={rel})@10", f"R(rel={rel})@20"]
    return parse_measures(["nDCG@10", *of_relevant, "Judged@10"])
