"""The simulated judges: what they are told to be is what they are, within the bounds of chance."""

import asyncio
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from pydantic import BaseModel

from tests.helpers.builders import request_of
from zelo_ray.errors import PanelError
from zelo_ray.protocols import grading as sheets
from zelo_ray.protocols import zelo
from zelo_ray.providers import Fatal, Refused, Retry, Settings, build_panel, load_provider
from zelo_ray.providers.simulated import Simulated
from zelo_ray.records import Document, Usage

SIMULATED = load_provider("simulated")


def judge_of(name="simulated:a", **options):
    (judge,) = build_panel((name,), {name: options})
    return judge


def pair_of(first, second, number=0, judge=None, **fields):
    """A request about two documents of these grades; another number is another pair."""
    documents = tuple(
        Document(side, f"text {side}{number}", {"grade": grade})
        for side, grade in (("a", first), ("b", second))
    )
    user = " | ".join(document.content for document in documents)
    fields = {"query": "q", "documents": documents, "user": user, **fields}
    return request_of(judge=judge or judge_of(), **fields)


def turned(request):
    """The same pair in the other order."""
    documents = request.documents[::-1]
    user = " | ".join(document.content for document in documents)
    return replace(request, user=user, documents=documents)


def answers_to(requests, provider=None):
    async def run():
        asked = provider or SIMULATED.connect(Settings())
        found = [await asked.send(request) for request in requests]
        await asked.aclose()
        return found

    return asyncio.run(run())


def preferences(requests):
    answers = answers_to(requests)
    return [zelo.Preference.model_validate_json(each.text).preference for each in answers]


def logits(requests):
    """What the judge saw, from its preferences."""
    return 2 * np.arctanh(preferences(requests))


def is_near_share(count, total, share):
    """Whether a count is what chance allows: 4.5 standard deviations, once in 150,000 times."""
    return abs(count - total * share) <= 4.5 * math.sqrt(total * share * (1 - share)) + 1e-9


# What they see


def test_without_noise_the_truth_is_seen_exactly():
    judge = judge_of(noise=0, slope=0.7)
    grades = (-1.5, 0, 0.25, 2, 3)
    for first in grades:
        for second in grades:
            (seen,) = preferences([pair_of(first, second, judge=judge)])
            assert seen == pytest.approx(math.tanh(0.7 * (second - first) / 2), abs=1e-15)
            assert (seen > 0, seen < 0) == (second > first, second < first)
    first = judge_of(noise=0, position_bias=1.5)  # in favour of what is shown first
    assert preferences([pair_of(2, 2, judge=first)]) == [pytest.approx(-math.tanh(1.5 / 2))]


def test_the_better_document_wins_as_often_as_bradley_and_terry_say():
    for difference, noise in ((-2, 0.5), (0, 1.0), (0.5, 0.5), (3, 1.0)):
        judge = judge_of(slope=0.8, noise=noise)
        seen = preferences(pair_of(1, 1 + difference, i, judge) for i in range(4000))
        chance = 1 / (1 + math.exp(-0.8 * difference / noise))
        assert is_near_share(sum(each > 0 for each in seen), 4000, chance)


def test_an_error_that_is_shared_is_the_same_for_all_judges():
    a, b = (judge_of(name, noise=0, shared_noise=1.0) for name in ("simulated:a", "simulated:b"))
    seen, other = (logits(pair_of(1, 1, i, judge) for i in range(3000)) for judge in (a, b))
    assert seen.tolist() == other.tolist()
    assert abs(seen.mean()) < 4.5 / math.sqrt(3000)
    assert seen.std() == pytest.approx(1, abs=4.5 / math.sqrt(6000))
    wider = judge_of("simulated:c", noise=0, shared_noise=2.0)
    assert logits([pair_of(1, 1, 7, wider)]) == pytest.approx(2 * seen[7:8])


def test_a_shared_error_is_about_the_documents_not_their_order_or_ids():
    judge = judge_of(noise=0, shared_noise=1.0)
    requests = [pair_of(1, 1, i, judge) for i in range(20)]
    seen = logits(requests)
    assert logits(map(turned, requests)) == pytest.approx(-seen)
    renamed = [
        replace(r, documents=tuple(replace(d, id=f"x{d.id}") for d in r.documents))
        for r in requests
    ]
    assert [r.key for r in renamed] == [r.key for r in requests]
    assert logits(renamed).tolist() == seen.tolist()
    assert len(set(np.abs(seen))) == 20
    other = logits([replace(requests[0], query="another")])
    assert other != seen[0]


# What they grade


def single(truth, number=0, judge=None, **fields):
    """A request about one document; another number is another document."""
    document = Document("a", f"text {number}", {"grade": truth})
    fields = {"query": "q", "documents": (document,), "user": document.content, **fields}
    return request_of(judge=judge or judge_of(), response_model=sheets.Grading, **fields)


def grades(requests):
    return [sheets.Grading.model_validate_json(a.text).grade for a in answers_to(requests)]


def test_without_noise_the_nearest_grade_is_given():
    judge = judge_of(noise=0)
    truths = (-4, 0.4, 0.5, 1, 1.6, 2.4, 2.5, 3, 9)
    assert grades(single(truth, judge=judge) for truth in truths) == [0, 0, 1, 1, 2, 2, 3, 3, 3]
    assert grades([single(1, judge=judge_of(noise=0, slope=2.0))]) == [2]
    severe = judge_of(noise=0, severity=1.0)
    assert grades(single(truth, judge=severe) for truth in range(4)) == [0, 0, 1, 2]


def test_a_grade_is_reached_as_often_as_the_model_says():
    """P(grade >= k) is logistic in (truth - severity - k + 1/2) / noise."""
    judge = judge_of(noise=0.6, severity=0.3)
    seen = np.array(grades(single(1.5, i, judge) for i in range(3000)))
    for k in (1, 2, 3):
        chance = 1 / (1 + math.exp(-(1.5 - 0.3 - k + 0.5) / 0.6))
        assert is_near_share((seen >= k).sum(), 3000, chance)


# What they say of two answers


def test_pairs_and_grades_are_answered_as_they_always_were():
    first, second = Document("a", "text a", {"grade": 1}), Document("b", "text b", {"grade": 2})
    fields = {"judge": judge_of(), "query": "q"}
    pair = request_of(user="a b", documents=(first, second), **fields)
    one = request_of(user="a", documents=(first,), response_model=sheets.Grading, **fields)
    voted, graded = (json.loads(answer.text) for answer in answers_to([pair, one]))
    reasons = "A is worth 1 and B 2; seen as +1.30 logits for B"
    assert list(voted.items()) == [("reasoning", reasons), ("preference", 0.570518505252168)]
    assert (graded["rationale"], graded["grade"]) == ("It is worth 1; seen as 0.12", 0)


# The same question has the same answer


def test_another_truth_is_another_question():
    request = pair_of(1, 2)
    assert pair_of(1, 2).key == request.key
    assert pair_of(1, 3).key != request.key
    assert pair_of(1, "2").key != request.key
    unseen = tuple(replace(d, metadata={**d.metadata, "year": 1}) for d in request.documents)
    assert replace(request, documents=unseen).key == request.key


def test_latency_and_tokens_are_those_of_the_options():
    waited = []

    async def sleep(seconds):
        waited.append(seconds)

    provider = Simulated(sleep)
    answers_to([pair_of(1, 2, i, judge_of(latency=2.0)) for i in range(3000)], provider)
    deviation = 2 * math.sqrt(math.expm1(0.25))
    assert np.mean(waited) == pytest.approx(2.0, abs=4.5 * deviation / math.sqrt(3000))
    judge = judge_of(output_tokens=7)
    (answer,) = answers_to([pair_of(1, 2, judge=judge, system="12345", user="ä" * 3)])
    assert answer.usage == Usage(input_tokens=3, output_tokens=7), "four bytes a token"
    assert SIMULATED.limit_tokens(answer.usage) == {"tpm": 10, "itpm": 3, "otpm": 7}


# What goes wrong


@pytest.mark.parametrize("trouble", ["refusals", "truncated", "invalid"])
def test_troubles_are_as_frequent_as_asked_for(trouble):
    judge = judge_of(**{trouble: 0.15})
    answers = answers_to(pair_of(1, 2, i, judge) for i in range(3000))
    bad = [each for each in answers if is_bad(each)]
    assert is_near_share(len(bad), 3000, 0.15)
    status = {"refusals": "refused", "truncated": "truncated", "invalid": "ok"}[trouble]
    assert {each.status for each in bad} == {status}
    assert {each.usage.output_tokens for each in answers} == {120}


def is_bad(answer):
    try:
        zelo.Preference.model_validate_json(answer.text)
    except ValueError:
        return True
    assert answer.status == "ok"
    return False


def test_failures_come_by_the_call_and_change_no_chance():
    async def run():
        calls, ends = 0, []
        for i in range(1000):
            request = pair_of(1, 2, i, judge_of(failures=0.4))
            while True:
                calls += 1
                try:
                    ends.append(await provider.send(request))
                    break
                except Retry:
                    continue
        return calls, ends

    provider = SIMULATED.connect(Settings())
    calls, ends = asyncio.run(run())
    assert is_near_share(calls - 1000, calls, 0.4)
    won = sum(json.loads(each.text)["preference"] > 0 for each in ends)
    assert is_near_share(won, 1000, 1 / (1 + math.exp(-1)))
    assert not provider._calls  # what has been answered is not remembered


def test_an_option_that_cannot_be_ends_the_run():
    for options, says in (
        ({"slope": math.nan}, "slope: must be"),
        ({"slope": True}, "slope: must be a valid number"),
        ({"noise": -1}, "noise: must be greater than or equal to 0"),
        ({"failures": 1.1}, "failures: must be less than or equal to 1"),
        ({"refusals": 0.6, "invalid": 0.6}, "must not sum to more than 1"),
        ({"truth": 3}, "truth: must be a valid string"),
    ):
        with pytest.raises(Fatal, match=says):
            answers_to([pair_of(1, 2, judge=judge_of(**options))])
    with pytest.raises(PanelError, match="'nosie'"):
        judge_of(nosie=1)


def test_a_document_without_a_number_is_refused_alone():
    for grade in (None, "three", "nan", True, [1], math.inf, 10**400):
        with pytest.raises(Refused, match=r"^simulated:a: .*'b' .*number .*'grade'"):
            answers_to([pair_of(1, grade)])


def test_what_it_cannot_answer_is_refused():
    class Other(BaseModel):
        colour: str

    two = pair_of(1, 2).documents
    for fields in ({"response_model": Other}, {"documents": two[:1]}, {"documents": (*two, *two)}):
        with pytest.raises(Refused, match="compare two documents"):
            answers_to([pair_of(1, 2, **fields)])


# As part of a run
