"""What the judgments of a run say of its judges, and of the scores that they come to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan, sqrt

from zelo_ray.evaluation.wilson import wilson_of
from zelo_ray.formats.wording import counted
from zelo_ray.present.findings.finding import Finding

ORDER = 0.05
"""How far from 1/2 the whole interval of the share of what came first must lie. A judge with .45 or
.55 turns one vote in ten by the order alone; less than that is lost among its other errors."""
FEWEST = 30
"""Votes below which nothing is said of the order: of many judges with five votes each, some prefer
one side every time by chance."""
AGAINST = 0.45
"""Below this share of agreement with the others (coins reach .5) a judge says the opposite."""
AGAINST_GRADES = -0.1
"""The same of the correlation of its grades with theirs."""
WORTH = 2 / 3
"""Of a panel that is worth fewer than two thirds of its judges at best, a third is paid in vain."""
SPLIT = 0.1
"""From one document in ten that judges are split on, leaving them out changes what is measured."""
TIES = 0.5
"""Where most votes are ties, most calls said nothing of the order."""
_KINDS = {
    "offline": "sees words only",
    "simulated": "answers by drawing numbers, as its options say, and reads nothing",
    "recorded": "plays answers back that were recorded, and is asked nothing",
}
_MANY = {
    "offline": "see words only",
    "simulated": "answer by drawing numbers, as their options say, and read nothing",
    "recorded": "play answers back that were recorded, and are asked nothing",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What judgments came to, as far as it is known.

    Attributes:
        judges: all that were asked.
        first: by judge, how many of its votes went to what came first (a tie for half), and votes.
        both_orders: whether each pair was asked in both orders.
        tied: ties among all votes, and votes; of (0, 0) nothing is known.
        agreed: by judge, on how many pairs it agrees with another (a tie for half), and pairs.
        alike: by judge, the interval of the correlation of its grades with the others'.
        worth: how many judges that err apart the panel counts for, from and to.
        split: documents that judges are split on, and documents scored.
        error: mean standard error of the scores.
        spread: how far apart the scores of a query are, as a standard deviation.
        freedom: the degrees of freedom that it rests on.
        unit: of both.
        more: what makes them surer.
        orders: what asks each pair in both orders; empty where nothing does.
    """

    judges: Sequence[str] = ()
    first: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    both_orders: bool = False
    tied: tuple[int, int] = (0, 0)
    agreed: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    alike: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    worth: tuple[float, float] = (nan, nan)
    split: tuple[int, int] = (0, 0)
    error: float = nan
    spread: float = nan
    freedom: int = 1
    unit: str = "logits"
    more: str = "More judgments make it smaller"
    orders: str = ""


def of_judging(seen: Seen) -> Iterator[Finding]:
    """All that makes the scores of a run less than they look."""
    yield from demonstration(seen.judges, "judges")
    yield from _inverted(seen)
    yield from _noise(seen)
    yield from _order(seen)
    yield from _together(seen)
    yield from _split(seen)
    yield from _ties(seen)


def demonstration(judges: Sequence[str], target: str) -> Iterator[Finding]:
    """Judges that are no models: what they say is no evidence."""
    judges = [name for name in judges if ":" in name]  # the others are panels and labels
    for kind, one in _KINDS.items():
        own = [name for name in judges if name.partition(":")[0] == kind]
        if not own:
            continue
        whole = len(own) == len(judges)
        who = own[0] if len(own) == 1 else f"{len(own)} of {counted(len(judges), 'judge')}"
        who = "every judge of this run" if whole and len(own) > 1 else who
        does = one if len(own) == 1 or whole else _MANY[kind]
        yield Finding(
            75 if whole else 45,
            f"{who[0].upper()}{who[1:]} {does}" if who.startswith("every") else f"{who} {does}",
            _follows(kind, whole=whole),
            "Name models that read: --judges openai:MODEL"
            if kind != "recorded"
            else "Name judges that are asked: --judges openai:MODEL",
            target,
        )


def _follows(kind: str, *, whole: bool) -> str:
    if kind == "recorded":
        return "these answers are recordings, and say nothing of what the model would answer now"
    if whole:
        return "take this for a demonstration, and no number of it for a measurement"
    return "the scores are in part a demonstration"


def _inverted(seen: Seen) -> Iterator[Finding]:
    for judge, (agreed, pairs) in seen.agreed.items():
        if pairs and (span := wilson_of(agreed, pairs))[1] < AGAINST:
            yield _opposite(judge, f"on {_of(agreed / pairs, *span)} of pairs (coins: .50)")
    for judge, (low, high) in seen.alike.items():
        if high < AGAINST_GRADES:
            yield _opposite(
                judge, f"by a correlation of grades of [{low:.2f}, {high:.2f}]", "grades"
            )


def _opposite(judge: str, how: str, target: str = "agreement") -> Finding:
    return Finding(
        72,
        f"{judge} agrees with the other judges only {how}",
        "it says the opposite of them more often than not, most likely because it takes the "
        "question the wrong way round",
        "Read what it says (zelo-ray explain), then leave it out of --judges or mend its prompt",
        target,
    )


def _noise(seen: Seen) -> Iterator[Finding]:
    # A posterior standard error equals the spread of the scores where half of what they differ by
    # is noise (a reliability of 1/2); above it most of a ranking is drawn by chance. The spread is
    # taken at the upper end of its own interval, which is wide where documents are few.
    if seen.error > seen.spread * (1 + 1.96 / sqrt(2 * seen.freedom)):
        yield Finding(
            66,
            f"The standard error of a score, {seen.error:.2f} {seen.unit}, is larger than the "
            f"spread of the scores of a query, {seen.spread:.2f}",
            "most ranks would be others if the same judges answered anew",
            f"{seen.more}; zelo-ray size tells by how much before it is paid",
            "uncertain",
        )


def _order(seen: Seen) -> Iterator[Finding]:
    for judge, (first, votes) in seen.first.items():
        if votes < FEWEST:
            continue
        low, high = wilson_of(first, votes)
        if low > 0.5 + ORDER or high < 0.5 - ORDER:
            both = seen.both_orders
            so = "its comparisons tell less about the documents"
            if both:
                so = "its two orders cancel out, and what is left of the pair is often a tie"
            yield prefers_place(judge, _of(first / votes, low, high), so, seen.orders, both=both)


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


def _together(seen: Seen) -> Iterator[Finding]:
    low, high = seen.worth
    count = len(seen.judges)
    if isnan(low) or not lessened(low, high, count):
        return
    worth = f"as few as {low:.1f}" if isnan(high) else f"{low:.1f} to {high:.1f}"
    family = " and are of one family" if isnan(high) else ""
    yield Finding(
        48,
        f"The {count} judges err together{family}: they count for {worth} that err apart",
        "what they agree on is less sure than their number makes it look",
        "Put a judge of another family in the panel in place of one of them (--judges)",
        "judges",
    )


def lessened(low: float, high: float, judges: int) -> bool:
    """Whether a panel is worth much less than its number, even at the end that is known best."""
    return (low if isnan(high) else high) < WORTH * judges


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
