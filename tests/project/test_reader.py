"""A verdict whose own reader raises: what was paid for is kept, and is no judgment."""

from pydantic import BaseModel

from tests.helpers.builders import reply_to
from zelo_ray.engine.replies import check_answer
from zelo_ray.protocols.questions import read_verdict
from zelo_ray.records import Answer, Usage


class Brittle(BaseModel):
    """A verdict whose reader does not expect every text."""

    @classmethod
    def read(cls, text):
        return text.split("grade: ")[1]

    def write(self):
        return ""


def test_a_paid_answer_whose_reader_raises_is_kept_as_it_is_and_is_no_verdict():
    answer = Answer("ok", "no such words", Usage(10, 5))
    checked = check_answer(Brittle, answer, "")
    kept, broken = checked.answer, checked.error
    assert kept is answer
    assert broken.startswith("unexpected IndexError in test_reader.py, line ")
    reply = reply_to(1, answer.text)
    assert read_verdict(reply, Brittle) == "its reader raised IndexError"
