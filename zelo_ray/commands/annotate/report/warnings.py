"""Warn of judges with biases, and of scores that are mostly noise."""

from collections.abc import Collection, Iterator, Mapping
from math import atanh, isfinite, isnan, nan, sqrt, tanh
from typing import Any

import numpy as np

from zelo_ray.commands.annotate.report.asking_warnings import warn_of_asking
from zelo_ray.commands.annotate.report.judge_agreement import mean_agreement, measured_judges
from zelo_ray.commands.annotate.report.panel_warnings import (
    FEWEST,
    JudgingFigures,
    Span,
    format_span,
    warn_of_panel,
)
from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.evaluation.significance import share_interval
from zelo_ray.fitting.effective_judges import grade_correlation
from zelo_ray.reports.demonstration import warn_of_demonstration
from zelo_ray.reports.warning import ORDER, RankedWarnings, ResultWarning, rank_warnings
from zelo_ray.reports.warning_codes import Value, WarningCode

_Z = 1.959964


NOISE = 0.5
"""Above this share, more of the variance of scores is noise than is not."""
ALWAYS = 0.95
"""From this share for one side on, the order alone decides."""
LOST = 80
"""The harm from which on the results are of no use."""


def warn_of_judging(figures: JudgingFigures) -> Iterator[ResultWarning]:
    """Yield a warning for everything that makes the scores of a run unreliable."""
    yield from warn_of_demonstration(figures.judges, "judges")
    yield from warn_of_panel(figures)
    useless = [*_says_one_thing(figures), *_order(figures)]
    yield from useless
    if not any(
        warning.harm >= LOST for warning in useless
    ):  # more judgments of such judges would not help
        yield from _noise(figures)


def _says_one_thing(figures: JudgingFigures) -> Iterator[ResultWarning]:
    alone = len(figures.judges) == 1
    scores = ", and the scores rest on nothing" if alone else ""
    for judge, habit in figures.one_answer.items():
        values = {"judge": judge, "habit": habit, "scores": scores}
        yield ResultWarning(WarningCode.JUDGE_SAYS_ONE_THING, values, 20 * alone)


def _noise(figures: JudgingFigures) -> Iterator[ResultWarning]:
    at_most = figures.spread * (1 + 1.96 / sqrt(2 * figures.degrees_of_freedom))
    if noise_of(figures.error, at_most, figures.prior) > NOISE:
        names = ("spread", "unit", "error", "more")
        values: dict[str, Value] = {name: getattr(figures, name) for name in names}
        yield ResultWarning(WarningCode.MOSTLY_NOISE, values)


def noise_of(error: float, spread: float, prior: float) -> float:
    """Return which share of the variance of posterior means is noise.

    With a prior of variance P and an error of variance s, a mean is shrunk by k = P / (P + s). The
    posterior variance e is k s, so that k = 1 - e / P, and the noise left in means is k^2 s = k e.
    A wide prior hardly shrinks: then it is e. If the prior is unknown, the true spread is used in
    its place, as posterior means and errors add up to it.
    """
    if isnan(prior):
        prior = sqrt(spread**2 + error**2)
    variance, total = error**2, spread**2
    return max(0.0, 1 - variance / prior**2) * variance / total if total else nan


def _order(figures: JudgingFigures) -> Iterator[ResultWarning]:
    for judge, (first, votes) in figures.first_wins.items():
        if votes < FEWEST:
            continue
        low, high = share_interval(first, votes)
        if max(first, votes - first) >= ALWAYS * votes:
            yield _follows_order(judge, first / votes, alone=len(figures.judges) == 1)
        elif low > 0.5 + ORDER or high < 0.5 - ORDER:
            yield _prefers_place(judge, first / votes, low, high, figures)


def _follows_order(judge: str, share: float, *, alone: bool) -> ResultWarning:
    side, share = ("A", share) if share > 0.5 else ("B", 1 - share)
    scores = "these scores are noise" if alone else "they add noise to the panel"
    values: dict[str, Value] = {"judge": judge, "side": side, "share": share, "scores": scores}
    return ResultWarning(WarningCode.JUDGE_FOLLOWS_ORDER, values, 14 * alone)


def _prefers_place(
    judge: str, share: float, low: float, high: float, figures: JudgingFigures
) -> ResultWarning:
    """Warn of a judge with position bias; it is less harmful if both orders were asked."""
    twice, orders = figures.both_orders, figures.order_advice
    consequence = "its comparisons tell less about the documents"
    if twice:
        consequence = "its two orders cancel out, and what is left of the pair is often a tie"
    values = {
        "judge": judge,
        "place": "first" if share > 0.5 else "second",
        "span": format_span(share, max(low, 0), min(high, 1)),
        "consequence": consequence,
        "advice": f"{f'{orders}, or put' if orders and not twice else 'Put'} another model in its "
        "place",
        "section": "agreement",
    }
    return ResultWarning(WarningCode.JUDGE_PREFERS_PLACE, values, abs(share - 0.5) - 15 * twice)


def rank_annotation_warnings(results: AnnotateResults) -> RankedWarnings:
    """Rank the warnings of a run that judged documents: what is missing, and its judges."""
    coverage = results.options.get("min_coverage", 0.5)
    asking = warn_of_asking(results.summary, coverage, _first_rejected(results))
    figures = collect_judging_figures(results)
    return rank_warnings(
        [*asking, *warn_of_judging(figures)],
        "answers that are missing, input lines, order, judges that contradict each other or "
        "say the same, and standard errors were looked at",
    )


def _first_rejected(results: AnnotateResults) -> str:
    if not (results.summary.rejected and results.source.has("rejected.parquet")):
        return ""
    rows, _ = results.source.head("rejected", 1)
    return f"{rows[0]['file']}:{rows[0]['line']}, {rows[0]['reason']}" if rows else ""


def collect_judging_figures(results: AnnotateResults) -> JudgingFigures:
    """Collect the figures of a run; those that are unknown are left out."""
    panel, scores, options = results.panel, results.scores, results.options
    protocol_options = results.protocol.own_options
    error = scores.finite_values("std_error")
    return JudgingFigures(
        judges=[*dict.fromkeys((*results.run["judges"], *measured_judges(results)))],
        first_wins={
            name: (panel.first[name], votes) for name, votes in sorted(panel.votes.items())
        },
        both_orders=bool(options.get("both_orders")) or options.get("repeats", 1) > 1,
        one_answer=_flat(results),
        pair_agreement={
            two: (panel.agreed[two] / pairs, *share_interval(panel.agreed[two], pairs))
            for two, pairs in sorted(panel.pairs.items())
            if pairs
        },
        grade_correlations=_alike(results),
        mean_agreement=mean_agreement(results),
        error=float(error.mean()) if len(error) else nan,
        spread=_spread(results),
        prior=options.get("prior_sd") or nan,
        degrees_of_freedom=max(1, len(error) - len(scores.query_ids)),
        unit=results.unit,
        more=_more(protocol_options, options, _documents(results)),
        order_advice=_orders(protocol_options),
    )


def _flat(results: AnnotateResults) -> dict[str, str]:
    """Find judges that always gave the same answer, too often for chance."""
    panel, by_judge = results.panel, dict[str, str]()
    for name, counts in sorted(results.gradings.counts.items()):
        if counts.sum() >= FEWEST and counts.max() == counts.sum():
            by_judge[name] = f"gave grade {counts.argmax()} to every document"
    for name, votes in sorted(panel.votes.items()):
        if votes >= FEWEST and panel.tied[name] == votes and name not in by_judge:
            by_judge[name] = "called every comparison a tie"
    return by_judge


def _documents(results: AnnotateResults) -> int:
    """Return the median number of documents of a query."""
    scores = results.scores
    sizes = np.diff(np.append(scores.starts, len(scores.columns.get("score", ()))))
    return int(np.median(sizes)) if len(sizes) else 0


def _more(option_names: Collection[str], options: Mapping[str, Any], documents: int) -> str:
    """Say which options of the protocol make scores more certain."""
    if "calls_per_document" in option_names and options.get("calls_per_document"):
        return f"--calls-per-document {2 * options['calls_per_document']} asks more"
    again = (
        "--repeats 2 and more judges ask more"
        if "repeats" in option_names
        else "More judges ask more"
    )
    if "cycles" in option_names and (cycles := options.get("cycles")):
        if 2 * cycles >= documents - 1:  # every pair is asked
            return again
        return f"--cycles {2 * cycles} asks up to twice as much"
    return again


def _orders(option_names: Collection[str]) -> str:
    """Say which option of the protocol asks each pair in both orders; "" if none does."""
    if "both_orders" in option_names:
        return "Ask each pair in both orders (--both-orders)"
    return "Ask each pair in both orders (--repeats 2)" if "repeats" in option_names else ""


def _alike(results: AnnotateResults) -> dict[tuple[str, str], Span]:
    """Return the correlation of every two judges' grades, with its interval (Fisher's z)."""
    correlations = {}
    for two, table in sorted(results.gradings.confusion.items()):
        r, items = grade_correlation(table), int(table.sum())
        if isfinite(r) and items > 3:
            z, reach = atanh(np.clip(r, -0.999999, 0.999999)), _Z / sqrt(items - 3)
            correlations[two] = (r, tanh(z - reach), tanh(z + reach))
    return correlations


def _spread(results: AnnotateResults) -> float:
    """Return the root mean square of scores' standard deviations per query; NaN where unknown."""
    scores = results.scores
    values, first = scores.columns.get("score"), scores.starts
    if values is None or not len(values):
        return nan
    sizes = np.diff(np.append(first, len(values)))
    means = np.add.reduceat(values, first) / sizes
    apart = np.add.reduceat((values - np.repeat(means, sizes)) ** 2, first)
    mask = (sizes > 1) & np.isfinite(apart)
    return sqrt(float(np.mean(apart[mask] / (sizes[mask] - 1)))) if mask.any() else nan
