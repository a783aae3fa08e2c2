"""Pools that grow, shrink, change and are shuffled between runs into one directory."""

import shutil
from dataclasses import replace
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders import PANEL, Shelf, answers, lines_of, missing, options_of, pool_of
from zelo_ray.engine.earlier import Earlier, keep_the_rest, put_aside
from zelo_ray.engine.settle import settle
from zelo_ray.engine.write_results import write_results
from zelo_ray.protocols import load
from zelo_ray.records import Document, Pool

LIMITS = {"limit": {"document_limit": 5}}
WORTHS = (3, 1, 4, 1.5, 5, 9, 2, 6, 5.3, 5.8, 9.7, 9.3, 2.5)


def run(out, pools, shelf, *, dies=False, **fields):
    """Ask what is missing and write results, as a job does; how many requests that took."""
    options = options_of(out=str(out), cycles=2, **fields)
    asked = sum(len(missing(pool, PANEL, options, shelf)) for pool in pools)
    answers(pools, options, shelf=shelf)
    put_aside(options)
    earlier = Earlier(options.out, load(options.protocol))
    write_results([settle(lines_of(pools), PANEL, options, shelf, earlier=earlier)], options)
    if not dies:
        keep_the_rest(options)
    return asked


def votes(out):
    rows = pq.read_table(out / "votes.parquet").to_pylist()
    return {(row["query_id"], row["doc_id_a"], row["doc_id_b"], row["judge"]) for row in rows}


def comparisons(out):
    rows = pq.read_table(out / "scores.parquet").to_pylist()
    return {row["doc_id"]: row["comparisons"] for row in rows}


def grown(pool, *more):
    added = (Document(doc_id, f"Text [[worth={worth}]]") for doc_id, worth in more)
    return replace(pool, documents=(*pool.documents, *added))


def test_a_new_document_costs_its_own_battles_and_no_vote_that_was_paid_for_is_left_out(tmp_path):
    pool, shelf = pool_of(WORTHS), Shelf()
    assert run(tmp_path, [pool], shelf) == 2 * 13 * len(PANEL)
    before = votes(tmp_path)
    asked = run(tmp_path, [grown(pool, ("new", 7.0))], shelf)
    assert 3 * len(PANEL) <= asked <= 5 * len(PANEL)  # of about two on either side
    after = votes(tmp_path)
    assert before < after
    assert len(after) == len(before) + asked
    assert sum(comparisons(tmp_path).values()) == 2 * len(after)
    assert run(tmp_path, [grown(pool, ("new", 7.0))], shelf) == 0
    assert votes(tmp_path) == after


def test_a_pool_that_is_shuffled_asks_nothing_and_comes_to_the_same(tmp_path):
    pool, shelf = pool_of(WORTHS), Shelf()
    run(tmp_path / "one", [pool], shelf)
    turned = replace(pool, documents=tuple(Random(0).sample(pool.documents, 13)))
    assert run(tmp_path / "two", [turned], shelf) == 0
    for name in ("votes", "scores"):
        one, two = ((tmp_path / out / f"{name}.parquet").read_bytes() for out in ("one", "two"))
        assert one == two


def test_of_a_document_that_goes_or_changes_the_votes_go(tmp_path):
    pool, shelf = pool_of(WORTHS), Shelf()
    run(tmp_path, [pool], shelf)
    changed = Document("d0", "Another text [[worth=8]]")
    new = replace(pool, documents=(changed, *pool.documents[1:-1]))
    run(tmp_path, [new], shelf)
    kept = pq.read_table(tmp_path / "votes.parquet").to_pylist()
    options = options_of(cycles=2)
    planned = {request.key for request in missing(new, PANEL, options)}
    assert {row["key"] for row in kept} == planned


@pytest.mark.parametrize("dies", [False, True])
def test_it_does_not_matter_where_a_run_is_killed(tmp_path, dies):
    pool, shelf = pool_of(WORTHS), Shelf()
    more = [("new", 7.0), ("newer", 0.5)]
    run(tmp_path / "out", [pool], shelf)
    if dies:  # with a table of votes in which pools that wait for other judges are missing
        options = options_of(out=str(tmp_path / "out"), cycles=2)
        put_aside(options)
        write_results([settle([], PANEL, options, shelf)], options)
    run(tmp_path / "out", [grown(pool, *more)], shelf, dies=dies)
    found = votes(tmp_path / "out")
    run(tmp_path / "out", [grown(pool, *more)], shelf)
    assert votes(tmp_path / "out") == found
    assert not (tmp_path / "out" / "earlier.parquet").exists()
    assert len(found) > 2 * 15 * len(PANEL)


@pytest.mark.parametrize("other", ["subset", "limit", "judge", "graded"])
def test_no_run_in_between_loses_a_vote(tmp_path, other):
    pools = [pool_of(WORTHS, query_id=f"q{n}") for n in range(2)]
    more, shelf = [grown(pool, ("new", 7.0)) for pool in pools], Shelf()
    run(tmp_path, pools, shelf)
    run(tmp_path, more, shelf)
    before = votes(tmp_path)
    if other == "graded":
        options = options_of(out=str(tmp_path), protocol="graded")
        put_aside(options)
        write_results([], options)
        keep_the_rest(options)
        assert not (tmp_path / "votes.parquet").exists()
    elif other == "judge":
        options = options_of(out=str(tmp_path), cycles=2)
        put_aside(options)
        earlier = Earlier(options.out, load("zelo"))
        found = settle(lines_of(more), PANEL[:1], options, shelf, earlier=earlier)
        write_results([found], options)
        keep_the_rest(options)
    else:
        run(tmp_path, more[:1] if other == "subset" else more, shelf, **LIMITS.get(other, {}))
    assert run(tmp_path, more, shelf) == 0
    assert votes(tmp_path) >= before
    assert not (tmp_path / "earlier.parquet").exists()


def test_a_broken_table_of_votes_is_none(tmp_path):
    pool, shelf = pool_of(WORTHS), Shelf()
    for text in (b"junk", pq_of({"query_id": ["q1"]})):
        (tmp_path / "votes.parquet").write_bytes(text)
        run(tmp_path, [pool], shelf)
        assert len(votes(tmp_path)) == 2 * 13 * len(PANEL)


def pq_of(columns):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


def test_documents_of_one_text_lose_no_votes(tmp_path):
    pool, shelf = pool_of([1, 2, 3, 4] * 3), Shelf()
    same = tuple(replace(d, content=f"[[worth={n % 4}]]") for n, d in enumerate(pool.documents))
    pool = replace(pool, documents=same)
    run(tmp_path, [pool], shelf)
    before = votes(tmp_path)
    run(tmp_path, [grown(pool, ("new", 7.0))], shelf)
    assert before < votes(tmp_path)


def test_votes_of_a_judge_that_left_and_of_other_words_are_left_out(tmp_path):
    pool, shelf = pool_of(WORTHS), Shelf()
    run(tmp_path, [pool], shelf)
    reworded = Pool(pool.query_id, "another question?", pool.documents)
    shutil.copytree(tmp_path, copy := tmp_path / "copy")
    asked = run(copy, [reworded], shelf)
    assert asked == len(votes(copy))
    options = options_of(out=str(tmp_path), cycles=2)
    earlier = Earlier(str(tmp_path), load("zelo"))
    lines = lines_of([grown(pool, ("new", 7.0))])
    answers([grown(pool, ("new", 7.0))], options, shelf=shelf)
    table = settle(lines, PANEL[:1], options, shelf, earlier=earlier)
    said = table["votes"].to_pylist()[0]
    assert {vote["judge"] for vote in said} == {PANEL[0].name}
    assert len(said) > 2 * 14


def test_a_plan_of_fewer_rings_or_of_judges_in_turn_keeps_what_was_paid(tmp_path):
    pool, shelf = pool_of(WORTHS), Shelf()
    run(tmp_path, [pool], shelf)
    before = votes(tmp_path)
    assert run(tmp_path, [pool], shelf, votes="one") == 0
    assert votes(tmp_path) == before
    assert run(tmp_path, [pool], shelf, votes="one", seed=1) > 0
    assert before < votes(tmp_path)
