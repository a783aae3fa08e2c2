"""What the judgments of a run say of its judges, and of the scores that they come to."""

from collections.abc import Iterator, Sequence
from math import isnan, nan, sqrt

from zelo_ray.evaluation.wilson import wilson_of
from zelo_ray.formats.wording import counted
from zelo_ray.present.findings.finding import Finding
from zelo_ray.present.findings.panel import of_panel
from zelo_ray.present.findings.seen import Seen

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


def of_judging(seen: Seen) -> Iterator[Finding]:
    """All that makes the scores of a run less than they look."""
    yield from demonstration(seen.judges, "judges")
    yield from of_panel(seen)
    told = [*_flat(seen), *_order(seen)]
    yield from told
    if not any(one.harm >= LOST for one in told):  # more of the same would mend nothing
        yield from _noise(seen)
    yield from _split(seen)
    yield from _ties(seen)


def demonstration(
    judges: Sequence[str], target: str, whose: str = "of this run", again: str = "Name"
) -> Iterator[Finding]:
    """Judges that are no models: what they say is no evidence.

    Args:
        judges: all; what is no judge, such as a panel or labels, has no colon and is left out.
        target: the section.
        whose: of what they are the judges.
        again: how other ones are named: "Name models that read: --judges openai:MODEL".
    """
    judges = [name for name in judges if ":" in name]
    kinds = {kind: [n for n in judges if n.partition(":")[0] == kind] for kind in _KINDS}
    kinds = {kind: own for kind, own in kinds.items() if own}
    if not kinds:
        return
    count = sum(map(len, kinds.values()))
    whole = count == len(judges)
    if count == 1:
        [(kind, [name])] = kinds.items()
        what = f"{name} {_KINDS[kind][0]}"
    elif whole and len(kinds) == 1:
        what = f"Every judge {whose} {_KINDS[next(iter(kinds))][0]}"
    else:
        each = [f"{len(own)} {_KINDS[kind][len(own) > 1]}" for kind, own in kinds.items()]
        of = "Every judge" if whole else f"{count} of {counted(len(judges), 'judge')}"
        are = "is a demonstration" if whole else "are demonstrations"
        what = f"{of} {whose} {are} ({'; '.join(each)})"
    follows = "take this for a demonstration, and no number of it for a measurement"
    if {*kinds} == {"recorded"}:
        follows = "these are recordings, and say nothing of what the model would answer now"
    elif not whole:
        follows = "the scores are in part a demonstration"
    yield Finding(
        75 if whole else 45,
        what,
        follows,
        f"{again} models that read: --judges openai:MODEL",
        target,
    )


def _flat(seen: Seen) -> Iterator[Finding]:
    for judge, what in seen.flat.items():
        alone = len(seen.judges) == 1
        yield Finding(
            85 if alone else 65,
            f"{judge} {what}",
            "it tells nothing, and the scores rest on nothing" if alone else "it tells nothing",
            "Read what it says (zelo-ray explain), then put another model in its place",
            "judges",
        )


def _noise(seen: Seen) -> Iterator[Finding]:
    share = noise_of(seen.error, seen.spread * (1 + 1.96 / sqrt(2 * seen.freedom)), seen.prior)
    if share > NOISE:
        yield Finding(
            66,
            f"Most of the spread of the scores of a query, {seen.spread:.2f} {seen.unit}, is noise "
            f"(the standard error of a score is {seen.error:.2f})",
            "many ranks would be others if the same judges answered anew",
            f"{seen.more}; zelo-ray size tells by how much before it is paid",
            "uncertain",
        )


def noise_of(error: float, spread: float, prior: float) -> float:
    """Which share of the variance of posterior means is noise.

    With a prior of variance P and an error of variance s, a mean is shrunk by k = P / (P + s). The
    posterior variance e is k s, so that k = 1 - e / P, and the noise left in means is k^2 s = k e.
    A wide prior hardly shrinks: then it is e. Where the prior is not known, it is taken for the
    true spread, by which posterior means and errors add up to P.
    """
    if isnan(prior):
        prior = sqrt(spread**2 + error**2)
    variance, whole = error**2, spread**2
    return max(0.0, 1 - variance / prior**2) * variance / whole if whole else nan


def _order(seen: Seen) -> Iterator[Finding]:
    for judge, (first, votes) in seen.first.items():
        if votes < FEWEST:
            continue
        low, high = wilson_of(first, votes)
        if max(first, votes - first) >= ALWAYS * votes:
            yield _always(judge, first / votes, alone=len(seen.judges) == 1)
        elif low > 0.5 + ORDER or high < 0.5 - ORDER:
            both = seen.both_orders
            so = "its comparisons tell less about the documents"
            if both:
                so = "its two orders cancel out, and what is left of the pair is often a tie"
            yield prefers_place(judge, _of(first / votes, low, high), so, seen.orders, both=both)


def _always(judge: str, share: float, *, alone: bool) -> Finding:
    side, share = ("A", share) if share > 0.5 else ("B", 1 - share)
    return Finding(
        82 if alone else 68,
        f"{judge} says {side}, whatever stands there, in {share:.0%} of its votes",
        "its answers follow the order alone; "
        + ("these scores are noise" if alone else "they add noise to the panel"),
        "Put another model in its place (--judges)",
        "agreement",
    )


def prefers_place(
    judge: str, span: str, so: str, orders: str = "", *, both: bool = False
) -> Finding:
    """A judge whose votes the order sways; where both orders are asked, that does less harm.

    Args:
        judge: its name.
        span: the share of what came first, with its interval.
        so: what follows.
        orders: what asks each pair in both orders; empty where nothing does.
        both: whether that is done.
    """
    share = float(span.split(maxsplit=1)[0])
    return Finding(
        (40 if both else 55) + abs(share - 0.5),
        f"{judge} prefers what comes {'first' if share > 0.5 else 'second'}: what came first won "
        f"{span} of the time instead of .50",
        so,
        (f"{orders}, or put" if orders and not both else "Put") + " another model in its place",
        "agreement",
    )


def _split(seen: Seen) -> Iterator[Finding]:
    count, scored = seen.split
    if scored and wilson_of(count, scored)[0] > SPLIT:
        yield Finding(
            44 + count / scored,
            f"The judges are split on {count:,} of {counted(scored, 'document')} "
            f"({count / scored:.0%})",
            "the panel's grade there is a compromise between different readings",
            "Read some of them; zelo-ray convert qrels DIR --grades --without-ambiguous leaves "
            "them out",
            "ambiguous",
        )


def _ties(seen: Seen) -> Iterator[Finding]:
    tied, votes = seen.tied
    if votes and wilson_of(tied, votes)[0] > TIES:
        yield Finding(
            42,
            f"{tied / votes:.0%} of {counted(votes, 'comparison')} are ties",
            "most calls say nothing of which document is better",
            "Give the judges a rubric that tells the documents apart, or grade them instead "
            "(--protocol graded)",
            "queries",
        )


def _of(share: float, low: float, high: float) -> str:
    """A share and its interval: .37 [.34, .40]."""
    one, *ends = (f"{value:.2f}".removeprefix("0") for value in (share, max(low, 0), min(high, 1)))
    return f"{one} [{', '.join(ends)}]"
