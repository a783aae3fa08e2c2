"""Pools that grow, shrink, change and are shuffled between runs into one directory."""

from dataclasses import replace
from random import Random

import pyarrow.parquet as pq

from tests.helpers.builders import PANEL, Shelf, answers, lines_of, missing, options_of, pool_of
from zelo_ray.engine.build_results import build_results
from zelo_ray.engine.write_results import write_results
from zelo_ray.records import Document

WORTHS = (3, 1, 4, 1.5, 5, 9, 2, 6, 5.3, 5.8, 9.7, 9.3, 2.5)


def run(out, pool, shelf):
    """Ask what is missing and write results, as a job does; return how many requests that took."""
    options = options_of(out=str(out), cycles=2)
    asked = len(missing(pool, PANEL, options, shelf))
    answers([pool], options, shelf=shelf)
    write_results([build_results(lines_of([pool]), PANEL, options, shelf)], options)
    return asked


def keys(out):
    return set(pq.read_table(out / "votes.parquet")["key"].to_pylist())


def planned(pool):
    return {request.key for request in missing(pool, PANEL, options_of(cycles=2))}


def grown(pool, doc_id, worth):
    return replace(pool, documents=(*pool.documents, Document(doc_id, f"Text [[worth={worth}]]")))


def test_a_new_document_costs_its_own_battles_and_scores_are_those_of_a_first_run(tmp_path):
    pool, shelf = pool_of(WORTHS), Shelf()
    assert run(tmp_path / "grown", pool, shelf) == 2 * 13 * len(PANEL)
    more = grown(pool, "new", 7.0)
    asked = run(tmp_path / "grown", more, shelf)
    assert 3 * len(PANEL) <= asked <= 5 * len(PANEL)  # of about two on either side
    assert run(tmp_path / "grown", more, shelf) == 0
    run(tmp_path / "first", more, Shelf())
    for name in ("votes", "scores"):
        one, two = (pq.read_table(tmp_path / out / f"{name}.parquet") for out in ("grown", "first"))
        assert one.equals(two)


def test_a_vote_that_nobody_asks_any_more_is_not_fitted_and_serves_when_it_is_asked_again(tmp_path):
    pool, shelf = pool_of(WORTHS), Shelf()
    run(tmp_path, pool, shelf)
    before = keys(tmp_path)
    more = grown(pool, "new", 7.0)
    run(tmp_path, more, shelf)
    assert keys(tmp_path) == planned(more)
    assert before - keys(tmp_path)
    assert run(tmp_path, pool, shelf) == 0
    assert keys(tmp_path) == before


def test_a_pool_that_is_shuffled_asks_nothing_and_comes_to_the_same(tmp_path):
    pool, shelf = pool_of(WORTHS), Shelf()
    run(tmp_path / "one", pool, shelf)
    turned = replace(pool, documents=tuple(Random(0).sample(pool.documents, 13)))
    assert run(tmp_path / "two", turned, shelf) == 0
    for name in ("votes", "scores"):
        one, two = ((tmp_path / out / f"{name}.parquet").read_bytes() for out in ("one", "two"))
        assert one == two


def test_of_a_document_that_goes_or_changes_the_votes_go(tmp_path):
    pool, shelf = pool_of(WORTHS), Shelf()
    run(tmp_path, pool, shelf)
    changed = Document("d0", "Another text [[worth=8]]")
    new = replace(pool, documents=(changed, *pool.documents[1:-1]))
    run(tmp_path, new, shelf)
    assert keys(tmp_path) == planned(new)
