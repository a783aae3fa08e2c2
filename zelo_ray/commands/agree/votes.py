"""Measure votes on pairs: agreement with people and of judges, position bias, flips and cycles."""

from collections.abc import Iterator
from itertools import combinations
from math import nan

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import AgreeOptions
from zelo_ray.commands.agree.grades import consensus_figures, figure_of
from zelo_ray.evaluation.agreement import (
    Agreement,
    Difference,
    estimate,
    estimate_share,
    quotient,
)
from zelo_ray.evaluation.coefficients import COEFFICIENTS
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.evaluation.votes import (
    A_OR_NOT,
    DECIDED,
    VOTES,
    VOTES_DECIDED,
    WITH_TIES,
    VoteTable,
    agreement_with_people,
    compare_raters,
    confusion,
    count_both_orders,
    count_circular,
    count_first_shown,
    cross_votes,
    encode_votes,
    find_orientation,
    judge_verdicts,
    panel_verdicts,
    reduce_repeats,
    verdict_ratings,
)
from zelo_ray.files.judges import HUMAN, OTHERS, PANEL, AllJudgments, weights_of
from zelo_ray.fitting.consensus import vote_consensus
from zelo_ray.report.figures import Figure, make_figure

PAIRS, PAIRS_A, PAIRS_DECIDED = "pairs", "pairs, A or not", "pairs, both decided"
SINGLE_VOTES, SINGLE_DECIDED = "votes", "votes, both decided"
"""Scales: verdicts on pairs, and single votes."""
SCALES = {
    WITH_TIES: PAIRS,
    A_OR_NOT: PAIRS_A,
    DECIDED: PAIRS_DECIDED,
    VOTES: SINGLE_VOTES,
    VOTES_DECIDED: SINGLE_DECIDED,
}
PAIR_SCALES = (*SCALES.values(),)
POSITION, FLIPS = "position bias", "order flips"
ONE_SIDED, CYCLES = "one-sided ties", "cyclic triples"
_NAMED = {name: COEFFICIENTS[name] for name in ("agreement", "alpha-nominal", "kappa", "mcc")}
_ONE_WAY = 0.9
"""The share of pairs in one order, or of votes with the same side first, that is not chance."""


def compare_with_people(judgments: AllJudgments, options: AgreeOptions) -> list[Figure]:
    """Measure how judges' verdicts on pairs agree with most people's, and compare the judges."""
    if not len(judgments.human_votes):
        return []
    tables = [judgments.human_votes, judgments.votes]
    votes = pa.concat_tables(tables, promote_options="default")
    encoded = encode_votes(votes, sorted(pc.unique(votes["query_id"]).to_pylist()))
    lenient = options.both_orders == "lenient"
    single = reduce_repeats(encoded, lenient=lenient)
    judges = judge_verdicts(single if lenient else encoded)[1:]
    verdicts = np.concatenate([judge_verdicts(single)[:1], judges])
    weights = None
    if judgments.weights:
        by_row = weights_of(judgments.human_votes, judgments.weights)
        weights = np.zeros(len(encoded.pairs))
        weights[encoded.pair[: len(by_row)]] = by_row  # people's votes come first
    orientation = find_orientation(encoded, judgments.human_votes)
    ratings = verdict_ratings(encoded, verdicts, orientation, weights)
    rows = [*agreement_with_people(ratings, _NAMED), *_vote_by_vote(single, weights)]
    figures = [figure_of(row, SCALES[row.scale]) for row in rows]
    alphas = {
        row.of: np.nan_to_num(row.value, nan=-2)
        for row in figures
        if (row.scale, row.what) == (PAIRS, "alpha-nominal") and row.items
    }
    best = sorted(alphas, key=lambda judge: -alphas[judge])
    figures += (each for row in compare_raters(ratings, best, _NAMED) for each in _difference(row))
    if len(judges):
        figures += consensus_figures(vote_consensus(judges, verdicts[0], encoded.pairs[:, 0]))
    return figures


def _difference(row: Difference) -> Iterator[Figure]:
    """Yield by how much one judge agrees more with people than another, also in per cent."""
    where, scale, what = (row.rater_a, row.rater_b), SCALES[row.scale], f"more {row.coefficient}"
    ends = (row.difference, row.low, row.high, nan)
    yield Figure(*where, what, scale, *ends, row.items, row.queries)
    ends = (row.relative, nan, nan, nan)
    yield Figure(*where, f"{what}, in %", scale, *ends, row.items, row.queries)


def _vote_by_vote(votes: VoteTable, weights: Floats | None) -> Iterator[Agreement]:
    for row, judge in enumerate(votes.judges[1:], 1):
        weighted, plain = cross_votes(votes, 0, row, weights), cross_votes(votes, 0, row)
        for scale, part in ((VOTES, slice(None)), (VOTES_DECIDED, slice(None, None, 2))):
            counts = weighted[:, part, part]
            same, totals = np.trace(counts, axis1=1, axis2=2), counts.sum(axis=(1, 2))
            found = estimate_share(same, totals)
            items = round(float(plain[:, part, part].sum()))
            ends = (found.value, found.low, found.high)
            yield Agreement(HUMAN, judge, scale, "agreement", *ends, items, found.queries)


def measure_votes(judgments: AllJudgments, options: AgreeOptions) -> tuple[list[Figure], list[str]]:
    """Measure each judge's position bias, flips and cyclic triples, and agreement on pairs.

    Returns:
        The figures, and a note on each judge that seems to have seen all pairs in one order.
    """
    if not len(judgments.votes):
        return [], []
    votes = encode_votes(judgments.votes)
    lenient = options.both_orders == "lenient"
    verdicts = judge_verdicts(reduce_repeats(votes, lenient=True) if lenient else votes)
    figures = [*_biases(votes, verdicts), *_agreement_of_judges(votes, verdicts)]
    return figures, [*_note_one_order(votes, judgments.votes)]


def _biases(votes: VoteTable, verdicts: Floats) -> Iterator[Figure]:
    def share(judge: str, what: str, part: np.ndarray, whole: np.ndarray) -> Figure:
        return make_figure(judge, "", what, estimate_share(part, whole), items=whole.sum())

    def cycles(judge: str, verdicts: Floats) -> Figure:
        circular, clear, _ = count_circular(votes, verdicts).T
        return share(judge, CYCLES, circular, circular + clear)

    first, orders = count_first_shown(votes), count_both_orders(votes)
    for row, judge in enumerate(votes.judges):
        lost, _, won = first[row].T
        yield share(judge, POSITION, won, won + lost)
        same, flipped, tied = orders[row].T
        yield share(judge, FLIPS, flipped, same + flipped + tied)
        yield share(judge, ONE_SIDED, tied, same + flipped + tied)
        yield cycles(judge, verdicts[row])
    if len(votes.judges) > 2:
        yield cycles(PANEL, panel_verdicts(verdicts))


def _agreement_of_judges(votes: VoteTable, verdicts: Floats) -> Iterator[Figure]:
    """Yield the agreement of every two judges, and of each with the majority of the others."""
    judges, pairs = range(len(votes.judges)), (PAIRS, PAIRS_DECIDED)
    for a, b in combinations(judges, 2):
        names = (votes.judges[b], votes.judges[a])
        yield from _agreement(*names, pairs, confusion(votes, verdicts[a], verdicts[b]))
        single = (SINGLE_VOTES, SINGLE_DECIDED)
        yield from _agreement(*names, single, cross_votes(votes, a, b))
    for a in judges if len(votes.judges) > 2 else ():
        others = panel_verdicts(verdicts[[b for b in judges if b != a]])
        table = confusion(votes, verdicts[a], others)
        yield from _agreement(votes.judges[a], OTHERS, pairs, table)


def _agreement(
    of: str, against: str, scales: tuple[str, str], table: np.ndarray
) -> Iterator[Figure]:
    """Yield percent agreement and kappa: with ties, and without pairs that one of them tied."""

    def same(tables: Floats) -> Floats:
        totals = tables.sum(axis=(-2, -1))
        return quotient(np.stack([np.trace(tables, axis1=-2, axis2=-1), totals], axis=-1))

    def kappa(tables: Floats) -> Floats:
        return COEFFICIENTS["kappa"].of({"confusion": tables})

    # Which document of a pair is called A is arbitrary: count each pair both ways round.
    tables = (table + table[:, ::-1, ::-1]) / 2
    for scale, counts in zip(scales, (tables, tables[:, ::2, ::2]), strict=True):
        items = counts.sum(axis=(1, 2))
        for what, measure in (("agreement", same), ("kappa", kappa)):
            found, total = estimate(counts, items > 0, measure), round(float(items.sum()))
            yield make_figure(of, against, what, found, scale=scale, items=total)


def _note_one_order(votes: VoteTable, table: pa.Table) -> Iterator[str]:
    swapped = pc.fill_null(table["swapped"], False).to_numpy().astype(np.float64)
    repeats = count_both_orders(votes).sum(axis=(1, 2))
    for row, judge in enumerate(votes.judges):
        mine = (votes.shown != 0) & (votes.judge == row)
        pairs = len(np.unique(votes.pair[mine]))
        turned = swapped[mine].mean() if pairs else 0.5
        if pairs and repeats[row] < (1 - _ONE_WAY) * pairs and max(turned, 1 - turned) > _ONE_WAY:
            first = "doc_id_b" if turned > _ONE_WAY else "doc_id_a"
            yield f"{judge}: almost always saw {first} first; was the order randomised?"
