"""The section on how judges vote on pairs: by order, in circles, and beside each other."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.agree.biases import Bias, bias_of
from zelo_ray.commands.agree.section import Section, laid_out, with_interval
from zelo_ray.evaluation.agreement import Agreement, kappa
from zelo_ray.evaluation.agreement.counts import Floats
from zelo_ray.evaluation.agreement.estimates import estimate, share
from zelo_ray.evaluation.agreement.pairs import DECIDED, VOTES, VOTES_DECIDED, WITH_TIES
from zelo_ray.evaluation.agreement.single import once
from zelo_ray.evaluation.agreement.votes import (
    CHANCE,
    Ballots,
    ballots,
    both_orders,
    circles,
    confusion,
    crossed,
    first_shown,
    majority,
    words,
)
from zelo_ray.formats.interchange.verdicts import OTHERS, PANEL, Verdicts
from zelo_ray.formats.tables import table_of
from zelo_ray.options import AgreeOptions

_HEADS = {
    "first": "first wins",
    "flips": "flips",
    "one-tie": "one tie",
    "circles": "circles",
}
_JUDGES, _PAIRS = 40, 10  # for which there is room
_FORM = "z.2f"
_WORDS = (WITH_TIES, DECIDED)
_ONE_WAY = 0.9
"""Share of pairs in one order, and of votes with the same document first, that is no chance."""


def voting(verdicts: Verdicts, options: AgreeOptions) -> Section:
    """Measure position bias, flips and circles of every judge that voted, and pair agreement."""
    biases: list[Bias] = []
    agreed: list[Agreement] = []
    one_way: list[tuple[str, str]] = []
    if len(verdicts.votes):
        cast = ballots(verdicts.votes)
        pair_words = words(once(cast, lenient=True) if options.lenient else cast)
        biases = [*_biases(cast, pair_words, options)]
        agreed = [*_agreements(cast, pair_words, options)]
        one_way = [*_one_way(cast, verdicts.votes)]
    tables = {"voting": table_of(biases, Bias), "pairs": table_of(agreed, Agreement)}
    return Section([*_lines(biases, agreed, one_way)] if biases else [], tables)


def _biases(cast: Ballots, preferences: Floats, options: AgreeOptions) -> Iterator[Bias]:
    first, orders = first_shown(cast), both_orders(cast)
    for i, judge in enumerate(cast.judges):
        lost, _, won = first[i].T
        yield _share(judge, "first", won, won + lost, options)
        same, flipped, tied = orders[i].T
        yield _share(judge, "flips", flipped, same + flipped + tied, options)
        yield _share(judge, "one-tie", tied, same + flipped + tied, options)
        yield _circles(judge, cast, preferences[i], options)
    if len(cast.judges) > 2:
        yield _circles(PANEL, cast, majority(preferences), options)


def _circles(judge: str, cast: Ballots, preferences: Floats, options: AgreeOptions) -> Bias:
    circular, clear, _ = circles(cast, preferences).T
    return _share(judge, "circles", circular, circular + clear, options)


def _share(judge: str, name: str, part: Floats, total: Floats, options: AgreeOptions) -> Bias:
    return bias_of(judge, name, "", share(part, total, **options.chance), int(total.sum()))


def _agreements(cast: Ballots, preferences: Floats, options: AgreeOptions) -> Iterator[Agreement]:
    """Yield the agreement of every two judges, and of each with the majority of the others."""
    judges = range(len(cast.judges))
    for a, b in combinations(judges, 2):
        names = (cast.judges[a], cast.judges[b])
        yield from _agreement(
            *names, _WORDS, confusion(cast, preferences[a], preferences[b]), options
        )
        yield from _agreement(*names, (VOTES, VOTES_DECIDED), crossed(cast, a, b), options)
    for a in judges if len(cast.judges) > 2 else ():
        others = majority(preferences[[b for b in judges if b != a]])
        table = confusion(cast, preferences[a], others)
        yield from _agreement(cast.judges[a], OTHERS, _WORDS, table, options)


def _agreement(
    a: str, b: str, scales: tuple[str, str], table: np.ndarray, options: AgreeOptions
) -> Iterator[Agreement]:
    """Yield percent agreement and kappa, with ties and on what both decided."""
    # Which document of a pair is the first is chance, and must not be an opinion: both ways round.
    tables = (table + table[:, ::-1, ::-1]) / 2
    for scale, counts in zip(scales, (tables, tables[:, ::2, ::2]), strict=True):
        items = counts.sum(axis=(1, 2))
        for coefficient in ("agreement", "kappa"):
            of = _equal if coefficient == "agreement" else _kappa
            figure = estimate(counts, items > 0, of, **options.chance)
            ends = (figure.value, figure.low, figure.high)
            total = round(float(items.sum()))
            yield Agreement(a, b, scale, coefficient, *ends, total, figure.queries)


def _equal(tables: Floats) -> Floats:
    totals = tables.sum(axis=(-2, -1))
    same = np.trace(tables, axis1=-2, axis2=-1)
    equal: Floats = np.divide(same, totals, out=np.full_like(same, np.nan), where=totals > 0)
    return equal


def _kappa(tables: Floats) -> Floats:
    return kappa.values(tables, "nominal")


def _one_way(cast: Ballots, votes: pa.Table) -> Iterator[tuple[str, str]]:
    """Yield judges that seem to have seen all pairs in one order, and the document shown first."""
    has_order = cast.shown != 0
    swapped = pc.fill_null(votes["swapped"], False).to_numpy().astype(np.float64)
    repeats = both_orders(cast).sum(axis=(1, 2))
    for i, judge in enumerate(cast.judges):
        judge_votes = has_order & (cast.judge == i)
        pairs = len(np.unique(cast.pair[judge_votes]))
        turned = swapped[judge_votes].mean() if pairs else 0.5
        if pairs and repeats[i] < (1 - _ONE_WAY) * pairs and max(turned, 1 - turned) > _ONE_WAY:
            yield judge, "b" if turned > _ONE_WAY else "a"


def _lines(
    found: Sequence[Bias], agreed: Sequence[Agreement], one_way: Sequence[tuple[str, str]]
) -> Iterator[str]:
    biases: Mapping[tuple[str, str], Bias] = {(b.judge, b.bias): b for b in found}
    judges = [*dict.fromkeys(b.judge for b in found)]
    shown = {n: head for n, head in _HEADS.items() if any(b.items for b in found if b.bias == n)}
    voters = (judge for judge in judges if judge != PANEL)
    places = {judge: str(i) for i, judge in enumerate(voters, 1)}
    rows = [
        [
            f"{places[judge]} {judge}" if judge in places else judge,
            *(_cell(biases.get((judge, name))) for name in shown),
        ]
        for judge in judges[:_JUDGES]
    ]
    yield "How judges vote on pairs"
    yield from laid_out(["judge", *shown.values()], rows)
    if len(judges) > _JUDGES:
        yield f"… and {len(judges) - _JUDGES:,} more judges"
    if "first" in shown:
        yield "first wins: of decided votes, those for the document that was shown first; fair: 0.5"
        yield "  if the order was drawn"
        yield from (
            f"  {judge}: nearly all pairs in one order, with doc_id_{side} first; was it drawn?"
            for judge, side in one_way
        )
    if "flips" in shown:
        yield "flips, one tie: of pairs seen in both orders, another winner (a coin: 0.5); a tie in"
        yield "  one of them"
    if "circles" in shown:
        yield (
            "circles: of decided triples, those in which each document beats another; by chance "
            f"{CHANCE:g}"
        )
    yield from _together(agreed, places)


def _together(agreed: Sequence[Agreement], places: Mapping[str, str]) -> Iterator[str]:
    of = {(a.rater_a, a.rater_b, a.scale, a.coefficient): a for a in agreed}
    pairs = [*dict.fromkeys((a.rater_a, a.rater_b) for a in agreed if a.items)]
    if not pairs:
        return
    rows = []
    for a, b in pairs[:_PAIRS]:
        kinds = [(WITH_TIES, "agreement"), (DECIDED, "agreement"), (WITH_TIES, "kappa")]
        figures = [of[a, b, *kind] for kind in kinds]
        cells = [_cell(figure) for figure in figures]
        numbers = (places.get(judge, judge) for judge in (a, b))
        rows.append([" and ".join(numbers), *cells, f"{figures[0].items:,}"])
    yield ""
    yield "Judges on the same pairs, by their numbers above (a word of each: most of its votes)"
    yield from laid_out(["judges", "same", "both decided", "kappa", "pairs"], rows)
    if len(pairs) > _PAIRS:
        yield f"… and {len(pairs) - _PAIRS:,} more pairs of judges"


def _cell(estimate: Bias | Agreement | None) -> str:
    return with_interval(estimate.value, estimate.low, estimate.high, _FORM) if estimate else "-"
