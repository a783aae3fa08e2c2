"""Turn judgments into whole grades from 0 on, which most tools need, by a rule that is said."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zelo_ray.errors import InputError
from zelo_ray.formats.interchange.pooling import columns
from zelo_ray.formats.judgments.graded import has_grades, has_logits, read_absolute, read_graded
from zelo_ray.formats.judgments.labels import read_labels
from zelo_ray.options import ConvertOptions

_RULES = "--levels 4 makes whole grades of them, and so do --cut and --human"
_ONE_SCALE = "give the --out of annotate --protocol zelo+graded, lean, auto or graded"
_FEWEST_LABELS = 20


@dataclass(frozen=True, slots=True)
class WholeGrades:
    """Judgments with whole grades (the columns of `records.Qrel`), and the rule that made them."""

    qrels: pa.Table
    rule: str


def are_whole(qrels: pa.Table, decimals: int | None = None) -> bool:
    """Return whether all relevance, rounded to so many decimals, is whole and not negative."""
    values = qrels["relevance"].to_numpy()
    values = values if decimals is None else np.round(values, decimals)
    return bool((values >= 0).all() and (values == np.floor(values)).all())


def describe_span(qrels: pa.Table) -> str:
    """Return the lowest and the highest relevance, as words of a sentence."""
    values = qrels["relevance"].to_numpy()
    return f"{values.min():.4g} to {values.max():.4g}" if len(values) else "nothing"


def describe_rules(source: str) -> str:
    """Return what makes whole grades of a place's scores, as the end of a sentence."""
    if read_absolute(source) is None and has_logits(source):
        return f"no rule makes grades of them, since their 0 is each query's own mean: {_ONE_SCALE}"
    return _RULES


def make_whole_grades(options: ConvertOptions, qrels: pa.Table) -> WholeGrades:
    """Return whole grades of judgments by the rule that the options name, or by the usual one.

    Args:
        options: their ``levels``, ``cut`` and ``human`` name a rule.
        qrels: the judgments as they were read, the columns of `records.Qrel`.

    Raises:
        InputError: no rule is named and grades are not whole, or scores share no zero for all
            queries, or there are too few labels to learn a rule from.
    """
    source = options.source
    if not (options.levels or options.cut or options.human):
        if has_grades(source):
            return WholeGrades(_as_qrels(read_graded(source)), "the panel's whole grades")
        if are_whole(qrels):
            return WholeGrades(qrels, "")
        raise InputError(
            f"{source}: relevance is {describe_span(qrels)}, not whole grades from 0 on; "
            f"{describe_rules(source)}"
        )
    scores = _scores_on_one_scale(source, qrels)
    values = scores["relevance"].to_numpy()
    if options.cut:
        cuts, rule = np.array(options.cut), f"cut at {_listed(options.cut)}"
    elif options.human:
        cuts = _cuts_of_people(options, scores)
        rule = f"cut at {_listed(cuts)}, where shares of grades are those of {options.human}"
    else:
        levels = options.levels or 2
        shares = np.arange(1, levels) / levels
        cuts = np.quantile(values, shares)
        rule = f"quantiles of all scores: cut at {_listed(cuts)}"
    grades = np.searchsorted(cuts, values, side="right").astype(np.float64)
    table = scores.set_column(2, "relevance", pa.array(grades))
    return WholeGrades(
        table.set_column(3, "std_error", pa.array(np.full(len(grades), np.nan))), rule
    )


def _scores_on_one_scale(source: str, qrels: pa.Table) -> pa.Table:
    """Return scores that can be compared between queries.

    Raises:
        InputError: they are battles' scores without an anchor, whose 0 is each query's mean.
    """
    absolute = read_absolute(source)
    if absolute is not None:
        return absolute
    if has_logits(source):
        raise InputError(
            f"{source}: its scores share no zero from query to query, so that no cut fits all: "
            f"{_ONE_SCALE}"
        )
    return qrels


def _cuts_of_people(options: ConvertOptions, scores: pa.Table) -> NDArray[np.float64]:
    """Return cuts at which labelled documents have each grade as often as people gave it.

    A label that was drawn with a known probability counts for as many as it stands for.

    Raises:
        InputError: too few labelled documents have a score, or they all have one grade.
    """
    labels = read_labels(options.human or "").rows
    score_of = {(q, d): s for q, d, s in columns(scores, "query_id", "doc_id", "relevance")}
    rows = [
        (score_of[q, d], grade, 1 / (probability or 1.0))
        for q, d, grade, probability in columns(
            labels, "query_id", "doc_id", "grade", "probability"
        )
        if (q, d) in score_of
    ]
    if len(rows) < _FEWEST_LABELS:
        raise InputError(
            f"{options.human}: labels {len(rows)} of the documents of {options.source}; a scale "
            f"takes {_FEWEST_LABELS}"
        )
    values, grades, weights = (np.array(column) for column in zip(*rows, strict=True))
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order]) - weights[order] / 2
    levels = np.arange(1, round(grades.max()) + 1)
    wanted = [weights[grades < level - 0.5].sum() for level in levels]
    if not levels.size:
        raise InputError(f"{options.human}: all labels are 0, which makes no scale")
    cuts: NDArray[np.float64] = np.interp(wanted, below, values[order])
    return cuts


def _as_qrels(graded: pa.Table) -> pa.Table:
    return graded.select(["query_id", "doc_id", "relevance", "std_error"])


def _listed(cuts: Sequence[float] | NDArray[np.float64]) -> str:
    return ", ".join(f"{cut:.3g}" for cut in cuts)
