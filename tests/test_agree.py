"""``agree``: as a user would type it, and against what others have published."""

import csv
import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.builders import agreement_of, rows_of, set_in_file, write_qrels
from zelo_ray.errors import InputError
from zelo_ray.formats.tables import table_of
from zelo_ray.records import Grade, GradedScore

SCALES = {"4pt": "0-3", "0v123": ">=1", "01v23": ">=2", "012v3": ">=3"}


def values(out):
    return {
        (r["rater_a"], r["rater_b"], r["scale"], r["coefficient"]): r["value"]
        for r in rows_of(out, "agreement")
    }


@pytest.fixture
def three(tmp_path):
    """Two judges and people on 60 documents of six queries; ``good`` is nearer to the people."""
    rng = np.random.default_rng(2)
    human = rng.integers(0, 4, 60)
    for name, noise in (("good", 0.2), ("poor", 0.7)):
        grades = np.where(rng.random(60) < noise, rng.integers(0, 4, 60), human)
        write_qrels(tmp_path / f"{name}.txt", grades)
    return tmp_path, write_qrels(tmp_path / "people.qrels", human)


def test_published_kappas_and_alphas_of_33_judges(say, tmp_path, published):
    """All 264, to the 4 decimals that are published; grades above 3 are clipped there, too."""
    folder = published / "llmjudge2024"
    human = folder / "llmjudge_test_qrel_idx.txt"
    words = [folder / "submissions", "--human", human, "--clip", "--out", tmp_path]
    status, lines = say(
        *words, "--coefficients", "kappa", "alpha-ordinal", *set_in_file(resamples=100)
    )
    assert status == 0
    found = values(tmp_path)
    with (folder / "published_agreement.csv").open() as file:
        published = list(csv.DictReader(file))
    wrong = []
    for row in published:
        for column, scale in SCALES.items():
            for short, name in (("kappa", "kappa"), ("alpha", "alpha-ordinal")):
                expected = float(row[f"{short}_{column}"])
                value = found["human", row["submission"], scale, name]
                if abs(round(value, 4) - expected) > 1e-9:
                    wrong.append((row["submission"], scale, name, value, expected))
    assert not wrong
    assert len(published) * len(SCALES) * 2 == 264
    assert sum("clipped to 0 to 3" in line for line in lines) == 2
    notes = json.loads((tmp_path / "agree.json").read_text())["notes"]
    clipped = r"([^/]+): (\d+) of 4,423 .* to 0 to 3 \((\d+)\)"
    assert [re.search(f"{clipped}$", note).groups() for note in notes] == [
        ("RMITIR-llama70B.txt", "2", "5"),
        ("h2oloo-zeroshot2.txt", "1", "10"),
    ]


def test_without_clip_the_first_bad_line_is_named(say, published):
    folder = published / "llmjudge2024"
    status, lines = say(folder / "submissions", "--human", folder / "llmjudge_test_qrel_idx.txt")
    assert status == 1
    assert len(lines) == 1
    assert "RMITIR-llama70B.txt:" in lines[0]
    assert "the grade 5 is not in 0 to 3 (and 1 more): --clip" in lines[0]


def test_krippendorffs_example(say, tmp_path, published):
    """Four observers, twelve units, five codes, and gaps (Krippendorff 2011): .743, .815, .849."""
    with (published / "evalica_fixtures/codings.csv").open() as file:
        coders = list(csv.reader(file))
    lines = [
        {"query_id": "units", "doc_id": f"u{i}", "judge": f"coder {c}", "grade": int(code)}
        for c, codes in enumerate(coders)
        for i, code in enumerate(codes)
        if code
    ]
    source = tmp_path / "codings.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert say(source, "--levels", 6, "--out", tmp_path)[0] == 0
    found = values(tmp_path)
    assert found["all judges", "", "0-5", "alpha-nominal"] == pytest.approx(904 / 1216, abs=1e-12)
    assert found["all judges", "", "0-5", "alpha-ordinal"] == pytest.approx(0.815, abs=5e-4)
    assert found["all judges", "", "0-5", "alpha-interval"] == pytest.approx(0.849, abs=5e-4)
    items = {r["items"] for r in rows_of(tmp_path, "agreement") if r["rater_a"] == "all judges"}
    assert items == {11}  # the twelfth unit has one code


def test_judges_are_ranked_by_their_agreement_with_people(three):
    folder, human = three
    found = agreement_of(folder / "poor.txt", folder / "good.txt", "--human", human)
    assert found.complete
    report = found.report
    people = report.table("people")
    assert [*people.columns] == [
        *("judge", "kappa-quadratic", "kappa", "alpha-ordinal", "agreement", "items", "queries")
    ]
    assert [row[0].text for row in people.rows] == ["good", "poor"]
    assert [row[-2:] for row in people.rows] == [["60", "6"]] * 2
    _, _, binarised = report.section("people").parts
    assert [*binarised.columns] == ["judge", ">=1", ">=2", ">=3"]
    assert {row[0].text for row in report.table("panel").rows} == {"all judges and human"}
    grades = report.table("confusion").rows
    assert [row[0].text for row in grades] == ["good"] * 4 + ["poor"] * 4
    assert sum(int(count) for row in grades for count in row[3:]) == 120


def test_only_what_is_asked(say, three, tmp_path):
    folder, human = three
    words = [
        "--human",
        human,
        "--thresholds",
        2,
        "--coefficients",
        "mcc",
        "fleiss",
        *set_in_file(resamples=0),
    ]
    out = tmp_path / "out"
    found = agreement_of(folder / "poor.txt", folder / "good.txt", *words, "--out", out)
    assert [*found.report.table("people").columns] == ["judge", "mcc", "items", "queries"]
    rows = rows_of(out, "agreement")
    assert {(r["coefficient"], r["scale"]) for r in rows} == {
        (name, scale) for name in ("mcc", "fleiss") for scale in ("0-3", ">=2")
    }
    assert all(np.isnan(r["low"]) for r in rows)
    assert say(folder / "poor.txt", folder / "good.txt", "--thresholds", "--out", out)[0] == 0
    assert {r["scale"] for r in rows_of(out, "agreement")} == {"0-3"}


def test_a_judge_of_other_documents_is_missing(tmp_path):
    for name, grades in (
        ("a", [1, 2, 3, 0, None, None]),
        ("b", [None] * 4 + [1, 2]),
        ("human", [1, 2, 2, 0, None, None]),
    ):
        write_qrels(tmp_path / f"{name}.txt", grades)
    words = [tmp_path / "a.txt", tmp_path / "b.txt", "--human", tmp_path / "human.txt"]
    found = agreement_of(*words)
    assert not found.complete
    assert found.report.notes[0] == "b and human judged no document in common"
    a, b = found.report.table("people").rows
    assert a[1].value > 0
    assert np.isnan([a[1].low, b[1].value]).all()  # of fewer than five queries, and of nothing


def test_the_out_of_annotate_is_a_source(tmp_path):
    grades = [
        Grade(f"q{i % 5}", f"d{i}", judge, (i * factor) % 4, (), (), "", f"{judge}{i}")
        for judge, factor in (("openai:m", 1), ("gemini:n", 3))
        for i in range(20)
    ]
    pq.write_table(table_of(grades, Grade), tmp_path / "grades.parquet")
    [row] = agreement_of(tmp_path, *set_in_file(resamples=100)).report.table("between").rows
    assert [cell.text for cell in row[:2]] == ["openai:m", "gemini:n"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--levels", "1"], "levels: must be at least 2"),
        (["--thresholds", "4"], "thresholds: must be from 1 to 3"),
        (["--coefficients", "kapa"], "'kapa' (did you mean 'kappa'?); there are"),
        ([*set_in_file(resamples=99)], "resamples: must be 0 …at least 100"),
        (["--human", "nowhere://x"], "nowhere://x"),
    ],
)
def test_bad_options_are_one_line(say, three, words, message):
    status, lines = say(three[0] / "good.txt", *words)
    assert status == 2
    assert len(lines) == 1
    assert all(part in lines[0] for part in message.split("…"))


def test_tables_do_not_go_where_judgments_lie(say, three):
    folder, _ = three
    status, lines = say(folder, "--out", f"{folder}/")
    assert status == 2
    assert "holds judgments" in lines[0]
    assert lines[0].endswith("--out")
    (folder / "run").mkdir()
    words = [folder / "good.txt", folder / "poor.txt", "--out", folder / "run"]
    for name in ("run.json", "compare.json"):
        (folder / "run" / name).write_text("{}")
        assert say(*words)[0] == 2
        assert [path.name for path in (folder / "run").iterdir()] == [name]
        (folder / "run" / name).unlink()


def test_a_panels_grades_stand_beside_its_judges_and_are_none_of_them(say, three):
    folder, human = three
    rng = np.random.default_rng(0)
    scores = [
        GradedScore(f"q{i % 6}", f"d{i}", 1.5, 0.3, 2, 1, int(grade), 1.5, 1, 0.5, False)
        for i, grade in enumerate(rng.integers(0, 4, 60))
    ]
    pq.write_table(table_of(scores, GradedScore), folder / "scores.parquet")
    words = [folder / "good.txt", folder / "poor.txt"]
    say(*words, "--human", human, "--out", folder / "without")
    words += [f"panel={folder / 'scores.parquet'}", "--human", human, "--out", folder / "with"]
    report = agreement_of(*words).report
    assert "panel" in {row[0].text for row in report.table("people").rows}
    assert report.table("panel").caption.startswith("2 judges,")
    before, after = values(folder / "without"), values(folder / "with")
    assert {key: after[key] for key in before} == before
    assert ("human", "panel", "0-3", "kappa") in after
    grading = [
        {(r["judge"], r["against"]): r["value"] for r in rows_of(folder / name, "grading")}
        for name in ("without", "with")
    ]
    assert {key: grading[1][key] for key in grading[0]} == grading[0]
    assert ("panel", "others") in grading[1]


def test_coefficients_of_many_are_missing_for_two(say, three):
    folder, _ = three
    status, lines = say(folder / "poor.txt", folder / "good.txt", "--coefficients", "fleiss")
    assert status == 3
    assert lines[-1] == "fleiss: needs three or more raters"


def test_one_judge_alone_has_nobody_to_agree_with(three):
    with pytest.raises(InputError, match="name more judges, or --human"):
        agreement_of(three[0] / "good.txt")


def test_a_judges_name_does_not_steer_the_terminal(say, three):
    folder, human = three
    name = "\x1b[31mred\u202e"
    _, lines = say(f"{name}={folder / 'good.txt'}", "--human", human)
    assert any(line.startswith(r"\x1b[31mred\u202e ") for line in lines)
    assert not any(set(line) & {"\x1b", "\u202e"} for line in lines)
