"""``compare-labels``: leaderboards, gaps and contradictions, as a user would ask for them."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import kendalltau

from tests.builders import parsed, set_in_file
from zelo_ray.api.comparisons import LabelComparison
from zelo_ray.cli import main
from zelo_ray.commands.compare_labels import compare_labels
from zelo_ray.commands.compare_labels.contradictions import find_contradictions
from zelo_ray.commands.compare_labels.neighbours import cohens_d, median_size
from zelo_ray.commands.compare_labels.run import run as run_compare_labels
from zelo_ray.commands.convert import convert
from zelo_ray.errors import InputError, MeasureError, OptionError
from zelo_ray.formats.interchange.pooling import make_qrels
from zelo_ray.formats.tables import table_of
from zelo_ray.records import GradedScore, Ranked
from zelo_ray.reports.progress.events import SilentWatch


def run(*words):
    """The record of a comparison, and the rows of its tables."""
    record, tables = compare_labels(parsed("compare-labels", *words))
    return record, {name: table.to_pylist() for name, table in tables.items()}


def report(*words):
    return run_compare_labels(parsed("compare-labels", *words), SilentWatch())


def notes_of(*words):
    return run(*words)[0]["notes"]


def qrels_of(truth):
    rows = [(q, d, float(r), math.nan) for q, docs in truth.items() for d, r in docs.items()]
    return make_qrels("test", rows)


def graded(query_id, doc_id, score, grade, *, ambiguous=False):
    """A document of a graded run."""
    return GradedScore(query_id, doc_id, score, 0.2, 3, 1, grade, grade, grade, 0.3, ambiguous)


QUERIES, DOCUMENTS = 12, 6


@pytest.fixture
def place(tmp_path):
    """MTEB rows, their pools, a graded run over them that loves what is last, and three runs."""
    rows = [
        {
            "query": f"question {q}?",
            "positive": [f"positive {q}"],
            "negative": [f"negative {q} {n} of many words " * 9 for n in range(DOCUMENTS - 1)],
        }
        for q in range(QUERIES)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["pool", str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "pools.jsonl")]
    convert(parsed("convert", *words))
    out = tmp_path / "out"
    out.mkdir()
    scores, lines = [], []
    for line in map(json.loads, (tmp_path / "pools.jsonl").read_text().splitlines()):
        query_id = line["query"]["id"]
        for document in line["documents"]:
            # By the panel, what the rows call positive is marginal, and one negative is the best.
            name = document["content"].split()
            grade = 1 if name[0] == "positive" else 3 if name[2] == "4" else 0
            scores.append(graded(query_id, document["id"], grade * 0.9 + 0.1, grade))
            document["score"] = grade * 0.9 + 0.1
        lines.append(json.dumps(line) + "\n")
    pq.write_table(table_of(scores, GradedScore), out / "scores.parquet")
    (out / "annotated.jsonl").write_text("".join(lines))
    rng = np.random.default_rng(0)
    for name in ("old-lover", "new-lover", "noise"):
        ranked = []
        for line in map(json.loads, lines):
            for document in line["documents"]:
                first = document["content"].startswith("positive")
                likes = {"old-lover": first, "new-lover": document["score"] > 2, "noise": 0}[name]
                score = float(likes) + 0.1 * rng.random()
                ranked.append(Ranked(line["query"]["id"], document["id"], score))
        pq.write_table(table_of(ranked, Ranked), tmp_path / f"{name}.parquet")
    return tmp_path


def words_of(place):
    runs = [place / f"{name}.parquet" for name in ("old-lover", "new-lover", "noise")]
    return ["--old", place / "rows.jsonl", "--new", place / "out", "--runs", *runs]


def test_a_benchmark_that_is_graded_anew(place):
    out = place / "compared"
    made, tables = run(*words_of(place), "--out", out)
    assert made["complete"]
    board = {line["run"]: line for line in pq.read_table(out / "leaderboards.parquet").to_pylist()}
    assert list(board) == ["new-lover", "old-lover", "noise"]
    assert board["old-lover"]["old"] == 1.0
    assert board["old-lover"]["old_rank"] == 1
    assert board["new-lover"]["new"] == pytest.approx(1, abs=0.05)
    assert [line["moved"] for line in board.values()][:1] == [board["new-lover"]["old_rank"] - 1]
    assert board["new-lover"]["moved"] > 0 > board["old-lover"]["moved"]
    siblings = pq.read_table(out / "siblings.parquet").to_pylist()
    first = next(s for s in siblings if {s["run_a"], s["run_b"]} == {"new-lover", "old-lover"})
    assert first["new_apart"]
    assert first["new_d"] * first["new"] > 0
    assert (first["run_a"] == "new-lover") == (first["new"] > 0)
    rows = pq.read_table(out / "contradictions.parquet").to_pylist()
    assert rows == tables["contradictions"]
    assert len({row["query_id"] for row in rows}) == QUERIES
    assert [row["kind"] for row in rows] == ["negative", "positive"] * QUERIES
    assert [row["best"] for row in rows] == [True, False] * QUERIES
    assert all(len(row["text"]) <= 80 and row["text"].startswith(row["kind"]) for row in rows)
    record = json.loads((out / "compare.json").read_text())
    assert record["counts"]["queries_contradicted"] == QUERIES
    assert record["counts"]["negative"] == record["counts"]["positive"] == QUERIES
    assert record["counts"]["queries_with_new_best"] == record["counts"]["queries"] == QUERIES
    assert record["counts"]["turned"] == 1
    assert record["options"]["measure"] == "nDCG@10"
    assert record == made


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_shows_leaderboards_gaps_and_contradictions(place, width):
    report = run_compare_labels(parsed("compare-labels", *words_of(place)), SilentWatch())
    lines = LabelComparison(report).to_text(width).split("\n")
    assert max(map(len, lines)) <= width
    titles = ("Leaderboards side by side", "Gaps between neighbours", "Contradicted labels")
    assert all(any(line.startswith(title) for line in lines) for title in titles)
    assert any(line.split()[:1] == ["old-lover"] and line.endswith("-1") for line in lines)
    assert "1 by both, in opposite directions" in " ".join(lines)


def test_ends_of_the_command(place, capsys):
    words = ["compare-labels", *map(str, words_of(place))]
    assert main(words) == 0
    assert "new-lover" in capsys.readouterr().out
    run_file = place / "short.parquet"
    table = pq.read_table(place / "noise.parquet")
    pq.write_table(table.slice(0, 2 * DOCUMENTS), run_file)
    assert main([*words, str(run_file)]) == 3
    capsys.readouterr()
    rows = report(*words[1:], run_file).table("leaderboards").rows
    assert {row[0].text: row[-1] for row in rows}["short"] == f"{QUERIES - 2}"
    assert main([*words, "--measure", "nDCG@x"]) == 2
    assert main([*words[:2], "nosuch", *words[3:]]) == 1


def test_bakeoff_and_no_runs(place):
    tables = [
        pq.read_table(place / f"{name}.parquet").add_column(
            0, "run", pa.array([name] * (QUERIES * DOCUMENTS))
        )
        for name in ("old-lover", "noise")
    ]
    (place / "contest").mkdir()
    pq.write_table(pa.concat_tables(tables), place / "contest/runs.parquet")
    labels = words_of(place)[:4]
    assert len(run(*labels, "--bakeoff", place / "contest")[1]["leaderboards"]) == 2
    record, alone = run(*labels)
    assert (record["taus"], alone["leaderboards"], alone["siblings"]) == ([], [], [])
    assert len(alone["contradictions"]) == 2 * QUERIES


def test_wrong_requests(place):
    (place / "other.qrels").write_text("elsewhere 0 d 1\n")
    with pytest.raises(InputError, match=r"no query has both old and new labels: .*elsewhere"):
        run("--old", place / "rows.jsonl", "--new", place / "other.qrels")
    with pytest.raises(OptionError, match="nosuch"):
        run("--old", "nosuch://a", "--new", place / "out")
    with pytest.raises(OptionError, match="resamples: "):
        run(*words_of(place), *set_in_file(resamples=5))
    (place / "out/run.json").write_text("{}")
    with pytest.raises(OptionError, match="another --out"):
        run(*words_of(place), "--out", place / "out")
    with pytest.raises(MeasureError):
        run(*words_of(place), "--measure", "nothing")


def test_what_contradicts():
    old = qrels_of(
        {
            "fine": {"a": 1, "b": 0},
            "lost": {"a": 1, "b": 0, "gone": 1},
            "won": {"a": 1, "b": 0},
            "shared": {"a": 1, "b": 0},
            "none": {"a": 1, "b": 0},
            "only-old": {"a": 1},
        }
    )
    new = qrels_of(
        {
            "fine": {"a": 2, "b": 1},
            "lost": {"a": 1, "b": 0},  # the best is still the positive
            "won": {"a": 2, "b": 3, "c": 2},
            "shared": {"a": 3, "b": 3},
            "none": {"a": 0, "b": 1},  # the best is a negative, but none is relevant
            "only-new": {"a": 3},
        }
    )
    found = find_contradictions(old, new, 1, 2)
    told = [(c.query_id, c.doc_id, c.kind, c.new, c.best) for c in found]
    assert told == [
        ("won", "b", "negative", 3, True),
        ("won", "c", "unjudged", 2, False),
        ("none", "a", "positive", 0, False),
        ("shared", "b", "negative", 3, False),
        ("lost", "a", "positive", 1, False),
    ]
    assert math.isnan(found[1].old)
    split = new.append_column("ambiguous", pa.array([d == "b" for d in new["doc_id"].to_pylist()]))
    assert [c.ambiguous for c in find_contradictions(old, split, 1, 2)][:2] == [True, False]


def test_notes_say_what_is_left_out(place):
    (place / "old.qrels").write_text("query1 0 query1-00001 1\nquery1 0 x 1\nq0 0 a 1\n")
    notes = notes_of("--old", place / "old.qrels", "--new", place / "out")
    old, new, document, kind = notes
    assert kind.startswith("the new labels are of a graded run: leaderboards use its mean grades")
    assert old == "1 query has old labels only, left out: q0"
    assert new.startswith("11 queries have new labels only, left out: ")
    assert new.endswith(" query10, query11, query12 …")
    assert document.startswith("1 document has old labels only ")
    (place / "logits.qrels").write_text("query1 0 query1-00001 -1.5\n")
    notes = notes_of("--old", place / "old.qrels", "--new", place / "logits.qrels")[2:]
    assert "the new labels are scores in logits" in notes[0]
    (unreached,) = notes[1:]
    assert " reaches --relevant 1: " in unreached
    assert unreached.endswith(" the largest is -1.5")


def test_cohens_d():
    assert cohens_d(np.array([0.1, 0.3, np.nan, 0.2])) == pytest.approx(0.2 / 0.1)
    assert cohens_d(np.zeros(4)) == 0
    assert cohens_d(np.full(4, -0.5)) == -math.inf
    assert math.isnan(cohens_d(np.array([1.0, np.nan])))


def test_dl19_under_gpt4s_labels(tmp_path, published):
    folder = published / "trec_dl19"
    runs = sorted((folder / "runs_top10").glob("*.run"))
    labels = ("--old", folder / "qrels.txt", "--new", folder / "judges/gpt-4_umbrela_graded.txt")
    record, tables = run(*labels, "--runs", *runs, *set_in_file(resamples=500))
    assert record["counts"]["queries"] == 43
    board, siblings = tables["leaderboards"], tables["siblings"]
    means = {row["run"]: row for row in board}
    assert round(means["idst_bert_p1"]["old"], 4) == 0.7645
    assert round(means["bm25base_p"]["old"], 4) == 0.5058
    old, new = ([row[side] for row in board] for side in ("old", "new"))
    tau = record["taus"][0]
    assert tau["value"] == pytest.approx(kendalltau(old, new).statistic)
    assert tau["low"] < tau["value"] < tau["high"]
    assert len([row for row in siblings if row["board"] != "old"]) == 36
    for row in siblings:
        a, b = means[row["run_a"]], means[row["run_b"]]
        assert row["old"] == pytest.approx(a["old"] - b["old"])
        assert row["new"] == pytest.approx(a["new"] - b["new"])
        assert (row["new"] >= 0) if row["board"] != "old" else (row["old"] >= 0)
    kinds = [row["kind"] for row in tables["contradictions"]]
    assert (kinds.count("positive"), kinds.count("negative")) == (734, 1137)


def write_qrels(path, **grades):
    path.write_text("".join(f"q{q} 0 {d} {g}\n" for q in range(6) for d, g in grades.items()))
    return path


def write_run(path, *order, queries=6):
    lines = [
        f"q{q} Q0 {d} 0 {-i} {path.stem}\n" for q in range(queries) for i, d in enumerate(order)
    ]
    path.write_text("".join(lines))
    return path


def test_equal_labels_do_not_contradict_each_other(place, tmp_path):
    binary = write_qrels(tmp_path / "binary.qrels", a=1, b=0)
    graded = write_qrels(tmp_path / "graded.qrels", a=3, b=1, c=2)
    for labels, cut in ((binary, 1), (graded, 2), (place / "out", 2)):
        record, tables = run("--old", labels, "--new", labels)
        assert tables["contradictions"] == []
        kinds = ["the old labels are of", "the new labels are of"] if "out" in str(labels) else []
        assert [note[:21] for note in record["notes"]] == kinds
        assert (record["options"]["positive"], record["options"]["relevant"]) == (cut, cut)
    rows = run("--old", binary, "--new", graded)[1]["contradictions"]
    assert {(row["doc_id"], row["kind"]) for row in rows} == {("c", "unjudged")}
    (note,) = notes_of("--old", binary, "--new", binary, "--relevant", 2)
    assert " reaches --relevant 2: " in note
    assert note.endswith(" the largest is 1")
    for flag, value in (("--relevant", "nan"), ("--positive", "inf")):
        with pytest.raises(OptionError, match=f"{flag[2:]}: .*finite"):
            run("--old", binary, "--new", binary, flag, value)


def test_a_run_that_lacks_queries_stands_as_on_the_board(tmp_path):
    labels = write_qrels(tmp_path / "a.qrels", a=2, b=1, c=0)
    whole = write_run(tmp_path / "whole.run", "b", "a", "c")
    part = write_run(tmp_path / "part.run", "a", "b", "c", queries=3)
    words = ("--old", labels, "--new", labels, "--runs", whole, part)
    (sibling,) = run(*words)[1]["siblings"]
    assert (sibling["run_a"], sibling["run_b"], sibling["board"]) == ("whole", "part", "both")
    assert sibling["new"] < 0
    assert sibling["new_d"] < 0
    [row] = report(*words).table("siblings").rows
    assert row[2:4] + row[-1:] == ["-∞", "-∞", "3"]


def test_the_median_size_of_all_gaps(place):
    rows = {"a": np.array([0.1, 0.3, 0.2]), "b": np.array([0.0, 0.1, 0.2]), "c": np.zeros(3)}
    # a - b: mean .1, deviation .1; a: .2 and .1; b: .1 and .1
    assert median_size(rows) == pytest.approx(1)
    assert math.isnan(median_size({"a": rows["a"]}))
    counts = run(*words_of(place))[0]["counts"]
    median = f"{counts['median_d_old']:.2f} by the old labels and {counts['median_d_new']:.2f} by"
    assert median in report(*words_of(place)).table("siblings").caption


def test_results_of_agree_are_not_written_over(place):
    (place / "agreed").mkdir()
    (place / "agreed/agree.json").write_text("{}")
    with pytest.raises(OptionError, match="results of agree"):
        run(*words_of(place), "--out", place / "agreed")
