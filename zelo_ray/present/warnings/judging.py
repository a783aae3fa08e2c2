"""Warn of judges, and of scores, that are less than they look."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan, nan, sqrt

from zelo_ray.evaluation.wilson import wilson_of
from zelo_ray.formats.wording import counted
from zelo_ray.present.warnings.judging_figures import JudgingFigures
from zelo_ray.present.warnings.panel import warn_of_panel
from zelo_ray.present.warnings.sentences import Value, WarningCode
from zelo_ray.present.warnings.warning import ResultWarning

ORDER = 0.05
"""How far from 1/2 the whole interval of the share of what came first must lie. A judge with .45 or
.55 turns one vote in ten by the order alone; less than that is lost among its other errors."""
FEWEST = 30
"""Votes below which nothing is said of the order: of many judges with five votes each, some prefer
one side every time by chance."""
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
_KINDS = {
    "offline": ("sees words only", "see words only"),
    "simulated": (
        "answers by drawing numbers, as its options say, and reads nothing",
        "answer by drawing numbers, as their options say, and read nothing",
    ),
    "recorded": (
        "plays answers back that were recorded, and is asked nothing",
        "play answers back that were recorded, and are asked nothing",
    ),
}


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


def warn_of_demonstration(
    judges: Sequence[str], section: str, whose: str = "of this run", again: str = "Name"
) -> Iterator[ResultWarning]:
    """Yield a warning for judges that are no models: what they say is no evidence.

    Args:
        judges: all; what is no judge, such as a panel or labels, has no colon and is left out.
        section: the page's section.
        whose: of what they are the judges.
        again: how other ones are named: "Name models that read: --judges openai:MODEL".
    """
    judges = [name for name in judges if ":" in name]
    kinds = {kind: [n for n in judges if n.partition(":")[0] == kind] for kind in _KINDS}
    kinds = {kind: names for kind, names in kinds.items() if names}
    if not kinds:
        return
    count = sum(map(len, kinds.values()))
    all_of_them = count == len(judges)
    consequence = "take this for a demonstration, and no number of it for a measurement"
    if {*kinds} == {"recorded"}:
        consequence = "these are recordings, and say nothing of what the model would answer now"
    elif not all_of_them:
        consequence = "the scores are in part a demonstration"
    values = {
        "judges": _describe(kinds, len(judges), whose),
        "consequence": consequence,
        "again": again,
        "section": section,
    }
    yield ResultWarning(WarningCode.DEMONSTRATION, values, 30 * all_of_them)


def _describe(kinds: Mapping[str, Sequence[str]], judges: int, whose: str) -> str:
    """Say of judges that are no models what they do instead of reading."""
    count = sum(map(len, kinds.values()))
    if count == 1:
        [(kind, [name])] = kinds.items()
        return f"{name} {_KINDS[kind][0]}"
    if count == judges and len(kinds) == 1:
        return f"Every judge {whose} {_KINDS[next(iter(kinds))][0]}"
    habits = "; ".join(f"{len(n)} {_KINDS[kind][len(n) > 1]}" for kind, n in kinds.items())
    if count == judges:
        return f"Every judge {whose} is a demonstration ({habits})"
    return f"{count} of {counted(judges, 'judge')} {whose} are demonstrations ({habits})"


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
        "span": _of(share, low, high),
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


def _of(share: float, low: float, high: float) -> str:
    """Return a share and its interval: .37 [.34, .40]."""
    middle, *ends = (
        f"{value:.2f}".removeprefix("0") for value in (share, max(low, 0), min(high, 1))
    )
    return f"{middle} [{', '.join(ends)}]"
