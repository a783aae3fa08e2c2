"""What went wrong in zbench, the program that this one follows, does not go wrong here.

One test for each situation that broke it, driven through this program's own code.
"""

import json
import random

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.builders import (
    THREE,
    Shelf,
    ask,
    judge_of,
    line_of,
    missing,
    options_of,
    pool_of,
    results_of,
    verdict,
)
from tests.fakes import Fault
from zelo_ray.protocols import advance, zelo
from zelo_ray.records import Document, Pool

JUDGE = (judge_of("openai:one"),)


def judged(pool, text, options=None):
    """A pool's judgments and failures if every reply is the same text."""
    options, shelf = options or options_of(), Shelf()
    for request in missing(pool, JUDGE, options):
        shelf.put(request, text)
    step = advance(zelo.rounds(pool, JUDGE, options), shelf)
    return [*step.judgments, *step.failures]


@pytest.mark.parametrize("provider", THREE)
def test_a_call_that_is_repeated_still_has_its_system_prompt(fakes, environ, tmp_path, provider):
    """After one 429 the judge got the documents without the task."""
    fakes.faults = [Fault("429", times=1, retry_after=0.01)]
    name = f"{provider.upper()}_API_KEY"
    ask([pool_of((0, 1))], tmp_path, {name: environ[name]})
    first, second = fakes.journal
    assert (first["outcome"], second["outcome"]) == ("429", "ok")
    assert "You compare two documents by their relevance" in second["body"]
    assert second["body"] == first["body"]


def test_ids_that_read_alike_when_joined_are_told_apart():
    """Pairs were named by ids joined with a dash, and 26 of 40 names were distinct."""
    ids = ("a", "b", "a-b", "b-a", "a-b-a", "-")
    pool = Pool("q", "query", tuple(Document(i, f"text of {n}") for n, i in enumerate(ids)))
    votes = judged(pool, verdict(0.5))
    assert len({vote.key for vote in votes}) == len(votes) == 15
    assert len({(vote.doc_id_a, vote.doc_id_b) for vote in votes}) == 15


def test_a_second_run_asks_the_same_whatever_the_global_generator_says():
    """The shuffle had no seed, and swaps followed the timing of tasks."""
    asked = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)
        pools = [pool_of(range(12), query_id=f"q{i}") for i in range(3)]
        random.shuffle(pools)
        asked.append({p.query_id: [r.key for r in missing(p, JUDGE, options_of())] for p in pools})
    assert asked[0] == asked[1]


def test_texts_are_not_stored_with_every_battle(fakes, environ, tmp_path):
    """2.0 MB of input became 34.5 MB of output."""
    marker = "a text of some length " * 200
    documents = tuple(Document(f"d{i}", f"{i} [[worth={i}]] {marker}") for i in range(12))
    pool = Pool("q1", "query", documents)
    ask([pool], tmp_path, {"OPENAI_API_KEY": environ["OPENAI_API_KEY"]})
    replies = b"".join(path.read_bytes() for path in (tmp_path / "replies").glob("*.jsonl"))
    assert b"some length" not in replies
    assert len(replies) < len(line_of(pool))
    results_of(tmp_path / "results", [pool])
    for name in ("votes", "scores", "failures"):
        table = pq.read_table(tmp_path / "results" / f"{name}.parquet")
        assert "some length" not in json.dumps(table.to_pylist())
