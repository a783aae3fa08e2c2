"""Battles that are asked again: in the other order, and never twice the same question."""

from collections import Counter, defaultdict

from tests.helpers.builders import Shelf, judge_of, missing, options_of, pool_of, verdict
from zelo_ray.protocols import advance, zelo

PANEL = (judge_of("openai:one"), judge_of("anthropic:two"))


def by_battle(pool, **fields):
    """The requests of each judge on each pair, in the order in which they are asked."""
    found = defaultdict(list)
    for request in missing(pool, PANEL, options_of(**fields)):
        pair = tuple(sorted(document.id for document in request.documents))
        found[request.judge.name, *pair].append(request)
    return found


def test_two_repeats_show_both_orders_and_more_show_them_again():
    for requests in by_battle(pool_of(range(5)), repeats=4).values():
        orders = [tuple(document.id for document in r.documents) for r in requests]
        assert orders == [orders[0], orders[0][::-1]] * 2
        assert [request.repeat for request in requests] == [0, 0, 1, 1]
        assert len({request.key for request in requests}) == 4
        assert len({request.user for request in requests}) == 2


def test_a_judge_that_always_prefers_what_comes_first_ends_in_ties():
    pool, options, shelf = pool_of(range(4)), options_of(repeats=2), Shelf()
    for request in missing(pool, PANEL, options):
        shelf.put(request, verdict(-0.5))
    step = advance(zelo.rounds(pool, PANEL, options), shelf)
    (fit,) = zelo.fit([step.judgments], options)
    assert {score.score for score in fit.scores} == {0.0}
    assert {score.comparisons for score in fit.scores} == {12}
    assert Counter(vote.swapped for vote in step.judgments) == {True: 12, False: 12}
