"""``agree`` with judges on scales of their own, which are mapped."""

import numpy as np
import pytest

from tests.builders import agreement_of, rows_of, write_lines
from zelo_ray import agree
from zelo_ray.errors import InputError
from zelo_ray.formats.judgments.all_judgments import read_all_judgments
from zelo_ray.formats.judgments.scales import map_grades
from zelo_ray.options.scales import Scale, parse_scales


def grade(query_id, doc_id, judge, value):
    return {"query_id": query_id, "doc_id": doc_id, "judge": judge, "grade": value}


def graded(seed=0):
    """People on 0 to 3, one judge with the same on 1 to 4, and a noisy one on 0 to 5."""
    rng = np.random.default_rng(seed)
    human, judges = [], []
    for q in range(12):
        for d in range(8):
            truth = int(rng.integers(0, 4))
            human.append(grade(f"q{q}", f"d{d}", "ann", truth))
            judges.append(grade(f"q{q}", f"d{d}", "x:shifted", truth + 1))
            noisy = int(np.clip(round(truth * 5 / 3 + rng.normal()), 0, 5))
            judges.append(grade(f"q{q}", f"d{d}", "wide", noisy))
    return human, judges


@pytest.fixture
def files(tmp_path):
    human, judges = graded()
    return [
        str(write_lines(tmp_path / f"{name}.jsonl", rows))
        for name, rows in (("judges", judges), ("human", human))
    ]


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (Scale(1, 4), [0, 1, 2, 3]),
        (Scale(0, 5), [0, 1, 1, 2, 2, 3]),
        (Scale(-1, 1), [0, 2, 3]),
        (Scale(0, 1), [0, 3]),
    ],
)
def test_a_scale_is_mapped_end_to_end(scale, expected):
    grades = np.arange(scale.low, scale.high + 1.0)
    assert map_grades(grades, scale, 4).tolist() == expected


def test_what_is_no_scale_is_told():
    assert parse_scales(("a=b=0-5", "c:d=-2--1")) == {
        "a=b": Scale(0, 5),
        "c:d": Scale(-2, -1),
    }
    for written in ("j", "j=5", "j=5-0", "j=1-1", "j=0-900", "j=0-5:ranks", "=0-5"):
        with pytest.raises(ValueError, match=r"NAME=0-5|2 to 100 grades"):
            parse_scales((written,))
    with pytest.raises(ValueError, match="j: has two scales"):
        parse_scales(("j=0-5", "j=1-4"))


def test_judges_meet_on_the_common_scale(files, tmp_path):
    words = ("--scale", "x:shifted=1-4", "wide=0-5")
    agreement_of(files[0], "--human", files[1], "--out", tmp_path / "out", *words)
    found = {
        (row["rater_b"], row["coefficient"]): row["value"]
        for row in rows_of(tmp_path / "out", "agreement")
        if (row["rater_a"], row["scale"]) == ("human", "0-3")
    }
    assert found["x:shifted", "kappa"] == 1
    assert 0.3 < found["wide", "kappa"] < 1


def test_a_document_that_a_file_judges_twice_is_refused(say, tmp_path, files):
    twice = [{"query_id": "q0", "doc_id": "d0", "grade": grade} for grade in (1, 3)]
    path = write_lines(tmp_path / "c.jsonl", twice)
    status, lines = say(f"C={path}", "--human", files[1], "--scale", "C=0-3")
    assert status == 1
    assert "is judged again: keep one" in lines[-1]


def test_errors_name_the_judge(files, tmp_path):
    with pytest.raises(InputError, match=r":\d+: the grade \d of wide is not on its scale 0-2"):
        read_all_judgments([files[0]], scales=parse_scales(("wide=0-2", "x:shifted=1-4")))
    found = read_all_judgments(
        [files[0]], scales=parse_scales(("wide=0-2", "x:shifted=1-4")), clip=True
    )
    assert any(note.startswith("wide: ") and "clipped to 0-2" in note for note in found.notes)
    with pytest.raises(InputError, match=r"--scale wise: nobody .*, but x:s"):
        read_all_judgments([files[0]], clip=True, scales=parse_scales(("wise=0-5",)))
    half = write_lines(tmp_path / "half.jsonl", [grade("q", "d", "j", 1.5)])
    with pytest.raises(InputError, match=r"half.jsonl:1: the grade 1.5 of j is not on its"):
        read_all_judgments([str(half)], scales=parse_scales(("j=1-4",)))


def test_python_takes_the_same(files):
    found = agree(files[0], human=files[1], scale={"x:shifted": "1-4", "wide": "0-5"}, resamples=0)
    rows = found.agreement.to_pandas().query("scale == '0-3' and coefficient == 'kappa'")
    assert rows[(rows.rater_a == "human") & (rows.rater_b == "x:shifted")].value.item() == 1
