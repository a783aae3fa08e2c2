"""Measure how judges agree with people and with each other, and what their habits are."""

from collections.abc import Iterable, Iterator
from itertools import combinations
from math import nan
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import AgreeOptions
from zelo_ray.evaluation import consensus
from zelo_ray.evaluation.agreement import (
    Agreement,
    ConfusionCell,
    Difference,
    count_confusions,
    estimate,
    estimate_share,
    measure_agreement,
    quotient,
    ratings_of,
)
from zelo_ray.evaluation.coefficients import COEFFICIENTS, choose_coefficients
from zelo_ray.evaluation.consensus import Consensus, grade_consensus, vote_consensus
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.evaluation.votes import (
    A_OR_NOT,
    DECIDED,
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
from zelo_ray.files.judges import HUMAN, OTHERS, PANEL, WITH_HUMAN, AllJudgments, weights_of
from zelo_ray.files.tables import iter_rows
from zelo_ray.report.figures import Figure, make_figure

LENIENCY = "leniency"
PEOPLE_AGREE, SHARE = "people agree", "share"
"""Of a level of the judges' agreement: how often people agree, and the share of all items."""
ABOUT = {
    consensus.VOTES: "pairs, by votes",
    consensus.ORDERS: "pairs, by grades",
    consensus.GRADES: "documents",
}
PAIRS, PAIRS_A, PAIRS_DECIDED = "pairs", "pairs, A or not", "pairs, both decided"
SINGLE_VOTES, SINGLE_DECIDED = "votes", "votes, both decided"
"""Scales: verdicts on pairs, and single votes."""
SCALES = {WITH_TIES: PAIRS, A_OR_NOT: PAIRS_A, DECIDED: PAIRS_DECIDED}
PAIR_SCALES = (*SCALES.values(), SINGLE_VOTES, SINGLE_DECIDED)
POSITION, FLIPS = "position bias", "order flips"
ONE_SIDED, CYCLES = "one-sided ties", "cyclic triples"
_NAMED = {name: COEFFICIENTS[name] for name in ("agreement", "alpha-nominal", "kappa", "mcc")}
_ONE_WAY = 0.9
"""The share of pairs in one order, or of votes with the same side first, that is not chance."""


# --- grades ---------------------------------------------------------------------------------------


def measure_grades(
    judgments: AllJudgments, options: AgreeOptions
) -> tuple[list[Figure], list[ConfusionCell]]:
    """Measure every two raters and the panel, and each judge's severity; with confusions."""
    has_people = len(judgments.human) > 0
    weights = None
    if judgments.weights and has_people:
        weights = weights_of(judgments.human, judgments.weights)
    graded = pa.concat_tables([judgments.human, judgments.grades])
    ratings = ratings_of(graded, judgments.levels, weights)
    chosen, cuts = choose_coefficients(options.coefficients), options.positive_thresholds
    agreed, confused = list[Agreement](), list[ConfusionCell]()
    for pair in combinations(ratings.raters, 2):
        agreed += measure_agreement(ratings, pair, chosen, cuts)
        confused += count_confusions(ratings, pair, cuts)
    panels = {PANEL: judgments.panel, WITH_HUMAN: (HUMAN, *judgments.panel) if has_people else ()}
    for panel, raters in panels.items():
        if len(raters) > 2:
            agreed += measure_agreement(ratings, raters, chosen, cuts, panel=panel)
    return [*map(_figure_of, agreed), *_severities(judgments, graded)], confused


def _figure_of(row: Agreement, scale: str = "") -> Figure:
    """Return agreement as a figure: of a judge against people, or of B against A; of a panel."""
    of, against = (row.rater_b, row.rater_a) if row.rater_b else (row.rater_a, "")
    scale = scale or row.scale
    return make_figure(of, against, row.coefficient, row.estimate, scale=scale, items=row.items)


def _severities(judgments: AllJudgments, graded: pa.Table) -> Iterator[Figure]:
    """Yield by how much each judge's mean grade is above people's, and above the other judges'."""
    ids = [*iter_rows(graded, "query_id", "doc_id")]
    items = {pair: place for place, pair in enumerate(dict.fromkeys(ids))}
    _, query = np.unique([query_id for query_id, _ in items], return_inverse=True)
    item = np.array([items[pair] for pair in ids], np.int64)
    grade, judge = graded["grade"].to_numpy(), graded["judge"].to_numpy()

    def mean(name: str) -> Floats:  # NaN where there is no grade
        mine = judge == name
        sums = np.bincount(item[mine], grade[mine], len(items))
        return _mean(sums, np.bincount(item[mine], minlength=len(items)))

    def severity(name: str, against: str, difference: Floats, weights: Floats) -> Iterator[Figure]:
        both = ~np.isnan(difference)
        if both.any():
            sums = np.bincount(query[both], (weights * difference)[both])
            leniency = estimate_share(sums, np.bincount(query[both], weights[both]))
            yield make_figure(name, against, LENIENCY, leniency, items=both.sum())

    means, even = {name: mean(name) for name in {*judge}}, np.ones(len(items))
    drawn = even
    if judgments.weights:
        drawn = np.array([judgments.weights.get(pair, 0.0) for pair in items])
    for name in judgments.judges:
        if HUMAN in means:
            yield from severity(name, HUMAN, means[name] - means[HUMAN], drawn)
        if others := [means[other] for other in judgments.panel if other != name]:
            count = (~np.isnan(others)).sum(axis=0)
            of_others = _mean(np.nansum(others, axis=0), count)
            yield from severity(name, OTHERS, means[name] - of_others, even)


def _mean(sums: Any, counts: Any) -> Floats:
    return quotient(np.stack([sums, counts], axis=-1).astype(np.float64))


def consensus_of_grades(judgments: AllJudgments, options: AgreeOptions) -> list[Figure]:
    """Measure how often people grade as the panel does, by how far its judges agree."""
    panel = pa.array(judgments.panel, pa.string())
    graded = judgments.grades.filter(pc.is_in(judgments.grades["judge"], panel))
    if not (len(judgments.human) and len(graded)):
        return []
    ratings = ratings_of(pa.concat_tables([judgments.human, graded]), judgments.levels)
    people = ratings.raters.index(HUMAN)
    judges, human = np.delete(ratings.grades, people, axis=0), ratings.grades[people]
    cuts = options.positive_thresholds if judgments.levels > 2 else ()
    rows = grade_consensus(judges, human, ratings.queries, judgments.levels, cuts)
    return [*_consensus_figures(rows)]


def _consensus_figures(rows: Iterable[Consensus]) -> Iterator[Figure]:
    """Yield how often people agree with a panel at each level of its judges' agreement."""
    for row in rows:
        scale, sizes = f"{ABOUT[row.about]} {row.scale}".rstrip(), (row.items, row.queries)
        ends = (row.same, row.low, row.high, nan)
        yield Figure(row.level, HUMAN, PEOPLE_AGREE, scale, *ends, *sizes)
        yield Figure(row.level, HUMAN, SHARE, scale, row.share, nan, nan, nan, *sizes)


# --- votes ----------------------------------------------------------------------------------------


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
    agreed = agreement_with_people(ratings, _NAMED)
    figures = [_figure_of(row, SCALES[row.scale]) for row in agreed]
    figures += _vote_by_vote(single, weights)
    alphas = {
        row.of: np.nan_to_num(row.value, nan=-2)
        for row in figures
        if (row.scale, row.what) == (PAIRS, "alpha-nominal") and row.items
    }
    best = sorted(alphas, key=lambda judge: -alphas[judge])
    figures += (each for row in compare_raters(ratings, best, _NAMED) for each in _difference(row))
    if len(judges):
        figures += _consensus_figures(vote_consensus(judges, verdicts[0], encoded.pairs[:, 0]))
    return figures


def _difference(row: Difference) -> Iterator[Figure]:
    """Yield by how much one judge agrees more with people than another, also in per cent."""
    where, scale, what = (row.rater_a, row.rater_b), SCALES[row.scale], f"more {row.coefficient}"
    yield make_figure(*where, what, row.more, scale=scale, items=row.items)
    ends = (row.relative, nan, nan, nan)
    yield Figure(*where, f"{what}, in %", scale, *ends, row.items, row.more.queries)


def _vote_by_vote(votes: VoteTable, weights: Floats | None) -> Iterator[Figure]:
    for row, judge in enumerate(votes.judges[1:], 1):
        weighted, plain = cross_votes(votes, 0, row, weights), cross_votes(votes, 0, row)
        for scale, part in ((SINGLE_VOTES, slice(None)), (SINGLE_DECIDED, slice(None, None, 2))):
            counts = weighted[:, part, part]
            same, totals = np.trace(counts, axis1=1, axis2=2), counts.sum(axis=(1, 2))
            agreement = estimate_share(same, totals)
            items = round(float(plain[:, part, part].sum()))
            yield make_figure(judge, HUMAN, "agreement", agreement, scale=scale, items=items)


def measure_votes(judgments: AllJudgments, options: AgreeOptions) -> tuple[list[Figure], list[str]]:
    """Measure position bias, flips, cyclic triples, agreement on pairs; with notes on judges."""
    if not len(judgments.votes):
        return [], []
    votes = encode_votes(judgments.votes)
    lenient = options.both_orders == "lenient"
    verdicts = judge_verdicts(reduce_repeats(votes, lenient=True) if lenient else votes)
    figures = [*_biases(votes, verdicts), *_agreement_of_judges(votes, verdicts)]
    return figures, [*_note_one_order(votes, judgments.votes)]


def _biases(votes: VoteTable, verdicts: Floats) -> Iterator[Figure]:
    def share(judge: str, what: str, part: np.ndarray, total: np.ndarray) -> Figure:
        return make_figure(judge, "", what, estimate_share(part, total), items=total.sum())

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
        return COEFFICIENTS["kappa"].compute({"confusion": tables})

    # Which document of a pair is called A is arbitrary: count each pair both ways round.
    tables = (table + table[:, ::-1, ::-1]) / 2
    for scale, counts in zip(scales, (tables, tables[:, ::2, ::2]), strict=True):
        items = counts.sum(axis=(1, 2))
        for what, measure in (("agreement", same), ("kappa", kappa)):
            value, total = estimate(counts, items > 0, measure), round(float(items.sum()))
            yield make_figure(of, against, what, value, scale=scale, items=total)


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
