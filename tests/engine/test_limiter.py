"""The limiter against a server's token buckets, in simulated time."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.rates import Bucket
from zelo_ray.engine.limiter import Account, Limiter

RPM = Account("a", {"rpm": 600})


def test_calls_go_at_the_rate_and_nothing_is_saved_up():
    limiter = Limiter(RPM, now=100.0)
    delays = [limiter.reserve({"rpm": 1}, 100.0) for _ in range(60)]
    assert delays[0] == pytest.approx(0.1 / 0.99)
    assert delays == pytest.approx([(i + 1) * 0.1 / 0.99 for i in range(60)])


def test_a_rested_account_bursts_for_a_second_at_most():
    limiter = Limiter(RPM, now=0.0)
    delays = [limiter.reserve({"rpm": 1}, 1000.0) for _ in range(12)]
    assert delays[:9] == [0.0] * 9
    assert delays[11] > 0.15


def test_large_calls_are_served_in_their_turn():
    """A limiter that wakes small waiters first starves the large prompt."""
    limiter = Limiter(Account("a", {"tpm": 60_000}), now=0.0)
    starts = [limiter.reserve({"tpm": size}, 0.0) for size in (100, 100, 9000, 100, 100)]
    assert starts == sorted(starts)


def test_a_lease_looks_no_more_than_a_second_ahead():
    limiter = Limiter(RPM, now=0.0)
    lease = limiter.lease([{"rpm": 1}] * 500, 0.0)
    assert 9 <= len(lease.delays) <= 12
    assert 0.4 < lease.again < 1.1
    assert not limiter.lease([{"rpm": 1}], 0.01).delays  # somebody else finds nothing to lease yet
    limiter = Limiter(Account("a", {"tpm": 6_000}), now=0.0)
    (delay,) = limiter.lease([{"tpm": 8_000}], 0.0).delays  # larger than that, and let through
    assert delay == pytest.approx(80 / 0.99)


def test_estimates_are_settled():
    limiter = Limiter(Account("a", {"tpm": 60_000}), now=0.0)
    limiter.reserve({"tpm": 3000}, 0.0)
    limiter.correct({"tpm": -2000})
    assert limiter.reserve({"tpm": 0}, 0.0) == pytest.approx(1 / 0.99)
    limiter.correct({"tpm": 500})
    assert limiter.reserve({"tpm": 0}, 0.0) == pytest.approx(1.5 / 0.99)


def test_a_pause_holds_for_everyone_and_what_follows_is_paced():
    limiter = Limiter(RPM, now=0.0)
    limiter.pause(20.0, now=5.0)
    lease = limiter.lease([{"rpm": 1}] * 3, 6.0)
    assert lease.delays == ()
    assert lease.again == pytest.approx(18.5)
    delays = limiter.lease([{"rpm": 1}] * 3, 24.5).delays
    assert delays[0] > 0.5
    assert delays[1] - delays[0] > 0.1


def test_a_429_cuts_the_rate_and_it_comes_back_slowly():
    limiter = Limiter(RPM, now=0.0)
    assert limiter.rates["rpm"] == pytest.approx(594)
    limiter.pause(0.0, now=10.0)
    limiter.pause(0.0, now=10.1)  # the same excess
    assert limiter.rates["rpm"] == pytest.approx(594 * 0.8)
    for second in range(11, 16):
        limiter.lease([], second)
    assert 594 * 0.8 < limiter.rates["rpm"] < 594 * 0.92
    for second in range(16, 60):
        limiter.lease([], second)
    assert limiter.rates["rpm"] == pytest.approx(594)


def test_headers_replace_the_guess_and_the_lower_of_two_words_holds():
    limiter = Limiter(Account("a", cautious={"rpm": 50}), now=0.0)
    assert limiter.guessed
    assert limiter.rates == {"rpm": 50}
    limiter.learn(Account("a", cautious={"rpm": 50}), {"rpm": 4000, "itpm": 1e6})
    assert not limiter.guessed
    assert limiter.rates == {"rpm": 4000 * 0.99, "itpm": 1e6 * 0.99}
    limiter.learn(Account("a", {"rpm": 500, "otpm": 9e4}), {"rpm": 4000})
    assert limiter.rates == {"rpm": 500 * 0.99, "itpm": 1e6 * 0.99, "otpm": 9e4 * 0.99}


def test_a_guess_is_outgrown_until_the_server_objects():
    limiter = Limiter(Account("a", cautious={"rpm": 60}), now=0.0)
    for second in range(1, 61):
        limiter.lease([{"rpm": 1}] * 50, second)
    grown = limiter.rates["rpm"]
    assert 150 < grown < 250
    limiter.pause(1.0, now=61.0)
    assert limiter.rates["rpm"] == pytest.approx(grown * 0.95 * 0.8)
    for second in range(62, 72):
        limiter.lease([{"rpm": 1}] * 50, second)
    assert grown * 0.8 < limiter.rates["rpm"] < grown * 0.95


def test_a_guess_that_nobody_waits_for_does_not_grow():
    """Where latency or money sets the pace, that nobody objects says nothing about the limits."""
    limiter = Limiter(Account("a", cautious={"rpm": 300}), now=0.0)
    for tick in range(40_000):
        limiter.lease([{"rpm": 1}], tick / 4)
    assert limiter.rates["rpm"] < 320


def test_a_pause_tells_for_how_long_429s_are_all_that_anybody_got():
    limiter = Limiter(RPM, now=0.0)
    assert limiter.pause(1.0, now=5.0) == 0.0
    assert limiter.pause(1.0, now=65.0) == 60.0
    limiter.record_answer()
    assert limiter.pause(1.0, now=90.0) == 0.0
    limiter.lease([{"rpm": 1}], 100.0)  # whoever waits has heard nothing
    assert limiter.pause(1.0, now=100.0) == 10.0


@given(
    st.lists(st.floats(1, 5000), min_size=1, max_size=300),
    st.integers(1, 4),
    st.floats(0.3, 3.0),
)
def test_no_bucket_of_the_same_limits_ever_objects(sizes, workers, mistake):
    """Several workers lease in turn; the server's buckets hold a second's worth when they begin.

    Estimates are off by a factor, and settled when the call arrives.
    """
    limits = {"rpm": 6000, "tpm": 600_000}
    limiter = Limiter(Account("a", limits), now=0.0)
    buckets = {name: Bucket(limit, 2.0, 0.0) for name, limit in limits.items()}
    buckets["rpm"].take(100)
    buckets["tpm"].take(10_000)
    queues = [sizes[i::workers] for i in range(workers)]
    wake, rng = [0.0] * workers, random.Random(0)
    arrivals = list[tuple[float, float]]()
    while any(queues):
        worker = min((w for w in range(workers) if queues[w]), key=lambda w: wake[w])
        now, queue = wake[worker], queues[worker]
        lease = limiter.lease([{"rpm": 1, "tpm": size * mistake} for size in queue[:50]], now)
        for delay in lease.delays:
            size = queue.pop(0)
            arrivals.append((now + delay + rng.random() * 0.01, size))
            limiter.correct({"tpm": size - size * mistake})
        wake[worker] = now + lease.again
    for at, size in sorted(arrivals):
        assert buckets["rpm"].wait(1, at) == 0
        assert buckets["tpm"].level(at) > min(0, -5000 * 50 * (1 - mistake))
        for name, amount in (("rpm", 1), ("tpm", size)):
            buckets[name].take(amount)
