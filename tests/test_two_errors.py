"""Both errors of a score are told apart wherever they are told."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.builders import convert, explained, pool_of, results_of, write_run
from tests.test_report import page_of
from zelo_ray.commands import load_results as load
from zelo_ray.commands.report import write_report
from zelo_ray.evaluation.measures import Truth
from zelo_ray.files.judgments import read_qrels
from zelo_ray.files.tables import table_of
from zelo_ray.memory import as_options
from zelo_ray.records import AbsoluteScore

ABOUT_PEOPLE = "about people ±"


@pytest.fixture
def run(tmp_path):
    """The results of a run of battles."""
    write_run(tmp_path, results_of(tmp_path, [pool_of()]))
    return tmp_path


def test_without_a_label_of_people_the_error_about_them_is_called_assumed(run):
    """On terminal and page, in --json, and by explain; with labels nowhere."""
    for learned in (False, True):
        record = json.loads((run / "run.json").read_text())
        record["summary"] |= {"is_truth_error_learned": learned, "truth_error": 1.5}
        (run / "run.json").write_text(json.dumps(record))
        write_report(str(run))
        page, told = page_of(run), explained(run, "q1", "d1")
        tiles = load(str(run)).report.tiles
        assert ("assumed error about people" in tiles) is not learned
        assert ("error about people" in tiles) is learned
        for words in (page.words(""), told):
            assert ("assumed" in words) is not learned
        assert ABOUT_PEOPLE in told


def truth_of(table, folder):
    return read_qrels(as_options({"truth": table}, str(folder))["truth"])


def test_the_truth_of_a_bakeoff_has_the_error_about_people(run):
    """So a bias that all judges share keeps `p_labels` from being sure."""
    scores = pq.read_table(run / "scores.parquet")
    assert read_qrels(str(run))["std_error"].to_pylist() == scores["truth_error"].to_pylist()
    truth = Truth(truth_of(scores, run))
    assert truth.std_error.tolist() == scores["truth_error"].to_pylist()
    some = scores.set_column(
        scores.column_names.index("truth_error"), "truth_error", [[9.0, None, np.nan, 9.0]]
    )
    first, second, third, last = truth_of(some, run)["std_error"].to_pylist()
    assert (first, last) == (9.0, 9.0)
    assert [second, third] == scores["std_error"].to_pylist()[1:3]


def cut(source, out, *flags):
    return convert("qrels", str(source), "--out", str(out), *flags)


def test_qrels_are_cut_at_the_same_absolute_scores_for_all_queries(tmp_path):
    rows = [
        AbsoluteScore(query, doc, score, 0.5, 3, 1, absolute_score=moved, absolute_error=0.6)
        for query, doc, score, moved in [
            *(("poor", "a", 1.0, -0.5), ("poor", "b", -1.0, -2.5)),
            *(("rich", "a", 1.0, 3.0), ("rich", "b", -1.0, 1.0)),
            ("ungraded", "a", 1.0, float("nan")),
        ]
    ]
    pq.write_table(table_of(rows, AbsoluteScore), tmp_path / "scores.parquet")
    out = tmp_path / "cut.qrels"
    cut(tmp_path, out, "--cut", "0")
    assert read_qrels(str(out))["relevance"].to_pylist() == [0, 0, 1, 1]
    cut(tmp_path, out, "--cut", "-1", "1", "2")
    found = read_qrels(str(out))
    assert found["relevance"].to_pylist() == [1, 0, 3, 2]
    assert found["query_id"].to_pylist() == ["poor", "poor", "rich", "rich"]
