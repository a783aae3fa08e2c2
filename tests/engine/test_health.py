"""Whether a judge may be called, when it is given up, and what a call comes to: without a loop."""

import pytest

from tests.helpers.builders import judge_of, options_of, request_of
from zelo_ray.engine.calling import Permit, Tries, judge_outcome
from zelo_ray.engine.coordinator import CallCost
from zelo_ray.engine.health import FIRST, JudgeHealth
from zelo_ray.engine.replies import CheckedAnswer
from zelo_ray.engine.tokens import measure_request
from zelo_ray.providers import Fatal, Refused, Retry, RetryKind
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Answer, Usage

HOSTED, OWN = judge_of("openai:m"), judge_of("openai:m@http://127.0.0.1:1/v1")
UNREACHED = Retry("connection refused", name="openai:m", kind=RetryKind.UNREACHED)
AWAY = Retry("503", name="openai:m", kind=RetryKind.UNAVAILABLE)
THROTTLED = Retry("429", name="openai:m", kind=RetryKind.THROTTLED)
SILENT = Retry("no answer within 120 s", name="openai:m", unsettled=True)
LOST = Retry("connection reset", name="openai:m")
USED = Usage(100, 10)
BILLED = Retry("no answer", name="openai:m", billed=USED)


def health_of(judge=HOSTED, silence_limit=43_200.0, **fields):
    return JudgeHealth(judge, silence_limit, **{"on_trial": False, **fields})


def opened(keys="abcde", now=0.0, **fields):
    """A judge of whom so many different requests have failed."""
    health = health_of(**fields)
    for key in keys:
        assert not health.is_open
        health.record_failure(LOST, key, now)
    assert health.is_open
    return health


# Who may go


def test_probes_go_alone_in_turn_and_at_growing_intervals():
    health, now, probes = opened(), 0.0, []
    keys = [f"r{n}" for n in range(8)]
    for wait in (1, 2, 4, 8, 16, 32, 60, 60):
        for key in keys:
            assert health.seconds_to_wait(key, now) > 0
        now += wait
        free = [key for key in keys if not health.seconds_to_wait(key, now)]
        assert len(free) == 1
        assert [key for key in keys if health.may_go(key)] == free
        assert all(health.seconds_to_wait(key, now + 500) for key in keys if key not in free)
        health.record_failure(LOST, free[0], now)
        probes += free
    assert probes == keys  # no prompt alone decides
    health.record_answer()
    assert not any(health.seconds_to_wait(key, now) for key in keys)


def test_a_probe_that_never_goes_leaves_its_place_to_the_next():
    health = opened()
    assert health.seconds_to_wait("x", 0.0) == 1.0
    assert health.seconds_to_wait("y", 0.0) > 1.0
    assert health.seconds_to_wait("x", 1.0) == 0.0
    assert health.seconds_to_wait("y", 1.0) > 0.0
    health.end_request("x", None)
    assert health.seconds_to_wait("y", 1.0) == 0.0


def test_one_request_that_fails_again_and_again_holds_nobody_back():
    health = health_of()
    for _ in range(50):
        assert health.record_failure(LOST, "a", 0.0) == 1.0
    for key in "bcd":
        health.record_failure(LOST, key, 0.0)
    health.record_answer()
    health.record_failure(LOST, "e", 0.0)
    assert not health.is_open


@pytest.mark.parametrize("trouble", [UNREACHED, AWAY])
def test_a_server_that_says_so_itself_needs_no_second_opinion(trouble):
    health = health_of()
    for _ in range(3):
        assert not health.is_open
        health.record_failure(trouble, "a", 0.0)
    assert health.is_open


def test_a_servers_own_wish_is_waited_for():
    health = health_of()
    health.record_call(0.0)
    health.record_answer()
    health.record_failure(Retry("503", 600.0), "a", 0.0)
    assert health.is_open
    assert health.seconds_to_wait("a", 0.0) == 600.0
    assert health.seconds_to_wait("a", 600.0) == 0.0


def test_the_first_call_to_a_server_named_by_its_url_goes_alone():
    health = health_of(OWN)
    assert not health.seconds_to_wait("a", 0.0)
    assert health.may_go("a")
    assert health.seconds_to_wait("b", 0.0)
    health.record_answer()
    assert not health.seconds_to_wait("b", 0.0)
    assert not health_of(OWN, reached=True).seconds_to_wait("b", 0.0)


# What a failure costs its request


def test_an_outage_of_six_hours_costs_no_request_an_attempt():
    health, now, keys = health_of(), 0.0, ["a", "b", "c", "d", "e"]
    health.record_answer()
    for key in keys[:4]:  # the fifth holds the others back
        health.record_failure(LOST, key, now)
    while now < 6 * 3600:
        for key in keys:
            if not health.seconds_to_wait(key, now):
                health.record_call(now)
                cost = health.record_failure(SILENT, key, now)
                assert cost == 0.0 or not now
        now += 1.0
    assert health.is_open
    assert health.given_up is None


def test_a_failure_is_an_attempt_where_others_are_answered():
    health = health_of()
    assert health.record_failure(UNREACHED, "a", 0.0) == 0.0
    assert health.record_failure(LOST, "a", 0.0) == 1.0
    assert health.record_failure(THROTTLED, "a", 0.0) == 0.1
    health.record_answer()
    for key in "bcdef":  # the last one opens it
        cost = health.record_failure(LOST, key, 0.0)
    assert cost == 0.0
    assert health.record_failure(BILLED, "f", 0.0) == 1.0
    assert health.seconds_to_wait("a", 9.0) == 0.0
    assert health.record_failure(LOST, "a", 9.0) == 1.0  # others were answered meanwhile


# When it is given up


def test_429s_alone_end_it_when_nobody_else_of_ours_gets_an_answer():
    health = health_of(silence_limit=180.0)
    health.record_throttling(0.0, 0.0)
    health.record_throttling(180.0, 180.0)
    health.record_throttling(5.0, 400.0)  # another worker had an answer
    assert not health.given_up
    health.record_throttling(190.0, 410.0)
    assert health.given_up.code is StopReason.THROTTLED
    assert "for 3 minutes; " in health.given_up.message


def test_a_judge_that_is_paced_by_429s_goes_on_for_ever():
    health = health_of(silence_limit=180.0)
    for second in range(0, 10_000, 100):
        health.record_throttling(900.0, float(second))  # an earlier run had none
        health.record_answer()
    assert not health.given_up


@pytest.mark.parametrize("trouble", [THROTTLED, AWAY])
def test_a_wish_to_wait_longer_than_that_ends_it(trouble):
    health = health_of(silence_limit=180.0)
    trouble = Retry("wait", 1000.0, name="openai:m", kind=trouble.kind)
    health.record_failure(trouble, "a", 0.0)
    assert "asks us to wait 17 minutes" in health.given_up.message


@pytest.mark.parametrize(("judge", "at"), [(OWN, [0.0, 1.0, 3.0]), (HOSTED, [0.0, 8.0, 9.0, 15.0])])
def test_a_judge_that_was_never_reached_is_given_up_soon(judge, at):
    health = health_of(judge)
    for now in at:
        assert not health.given_up
        assert health.record_failure(UNREACHED, "a", now) == 0.0
    assert health.given_up.code is StopReason.UNREACHED
    assert f"{UNREACHED.detail}, {len(at)} times in {at[-1]:.0f} s; " in health.given_up.message


@pytest.mark.parametrize("reached", ["before", "now", "by a 503"])
def test_a_judge_that_was_reached_may_be_away_for_a_while(reached):
    health = health_of(OWN, reached=reached == "before")
    if reached == "now":
        health.record_answer()
    if reached == "by a 503":
        health.record_failure(AWAY, "a", 0.0)
    for now in range(100):
        health.record_failure(UNREACHED, "a", float(now))
    assert not health.given_up


@pytest.mark.parametrize("heard", [False, True])
@pytest.mark.parametrize("limit", [60.0, 43_200.0])
def test_nothing_may_come_back_for_so_long_and_never_heard_of_for_three_minutes(limit, heard):
    health = health_of(silence_limit=limit)
    health.record_call(0.0)
    if heard:
        health.record_answer()
    health.record_call(10.0)  # and then the outage begins
    begun, limit = (10.0, limit) if heard else (0.0, min(limit, 180.0))
    for key in "abcdef":
        health.record_failure(SILENT, key, begun + limit)
    assert not health.given_up
    health.record_failure(SILENT, "g", begun + limit + 1)
    assert health.given_up.code is StopReason.SILENT
    assert "nothing else for" in health.given_up.message


# The trial


def refusals(health, count):
    for n in range(count):
        assert not health.seconds_to_wait(f"r{n}", 0.0)
        health.end_request(f"r{n}", Answer("refused", "", Usage(), reason="no"))


def test_no_more_are_asked_than_tell_that_none_gives_a_judgment():
    health = health_of(on_trial=True)
    refusals(health, FIRST - 1)
    assert not health.seconds_to_wait("last", 0.0)
    assert not health.seconds_to_wait("r3", 0.0)  # who has begun goes on
    assert health.seconds_to_wait("another", 0.0)
    health.end_request("last", None)  # it came to nothing, and tells nothing
    assert not health.seconds_to_wait("another", 0.0)
    health.end_request("another", Answer("refused", "", Usage(), reason="no"))
    assert health.given_up.code is StopReason.NO_JUDGMENT
    assert f"{FIRST} times: no" in health.given_up.message


def test_a_judgment_ends_the_trial_unless_it_is_in_doubt():
    health = health_of(on_trial=True)
    refusals(health, FIRST - 1)
    good = Answer("ok", "{}", Usage())
    health.seconds_to_wait("a", 0.0)
    health.end_request("a", good, in_doubt=True)
    assert health.on_trial
    health.seconds_to_wait("b", 0.0)
    health.end_request("b", good)
    assert not any(health.seconds_to_wait(f"x{n}", 0.0) for n in range(100))


# What a call comes to

OPTIONS = options_of(attempts=2, reasks=1)


def result_of(outcome, *, attempts=1.0, reasks=0, ours=False, given_up=None, judged=False):
    tries = Tries(measure_request(request_of()), 0, 1, attempts, reasks)
    health = health_of(on_trial=not judged)
    health.given_up = given_up
    return judge_outcome(outcome, tries, Permit(request_of(), CallCost(), ours), OPTIONS, health)


def answer(status, **fields):
    return CheckedAnswer(Answer(status, "text", USED, **fields))


FAULTY = answer("invalid", judge_fault="no probabilities")
GONE = Disabled(StopReason.SILENT, "nothing")
TABLE = {
    # outcome, circumstances: is it kept, the last, answered, perhaps billed, and why to stop
    "ok": (answer("ok"), {}, (True, True, True, False, "")),
    "refused": (answer("refused"), {}, (True, True, True, False, "")),
    "cut": (answer("truncated"), {}, (True, True, True, False, "")),
    "cut at our limit": (answer("truncated"), {"ours": True}, (True, False, True, False, "")),
    "invalid": (answer("invalid"), {}, (True, False, True, False, "")),
    "invalid again": (answer("invalid"), {"reasks": 1}, (True, True, True, False, "")),
    "a fault": (FAULTY, {}, (True, False, True, False, "fatal")),
    "a doubtful fault": (FAULTY, {"judged": True, "reasks": 1}, (True, True, True, False, "")),
    "a reader": (CheckedAnswer(answer("ok").answer, "broke"), {}, (1, True, True, False, "error")),
    "a refusal": (Refused("no", "filtered"), {}, (True, True, True, False, "")),
    "lost": (LOST, {}, (False, False, False, False, "")),
    "timed out": (SILENT, {}, (False, False, False, True, "")),
    "billed": (BILLED, {}, (True, False, False, False, "")),
    "lost at last": (LOST, {"attempts": 2.0}, (True, True, False, False, "")),
    "given up": (LOST, {"attempts": 2.0, "given_up": GONE}, (False, True, False, False, "silent")),
    "a person": (Fatal("wrong key"), {}, (False, True, False, False, "fatal")),
    "a bug": (ValueError("x"), {}, (False, True, False, True, "error")),
}


@pytest.mark.parametrize("case", TABLE)
def test_what_a_call_comes_to(case):
    outcome, circumstances, expected = TABLE[case]
    if isinstance(outcome, ValueError):
        try:
            raise outcome
        except ValueError as error:
            outcome = error
    result = result_of(outcome, **circumstances)
    stop = result.stop.code.value if result.stop else ""
    found = (result.answer is not None, result.is_last, result.is_answered, result.possibly_billed)
    assert (*found, stop) == expected
