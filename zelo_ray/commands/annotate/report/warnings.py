"""Warn of judges, and of scores, that are less than they look."""

from collections.abc import Iterator
from math import isnan, nan, sqrt

from zelo_ray.commands.annotate.report.asking_warnings import warn_of_asking
from zelo_ray.commands.annotate.report.judging import judging_figures
from zelo_ray.commands.annotate.report.panel_warnings import (
    FEWEST,
    JudgingFigures,
    format_span,
    warn_of_panel,
)
from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.evaluation.wilson import wilson_of
from zelo_ray.formats.wording import counted
from zelo_ray.reports.demonstration import warn_of_demonstration
from zelo_ray.reports.warning import ORDER, RankedWarnings, ResultWarning, rank_warnings
from zelo_ray.reports.warning_codes import Value, WarningCode

NOISE = 0.5
"""Above this share of noise, more of how far scores lie apart is noise than is not."""
SPLIT = 0.1
"""From one document in ten that judges are split on, leaving them out changes what is measured."""
TIES = 0.5
"""Where most votes are ties, most calls said nothing of the order."""
ALWAYS = 0.95
"""From this share on one side, the few other votes are no more than slips."""
LOST = 80
"""The harm from which on there is no result."""


def warn_of_judging(figures: JudgingFigures) -> Iterator[ResultWarning]:
    """Yield a warning for all that makes the scores of a run less than they look."""
    yield from warn_of_demonstration(figures.judges, "judges")
    yield from warn_of_panel(figures)
    useless = [*_says_one_thing(figures), *_order(figures)]
    yield from useless
    if not any(warning.harm >= LOST for warning in useless):  # more of the same mends nothing
        yield from _noise(figures)
    yield from _split(figures)
    yield from _ties(figures)


def _says_one_thing(figures: JudgingFigures) -> Iterator[ResultWarning]:
    alone = len(figures.judges) == 1
    scores = ", and the scores rest on nothing" if alone else ""
    for judge, habit in figures.flat.items():
        values = {"judge": judge, "habit": habit, "scores": scores}
        yield ResultWarning(WarningCode.JUDGE_SAYS_ONE_THING, values, 20 * alone)


def _noise(figures: JudgingFigures) -> Iterator[ResultWarning]:
    at_most = figures.spread * (1 + 1.96 / sqrt(2 * figures.freedom))
    if noise_of(figures.error, at_most, figures.prior) > NOISE:
        names = ("spread", "unit", "error", "more")
        values: dict[str, Value] = {name: getattr(figures, name) for name in names}
        yield ResultWarning(WarningCode.MOSTLY_NOISE, values)


def noise_of(error: float, spread: float, prior: float) -> float:
    """Return which share of the variance of posterior means is noise.

    With a prior of variance P and an error of variance s, a mean is shrunk by k = P / (P + s). The
    posterior variance e is k s, so that k = 1 - e / P, and the noise left in means is k^2 s = k e.
    A wide prior hardly shrinks: then it is e. Where the prior is not known, it is taken for the
    true spread, by which posterior means and errors add up to P.
    """
    if isnan(prior):
        prior = sqrt(spread**2 + error**2)
    variance, total = error**2, spread**2
    return max(0.0, 1 - variance / prior**2) * variance / total if total else nan


def _order(figures: JudgingFigures) -> Iterator[ResultWarning]:
    for judge, (first, votes) in figures.first.items():
        if votes < FEWEST:
            continue
        low, high = wilson_of(first, votes)
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
    """Return a warning of a judge whose votes the order sways; both orders make it less harmful."""
    twice, orders = figures.both_orders, figures.orders
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


def _split(figures: JudgingFigures) -> Iterator[ResultWarning]:
    split, scored = figures.split
    if scored and wilson_of(split, scored)[0] > SPLIT:
        share = split / scored
        values: dict[str, Value] = {"split": split, "share": share}
        values["documents"] = counted(scored, "document")
        yield ResultWarning(WarningCode.JUDGES_SPLIT, values, share)


def _ties(figures: JudgingFigures) -> Iterator[ResultWarning]:
    tied, votes = figures.tied
    if votes and wilson_of(tied, votes)[0] > TIES:
        values: dict[str, Value] = {"share": tied / votes}
        values["comparisons"] = counted(votes, "comparison")
        yield ResultWarning(WarningCode.MOSTLY_TIES, values)


def rank_of_annotation(results: AnnotateResults) -> RankedWarnings:
    """Rank the warnings of a run that judged documents: what is missing, and its judges."""
    coverage = results.options.get("min_coverage", 0.5)
    asking = warn_of_asking(results.summary, coverage, _first_rejected(results))
    return rank_warnings(
        [*asking, *warn_of_judging(judging_figures(results))],
        "answers that are missing, input lines, order and ties, judges that contradict each "
        "other or say the same, and standard errors were looked at",
    )


def _first_rejected(results: AnnotateResults) -> str:
    if not (results.summary.rejected and results.source.has("rejected.parquet")):
        return ""
    rows, _ = results.source.head("rejected", 1)
    return f"{rows[0]['file']}:{rows[0]['line']}, {rows[0]['reason']}" if rows else ""
