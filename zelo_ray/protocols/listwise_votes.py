"""Listwise votes: a judge orders a handful of documents a call, and an order is one vote.

Groups of documents are drawn so that each document is shown equally often, and so that all are
linked (`zelo_ray.fitting.groups`). An order of k documents says who wins k(k - 1)/2 battles (as in
BlitzRank, Agrawal et al. 2026, arXiv 2602.05448), but they come from one look: it counts as the k -
1 choices of the Plackett-Luce model (`zelo_ray.fitting.orders`). No reasons are written. One round.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Self

from zelo_ray.fitting.bradley_terry import Fit
from zelo_ray.fitting.groups import Group, count_groups, draw_groups
from zelo_ray.fitting.orders import score_orders
from zelo_ray.fitting.pairs import first_turn
from zelo_ray.protocols import Learned, Protocol, Rounds, ScoreKind, shared_error
from zelo_ray.protocols.judgments import VOTES
from zelo_ray.protocols.listwise import PROMPT, Order, order_of
from zelo_ray.protocols.options import ListwiseOptions
from zelo_ray.protocols.texts import build_failure, build_request, read_verdict
from zelo_ray.protocols.zelo import LOGITS, judge_in_turn, shown_documents
from zelo_ray.records import (
    AnyRequest,
    Document,
    Failure,
    Judge,
    PlannedRequest,
    Pool,
    Reply,
    SyntheticFeatures,
    Vote,
)


class GroupOrder(Order):
    """A judge's verdict on the documents of a group."""

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge.

        Raises:
            ValueError: it has neither scores nor a preference.
        """
        if not seen.scores:  # for two documents a preference will do
            return cls(order=[1, 2] if seen.preference <= 0 else [2, 1])
        best = sorted(range(len(seen.scores)), key=lambda place: -seen.scores[place])
        return cls(order=[place + 1 for place in best])


@dataclass(frozen=True, slots=True)
class OrderRequest:
    """A request to one judge to order a group, which can read its reply."""

    query_id: str
    shown: Group
    """ids of documents in the order in which the judge sees them"""
    request: AnyRequest

    def read(self, reply: Reply) -> list[Vote] | list[Failure]:
        """Turn a reply into a vote on each pair of the group, or into a failure."""
        judge, verdict = self.request.judge.name, read_verdict(reply, group_order(len(self.shown)))
        if isinstance(verdict, str):
            return [build_failure(self.query_id, self.shown, judge, reply, verdict)]
        shown_at = {doc_id: place for place, doc_id in enumerate(self.shown)}
        rank = {self.shown[number - 1]: place for place, number in enumerate(verdict.order, 1)}
        return [
            Vote(
                *(self.query_id, a, b, judge),
                preference=-1.0 if rank[a] < rank[b] else 1.0,
                swapped=shown_at[a] > shown_at[b],
                reasoning=f"places {rank[a]} and {rank[b]} in an order of {len(rank)} documents",
                key=reply.key,
            )
            for a, b in combinations(sorted(self.shown), 2)
        ]


@cache
def group_order(documents: int) -> type[Order]:
    """Build the response model for so many documents, which accepts permutations only."""
    return order_of(documents, GroupOrder)


def rounds(pool: Pool, panel: Sequence[Judge], options: ListwiseOptions) -> Rounds:
    """Let judges order every group of the plan."""
    shown = shown_documents(pool, options)
    requests = [
        _order_request(pool, [shown[doc_id] for doc_id in group], judge, options, repeat)
        for group, before, judges in _plan(pool, panel, options)
        for judge in judges
        for repeat in range(before * options.repeats, (before + 1) * options.repeats)
    ]
    if not requests:
        return []
    replies = yield [request.request for request in requests]
    return [
        row for request, reply in zip(requests, replies, strict=True) for row in request.read(reply)
    ]


def count(pool: Pool, panel: Sequence[Judge], options: ListwiseOptions) -> dict[str, int]:
    """Count one request for each group and repeat."""
    documents = len(pool.documents[: options.document_limit])
    if options.votes == "all":
        groups = count_groups(documents, options.group, options.looks)
        return {judge.name: groups * options.repeats for judge in panel}
    plan = _plan(pool, panel, options)
    ordering = Counter(judge.name for *_, judges in plan for judge in judges)
    return {judge.name: ordering[judge.name] * options.repeats for judge in panel}


def _plan(
    pool: Pool, panel: Sequence[Judge], options: ListwiseOptions
) -> Iterator[tuple[Group, int, Sequence[Judge]]]:
    """Yield each group, how often it was drawn before, and the judges who order it."""
    doc_ids = [document.id for document in pool.documents[: options.document_limit]]
    drawn = draw_groups(options.seed, pool.query_id, doc_ids, options.group, options.looks)
    before, turn = Counter[Group](), first_turn(options.seed, pool.query_id, "")
    for place, group in enumerate(group for groups in drawn for group in groups):
        judges = panel if options.votes == "all" else [judge_in_turn(panel, turn + place)]
        yield group, before[group], judges
        before[group] += 1


def _order_request(
    pool: Pool,
    group: Sequence[Document],
    judge: Judge,
    options: ListwiseOptions,
    repeat: int,
) -> OrderRequest:
    """Build one judge's request to order a group, given in ascending order of IDs.

    The order in which the judge sees them is drawn; every other repeat has the reverse.
    """
    ids = tuple(document.id for document in group)
    documents = list(group)
    random.Random(f"{options.seed}:{pool.query_id}:{ids}:{judge.name}").shuffle(documents)
    if repeat % 2:
        documents.reverse()
    shown = tuple(document.id for document in documents)
    if planned := PlannedRequest.find(pool, judge, *ids, repeat):
        return OrderRequest(pool.query_id, shown, planned)
    request = build_request(
        PROMPT,
        pool,
        judge,
        options,
        group_order(len(documents)),
        documents=documents,
        blocks={f"document {n}": document.content for n, document in enumerate(documents, 1)},
        fields={"count": len(documents)},
        repeat=repeat // 2,
        item=(*ids, repeat),
    )
    return OrderRequest(pool.query_id, shown, request)


def fit(
    judgments: Sequence[Sequence[Vote]],
    options: ListwiseOptions,
    learned: Learned | None = None,
) -> list[Fit]:
    """Fit Plackett-Luce scores, query by query."""
    return score_orders(judgments, options.prior_sd, shared_error.shared_error(learned))


PROTOCOL = Protocol(
    name="listwise-votes",
    rounds=rounds,
    count=count,
    response_models=(GroupOrder,),
    rebuild={"GroupOrder": lambda parameters: group_order(int(parameters[0]))},
    min_documents=2,
    judgments={"votes": VOTES},
    fit=fit,
    score=ScoreKind(unit="logits", explain=lambda _: LOGITS.format("places in one order")),
    options=ListwiseOptions,
    judges_are_independent=lambda options: bool(options.votes == "all"),
    **shared_error.LEARNING,
)
