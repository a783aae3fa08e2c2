"""When a judge is given up, in simulated time."""

import pytest

from tests.builders import judge_of
from zelo_ray.engine.patience import Patience
from zelo_ray.providers import Retry
from zelo_ray.records import Answer, Usage

HOSTED, OWN = judge_of("openai:m"), judge_of("openai:m@http://127.0.0.1:1/v1")
UNREACHED = Retry("openai:m: connection refused", unreached=True)
SILENT = Retry("openai:m: no answer within 120 s", unsettled=True)
FAILED, FINE = (Answer(status, "", Usage(), reason="503") for status in ("failed", "ok"))


def test_429s_alone_end_it_when_nobody_else_of_ours_gets_an_answer():
    patience = Patience(HOSTED, 180.0)
    assert not patience.throttled(0.0, 0.0)
    assert not patience.throttled(180.0, 180.0)
    assert not patience.throttled(5.0, 400.0)  # another actor had an answer
    assert not Patience(HOSTED, 180.0).throttled(900.0, 400.0)  # an earlier run had none
    why = patience.throttled(190.0, 410.0)
    assert why.startswith("openai:m: nothing but 429 (rate limit) for 3 minutes; ")
    assert "--patience" in why
    assert "nothing is lost" in why


def test_a_judge_that_is_paced_by_429s_goes_on_for_ever():
    patience = Patience(HOSTED, 180.0)
    for second in range(0, 10_000, 100):
        assert not patience.throttled(100.0, float(second))
        patience.replied()


@pytest.mark.parametrize(("judge", "at"), [(OWN, [0.0, 1.0, 3.0]), (HOSTED, [0.0, 8.0, 9.0, 15.0])])
def test_a_judge_that_was_never_reached_is_given_up_soon(judge, at):
    patience, whys = Patience(judge, 180.0), []
    for now in at:
        assert patience.is_starting(UNREACHED)
        whys.append(patience.missed(UNREACHED, now))
    assert not any(whys[:-1])
    assert whys[-1].startswith(f"{UNREACHED}, {len(at)} times in {at[-1]:.0f} s; check ")


@pytest.mark.parametrize("reached", ["before", "now", "by a 503"])
def test_a_judge_that_was_reached_may_be_away_for_a_while(reached):
    patience = Patience(OWN, 180.0, reached=reached == "before")
    assert patience.alone == (reached != "before")
    if reached == "now":
        patience.replied()
    if reached == "by a 503":
        assert not patience.missed(Retry("503"), 0.0)
    assert not patience.is_starting(UNREACHED)
    assert not any(patience.missed(UNREACHED, float(now)) for now in range(100))


def test_a_server_that_hangs_is_asked_alone_for_no_longer_than_that():
    patience = Patience(OWN, 180.0)
    patience.asked(1000.0)
    assert not patience.missed(SILENT, 1120.0)
    why = patience.missed(SILENT, 1240.0)
    assert why.startswith(f"{SILENT}; nothing else for 4 minutes; check ")
    patience.alone = False
    assert not patience.missed(SILENT, 1360.0)


def test_requests_that_all_fail_end_it():
    patience = Patience(HOSTED, 60.0)
    patience.asked(0.0)
    assert not any(patience.ended(FAILED, 30.0) for _ in range(30))
    assert patience.ended(FAILED, 61.0) == "no answer to 31 requests in a row, for 61 s: 503"
    assert not patience.ended(FINE, 62.0)
    assert not any(patience.ended(FAILED, 300.0) for _ in range(19))
    assert "no answer to 20 requests" in patience.ended(FAILED, 300.0)
