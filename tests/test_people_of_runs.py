"""The grades of people that a run is given: one a document, whoever gave them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.labelling import sample
from zelo_ray.engine.learning import read_human_grades
from zelo_ray.errors import InputError
from zelo_ray.protocols.graded import GradedOptions


def given(path):
    options = GradedOptions(inputs=("pools",), out="o", judges=("offline",), human=str(path))
    return read_human_grades(options).sort_by("doc_id").to_pydict()


def test_people_are_one_by_their_median_and_chances_are_kept(tmp_path):
    path = tmp_path / "labels.csv"
    lines = ["q,d1,ann,3,.5", "q,d1,bob,1,.5", "q,d2,ann,2,.25", "q,d1,cy,2,.5", "q,d2,bob,0,.25"]
    path.write_text("\n".join(["query_id,doc_id,person,grade,probability", *lines]) + "\n")
    assert given(path) == {
        "query_id": ["q", "q"],
        "doc_id": ["d1", "d2"],
        "relevance": [2, 1],
        "probability": [0.5, 0.25],
    }


def test_a_sample_of_label_tells_how_many_could_be_drawn(tmp_path):
    answers = [("ann", "d0", 3.0), ("ann", "d1", 0.0)]
    found = given(sample(tmp_path, [0.9, 0.1, 0.2, 0.0], [2.0, 1.0, 0.5, 0.0], answers))
    assert found["frame"] == [3, 3]


def test_qrels_tell_no_chance_and_grades_are_of_the_scale(tmp_path):
    path = tmp_path / "some.qrels"
    path.write_text("q 0 d1 -1\nq 0 d2 3\n")
    assert given(path) == {"query_id": ["q"] * 2, "doc_id": ["d1", "d2"], "relevance": [0, 3]}
    path.write_text("q 0 d1 4\n")
    with pytest.raises(InputError, match="4 is not a grade from 0 to 3"):
        given(path)
    table = pa.table({"query_id": ["q"], "doc_id": ["d"], "score": [1.5]})
    pq.write_table(table, tmp_path / "scores.parquet")
    with pytest.raises(InputError, match="not a grade from 0 to 3"):
        given(tmp_path / "scores.parquet")
