"""Each reason has a sentence, which is said once."""

from zelo_ray.reasons import (
    Disabled,
    StopReason,
    Unscored,
    UnscoredReason,
    describe_disabled,
    judges_by_reason,
)


def test_each_reason_is_said_once_of_its_judges():
    key, over = Disabled(StopReason.FATAL, "a wrong key"), Disabled(StopReason.BUDGET, "no money")
    disabled = {"a": key, "b": over, "c": key}
    assert judges_by_reason(disabled) == {key: ["a", "c"], over: ["b"]}
    assert [*describe_disabled(disabled)] == ["a, c: a wrong key", "no money"]


def test_every_reason_for_no_scores_has_its_sentence():
    numbers = {"held": 1, "takes": 2, "judged": 3, "asked": 12, "parts": 2, "names": "a; b"}
    for code in set(UnscoredReason) - {UnscoredReason.OTHER}:
        assert Unscored.because(code, **numbers).message
