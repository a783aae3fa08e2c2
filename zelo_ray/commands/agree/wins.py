"""Compare win rates by a judge and by people, for few documents that meet in many queries."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from zelo_ray.commands.agree.section import laid_out
from zelo_ray.evaluation.agreement import FEWEST
from zelo_ray.evaluation.agreement.counts import Floats
from zelo_ray.evaluation.agreement.estimates import share
from zelo_ray.evaluation.agreement.votes import Ballots
from zelo_ray.formats.interchange.verdicts import HUMAN
from zelo_ray.formats.wording import counted
from zelo_ray.options import AgreeOptions

_DOCUMENTS, _JUDGES = 10, 4  # for which there is room


@dataclass(frozen=True, slots=True)
class Win:
    """The share of its pairs that a document wins, on those that a judge and the people judged.

    A tie is half a win; of several votes of a rater on a pair it is most that count. ``human`` is
    the same by the people's word; intervals are 95%, over samples of queries.
    """

    judge: str
    doc_id: str
    wins: float
    low: float
    high: float
    human: float
    human_low: float
    human_high: float
    pairs: int
    queries: int


def wins(cast: Ballots, said: Floats, votes: pa.Table, options: AgreeOptions) -> Iterator[Win]:
    """Yield win rates of every document that was compared in enough queries for an interval.

    Args:
        cast: the votes; the first of its judges are the people.
        said: their words, of `votes.words`, [raters, pairs].
        votes: what they were cast of.
        options: resamples and seed.
    """
    doc_ids = sorted({*votes["doc_id_a"].to_pylist(), *votes["doc_id_b"].to_pylist()})
    for row, judge in enumerate(cast.judges[1:], 1):
        pairs = np.flatnonzero(~np.isnan(said[[0, row]]).any(axis=0))
        query = cast.pairs[pairs, 0]
        documents = np.unique(
            np.concatenate([cast.pairs[pairs][:, [0, side]] for side in (1, 2)]), axis=0
        )
        places, queries = np.unique(documents[:, 1], return_counts=True)
        for place in places[queries >= FEWEST]:
            first, second = (cast.pairs[pairs, side] == place for side in (1, 2))
            mask = first | second
            totals = np.bincount(query[mask], minlength=len(cast.query_ids))
            turn = np.where(first[mask], 1, -1)
            points = [(turn * said[rater, pairs[mask]] + 1) / 2 for rater in (row, 0)]
            by_judge, by_people = (
                share(np.bincount(query[mask], won, len(totals)), totals, **options.chance)
                for won in points
            )
            ends = (
                by_judge.value,
                by_judge.low,
                by_judge.high,
                by_people.value,
                by_people.low,
                by_people.high,
            )
            yield Win(judge, doc_ids[place - 1], *ends, int(totals.sum()), by_judge.queries)


def win_lines(won: Sequence[Win], judges: Sequence[str]) -> Iterator[str]:
    """Yield a table of the win rates by judge and by people, with the judges numbered."""
    of = {(win.judge, win.doc_id): win for win in won}
    by_people = {win.doc_id: win.human for win in reversed(won)}
    documents = sorted(by_people, key=lambda doc_id: -by_people[doc_id])
    if not documents:
        return
    rows = []
    for doc_id in documents[:_DOCUMENTS]:
        row = [of.get((judge, doc_id)) for judge in judges[:_JUDGES]]
        rows.append([doc_id, *(f"{win.wins:.4f} / {win.human:.4f}" if win else "-" for win in row)])
    yield ""
    yield f"Win rates by judge / by {HUMAN}, on the pairs that both judged; a tie is half a win"
    yield from laid_out(["document", *map(str, range(1, len(judges[:_JUDGES]) + 1))], rows)
    if (more := len(documents) - _DOCUMENTS) > 0:
        yield f"… and {counted(more, 'more document')}"
