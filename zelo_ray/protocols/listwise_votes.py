"""Listwise votes: a judge orders a handful of documents a call, and an order is one vote.

Groups of documents are drawn so that each document is shown equally often, and so that all are
linked (`zelo_ray.fitting.pairs`). An order of k documents says who wins k(k - 1)/2 battles (as in
BlitzRank, Agrawal et al. 2026, arXiv 2602.05448), but they come from one look: it counts as the k -
1 choices of the Plackett-Luce model (`zelo_ray.fitting.orders`). No reasons are written. One round.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Self

from zelo_ray.fitting.orders import score_orders
from zelo_ray.fitting.pairs import Group, draw_groups, first_turn
from zelo_ray.fitting.scores import Fit
from zelo_ray.protocols import Learned, Protocol, ScoreKind, shared_error
from zelo_ray.protocols.judgments import VOTES
from zelo_ray.protocols.options import ListwiseOptions
from zelo_ray.protocols.questions import Ask, Question, one_round
from zelo_ray.protocols.rankers import Order, order_of, order_request
from zelo_ray.protocols.texts import ShownDocuments
from zelo_ray.protocols.zelo import LOGITS, judge_in_turn
from zelo_ray.records import Judge, PlannedRequest, Pool, Reply, SyntheticFeatures, Vote


class GroupOrder(Order):
    """A judge's verdict on the documents of a group."""

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge."""
        if not seen.scores:  # for two documents a preference will do
            return cls(order=[1, 2] if seen.preference <= 0 else [2, 1])
        best = sorted(range(len(seen.scores)), key=lambda place: -seen.scores[place])
        return cls(order=[place + 1 for place in best])


def plan(pool: Pool, panel: Sequence[Judge], options: ListwiseOptions) -> Iterator[Ask]:
    """Yield each group for all judges, or for one in turn; one drawn before is a repeat."""
    doc_ids = [document.id for document in pool.documents]
    drawn = draw_groups(options.seed, pool.query_id, doc_ids, options.group, options.looks)
    before, turn = Counter[Group](), first_turn(options.seed, pool.query_id, "")
    for place, group in enumerate(group for groups in drawn for group in groups):
        first = before[group] * options.repeats
        for judge in panel if options.votes == "all" else [judge_in_turn(panel, turn + place)]:
            for repeat in range(first, first + options.repeats):
                yield Ask(judge, group, repeat)
        before[group] += 1


def question(asked: Ask, shown: ShownDocuments) -> Question:
    """Build the question for an order of a group, whose ids ascend.

    The order in which the judge sees them is drawn; every other repeat has the reverse.
    """
    (judge, group, repeat), pool = asked, shown.pool
    order = list(group)
    random.Random(f"{shown.options.seed}:{pool.query_id}:{group}:{judge.name}").shuffle(order)
    if repeat % 2:
        order.reverse()
    model = order_of(len(group), GroupOrder)
    request = PlannedRequest.find(pool, judge, *group, repeat) or order_request(
        shown, order, judge, model, repeat=repeat // 2, item=(*group, repeat)
    )

    def votes(verdict: Order, reply: Reply) -> list[Vote]:
        shown_at = {doc_id: place for place, doc_id in enumerate(order)}
        rank = {order[number - 1]: place for place, number in enumerate(verdict.order, 1)}
        return [
            Vote(
                *(pool.query_id, a, b, judge.name),
                preference=-1.0 if rank[a] < rank[b] else 1.0,
                swapped=shown_at[a] > shown_at[b],
                reasoning=f"places {rank[a]} and {rank[b]} in an order of {len(rank)} documents",
                key=reply.key,
            )
            for a, b in combinations(group, 2)
        ]

    return Question(pool.query_id, order, request, model, votes)


rounds, count = one_round(plan, question)


def fit(
    judgments: Sequence[Sequence[Vote]],
    options: ListwiseOptions,
    learned: Learned | None = None,
) -> list[Fit]:
    """Fit Plackett-Luce scores, query by query."""
    return score_orders(judgments, options.prior_sd, shared_error.share_of(learned))


PROTOCOL = Protocol(
    name="listwise-votes",
    rounds=rounds,
    count=count,
    response_models=(GroupOrder,),
    rebuild={"GroupOrder": lambda parameters: order_of(int(parameters[0]), GroupOrder)},
    min_documents=2,
    judgments={"votes": VOTES},
    fit=fit,
    score=ScoreKind(unit="logits", explain=lambda _: LOGITS.format("places in one order")),
    options=ListwiseOptions,
    judges_are_independent=lambda options: bool(options.votes == "all"),
    **shared_error.learning(fit),
)
