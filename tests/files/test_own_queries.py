"""A query among its own candidates, as in ArguAna: left out where id and text are the same."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.files.reading import (
    CASES,
    pool_lines,
    read_inputs,
    read_memory,
    write_file,
    write_folder,
)
from zelo_ray import bakeoff
from zelo_ray.engine.count_input import count_input

FOLDER, RUN = str(CASES / "arguana"), str(CASES / "arguana.run")
LEFT = "where id and text are the same: 1 (q1)"
TEXT = "how to remove a tick"


def judged(tmp_path, pools):
    """The ids that judges see of some pools, and what is said of them."""
    place = write_file(tmp_path / "read.jsonl", pools)
    ids = [d.id for line in pool_lines(place) for d in line.pool.documents]
    return ids, [*count_input([place], lambda _: {}, str(tmp_path / "read"), keep=False).own]


def measured(out, **options):
    """The mean of nDCG@10 of a run, and what is warned of."""
    means = bakeoff(out=out, progress=None, measures="nDCG@10", **options).means.to_pandas()
    warned = json.loads((Path(out) / "run.json").read_text())["doubts"]
    mean = float(means.set_index("measure")["mean"]["nDCG@10"])
    return round(mean, 3), [(w["code"], w["queries"], w["of_queries"]) for w in warned]


def changed_folder(tmp_path, name, old, new):
    """The case with another text in a file."""
    texts = {f: (CASES / "arguana" / f).read_text() for f in ("corpus.jsonl", "queries.jsonl")}
    texts["qrels/test.tsv"] = (CASES / "arguana/qrels/test.tsv").read_text()
    assert old in texts[name]
    return write_folder(tmp_path / "set", texts | {name: texts[name].replace(old, new)})


@pytest.mark.parametrize("truth", ["", "/qrels/test.tsv"])
def test_runs_are_measured_without_the_query(tmp_path, truth):
    assert measured(tmp_path, truth=FOLDER + truth, runs=RUN) == (0.92, [("own_query", 1, 1)])
    kept = pd.read_parquet(tmp_path / "runs.parquet")
    assert sorted(kept["doc_id"]) == ["1", "2", "3", "4"]


def test_the_id_alone_is_said_and_stays(tmp_path):
    folder = changed_folder(tmp_path, "corpus.jsonl", f'"text": "{TEXT}"', '"text": "another"')
    assert measured(tmp_path / "o", truth=folder, runs=RUN) == (0.651, [("own_id", 1, 1)])
    qrels = write_file(tmp_path / "alone.qrels", "q1 0 1 1\nq1 0 2 1\nq1 0 3 0\n")
    assert measured(tmp_path / "p", truth=qrels, runs=RUN) == (0.651, [("own_id", 1, 1)])
    ids, [said] = judged(tmp_path, read_inputs(tmp_path, folder, RUN)[0])
    assert ids == ["q1", "1", "3", "2", "4"]
    assert "kept" in said


@pytest.mark.parametrize(
    ("content", "title", "left_out"),
    [
        ("a  b\nc ", None, True),
        ("Title\na b c", "Title", True),
        ("Title\na b c d", "Title", False),
    ],
)
def test_white_space_and_titles_do_not_count(tmp_path, content, title, left_out):
    own = {"id": "q1", "content": content} | ({"metadata": {"title": title}} if title else {})
    documents = [{"id": "d", "content": "x"}, own]
    pool = {"query": {"id": "q1", "query": "a b c"}, "documents": documents}
    assert judged(tmp_path, [pool])[0] == (["d"] if left_out else ["d", "q1"])


def test_every_input_is_judged_without_the_query(tmp_path):
    rows = [
        {"query_id": "q1", "query": "how to", "doc_id": d, "text": text}
        for d, text in (("q1", "how to"), ("d2", "x"), ("d3", "y"))
    ]
    documents = [{"id": row["doc_id"], "content": row["text"]} for row in rows]
    lists = [{"query_id": "q1", "query": "how to", "passages": documents}]
    pools = [{"query": {"id": "q1", "query": "how to"}, "documents": documents}]
    found = [
        read_inputs(tmp_path, write_file(tmp_path / name, content))[0]
        for name, content in (("a.csv", rows), ("lists.json", lists), ("pools.json", pools))
    ]
    for each in (*found, read_memory(tmp_path, pd.DataFrame(rows))[0], pools):
        ids, [said] = judged(tmp_path, each)
        assert ids == ["d2", "d3"]
        assert LEFT in said
