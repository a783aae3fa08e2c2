"""Measure biases in votes on pairs (order, cycles), and the agreement of judges."""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import AgreeOptions
from zelo_ray.commands.agree.biases import Bias, make_bias
from zelo_ray.commands.agree.measured_tables import MeasuredTables
from zelo_ray.evaluation.agreement import Agreement, estimate, estimate_share
from zelo_ray.evaluation.coefficients import COEFFICIENTS
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.evaluation.votes import (
    DECIDED,
    VOTES,
    VOTES_DECIDED,
    WITH_TIES,
    VoteTable,
    confusion,
    count_both_orders,
    count_circular,
    count_first_shown,
    cross_votes,
    encode_votes,
    judge_verdicts,
    panel_verdicts,
    reduce_repeats,
)
from zelo_ray.files.judges import OTHERS, PANEL, AllJudgments
from zelo_ray.files.tables import table_of

_WORDS = (WITH_TIES, DECIDED)
_ONE_WAY = 0.9
"""The share of pairs in one order, or of votes with the same side first, that is not chance."""


def measure_voting(verdicts: AllJudgments, options: AgreeOptions) -> MeasuredTables:
    """Measure position bias, flips and cyclic triads of each judge, and agreement on pairs."""
    biases: list[Bias] = []
    agreed: list[Agreement] = []
    notes: list[str] = []
    if len(verdicts.votes):
        cast = encode_votes(verdicts.votes)
        lenient = options.both_orders == "lenient"
        pair_words = judge_verdicts(reduce_repeats(cast, lenient=True) if lenient else cast)
        biases = [*_biases(cast, pair_words)]
        agreed = [*_agreements(cast, pair_words)]
        notes = [*_note_one_order(cast, verdicts.votes)]
    tables = {"voting": table_of(biases, Bias), "pairs": table_of(agreed, Agreement)}
    return MeasuredTables(tables, notes=notes)


def _biases(cast: VoteTable, preferences: Floats) -> Iterator[Bias]:
    first, orders = count_first_shown(cast), count_both_orders(cast)
    for i, judge in enumerate(cast.judges):
        lost, _, won = first[i].T
        yield _share(judge, "first", won, won + lost)
        same, flipped, tied = orders[i].T
        yield _share(judge, "flips", flipped, same + flipped + tied)
        yield _share(judge, "one-tie", tied, same + flipped + tied)
        yield _circles(judge, cast, preferences[i])
    if len(cast.judges) > 2:
        yield _circles(PANEL, cast, panel_verdicts(preferences))


def _circles(judge: str, cast: VoteTable, preferences: Floats) -> Bias:
    circular, clear, _ = count_circular(cast, preferences).T
    return _share(judge, "circles", circular, circular + clear)


def _share(judge: str, name: str, part: Floats, total: Floats) -> Bias:
    return make_bias(judge, name, "", estimate_share(part, total), int(total.sum()))


def _agreements(cast: VoteTable, preferences: Floats) -> Iterator[Agreement]:
    """Yield the agreement of every two judges, and of each with the majority of the others."""
    judges = range(len(cast.judges))
    for a, b in combinations(judges, 2):
        names = (cast.judges[a], cast.judges[b])
        yield from _agreement(*names, _WORDS, confusion(cast, preferences[a], preferences[b]))
        yield from _agreement(*names, (VOTES, VOTES_DECIDED), cross_votes(cast, a, b))
    for a in judges if len(cast.judges) > 2 else ():
        others = panel_verdicts(preferences[[b for b in judges if b != a]])
        table = confusion(cast, preferences[a], others)
        yield from _agreement(cast.judges[a], OTHERS, _WORDS, table)


def _agreement(a: str, b: str, scales: tuple[str, str], table: np.ndarray) -> Iterator[Agreement]:
    """Yield percent agreement and kappa: with ties, and without pairs that one of them tied."""
    # Which document of a pair is called A is arbitrary: count each pair both ways round.
    tables = (table + table[:, ::-1, ::-1]) / 2
    for scale, counts in zip(scales, (tables, tables[:, ::2, ::2]), strict=True):
        items = counts.sum(axis=(1, 2))
        for coefficient in ("agreement", "kappa"):
            of = _equal if coefficient == "agreement" else _kappa
            figure = estimate(counts, items > 0, of)
            ends = (figure.value, figure.low, figure.high)
            total = round(float(items.sum()))
            yield Agreement(a, b, scale, coefficient, *ends, total, figure.queries)


def _equal(tables: Floats) -> Floats:
    totals = tables.sum(axis=(-2, -1))
    same = np.trace(tables, axis1=-2, axis2=-1)
    equal: Floats = np.divide(same, totals, out=np.full_like(same, np.nan), where=totals > 0)
    return equal


def _kappa(tables: Floats) -> Floats:
    return COEFFICIENTS["kappa"].of({"confusion": tables})


def _note_one_order(cast: VoteTable, votes: pa.Table) -> Iterator[str]:
    """Yield a note on each judge that seems to have seen all pairs in one order."""
    has_order = cast.shown != 0
    swapped = pc.fill_null(votes["swapped"], False).to_numpy().astype(np.float64)
    repeats = count_both_orders(cast).sum(axis=(1, 2))
    for i, judge in enumerate(cast.judges):
        judge_votes = has_order & (cast.judge == i)
        pairs = len(np.unique(cast.pair[judge_votes]))
        turned = swapped[judge_votes].mean() if pairs else 0.5
        if pairs and repeats[i] < (1 - _ONE_WAY) * pairs and max(turned, 1 - turned) > _ONE_WAY:
            first = "doc_id_b" if turned > _ONE_WAY else "doc_id_a"
            yield f"{judge}: almost always saw {first} first; was the order randomised?"
