"""Say which arm leads a contest, and how sure that is."""

from collections.abc import Iterator, Sequence

from zelo_ray.commands.bakeoff.report.results import Contest
from zelo_ray.commands.bakeoff.report.significance import PHRASES
from zelo_ray.commands.bakeoff.significance import Significance, significance_of
from zelo_ray.evaluation.significance import FEWEST, TIE
from zelo_ray.formats.wording import counted
from zelo_ray.records import Comparison
from zelo_ray.report.wording import chance, estimate, short

_NAMED = 5


def outcome(contest: Contest) -> Iterator[str]:
    """Yield sentences on the leader, its lead over the next arm, and over the others."""
    leading, arms = contest.summary["leading"], contest.arms
    if not arms:
        yield "No arm has a result."
        return
    means = contest.means[leading]
    best = means[arms[0]]
    figure = estimate(best["mean"], best["low"], best["high"])
    if len(arms) == 1:
        yield f"{arms[0]} reaches {leading} {figure}. It is the only arm: nothing to compare."
        return
    first = [arm for arm in arms if abs(best["mean"] - means[arm]["mean"]) <= TIE]
    who = "It"
    if len(first) > 1:
        who = arms[0]
        yield f"{_listed(first)} share the highest {leading}, {figure}."
    else:
        yield f"{arms[0]} has the highest {leading}, {figure}."
    rivals = [rival for rival in contest.rivals(leading, arms[0]) if rival.run_b not in first]
    if rivals and all(significance_of(rival) is Significance.TOO_FEW_QUERIES for rival in rivals):
        queries = counted(max(rival.queries for rival in rivals), "query", "queries")
        yield f"A comparison takes {FEWEST} queries that both arms ranked; here are {queries}."
    elif rivals:
        yield _next(who, rivals[0], contest)
        yield from _others(who, rivals[1:], contest)


def absences(contest: Contest) -> Iterator[str]:
    """Yield the notes on arms; a warning covers arms that did not answer every query."""
    arms = [arm for arm in contest.summary["arms"] if arm["note"]]
    for arm in arms[:_NAMED]:
        yield f"{arm['name']}: {short(arm['note'], 300)}."
    if len(arms) > _NAMED:
        yield f"The leaderboard tells of {len(arms) - _NAMED} more."


def _next(who: str, comparison: Comparison, contest: Contest) -> str:
    """Compare the leader, A, with the next arm."""
    rival = f"the next, {comparison.run_b}{contest.common(comparison)}"
    side = "above" if comparison.difference > 0 else "below"
    match significance_of(comparison):
        case Significance.TOO_FEW_QUERIES:
            return f"{who} cannot be compared with {rival}: that takes {FEWEST}."
        case Significance.ABOVE:
            text = f"{who} is above {rival}"
        case Significance.BELOW:
            ranked = f"On the {comparison.queries:,} queries that both ranked"
            text = f"{ranked}, {comparison.run_b} is above it"
        case Significance.NOT_SIGNIFICANT:
            text = f"{who} does not differ significantly from {rival}"
        case Significance.LABELS_COULD_TURN_IT:
            text = (
                f"{who} is {side} {rival}, on these labels, but other answers of the judges could "
                f"turn that (it is above in {comparison.p_labels:.0%} of the draws of the labels)"
            )
        case Significance.ONLY_BY_KIN:
            text = f"{who} is {side} {rival}, but without {comparison.kin} that is not sure"
    return (
        f"{text}: {estimate(comparison.difference, comparison.low, comparison.high, '+.3f')}, "
        f"P({comparison.run_a} is better) {chance(comparison.p_better)}, "
        f"p {comparison.p_holm:.2g} corrected for all comparisons."
    )


def _others(who: str, rivals: Sequence[Comparison], contest: Contest) -> Iterator[str]:
    """Compare the leader, A, with the arms that come later."""
    phrases = []
    for kind, phrase in PHRASES.items():
        alike = [
            rival.run_b + contest.common(rival)
            for rival in rivals
            if significance_of(rival) is kind
        ]
        if alike:
            everyone = len(alike) == len(rivals) > _NAMED
            phrases.append(
                phrase.format(f"all {len(alike)} others" if everyone else _listed(alike))
            )
    if phrases:
        yield f"{who} {'; it '.join(phrases)}."


def _listed(names: Sequence[str]) -> str:
    """Join names in a sentence; of many, the first ones and the number of the others."""
    shown = [*names[:_NAMED], *([f"{len(names) - _NAMED} more"] if len(names) > _NAMED else [])]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
