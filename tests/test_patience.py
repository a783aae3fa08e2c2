"""When a judge is given up, in simulated time."""

import pytest

from tests.builders import judge_of
from zelo_ray.engine.circuit_breaker import FailureDetector
from zelo_ray.providers import Retry, RetryKind
from zelo_ray.reasons import StopReason

HOSTED, OWN = judge_of("openai:m"), judge_of("openai:m@http://127.0.0.1:1/v1")
UNREACHED = Retry("connection refused", name="openai:m", kind=RetryKind.UNREACHED)
SILENT = Retry("no answer within 120 s", name="openai:m", unsettled=True)


def test_429s_alone_end_it_when_nobody_else_of_ours_gets_an_answer():
    patience = FailureDetector(HOSTED, 180.0)
    assert not patience.record_throttling(0.0, 0.0)
    assert not patience.record_throttling(180.0, 180.0)
    assert not patience.record_throttling(5.0, 400.0)  # another actor had an answer
    assert not FailureDetector(HOSTED, 180.0).record_throttling(
        900.0, 400.0
    )  # an earlier run had none
    why = patience.record_throttling(190.0, 410.0)
    assert why.code is StopReason.THROTTLED
    assert "for 3 minutes; " in why.message


def test_a_judge_that_is_paced_by_429s_goes_on_for_ever():
    patience = FailureDetector(HOSTED, 180.0)
    for second in range(0, 10_000, 100):
        assert not patience.record_throttling(100.0, float(second))
        patience.record_reply()


@pytest.mark.parametrize(("judge", "at"), [(OWN, [0.0, 1.0, 3.0]), (HOSTED, [0.0, 8.0, 9.0, 15.0])])
def test_a_judge_that_was_never_reached_is_given_up_soon(judge, at):
    patience, whys = FailureDetector(judge, 180.0), []
    for now in at:
        assert patience.is_starting(UNREACHED)
        whys.append(patience.record_failure(UNREACHED, now, away=False))
    assert not any(whys[:-1])
    assert whys[-1].code is StopReason.UNREACHED
    assert f"{UNREACHED.detail}, {len(at)} times in {at[-1]:.0f} s; " in whys[-1].message


@pytest.mark.parametrize("reached", ["before", "now", "by a 503"])
def test_a_judge_that_was_reached_may_be_away_for_a_while(reached):
    patience = FailureDetector(OWN, 180.0, reached=reached == "before")
    assert patience.first_call_alone == (reached != "before")
    if reached == "now":
        patience.record_reply()
    if reached == "by a 503":
        assert not patience.record_failure(Retry("503"), 0.0, away=False)
    assert not patience.is_starting(UNREACHED)
    assert not any(patience.record_failure(UNREACHED, float(now), away=True) for now in range(100))


def test_a_server_that_hangs_is_asked_alone_for_no_longer_than_that():
    patience = FailureDetector(OWN, 180.0)
    patience.record_call(1000.0)
    assert not patience.record_failure(SILENT, 1120.0, away=False)
    why = patience.record_failure(SILENT, 1240.0, away=False)
    assert why.code is StopReason.SILENT
    assert " for 4 minutes; " in why.message
    patience.first_call_alone = False
    assert not patience.record_failure(SILENT, 1360.0, away=False)


def test_a_judge_from_which_nothing_comes_back_is_waited_for_as_long_as_it_is_told():
    patience = FailureDetector(HOSTED, 43_200.0)
    patience.record_call(0.0)
    patience.record_reply()
    patience.record_call(10.0)  # and then the outage begins
    patience.record_call(20.0)
    assert not patience.record_failure(SILENT, 43_210.0, away=True)
    assert not patience.record_failure(SILENT, 43_211.0, away=False)  # others are answered
    why = patience.record_failure(SILENT, 43_211.0, away=True)
    assert why.code is StopReason.SILENT
    assert " for 12 hours; " in why.message


@pytest.mark.parametrize("seconds", [60.0, 43_200.0])
def test_a_judge_that_was_never_heard_of_is_waited_for_no_longer_than_a_person_waits(seconds):
    patience = FailureDetector(HOSTED, seconds)
    patience.record_call(0.0)
    assert not patience.record_failure(SILENT, min(seconds, 180.0), away=True)
    assert patience.record_failure(SILENT, min(seconds, 180.0) + 1, away=True)
