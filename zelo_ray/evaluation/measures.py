"""Measures of how well runs order the documents of a truth, query by query.

    ranking = rank_run(Truth(qrels), run)
    metrics = evaluate(parse_measures(["nDCG@10", "AP(rel=2)", "R@20"]), ranking)

Measures are written as in ir_measures, and where it or trec_eval has the same measure, the metrics
are equal. A new one is a row of ``MEASURES``; or the user's own, ``my_module:MEASURE@10`` or
``path/to/file.py:MEASURE``; or one that an installed package declares in ``zelo_ray.measures``.
``docs/bakeoff.md#measures`` has the conventions on missing queries, unjudged documents and ties.
"""

import ast
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from zelo_ray.errors import OptionError, format_error
from zelo_ray.evaluation.ranking import Block, Floats, Ints, Ranking, Truth, rank_run
from zelo_ray.names import did_you_mean
from zelo_ray.plugins import add_installed, find_installed, load_installed, load_plugin

__all__ = ["Linear", "Lists", "MeasureKind", "Parameter", "Ranking", "Truth", "rank_run"]

REQUIRED: Any = object()
"""The default of a parameter that has none."""
CHUNK_CELLS = 2**17
"""Cells of a matrix of documents by draws that is measured at once: a megabyte."""


class Lists:
    """The lists of some queries, under some draws of the relevance: [draws, queries, …].

    ``retrieved`` is how many documents the run has, [queries], and ``level`` the first rank of
    those tied with each of ``judged``, [queries, judged].
    """

    def __init__(self, block: Block, relevance: Floats) -> None:
        """Take the queries, and relevances [draws, rows of the truth + 1], the last one NaN."""
        self.retrieved, self.level = block.retrieved, block.level
        self._block, self._relevance = block, relevance

    @cached_property
    def judged(self) -> Floats:
        """Return the relevance of all judged documents, in the order of the run; NaN beyond."""
        return self._relevance[:, self._block.judged]

    def ranked(self, cutoff: int | None) -> Floats:
        """Return the relevance by rank up to the cutoff, NaN where unjudged or past the end."""
        return self._relevance[:, self._block.rows[:, :cutoff]]

    def relevant(self, cutoff: int | None, rel: float) -> Floats:
        """Return 1 by rank where the relevance is at least ``rel``, else 0."""
        return (self.ranked(cutoff) >= rel).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a measure: its default, a check of values, and the values in words."""

    default: Any
    accepts: Callable[[Any], bool]
    what: str


@dataclass(frozen=True, slots=True)
class Linear:
    """A measure as a sum over ranks of discount times gain, which people's labels can correct.

    From rank ``depth`` on discounts are 0; ``discounts`` gives those of so many ranks, and
    ``gains`` those of grades. An ``ideal`` measure is divided by the sum of the best order of all
    judged documents.
    """

    depth: int | None
    discounts: Callable[[int], Floats]
    gains: Callable[[Floats], Floats]
    ideal: bool = False

    def measure(self, lists: Lists) -> Floats:
        """Return the sum for each query, [draws, queries]."""
        with np.errstate(over="ignore"):
            gained, best = (
                np.nan_to_num(self.gains(grades), nan=0.0, posinf=np.inf)
                for grades in (lists.ranked(self.depth), lists.judged)
            )
        if not np.isfinite(best).all():
            raise OptionError("gains of 2^relevance - 1 are too large here; use other measures")
        total = np.asarray(gained @ self.discounts(gained.shape[-1]))
        if not self.ideal:
            return total
        best = -np.sort(-best, axis=-1)[..., : self.depth]
        return _ratio(total, best @ self.discounts(best.shape[-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureKind:
    """A kind of measure, which a cutoff and parameters make a `Measure`.

    ``metrics`` gives the metric of each query, [draws, queries], from lists, a cutoff (or None) and
    the parameters by name; ``linear`` gives the measure as a sum, if it is one, and then metrics
    may be left out. Of ``exclusive`` parameters at most one may be given. Runs are not compared by
    a measure that is ``about_labels`` rather than the run.
    """

    metrics: Callable[..., Floats] | None = None
    linear: Callable[..., Linear] | None = None
    cutoff: Literal["required", "optional", "none"] = "optional"
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    exclusive: bool = False
    about_labels: bool = False


@dataclass(frozen=True, slots=True)
class Measure:
    """One definition, such as nDCG@10, with the parameters that differ from their default."""

    name: str
    cutoff: int | None = None
    parameters: tuple[tuple[str, Hashable], ...] = ()

    @property
    def kind(self) -> MeasureKind:
        """Return its kind; raise `OptionError` if it is a plug-in that is not there any more."""
        return _load(self.name)

    @property
    def arguments(self) -> dict[str, Any]:
        """Return all parameters by name."""
        defaults = {name: parameter.default for name, parameter in self.kind.parameters.items()}
        return {**defaults, **dict(self.parameters)}

    @property
    def linear(self) -> Linear:
        """Return it as a sum of discounts times gains; raise `OptionError` if it is not one."""
        if self.kind.linear is None:
            names = ", ".join(name for name, other in MEASURES.items() if other.linear)
            raise OptionError(f"{self} is not linear in the labels; these are: {names}")
        return self.kind.linear(self.cutoff, **self.arguments)

    def __str__(self) -> str:
        inside = ",".join(f"{name}={value!r}" for name, value in self.parameters)
        at = "" if self.cutoff is None else f"@{self.cutoff}"
        return f"{self.name}({inside}){at}" if inside else f"{self.name}{at}"


def _ratio(part: Floats, total: Floats | Ints, otherwise: float = 0.0) -> Floats:
    empty = total == 0
    return np.where(empty, otherwise, part / np.where(empty, 1, total))


def _log_discounts(ranks: int) -> Floats:
    return 1 / np.log2(np.arange(2, ranks + 2))


def _gain(grades: Floats) -> Floats:
    return np.maximum(grades, 0)


_GAINS: Mapping[str, Callable[[Floats], Floats]] = {
    "log2": _gain,  # as trec_eval
    "exp-log2": lambda grades: np.expm1(np.log(2) * _gain(grades)),  # Burges et al. 2005, ICML
}


def _ndcg(cutoff: int | None, dcg: str = "log2") -> Linear:
    return Linear(cutoff, _log_discounts, _GAINS[dcg], ideal=True)


def _ndcg_of_scores(lists: Lists, cutoff: int | None) -> Floats:
    """Return nDCG whose gain is how much more often a document wins than loses.

    One with the score s (in logits) wins against an average document of its query with
    probability p = 1 / (1 + exp(-s)); the gain is 2p - 1 = tanh(s / 2), and 0 below the
    average.
    """
    gains = Linear(cutoff, _log_discounts, lambda scores: np.tanh(_gain(scores) / 2), ideal=True)
    return gains.measure(lists)


def _mean_of_first(cutoff: int, gains: Callable[[Floats], Floats]) -> Linear:
    return Linear(cutoff, lambda ranks: np.full(ranks, 1 / cutoff), gains)


def _binary(rel: float) -> Callable[[Floats], Floats]:
    return lambda grades: (grades >= rel).astype(np.float64)


def _rank_biased(cutoff: int | None, p: float, rel: float) -> Linear:
    """Weigh ranks by the chance to stop there, if one goes on with chance p."""
    return Linear(
        cutoff, lambda ranks: (1 - p) * p ** np.arange(ranks, dtype=np.float64), _binary(rel)
    )


def _average_precision(lists: Lists, cutoff: int | None, rel: float) -> Floats:
    """Divide by the number of relevant documents for any cutoff, as trec_eval does."""
    relevant = lists.relevant(cutoff, rel)
    precisions = relevant * np.cumsum(relevant, axis=-1) / np.arange(1, relevant.shape[-1] + 1)
    return _ratio(precisions.sum(axis=-1), (lists.judged >= rel).sum(axis=-1))


def _r_precision(lists: Lists, cutoff: None, rel: float) -> Floats:
    relevant, total = lists.relevant(cutoff, rel), (lists.judged >= rel).sum(axis=-1)
    among = np.arange(relevant.shape[-1]) < total[..., np.newaxis]
    return _ratio((relevant * among).sum(axis=-1), total)


def _recall(lists: Lists, cutoff: int, rel: float, k_gt: int | None) -> Floats:
    """Return recall of documents from ``rel`` on, or of the ``k_gt`` best (of all, if fewer).

    Of several that are tied for the last places among the best, as many count as there are places.
    So a perfect order of any truth gets 1 from rank ``k_gt`` on.
    """
    if k_gt is None:
        relevant = lists.relevant(cutoff, rel).sum(axis=-1)
        return _ratio(relevant, (lists.judged >= rel).sum(axis=-1))
    places = np.minimum(k_gt, (~np.isnan(lists.judged)).sum(axis=-1))
    descending, ranked = -np.sort(-lists.judged, axis=-1), lists.ranked(cutoff)
    border = np.take_along_axis(descending, places[..., np.newaxis] - 1, axis=-1)
    free = places - (lists.judged > border).sum(axis=-1)
    filled = np.minimum(free, (ranked == border).sum(axis=-1))
    return _ratio((ranked > border).sum(axis=-1) + filled, places)


def _reciprocal_rank(satisfied: Floats) -> Floats:
    """Return the mean of 1 / rank where a user stops, from the chance to be satisfied there."""
    goes_on = np.cumprod(1 - satisfied, axis=-1)
    before = np.concatenate([np.ones_like(goes_on[..., :1]), goes_on[..., :-1]], axis=-1)
    return np.asarray((before - goes_on) @ (1 / np.arange(1, goes_on.shape[-1] + 1)))


def _expected_reciprocal_rank(lists: Lists, cutoff: int | None, max_rel: int) -> Floats:
    """Satisfy with chance (2^g - 1) / 2^max_rel by grade g (Chapelle et al. 2009, CIKM, eq. 4).

    max_rel is 4 in gdeval, which refuses higher grades; here they count as max_rel.
    """
    grades = np.clip(np.nan_to_num(lists.ranked(cutoff), nan=0.0), 0, max_rel)
    return _reciprocal_rank(np.asarray(np.expm1(np.log(2) * grades) / 2.0**max_rel))


def _share_judged(lists: Lists, cutoff: int | None) -> Floats:
    """Divide by the run's length if that is below the cutoff, as ir_measures does."""
    judged = (~np.isnan(lists.ranked(cutoff))).sum(axis=-1).astype(np.float64)
    return _ratio(judged, np.minimum(lists.retrieved, cutoff or lists.retrieved))


def _pairs(lists: Lists, cutoff: None) -> Floats:  # noqa: ARG001 - others have a cutoff
    """Return the share of pairs with unequal relevance in the right order; ties count half.

    Documents that the run lacks come after all others, tied. NaN where no pair differs.
    """
    relevance, level = lists.judged, lists.level
    net, unequal = np.zeros((2, *relevance.shape), np.int32)
    for step in range(1, relevance.shape[-1]):
        upper, lower = relevance[..., :-step], relevance[..., step:]
        right, wrong = (upper > lower).view(np.int8), (upper < lower).view(np.int8)
        ordered = (level[:, :-step] != level[:, step:]).view(np.int8)
        net[..., :-step] += (right - wrong) * ordered
        unequal[..., :-step] += right | wrong
    differing = unequal.sum(axis=-1)
    shares = (1 + _ratio(net.sum(axis=-1), differing, np.nan)) / 2
    return np.where((lists.retrieved > 0) | (differing == 0), shares, 0.0)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


_CUTOFF = Parameter(None, _is_count, "a whole number from 1, written as @10")
_CUTOFFS = {
    "none": {},
    "optional": {"cutoff": _CUTOFF},
    "required": {"cutoff": replace(_CUTOFF, default=REQUIRED)},
}
_REL = Parameter(1, _is_number, "the least relevance that counts as relevant, a number")
_COUNT = Parameter(None, _is_count, "a whole number from 1")
_TOP = Parameter(4, lambda v: _is_count(v) and v <= 50, "a whole number from 1 to 50")
_CHANCE = Parameter(0.8, lambda v: _is_number(v) and 0 < v < 1, "a number between 0 and 1")
_DCG = Parameter(
    "log2",
    lambda v: isinstance(v, str) and v in _GAINS,
    f"{' or '.join(_GAINS)} (zelo_nDCG is by zELO scores)",
)

MEASURES: dict[str, MeasureKind] = {
    "nDCG": MeasureKind(linear=_ndcg, parameters={"dcg": _DCG}),
    "zelo_nDCG": MeasureKind(metrics=_ndcg_of_scores, linear=_ndcg),  # people give no scores
    "AP": MeasureKind(metrics=_average_precision, parameters={"rel": _REL}),
    "RR": MeasureKind(
        metrics=lambda lists, cutoff, rel: _reciprocal_rank(lists.relevant(cutoff, rel)),
        parameters={"rel": _REL},
    ),
    "R": MeasureKind(
        metrics=_recall,
        cutoff="required",
        parameters={"rel": _REL, "k_gt": _COUNT},
        exclusive=True,
    ),
    "P": MeasureKind(
        linear=lambda cutoff, rel: _mean_of_first(cutoff, _binary(rel)),
        cutoff="required",
        parameters={"rel": _REL},
    ),
    "RBP": MeasureKind(  # Moffat & Zobel 2008, TOIS 27:2; ir_measures' other RBP has no rel
        linear=_rank_biased,
        parameters={"p": _CHANCE, "rel": replace(_REL, default=REQUIRED)},
    ),
    "Success": MeasureKind(
        metrics=lambda lists, cutoff, rel: lists.relevant(cutoff, rel).max(-1, initial=0.0),
        cutoff="required",
        parameters={"rel": _REL},
    ),
    "Rprec": MeasureKind(metrics=_r_precision, cutoff="none", parameters={"rel": _REL}),
    "ERR": MeasureKind(metrics=_expected_reciprocal_rank, parameters={"max_rel": _TOP}),
    "Grade": MeasureKind(linear=lambda cutoff: _mean_of_first(cutoff, _gain), cutoff="required"),
    "Judged": MeasureKind(metrics=_share_judged, about_labels=True),
    "Pairs": MeasureKind(metrics=_pairs, cutoff="none"),
}
"""The measures by name; ``Grade`` is the mean grade of the first k, unjudged ones counting 0."""
_OTHER_NAMES = {"MAP": "AP", "MRR": "RR", "Recall": "R", "Precision": "P"}
_BY_WORD = {name.lower(): name for name in MEASURES} | {
    word.lower(): name for word, name in _OTHER_NAMES.items()
}
"""The measure by each of its names in lower case, for people write them in any."""
_WRITTEN = re.compile(r"((?:.+:)?[^\W\d]\w*)\s*(?:\(([^()]*)\))?\s*(?:@\s*([\w.+-]+))?")
"""A name, perhaps of the user's own behind a module or a path; parameters; a cutoff."""


def parse_measures(texts: Iterable[str]) -> tuple[Measure, ...]:
    """Parse measures, without duplicates."""
    return tuple(dict.fromkeys(map(parse_measure, texts)))


def parse_measure(text: str) -> Measure:
    """Parse a measure, such as ``AP(rel=2)@100``; raise `OptionError` if there is no such one."""
    name, arguments = _split(text)
    if name not in MEASURES and name not in find_installed("measures"):
        name = _BY_WORD.get(name.lower(), name)
    kind = _load(name)
    allowed = {**_CUTOFFS[kind.cutoff], **kind.parameters}
    for unknown in arguments.keys() - allowed.keys():
        choices = ", ".join(allowed) or "none"
        raise OptionError(f"{text!r}: {name} has no parameter {unknown!r}; it has {choices}")
    values = dict[str, Any]()
    for key, parameter in allowed.items():
        value = arguments.get(key, parameter.default)
        if value is REQUIRED:
            raise OptionError(f"{text!r}: {name} needs a {key}: {parameter.what}")
        if key in arguments and not parameter.accepts(value):
            raise OptionError(f"{text!r}: {key} is {parameter.what}, not {value!r}")
        if value != parameter.default:
            is_integer = isinstance(value, float) and value.is_integer()
            values[key] = int(value) if is_integer else value
    cutoff = values.pop("cutoff", None)
    if len(values) > 1 and kind.exclusive:
        raise OptionError(f"{text!r}: {' and '.join(values)} exclude each other")
    return Measure(name, cutoff, tuple(values.items()))


def _split(text: str) -> tuple[str, dict[str, Any]]:
    """Split a measure into its name and its parameters as written, including the cutoff."""
    match = _WRITTEN.fullmatch(text.strip())
    try:
        if match:
            name, inside, cutoff = match.groups()
            written = [*(inside or "").split(","), f"cutoff={cutoff}" if cutoff else ""]
            pairs = [pair.partition("=") for pair in written if pair.strip()]
            arguments = {key.strip(): ast.literal_eval(value.strip()) for key, _, value in pairs}
            if len(arguments) == len(pairs):
                return name, arguments
    except (SyntaxError, ValueError):
        pass  # the error speaks of measures and not of Python
    raise OptionError(
        f"{text!r} is not a measure; write for example nDCG@10, AP(rel=2)@100 or R(k_gt=5)@10; "
        f"there are {', '.join(add_installed(MEASURES, 'measures'))}"
    )


def _load(name: str) -> MeasureKind:
    """Return a kind of measure by its name, or a plug-in, or raise `OptionError`."""
    if name in MEASURES:
        return MEASURES[name]
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
    """Compute the metrics of one run, [measures, queries], to 12 decimals.

    Of a ``relevance`` in place of the truth's own, [rows of the truth]; or of several, [draws,
    rows]: then metrics are [draws, measures, queries].

    Raises:
        OptionError: a measure of the user's own fails.
    """
    labels = np.asarray(ranking.truth.relevance if relevance is None else relevance, np.float64)
    draws = np.pad(np.atleast_2d(labels), ((0, 0), (0, 1)), constant_values=np.nan)
    metrics = np.empty((len(draws), len(measures), len(ranking.truth.query_ids)))
    for block in ranking.blocks:
        step = max(1, CHUNK_CELLS // (block.rows.size + block.judged.size))
        for start in range(0, len(draws), step):
            lists = Lists(block, draws[start : start + step])
            for i, measure in enumerate(measures):
                metrics[start : start + step, i, block.queries] = _measure(measure, lists)
    # Digits past the twelfth are rounding, which must not break a tie of two runs.
    metrics = np.round(metrics, 12)
    return metrics[0] if labels.ndim == 1 else metrics


def _measure(measure: Measure, lists: Lists) -> Floats:
    """Return the metrics of some queries, [draws, queries]."""
    metrics = measure.kind.metrics
    try:
        if metrics is None:
            return measure.linear.measure(lists)
        values = np.asarray(metrics(lists, measure.cutoff, **measure.arguments), np.float64)
    except Exception as error:
        if measure.name in MEASURES:
            raise
        raise OptionError(f"{measure} failed: {format_error(error)}") from None
    if values.shape != (wanted := lists.judged.shape[:-1]):
        raise OptionError(f"{measure}: metrics of shape {values.shape} instead of {wanted}")
    return values


def default_measures(truth: Truth) -> tuple[Measure, ...]:
    """Return the default measures for a truth of this kind, the main one first.

    Where relevance is binary, grades of the upper half of the scale are relevant: from 2 of 3 on,
    as in the TREC Deep Learning tracks.
    """
    if truth.kind == "scores":
        return parse_measures(["zelo_nDCG@10", "Pairs", "R(k_gt=5)@10", "Judged@10"])
    half = float(np.ceil(truth.relevance.max(initial=0))) / 2
    is_integer = (truth.relevance == np.floor(truth.relevance)).all()
    rel = max(1, int(np.ceil(half))) if is_integer else half  # 1.5 of mean grades up to 3
    relevant = [f"AP(rel={rel})", f"RR(rel={rel})@10", f"R(rel={rel})@20"]
    return parse_measures(["nDCG@10", *relevant, "Judged@10"])
