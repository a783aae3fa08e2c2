"""``compare-labels``: leaderboards by old and new labels, gaps and contradictions."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import kendalltau

from tests.builders import parsed, rows_of, write_lines
from zelo_ray.cli import main
from zelo_ray.commands.compare_labels import compare_labels
from zelo_ray.commands.compare_labels.contradictions import find_contradictions
from zelo_ray.commands.compare_labels.neighbours import cohens_d, median_size
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.tables import table_of
from zelo_ray.records import GradedScore, Qrel, Ranked

QUERIES, DOCUMENTS = 12, 6


def compared(*words):
    """The record of a comparison, and the rows of its tables."""
    record, tables = compare_labels(parsed("compare-labels", *words))
    return record, {name: table.to_pylist() for name, table in tables.items()}


def qrels_of(truth):
    rows = [(q, d, float(r)) for q, docs in truth.items() for d, r in docs.items()]
    return table_of([Qrel(*row, math.nan) for row in rows], Qrel)


def write_qrels(path, **grades):
    path.write_text("".join(f"q{q} 0 {d} {g}\n" for q in range(6) for d, g in grades.items()))
    return path


@pytest.fixture
def place(tmp_path):
    """Rows with one positive each, a graded run that loves what is last, and three runs."""
    rows, scores, lines = [], [], []
    runs = {"old-lover": [], "new-lover": [], "noise": []}
    rng = np.random.default_rng(3)
    for q in range(QUERIES):
        texts = [f"positive {q}", *(f"negative {q} {n} " + "of many words " * 9 for n in range(5))]
        rows.append({"query": f"question {q}?", "positive": texts[:1], "negative": texts[1:]})
    write_lines(tmp_path / "rows.jsonl", rows)
    pools = tmp_path / "pools.jsonl"
    assert main(["convert", "pool", str(tmp_path / "rows.jsonl"), "--out", str(pools)]) == 0
    for line in map(json.loads, pools.read_text().splitlines()):
        query_id = line["query"]["id"]
        for document in line["documents"]:
            # By the panel, what the rows call positive is marginal, and one negative is the best.
            name = document["content"].split()
            grade = 1 if name[0] == "positive" else 3 if name[2] == "4" else 0
            ids, score = (query_id, document["id"]), grade * 0.9 + 0.1
            scores.append(GradedScore(*ids, score, 0.2, 3, 1, grade, grade, grade, 0.3, False))
            document["score"] = score
            for run, likes in (("old-lover", grade == 1), ("new-lover", grade == 3), ("noise", 0)):
                runs[run].append(Ranked(*ids, float(likes) + 0.1 * rng.random()))
        lines.append(line)
    (tmp_path / "out").mkdir()
    pq.write_table(table_of(scores, GradedScore), tmp_path / "out/scores.parquet")
    write_lines(tmp_path / "out/annotated.jsonl", lines)
    for name, ranked in runs.items():
        pq.write_table(table_of(ranked, Ranked), tmp_path / f"{name}.parquet")
    return tmp_path


@pytest.fixture
def words(place):
    runs = [place / f"{name}.parquet" for name in ("old-lover", "new-lover", "noise")]
    return ["--old", place / "rows.jsonl", "--new", place / "out", "--runs", *runs]


def test_a_benchmark_that_is_graded_anew(place, words):
    out = place / "compared"
    record, tables = compared(*words, "--out", out)
    assert record["complete"]
    assert record == json.loads((out / "compare.json").read_text())
    assert all(str(rows_of(out, name)) == str(rows) for name, rows in tables.items())
    board = {row["run"]: row for row in tables["leaderboards"]}
    assert [*board] == ["new-lover", "old-lover", "noise"]
    assert (board["old-lover"]["old"], board["old-lover"]["old_rank"]) == (1.0, 1)
    assert board["new-lover"]["new"] == pytest.approx(1, abs=0.05)
    moved = {name: row["moved"] for name, row in board.items()}
    assert moved["new-lover"] == board["new-lover"]["old_rank"] - 1 > 0 > moved["old-lover"]
    first = tables["siblings"][0]
    assert (first["run_a"], first["run_b"], first["new_apart"]) == ("new-lover", "old-lover", True)
    assert first["old"] < 0 < first["new"]
    assert first["old_d"] < 0 < first["new_d"]
    rows = tables["contradictions"]
    assert [(row["kind"], row["best"]) for row in rows] == [
        *(("negative", True), ("positive", False))
    ] * QUERIES
    assert len({row["query_id"] for row in rows}) == QUERIES
    assert all(len(row["text"]) <= 80 and row["text"].startswith(row["kind"]) for row in rows)
    counts = record["counts"]
    names = ("queries", "queries_contradicted", "queries_with_new_best", "negative", "positive")
    assert {counts[name] for name in names} == {QUERIES}
    assert (counts["turned"], record["options"]["measure"]) == (1, "nDCG@10")


def test_ends_of_the_command(place, words):
    command = ["compare-labels", *map(str, words)]
    short = place / "short.parquet"
    pq.write_table(pq.read_table(place / "noise.parquet").slice(0, 2 * DOCUMENTS), short)
    assert main(command) == 0
    assert main([*command, str(short)]) == 3
    assert main([*command, "--measure", "nDCG@x"]) == 2
    assert main([*command[:2], "nosuch", *command[3:]]) == 1


def test_without_runs_labels_are_compared_alone(words):
    record, alone = compared(*words[:4])
    assert (record["taus"], alone["leaderboards"], alone["siblings"]) == ([], [], [])
    assert len(alone["contradictions"]) == 2 * QUERIES


def test_what_cannot_be_compared_is_refused(place, words):
    (place / "other.qrels").write_text("elsewhere 0 d 1\n")
    for error, changed in (
        (InputError, [*words[:2], "--new", place / "other.qrels"]),
        (OptionError, ["--old", "nosuch://a", *words[2:]]),
        (OptionError, [*words, "--relevant", "nan"]),
        (OptionError, [*words, "--positive", "inf"]),
        (OptionError, [*words, "--measure", "nothing"]),
    ):
        with pytest.raises(error):
            compared(*changed)
    for name in ("run.json", "agree.json"):
        other = place / name.partition(".")[0]
        other.mkdir()
        (other / name).write_text("{}")
        with pytest.raises(OptionError):
            compared(*words, "--out", other)
        assert [path.name for path in other.iterdir()] == [name]


def test_what_contradicts():
    """The worst queries first: those whose best is new; then by the distance from the cut."""
    old = {name: {"a": 1, "b": 0} for name in ("fine", "lost", "won", "shared", "none")}
    old = qrels_of(old | {"only-old": {"a": 1}, "lost": {"a": 1, "b": 0, "gone": 1}})
    new = {
        "fine": {"a": 2, "b": 1},
        "lost": {"a": 1, "b": 0},  # the best is still the positive
        "won": {"a": 2, "b": 3, "c": 2},
        "shared": {"a": 3, "b": 3},
        "none": {"a": 0, "b": 1},  # the best is a negative, but none is relevant
        "only-new": {"a": 3},
    }
    found = find_contradictions(old, qrels_of(new), 1, 2)
    assert [(c.query_id, c.doc_id, c.kind, c.new, c.best) for c in found] == [
        ("won", "b", "negative", 3, True),
        ("won", "c", "unjudged", 2, False),
        ("none", "a", "positive", 0, False),
        ("shared", "b", "negative", 3, False),
        ("lost", "a", "positive", 1, False),
    ]
    assert math.isnan(found[1].old)
    ambiguous = pa.array([d == "b" for d in qrels_of(new)["doc_id"].to_pylist()])
    split = qrels_of(new).append_column("ambiguous", ambiguous)
    assert [c.ambiguous for c in find_contradictions(old, split, 1, 2)][:2] == [True, False]


def test_equal_labels_do_not_contradict_each_other(place):
    """Each side has a lowest relevant label of its own: 1 of two grades, 2 of four."""
    binary = write_qrels(place / "binary.qrels", a=1, b=0)
    graded = write_qrels(place / "graded.qrels", a=3, b=1, c=2)
    for labels, cut in ((binary, 1), (graded, 2), (place / "out", 2)):
        record, tables = compared("--old", labels, "--new", labels)
        assert tables["contradictions"] == []
        assert (record["options"]["positive"], record["options"]["relevant"]) == (cut, cut)
    rows = compared("--old", binary, "--new", graded)[1]["contradictions"]
    assert {(row["doc_id"], row["kind"]) for row in rows} == {("c", "unjudged")}
    record, _ = compared("--old", binary, "--new", binary, "--relevant", 2)
    [note] = record["notes"]
    assert note.endswith(" the largest is 1"), "a cut that no label reaches"


def test_what_is_left_out_is_noted(place):
    """Queries of one side and documents of one; mean grades and logits are named."""
    (place / "old.qrels").write_text("query1 0 query1-00001 1\nquery1 0 x 1\nq0 0 a 1\n")
    (place / "logits.qrels").write_text("query1 0 query1-00001 -1.5\n")
    for new, starts in (
        ("out", ("1 query ", "11 queries ", "1 document ", "the new labels are of a graded run")),
        ("logits.qrels", ("1 query ", "1 document ", "the new labels are scores in logits", "no")),
    ):
        record, _ = compared("--old", place / "old.qrels", "--new", place / new)
        assert len(record["notes"]) == len(starts)
        assert all(map(str.startswith, record["notes"], starts))


def test_effect_sizes():
    for differences, expected in (
        ([0.1, 0.3, np.nan, 0.2], 0.2 / 0.1),
        (np.zeros(4), 0),
        (np.full(4, -0.5), -math.inf),
        ([1.0, np.nan], np.nan),
    ):
        found = cohens_d(np.array(differences))
        assert found == pytest.approx(expected, nan_ok=True)
    rows = {"a": np.array([0.1, 0.3, 0.2]), "b": np.array([0.0, 0.1, 0.2]), "c": np.zeros(3)}
    # a - b: mean .1, deviation .1; a: .2 and .1; b: .1 and .1
    assert median_size(rows) == pytest.approx(1)
    assert math.isnan(median_size({"a": rows["a"]}))


def test_a_run_that_lacks_queries_stands_as_on_the_board(tmp_path):
    labels = write_qrels(tmp_path / "a.qrels", a=2, b=1, c=0)
    for name, order, queries in (("whole", "bac", 6), ("part", "abc", 3)):
        lines = [
            f"q{q} Q0 {d} 0 {-i} {name}\n" for q in range(queries) for i, d in enumerate(order)
        ]
        (tmp_path / f"{name}.run").write_text("".join(lines))
    runs = [tmp_path / "whole.run", tmp_path / "part.run"]
    [row] = compared("--old", labels, "--new", labels, "--runs", *runs)[1]["siblings"]
    assert (row["run_a"], row["run_b"], row["board"]) == ("whole", "part", "both")
    assert row["queries"] == 3
    assert row["new"] < 0
    assert row["new_d"] == -math.inf


def test_dl19_under_gpt4s_labels(published):
    folder = published / "trec_dl19"
    runs = sorted((folder / "runs_top10").glob("*.run"))
    labels = ("--old", folder / "qrels.txt", "--new", folder / "judges/gpt-4_umbrela_graded.txt")
    record, tables = compared(*labels, "--runs", *runs)
    assert record["counts"]["queries"] == 43
    means = {row["run"]: row for row in tables["leaderboards"]}
    assert round(means["idst_bert_p1"]["old"], 4) == 0.7645
    assert round(means["bm25base_p"]["old"], 4) == 0.5058
    old, new = ([row[side] for row in means.values()] for side in ("old", "new"))
    [tau, *_] = record["taus"]
    assert tau["value"] == pytest.approx(kendalltau(old, new).statistic)
    assert tau["low"] < tau["value"] < tau["high"]
    assert len([row for row in tables["siblings"] if row["board"] != "old"]) == 36
    for row in tables["siblings"]:
        a, b = means[row["run_a"]], means[row["run_b"]]
        for side in ("old", "new"):
            assert row[side] == pytest.approx(a[side] - b[side])
        assert (row["new"] >= 0) if row["board"] != "old" else (row["old"] >= 0)
    kinds = [row["kind"] for row in tables["contradictions"]]
    assert (kinds.count("positive"), kinds.count("negative")) == (734, 1137)
