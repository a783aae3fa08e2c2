"""Calls that begin one in a turn of the event loop."""

import asyncio
from itertools import pairwise

from zelo_ray.engine.turnstile import Turnstile


def passes(count, cancelled=()):
    """In which turn of the loop each of so many passed, by its number; all came in one turn."""

    async def run():
        turnstile, turn, passed = Turnstile(), 0, {}

        async def call(i):
            await turnstile.wait_turn()
            passed[i] = turn

        calls = [asyncio.create_task(call(i)) for i in range(count)]
        for _ in range(3 * count + 3):
            await asyncio.sleep(0)
            turn += 1
            if turn == 1:
                for i in cancelled:
                    calls[i].cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        return passed

    return asyncio.run(run())


def test_one_passes_in_a_turn_in_the_order_in_which_they_came():
    passed = passes(20)
    assert list(passed) == list(range(20))
    turns = list(passed.values())
    assert all(later > earlier for earlier, later in pairwise(turns))


def test_one_that_was_cancelled_takes_nobodys_turn():
    passed = passes(6, cancelled=(1, 2, 5))
    assert list(passed) == [0, 3, 4]
    assert passed[3] - passed[0] <= 2


def test_one_that_comes_alone_does_not_wait():
    async def run():
        turnstile = Turnstile()
        for _ in range(3):
            call = asyncio.create_task(turnstile.wait_turn())
            await asyncio.sleep(0)
            assert call.done()
            await asyncio.sleep(0.001)

    asyncio.run(run())
