"""Judges that give no judgment are asked little, and in batches a small one goes first."""

import pytest

from tests.fakes import Fault
from tests.helpers.builders import (
    ask,
    key_for,
    pool_of,
    send_away,
)
from zelo_ray.reasons import StopReason

POOLS = [pool_of(range(8), query_id=f"q{i}", query=f"question {i}?") for i in range(12)]
REQUESTS = 12 * 28
KINDS = {
    "prose": "response_format",
    "truncated": "max_output_tokens",
    "refusal": "another",
    "too_long": "takes no such request",
}


@pytest.mark.parametrize(("kind", "help_"), KINDS.items())
def test_a_judge_that_gives_no_judgment_is_asked_twenty_times(
    fakes, environ, tmp_path, kind, help_
):
    fakes.faults = [Fault(kind)]
    asker = ask(POOLS, tmp_path, key_for(environ, "openai"))
    assert "none of its first 20 requests" in asker.stopped
    assert "; 20 times: " in asker.stopped
    assert help_ in asker.stopped
    assert "keep_asking" in asker.stopped
    assert len({row.key for row in asker.books}) == 20
    assert len(fakes.journal) == (40 if kind == "prose" else 20)


def test_it_is_asked_on_where_that_is_wanted(fakes, environ, tmp_path):
    fakes.faults = [Fault("refusal")]
    asker = ask(POOLS, tmp_path, key_for(environ, "openai"), keep_asking=True)
    assert asker.stopped == ""
    assert len(asker.books) == REQUESTS


def test_a_judge_that_gave_judgments_before_is_asked_again_what_it_refused(
    fakes, environ, tmp_path
):
    fakes.faults = [Fault("refusal", rate=0.1)]
    keys = key_for(environ, "openai")
    first = ask(POOLS, tmp_path, keys)
    refused = {row.key for row in first.books if row.status == "refused"}
    assert len(refused) > 20
    fakes.faults = [Fault("refusal")]
    again = ask(POOLS, tmp_path, keys, run_id="again", retry=("failed", "refused"))
    assert again.stopped == ""
    assert {row.key for row in again.books if row.run_id == "again"} == refused


def test_a_judge_that_gave_judgments_before_is_asked_about_more_queries(fakes, environ, tmp_path):
    keys = key_for(environ, "openai")
    ask(POOLS[:6], tmp_path, keys)
    fakes.faults = [Fault("too_long", total=40)]
    again = ask(POOLS, tmp_path, keys, run_id="again")
    assert again.stopped == ""
    assert len({row.key for row in again.books}) == REQUESTS


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_in_batches_a_small_one_tells_before_the_large_one_is_sent(
    fakes, environ, tmp_path, provider
):
    fakes.faults = [Fault("prose")]
    (batcher,) = send_away(POOLS, tmp_path, key_for(environ, provider)).values()
    (why,) = batcher.disabled.values()
    assert why.code is StopReason.NO_JUDGMENT
    assert len({row.key for row in batcher.books}) == 100


def test_in_batches_the_large_one_follows(fakes, environ, tmp_path):
    (batcher,) = send_away(POOLS, tmp_path, key_for(environ, "openai")).values()
    assert batcher.stopped == ""
    sizes = sorted(batch.total for batch in fakes.store.batches.values())
    assert sizes == [100, REQUESTS - 100]
    assert {row.status for row in batcher.books} == {"ok"}
