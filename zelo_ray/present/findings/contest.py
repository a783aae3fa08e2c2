"""What stands out in a contest: what it cannot tell, and where it is unfair."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from statistics import NormalDist

from zelo_ray.commands.bakeoff.outcome import Caution
from zelo_ray.commands.bakeoff.significance import SURE, Significance, significance_of
from zelo_ray.evaluation.significance import FEWEST
from zelo_ray.evaluation.wilson import wilson_of
from zelo_ray.formats.interchange.doubts import SHARE
from zelo_ray.formats.wording import counted
from zelo_ray.present.findings.finding import Finding
from zelo_ray.records import Comparison

JUDGED = 0.9
"""Below this share of judged documents among the first ten, an arm's mean is a lower bound: each
unjudged document counts as not relevant, and one in ten may move nDCG@10 as far as arms differ."""
POWER = 0.8
"""In which share of repetitions so many queries shall find the difference."""
_NORMAL = NormalDist()
_MOST = 1_000_000
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Arms:
    """What is known of a contest.

    Attributes:
        queries: of the truth.
        leading: the measure by which arms stand.
        rivals: the arm that leads, as A, against each other one, by that measure.
        missing: by arm, how many queries it did not rank.
        unjudged: by arm, documents among its first `depth` that nobody judged.
        ranked: by arm, how many documents its first `depth` are in all; where that is not known,
            `depth` for each query that it ranked.
        depth: how deep unjudged documents are counted.
        compared: how many comparisons p is corrected for.
        sure: whether any two arms are significantly different.
        cautions: why scores or grades may not mean what they seem to.
        asked: the arms that models answer, and not files of runs: these can be asked again.
    """

    queries: int
    leading: str = ""
    rivals: Sequence[Comparison] = ()
    missing: Mapping[str, int] = field(default_factory=dict)
    unjudged: Mapping[str, int] = field(default_factory=dict)
    ranked: Mapping[str, int] = field(default_factory=dict)
    depth: int = 10
    compared: int = 1
    sure: bool = False
    cautions: Sequence[Caution] = ()
    asked: Collection[str] = ()


def of_contest(arms: Arms) -> Iterator[Finding]:
    """All that stands between the leaderboard and a decision."""
    for each in arms.cautions:
        yield _caution(each)
    yield from _nothing_sure(arms)
    yield from _missing(arms)
    yield from _unjudged(arms)


def _caution(one: Caution) -> Finding:
    among = f"the first {one.depth}" if one.depth else "all"
    of_queries = f"{one.queries:,} of {counted(one.of_queries, 'query', 'queries')}"
    if one.code == "reversed_ranks":
        return Finding(
            94,
            f"The ranks of {one.run} are the reverse of its scores in {of_queries}",
            "are these distances? A run is ordered by its scores, the highest first, so this one "
            "is measured upside down",
            "Write distances with a minus before them",
            "leaderboard",
        )
    if one.code == "negative_grades":
        return Finding(
            30,
            f"{counted(one.documents, 'grade')} of the truth "
            f"{'lies' if one.documents == 1 else 'lie'} below 0",
            "such a document counts as judged (Judged@k), and as not relevant",
            "If -1 means that nobody judged it, leave its line out of the truth",
            "holes",
        )
    if one.code in ("own_query", "own_id"):
        return _own(one, of_queries)
    if one.code in ("new_truth", "old_labels"):
        return _changed(one)
    if one.queries >= SHARE * one.of_queries:
        return Finding(
            90,
            f"All scores of {one.run} among {among} are equal in {of_queries}",
            "they tell no document from another, so its place says nothing of the arm",
            "See that its server or model scores each document, and that its scores are written "
            "with all digits",
            "leaderboard",
        )
    return Finding(
        66 + one.pairs / one.of_pairs,
        f"{one.run} scores {one.pairs / one.of_pairs:.0%} of the pairs among {among} documents "
        "of a query alike",
        "their order is that of the document ids",
        "Write scores with all digits, or measure with --ties expected",
        "leaderboard",
    )


def _changed(one: Caution) -> Finding:
    if one.code == "new_truth":
        return Finding(
            50,
            "The truth has changed since the last contest in this folder",
            "its figures, and a gate that passed by them, were of other judgments",
            "Compare nothing with figures of before",
            "leaderboard",
        )
    return Finding(
        48,
        "The truth has changed since people's labels were drawn",
        "they correct the new judgments as well, but were chosen to correct the old ones",
        "Draw labels for this contest: zelo-ray label --contest, into another folder",
        "leaderboard",
    )


def _own(one: Caution, of_queries: str) -> Finding:
    if one.code == "own_query":
        return Finding(
            35,
            f"The query itself, by id and text, is among its own candidates in {of_queries}",
            "it is left out of the runs and of the truth, as BEIR's evaluation does",
            "Leave it out of the runs, too, where others measure them",
            "leaderboard",
        )
    return Finding(
        45,
        f"A document has the id of its query in {of_queries}, and another text or none that is "
        "known",
        "it is measured like any other, where BEIR's evaluation leaves it out",
        "Give the folder of the collection as --truth, or --corpus and --queries, so that texts "
        "can be compared",
        "leaderboard",
    )


def _nothing_sure(arms: Arms) -> Iterator[Finding]:
    if not arms.rivals:
        return
    words = [significance_of(one) for one in arms.rivals]
    best = arms.rivals[0].run_a
    few, open_ = Significance.TOO_FEW_QUERIES, Significance.NOT_SIGNIFICANT
    if set(words) == {few}:
        yield Finding(
            74,
            f"{counted(arms.queries, 'query is', 'queries are')} too few to compare arms",
            "no difference can be tested",
            f"Take {FEWEST} queries at least, and some fifty to see differences of .05",
            "differences",
        )
    elif set(words) <= {few, open_}:
        yield Finding(
            70,
            f"The leader {best} is not significantly above any other arm"
            if len(arms.rivals) > 1
            else f"{best} and {arms.rivals[0].run_b} are not significantly different",
            f"that {best} stands first by {arms.leading} may be chance",
            _more(arms) + ("" if arms.sure else "; until then take the cheapest"),
            "differences",
        )
    for kind, why, mend in (
        (
            Significance.LABELS_COULD_TURN_IT,
            "by these labels",
            "Ask more of these documents (cycles, repeats, judges), or let people label them",
        ),
        (
            Significance.ONLY_BY_KIN,
            "without judges that are kin of one of the two",
            "Judge with models of other families (--judges), or let people label some documents",
        ),
    ):
        names = [one.run_b for one, own in zip(arms.rivals, words, strict=True) if own is kind]
        if names:
            yield Finding(
                64,
                f"The lead of {best} over {_listed(names)} is not sure {why}",
                "who decides by it alone may decide wrongly",
                mend,
                "kin" if kind is Significance.ONLY_BY_KIN else "differences",
            )


def _more(arms: Arms) -> str:
    """What would settle it, if the difference that is nearest to it stays as it looks."""
    nearest = min(arms.rivals, key=lambda one: one.p if isfinite(one.p) else 1.0)
    told = f"If {nearest.run_a} stays {abs(nearest.difference):.3f} above {nearest.run_b}"
    if nearest.p < SURE:
        return (
            f"{nearest.run_a} above {nearest.run_b} has p = {nearest.p:.2g} before the correction "
            f"for {counted(arms.compared, 'comparison')}: name fewer measures or arms, or add "
            "queries"
        )
    needed = _needed(nearest, arms.compared)
    if not isfinite(needed) or needed > _MOST:
        return "No number of queries that anybody has would settle it"
    rounded = int(float(f"{needed:.2g}"))
    if rounded <= nearest.queries:
        return "More queries would settle it"
    return (
        f"{told}, about {rounded:,} queries would show it in {POWER:.0%} of contests with as many "
        f"comparisons (here are {nearest.queries:,})"
    )


def _needed(one: Comparison, compared: int) -> float:
    """How many queries find such a difference with `POWER`, each test at .05 / comparisons."""
    if not one.difference:
        return inf
    error = (one.high - one.low) / 2 / _NORMAL.inv_cdf(0.975)
    reach = _NORMAL.inv_cdf(1 - SURE / 2 / max(compared, 1)) + _NORMAL.inv_cdf(POWER)
    return one.queries * (reach * error / one.difference) ** 2


def _missing(arms: Arms) -> Iterator[Finding]:
    for arm, lost in arms.missing.items():
        again = (
            "Run the same command again: it asks for these alone"
            if arm in arms.asked
            else "They are not in its run: rank them as well, and run the same command again"
        )
        if lost and lost == arms.queries:
            yield Finding(
                88,
                f"{arm} ranked none of {counted(arms.queries, 'query', 'queries')}",
                "it takes no part",
                "The section says why; run the same command again once that is mended",
                "failures",
            )
        elif lost:
            yield Finding(
                62 + lost / arms.queries,
                f"{arm} ranked {arms.queries - lost:,} of {arms.queries:,} queries",
                "the others count as 0 in its means",
                again,
                "failures",
            )


def _unjudged(arms: Arms) -> Iterator[Finding]:
    known = dict.fromkeys(arms.missing, 0) | dict(arms.unjudged)
    shares = {}
    for arm, count in known.items():
        most = arms.depth * (arms.queries - arms.missing.get(arm, 0))
        ranked = arms.ranked.get(arm, most)
        if ranked:
            shares[arm] = 1 - count / ranked, wilson_of(max(ranked - count, 0), ranked)[1]
    poor = sorted(
        (arm for arm in shares if shares[arm][1] < JUDGED), key=lambda arm: shares[arm][0]
    )
    if poor:
        told = ", ".join(f"{arm} {shares[arm][0]:.2f}" for arm in poor[:_NAMED])
        yield Finding(
            58 + 1 - shares[poor[0]][0],
            f"Many of the first {arms.depth} documents are unjudged (share judged: {told})",
            "they count as not relevant, and these arms may be better than they look",
            "zelo-ray convert holes --all writes pools with them; annotate those on the --out "
            "of the truth",
            "holes",
        )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
