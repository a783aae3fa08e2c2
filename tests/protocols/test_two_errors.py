"""Both errors of a score are told apart wherever they are told."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers.builders import convert, pool_of, results_of, write_run
from zelo_ray.evaluation.measures import Truth
from zelo_ray.files.judgments import read_qrels
from zelo_ray.files.tables import table_of
from zelo_ray.memory import as_options
from zelo_ray.records import AbsoluteScore


@pytest.fixture
def run(tmp_path):
    """The results of a run of battles."""
    write_run(tmp_path, results_of(tmp_path, [pool_of()]))
    return tmp_path


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
