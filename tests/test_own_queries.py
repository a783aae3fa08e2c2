"""A query among its own candidates, as in ArguAna: left out where id and text are the same."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.input_pools import brought, in_memory, lines, put
from zelo_ray import bakeoff
from zelo_ray.cli import main
from zelo_ray.engine.count_input import count_input
from zelo_ray.files.pools import LineLimits, OwnQueries, is_same_text, parse_line, to_line
from zelo_ray.records import Document

CASES = Path(__file__).parent / "golden" / "cases"
FOLDER, RUN = str(CASES / "arguana"), str(CASES / "arguana.run")
LEFT = "left out the query itself from the candidates of 1 query (q1)"


def ids(pools):
    """The ids of the first pool's documents, as it is read."""
    line = parse_line("", 0, to_line(pools[0]), LineLimits())
    return [document.id for document in line.pool.documents]


def said_of(pools):
    """What is said of queries among their candidates."""
    own = OwnQueries()
    own.count(parse_line("", 0, to_line(pools[0]), LineLimits()))
    return own.notes()


def measured(out, **options):
    found = bakeoff(out=out, progress=None, measures="nDCG@10", **options)
    warned = json.loads((Path(out) / "run.json").read_text())["summary"]["warnings"]
    means = found.means.to_pandas().set_index("measure")["mean"]
    mean = float(means["nDCG@10"])
    return round(mean, 3), [(w["code"], w["queries"], w["of_queries"]) for w in warned]


def copied(tmp_path, **changed):
    """The case with another text of a document or of a query."""
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        text = (CASES / "arguana" / name).read_text()
        for old, new in changed.get(name.partition(".")[0], {}).items():
            assert old in text
            text = text.replace(old, new)
        put(tmp_path / "set" / name, text)
    return str(tmp_path / "set")


@pytest.mark.parametrize("truth", ["", "/qrels/test.tsv"])
def test_runs_are_measured_without_the_query(tmp_path, truth):
    assert measured(tmp_path, truth=FOLDER + truth, runs=RUN) == (0.92, [("own_query", 1, 1)])
    kept = pd.read_parquet(tmp_path / "runs.parquet")
    assert sorted(kept["doc_id"]) == ["1", "2", "3", "4"]


def test_the_id_alone_is_said_and_stays(tmp_path):
    folder = copied(tmp_path, corpus={'"text": "how to remove a tick"': '"text": "another"'})
    assert measured(tmp_path / "o", truth=folder, runs=RUN) == (0.651, [("own_id", 1, 1)])
    qrels = put(tmp_path / "alone.qrels", "q1 0 1 1\nq1 0 2 1\nq1 0 3 0\n")
    assert measured(tmp_path / "p", truth=qrels, runs=RUN) == (0.651, [("own_id", 1, 1)])
    found, _ = brought(tmp_path, folder, RUN)
    assert ids(found) == ["q1", "1", "3", "2", "4"]
    assert said_of(found) == [
        "kept documents that have the id of their query but another text, of 1 query (q1)"
    ]


def test_the_text_alone_stays(tmp_path):
    folder = copied(tmp_path, corpus={"The clock ticks.": "how to remove a tick"})
    found, _ = brought(tmp_path, folder, RUN)
    assert ids(found) == ["1", "3", "2", "4"]
    assert said_of(found)[0].startswith(LEFT)


def test_a_truth_that_judged_the_query_is_measured_without_it(tmp_path):
    folder = copied(tmp_path)
    head = "query-id\tcorpus-id\tscore\n"
    put(tmp_path / "set/qrels/test.tsv", f"{head}q1\tq1\t3\nq1\t1\t1\nq1\t2\t1\nq1\t3\t0\n")
    assert measured(tmp_path / "o", truth=folder, runs=RUN)[0] == 0.92


def test_white_space_and_titles_do_not_count():
    assert is_same_text("a  b\nc ", Document("d", "a b c"))
    assert is_same_text("a b", Document("d", "Title\na b", {"title": "Title"}))
    assert is_same_text("Title a b", Document("d", "Title\na b", {"title": "Title"}))
    assert not is_same_text("a b", Document("d", "Title\na b c", {"title": "Title"}))


ROWS = [("q1", "how to", "q1", "how to"), ("q1", "how to", "d2", "x"), ("q1", "how to", "d3", "y")]


def test_rows_are_made_into_pools_without_the_query(tmp_path):
    frame = pd.DataFrame(ROWS, columns=["query_id", "query", "doc_id", "text"])
    frame.to_csv(tmp_path / "a.csv", index=False)
    documents = [{"id": row[2], "text": row[3]} for row in ROWS]
    wide = [{"query_id": "q1", "query": "how to", "passages": documents}]
    put(tmp_path / "wide.json", json.dumps(wide))
    for name in ("a.csv", "wide.json"):
        found, _ = brought(tmp_path, str(tmp_path / name))
        assert ids(found) == ["d2", "d3"]
        assert said_of(found)[0].startswith(LEFT)
    assert ids(in_memory(tmp_path, frame)[0]) == ["d2", "d3"]


def test_convert_pool_leaves_it_out(tmp_path, capsys):
    out = tmp_path / "pools.jsonl"
    words = ["convert", "pool", "--runs", RUN, "--corpus", FOLDER, "--queries", FOLDER]
    assert main([*words, "--out", str(out)]) == 0
    assert LEFT in capsys.readouterr().out
    assert ids([json.loads(out.read_text())]) == ["1", "3", "2", "4"]
    # A later contest knows from the pools what the document said that a run still holds.
    truth = put(tmp_path / "a.qrels", "q1 0 1 1\nq1 0 2 1\nq1 0 3 0\n")
    found = measured(tmp_path / "o", truth=truth, runs=RUN, pools=str(out))
    assert found == (0.92, [("own_query", 1, 1)])


def test_it_is_left_out_of_pools_as_users_wrote_them_and_it_is_said(tmp_path):
    documents = [{"id": i, "content": text} for _, _, i, text in ROWS]
    pool = {"query": {"id": "q1", "query": "how to"}, "documents": documents}
    path = put(tmp_path / "pools.jsonl", lines([pool]))
    census = count_input([path], {}, str(tmp_path), keep=False)
    assert census.documents == 2
    [note] = census.own
    assert note.startswith(LEFT)
