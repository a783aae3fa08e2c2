"""The key of a request is the hash of one JSON list, however it is put together."""

import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.helpers.builders import judge_of
from zelo_ray.records import Document, Request, response_schema


class Verdict(BaseModel):
    better: str


TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=30) | st.sampled_from(
    ["\x7f", "\ud83d", "😀 \u2028", '"\\/\b\f\n\r\t\x00\x1f', "é", ""]
)


@given(system=TEXTS, user=TEXTS, model=TEXTS, repeat=st.integers(0, 3), depth=TEXTS)
def test_a_key_hashes_the_list_that_json_writes(system, user, model, repeat, depth):
    judge = judge_of(f"openai:a{model}", temperature=0.5, nested={"b": depth, "a": 1}, unset=None)
    request = Request(judge, system, user, Verdict, "", (), repeat=repeat)
    given = {"temperature": 0.5, "nested": {"b": depth, "a": 1}}
    identity = [judge.provider, judge.model, judge.base_url, given]
    identity += [system, user, response_schema(Verdict), repeat]
    written = json.dumps(identity, sort_keys=True).encode()
    assert request.key == hashlib.sha256(written).hexdigest()[:32]


def test_what_a_simulated_judge_sees_of_metadata_is_in_the_key():
    judge = judge_of("simulated:a", truth="grade")
    both = [Document("d", "text", {"grade": grade}) for grade in (1, 2)]
    keys = {Request(judge, "s", "u", Verdict, "q", (each,)).key for each in both}
    assert len(keys) == 2
