"""`label`: what is drawn for a bake-off, who gets what, and spreadsheets out and back."""

import csv
import json
import shlex
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.labelling import sample_at
from zelo_ray import cli
from zelo_ray.commands.label import draw, page_words, working
from zelo_ray.commands.label.between import between_people
from zelo_ray.commands.label.candidates import Candidates
from zelo_ray.commands.label.desk import Desk
from zelo_ray.commands.label.rubric import RUBRIC, names_of
from zelo_ray.commands.label.store import Answers
from zelo_ray.engine.lock import claim
from zelo_ray.errors import InputError, LockError, OptionError
from zelo_ray.evaluation.people.design import inclusion, threshold_of
from zelo_ray.formats.answers import Answer
from zelo_ray.formats.labels import read_labels
from zelo_ray.options import load_options
from zelo_ray.options.bakeoff import BakeoffOptions
from zelo_ray.options.label import LabelOptions

QUERIES, DOCUMENTS = 6, 10


@pytest.fixture
def contest(tmp_path, monkeypatch):
    """A bake-off's frame; ``sizes`` of it may be changed, as by new arms."""
    pools = tmp_path / "pools.jsonl"
    documents = [{"id": f"d{n}", "content": f"text of d{n}"} for n in range(DOCUMENTS)]
    lines = [
        {"query": {"id": f"q{n}", "query": f"query {n}?"}, "documents": documents}
        for n in range(QUERIES)
    ]
    pools.write_text("".join(json.dumps(line) + "\n" for line in lines))
    pairs = [(f"q{q}", f"d{d}") for q in range(QUERIES) for d in range(DOCUMENTS)]
    sizes = np.random.default_rng(3).uniform(0.05, 1, len(pairs))
    sizes[::7] = 0
    found = Candidates(
        *([each[n] for each in pairs] for n in range(2)),
        size=sizes,
        measure="nDCG@10",
        arms=("one", "two"),
        options=BakeoffOptions(truth="truth", out="contest", pools=(str(pools),)),
    )
    held = {"frame": found}
    monkeypatch.setattr(draw, "candidates", lambda contest, measure: held["frame"])
    return held


def options(out, **given):
    return LabelOptions(out=str(out), **given)


def drawn(out, **given):
    with working(options(out, **given), print) as work:
        return [each.pair for each in work.desk.documents]


def test_a_sample_is_of_the_first_by_priority_and_grows_without_its_contest(tmp_path, contest):
    out = tmp_path / "labels"
    first = drawn(out, contest="contest", labels=12)
    table = pq.read_table(out / "documents.parquet")
    assert len(table) == np.count_nonzero(contest["frame"].size)
    assert np.all(np.diff(table["priority"].to_numpy()) <= 0)
    assert len(first) == 12
    (tmp_path / "pools.jsonl").unlink()
    assert drawn(out) == first
    more = drawn(out, more=17)
    assert (more[:12], len(more)) == (first, 17)
    assert len(drawn(out, labels=30)) == 30
    assert len(drawn(out, labels=3)) == 30  # what was drawn stays
    assert len(drawn(out, more=1000)) == len(table)
    stages = json.loads((out / "label.json").read_text())["stages"]
    assert [each["labels"] for each in stages] == [12, 17, 30, len(table)]


def config_after(out):
    """The options that the next command reads, as it reads them."""
    with working(options(out), print) as work:
        words = shlex.split(page_words(work)["next"])
    assert words[:3] == ["zelo-ray", "bakeoff", "--config"]
    return load_options(BakeoffOptions, {}, {}, Path(words[3]).read_text())


def test_what_comes_next_measures_as_the_contest_did(tmp_path, contest):
    out = tmp_path / "my labels"
    frame = contest["frame"]
    was = frame.options.model_copy(
        update={
            "measures": ("AP", "P@5"),
            "ties": "expected",
            "rerankers": ("bm25", "mine=cohere:rerank-v4.0-pro", "gpt-x=bm25", "lost=bm25"),
            "limits": {"mine": {"concurrency": 2}},
            "families": {"gpt-x": ("gpt",), "lost": ("x",), "judge": ("qwen",)},
            "baseline": "mine",
            "margin": 0.02,
            "confidence": 0.9,
            "slices": ("kind",),
            "resamples": 500,
        }
    )
    arms = ("bm25", "mine", "gpt-x")
    contest["frame"] = replace(frame, options=was, arms=arms)
    drawn(out, contest="a contest/", labels=9)
    known = config_after(out)
    assert (known.runs, known.out) == (("a contest/runs.parquet",), "a contest-people")
    assert (known.human, known.rerankers, known.limits) == (str(out), (), {})
    assert known.measures == ("nDCG@10", "AP", "P@5")
    families = {"mine": ("cohere",), "gpt-x": ("gpt",), "judge": ("qwen",)}
    assert known.families == families
    same = ("truth", "pools", "ties", "baseline", "margin", "confidence", "slices", "resamples")
    for name in same:
        assert getattr(known, name) == getattr(was, name), name


@pytest.mark.parametrize(
    ("measures", "then"),
    [
        ((), ("nDCG@10",)),
        (("P@5", "nDCG@10"), ("nDCG@10", "P@5")),
        (("nDCG(dcg='zelo')@10", "P@5"), ("nDCG(dcg='zelo')@10", "P@5")),
    ],
)
def test_the_measure_that_was_drawn_for_leads(tmp_path, contest, measures, then):
    frame = contest["frame"]
    was = frame.options.model_copy(update={"measures": measures})
    contest["frame"] = replace(frame, options=was)
    drawn(tmp_path / "labels", contest="contest", labels=9)
    assert config_after(tmp_path / "labels").measures == then


def test_a_contest_a_sheet_and_the_contest_again(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    ids = [(f"q{q}", f"d{d}") for q in range(8) for d in range(12)]
    documents = [{"id": f"d{d}", "content": f"text {d}"} for d in range(12)]
    pools = [{"query": {"id": f"q{n}", "query": "why?"}, "documents": documents} for n in range(8)]
    Path("pools.jsonl").write_text("".join(json.dumps(pool) + "\n" for pool in pools))
    Path("qrels").write_text("".join(f"{q} 0 {d} {rng.integers(4)}\n" for q, d in ids))
    for name in ("one", "two"):
        lines = [f"{q} Q0 {d} 1 {rng.uniform()} {name}\n" for q, d in ids]
        Path(f"{name}.run").write_text("".join(lines))
    words = "--truth qrels --runs one.run --pools pools.jsonl --resamples 100 --baseline two.run"
    status = cli.main(f"bakeoff {words} --measures P@5 nDCG@5 --out contest".split())
    assert status in (0, 3, 4)  # what the gate says of noise
    first = "label --contest contest --labels 35 --out labels --measure nDCG@5 --csv out.csv"
    assert cli.main(first.split()) == 0
    capsys.readouterr()
    with Path("out.csv").open(encoding="utf-8-sig", newline="") as text:
        rows = list(csv.DictReader(text))
    status, told = back(
        "labels", Path("in.csv"), [r | {"grade": "2"} for r in rows], capsys, "--person", "ann"
    )
    assert (status, "35 of 35 documents judged" in told) == (0, True)
    then = next(line for line in told.splitlines() if line.startswith("next: "))
    assert cli.main(shlex.split(then)[2:]) in (0, 3, 4)
    again = json.loads(Path("contest-people/run.json").read_text())
    assert again["summary"]["measures"] == ["nDCG@5", "P@5"]
    assert again["options"]["baseline"] == "two"
    assert "1 person labelled 35 documents" in capsys.readouterr().out


def test_more_counts_from_what_is_answered(tmp_path, contest, capsys):
    out = tmp_path / "labels"
    pairs = drawn(out, contest="contest", labels=12)
    with working(options(out), print) as work:
        work.desk.answers.keep(Answer("", "ann", *pair, 1.0) for pair in pairs[:4])
    capsys.readouterr()
    assert len(drawn(out, more=8)) == len(drawn(out, more=3)) == 12
    assert capsys.readouterr().out.count("8 of those that are drawn are open: go on") == 2
    assert len(json.loads((out / "label.json").read_text())["stages"]) == 1
    assert len(drawn(out, more=10)) == 14
    assert "are open" not in capsys.readouterr().out


def test_equal_seeds_draw_equal_documents_and_others_do_not(tmp_path, contest):
    a, b, c = (tmp_path / name for name in "abc")
    assert drawn(a, contest="contest", labels=9) == drawn(b, contest="contest", labels=9)
    assert (a / "documents.parquet").read_bytes() == (b / "documents.parquet").read_bytes()
    assert drawn(c, contest="contest", labels=9, seed=1) != drawn(a)


def test_a_new_arm_keeps_what_was_drawn_and_asks_down_to_the_old_threshold(tmp_path, contest):
    out = tmp_path / "labels"
    first = drawn(out, contest="contest", labels=12)
    before = pq.read_table(out / "documents.parquet")
    threshold = threshold_of(before["priority"].to_numpy(), 12)
    sizes = contest["frame"].size.copy()
    sizes[::2], sizes[1::2] = sizes[::2] * 1.8, sizes[1::2] / 3
    contest["frame"] = replace(contest["frame"], size=sizes, arms=("one", "three"))
    now = drawn(out, contest="contest")
    table = pq.read_table(out / "documents.parquet")
    assert {*first} < {*now}
    assert len(now) == np.count_nonzero(table["priority"].to_numpy() > threshold)
    old = dict(
        zip(
            zip(*(before[n].to_pylist() for n in ("query_id", "doc_id")), strict=True),
            before["size"].to_pylist(),
            strict=True,
        )
    )
    for row in table.to_pylist():
        assert row["size"] >= old.get((row["query_id"], row["doc_id"]), 0)
    assert json.loads((out / "label.json").read_text())["arms"] == ["one", "two", "three"]
    assert drawn(out, contest="contest") == now  # and again: nothing changes
    assert len(json.loads((out / "label.json").read_text())["stages"]) == 2


def test_chances_of_a_finished_sample_are_those_of_the_design(tmp_path, contest):
    out = tmp_path / "labels"
    pairs = drawn(out, contest="contest", labels=12)
    with working(options(out), print) as work:
        work.desk.answers.keep(Answer("", "ann", *pair, 1.0) for pair in pairs)
    table = pq.read_table(out / "documents.parquet")
    threshold = threshold_of(table["priority"].to_numpy(), 12)
    wanted = inclusion(table["size"].to_numpy()[:12], threshold)
    np.testing.assert_allclose(read_labels(str(out)).rows["probability"].to_numpy(), wanted)


def test_answers_of_some_of_a_sample_are_a_sample_of_so_many(tmp_path):
    """A mean weighted by the chances has no bias, wherever people stop."""
    rng = np.random.default_rng(0)
    sizes, worth = rng.uniform(0.05, 1, 40), rng.uniform(0, 3, 40)
    for stop in (5, 15):
        sums = []
        for _ in range(1500):
            priority = sizes / (1 - rng.uniform(size=40))
            order = np.argsort(-priority)
            chance = inclusion(sizes[order[:stop]], priority[order[stop]])
            sums.append((worth[order[:stop]] / chance).sum())
        error = np.std(sums) / np.sqrt(len(sums))
        assert abs(np.mean(sums) - worth.sum()) < 4 * error


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"seed": 5}, "seed: .* was drawn with 0; name another --out"),
        ({"measure": "P@5"}, "measure: .* was drawn with nDCG@10"),
        ({"measure": "nDCG@10", "seed": 0}, ""),
    ],
)
def test_what_holds_for_the_whole_sample_cannot_change(tmp_path, contest, given, says):
    out = tmp_path / "labels"
    drawn(out, contest="contest", labels=3)
    if not says:
        assert len(drawn(out, **given)) == 3
        return
    with pytest.raises(OptionError, match=says):
        drawn(out, **given)


def test_there_must_be_a_contest_a_difference_and_texts(tmp_path, contest):
    out = tmp_path / "labels"
    with pytest.raises(OptionError, match="holds no labels: give --contest"):
        drawn(out)
    with pytest.raises(OptionError, match="--more adds to a sample"):
        drawn(out, contest="contest", more=3)
    frame = contest["frame"]
    contest["frame"] = replace(frame, size=np.zeros(len(frame.size)))
    with pytest.raises(InputError, match="all arms rank alike"):
        drawn(out, contest="contest")
    contest["frame"] = replace(frame, doc_ids=[f"x{name}" for name in frame.doc_ids])
    with pytest.raises(InputError, match=r"no text of document 'xd.*give --pools"):
        drawn(out, contest="contest")
    assert not (out / "label.json").exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"out": "s3://bucket/labels"}, "kept on a disk of this machine"),
        ({"out": "x", "labels": 1, "more": 1}, "labels and more exclude each other"),
        ({"out": "x", "csv": "a", "read": "b"}, "csv and read exclude each other"),
        ({"out": "x", "rubric": "nowhere.md"}, "nowhere.md: no such file"),
    ],
)
def test_options_that_make_no_sense_are_told(given, says):
    with pytest.raises(OptionError, match=says):
        load_options(LabelOptions, given, {})


def test_one_process_at_a_time_and_no_results_of_others(tmp_path):
    out = sample_at(tmp_path / "labels", 2)
    with claim(str(out), kind="label"), pytest.raises(LockError, match="in use by another"):
        drawn(out)
    other = tmp_path / "judged"
    other.mkdir()
    (other / "run.json").write_text('{"kind": "bakeoff"}')
    with pytest.raises(LockError, match="results of bakeoff"):
        drawn(other, contest="contest")


class Hand:
    """A clock that is set by hand."""

    time = 0.0

    def now(self):
        return self.time


def desk_at(out, clock=None):
    _, sample = draw.drawn(options(out), print)
    return Desk(sample, Answers(str(out), print), 3, clock or Hand())


def test_a_document_is_before_one_person_until_they_leave_it(tmp_path):
    clock = Hand()
    desk = desk_at(sample_at(tmp_path, 3), clock)
    ann, bob = (desk.take(name)["document"]["key"] for name in ("ann", "bob"))
    assert [ann, bob] == [each.key for each in desk.documents[:2]]
    assert desk.take("ann")["document"]["key"] == ann  # the page was loaded anew
    assert desk.progress("ann").elsewhere == 1
    after = desk.answer("bob", bob, 2.0)
    assert after["document"]["key"] == desk.documents[2].key
    clock.time = 1000.0
    assert desk.take("cid")["document"]["key"] == ann
    assert desk.answer("ann", ann, 1.0)["progress"]["done"] == 2  # late, and kept all the same


def test_an_answer_that_is_sent_twice_is_kept_once_and_undone_once(tmp_path):
    desk = desk_at(sample_at(tmp_path, 3))
    key = desk.documents[0].key
    first = desk.answer("ann", key, 2.0)
    again = desk.answer("ann", key, 2.0)
    assert (first["document"], first["previous"]) == (again["document"], key)
    assert len((tmp_path / "answers.jsonl").read_bytes().splitlines()) == 1
    back = desk.undo("ann", key)
    assert (back["document"]["key"], back["before"], back["previous"]) == (key, 2.0, None)
    assert desk.undo("ann", key)["progress"]["done"] == 0
    assert len((tmp_path / "answers.jsonl").read_bytes().splitlines()) == 2
    anew = desk_at(tmp_path)
    assert anew.take("ann")["document"]["key"] == key


def test_undoing_takes_back_an_answer_that_was_changed_too(tmp_path):
    desk = desk_at(sample_at(tmp_path, 2))
    key = desk.documents[0].key
    desk.answer("ann", key, 1.0)
    desk.answer("ann", key, 3.0)
    told = desk.undo("ann", key)
    assert (told["before"], told["progress"]["done"], told["previous"]) == (3.0, 0, None)
    assert desk_at(tmp_path).take("ann")["document"]["key"] == key


class Slow(str):
    """A name; while it is compared, somebody else sits down at the desk."""

    __hash__ = str.__hash__

    def __ne__(self, other):
        thread = threading.Thread(target=self.desk.take, args=(f"new {time.monotonic_ns()}",))
        thread.start()
        thread.join(0.05)
        return str(self) != other


def test_who_sits_down_while_progress_is_told_waits(tmp_path):
    desk = desk_at(sample_at(tmp_path, 2))
    desk.take("ann")
    name = Slow("bob")
    name.desk = desk
    assert desk.progress(name).elsewhere == 1


def test_a_document_that_was_left_open_comes_before_all_others_and_is_named(tmp_path, capsys):
    out = sample_at(tmp_path / "labels", 5, overlap=1.0)
    desk = desk_at(out)
    for number in (0, 1, 3):
        desk.answer("ann", desk.documents[number].key, 1.0)
    assert desk.take("bob")["document"]["key"] == desk.documents[2].key
    numbers = [row["key"] for row in sheet(out, tmp_path / "out.csv", capsys, "--person", "bob")]
    assert numbers == [desk.documents[n].key for n in (2, 0, 1, 3, 4)]
    cli.main(["label", "--out", str(out), "--csv", str(tmp_path / "again.csv")])
    line = next(each for each in capsys.readouterr().out.splitlines() if "out of turn" in each)
    assert line.endswith("; open is document 'doc-2' of query 'q2'")


def test_undoing_goes_back_over_a_restart(tmp_path):
    desk = desk_at(sample_at(tmp_path, 4))
    keys = [each.key for each in desk.documents]
    for key in keys[:3]:
        desk.answer("ann", key, 1.0)
    desk.answer("bob", keys[3], 1.0)
    anew = desk_at(tmp_path)
    assert anew.take("ann")["previous"] == keys[2]
    assert anew.undo("ann", keys[2])["previous"] == keys[1]
    assert anew.undo("ann", keys[1])["previous"] == keys[0]


def test_the_share_that_two_judge_goes_to_a_second_person_only(tmp_path):
    out = sample_at(tmp_path, 40, overlap=0.3)
    desk = desk_at(out)
    twice = [each.key for each in desk.documents if each.wanted == 2]
    assert 4 < len(twice) < 22
    told = desk.take("ann")
    while told["document"]:
        told = desk.answer("ann", told["document"]["key"], 1.0)
    assert (told["progress"]["done"], told["progress"]["second"]) == (40, len(twice))
    told, seen = desk.take("bob"), []
    while told["document"]:
        seen.append(told["document"]["key"])
        told = desk.answer("bob", seen[-1], 2.0)
    assert seen == twice
    assert desk.take("cid")["document"] is None
    about = json.loads((out / "label.json").read_text())
    (out / "label.json").write_text(json.dumps(about | {"overlap": 0.5}))
    assert {*twice} <= {each.key for each in desk_at(out).documents if each.wanted == 2}


def test_a_document_that_two_judge_is_before_two_at_once_and_not_before_three(tmp_path):
    desk = desk_at(sample_at(tmp_path, 1, overlap=1.0))
    assert [bool(desk.take(name)["document"]) for name in ("ann", "bob", "cid")] == [
        True,
        True,
        False,
    ]


def test_what_a_killed_process_tore_is_set_aside_and_said(tmp_path):
    desk = desk_at(sample_at(tmp_path, 3))
    desk.answer("ann", desk.documents[0].key, 2.0)
    with (tmp_path / "answers.jsonl").open("ab") as file:
        file.write(b'{"at": "2026-0')
    said = []
    answers = Answers(str(tmp_path), said.append)
    assert len(answers.standing) == 1
    assert "torn last line was set aside" in said[0]
    assert (tmp_path / "answers.torn").read_bytes() == b'{"at": "2026-0\n'
    answers.keep([Answer("", "ann", *desk.documents[1].pair, 1.0)])
    assert len(Answers(str(tmp_path), pytest.fail).standing) == 2


def test_who_lets_go_of_the_directory_keeps_nothing_more(tmp_path):
    desk = desk_at(sample_at(tmp_path, 3))
    desk.close()
    with pytest.raises(OSError, match="has ended"):
        desk.answer("ann", desk.documents[0].key, 2.0)
    assert (tmp_path / "answers.jsonl").read_bytes() == b""


def sheet(out, file, capsys, *words):
    assert cli.main(["label", "--out", str(out), "--csv", str(file), *words]) == 0
    capsys.readouterr()
    with file.open(encoding="utf-8-sig", newline="") as text:
        return list(csv.DictReader(text))


def back(out, file, rows, capsys, *words, mark=",", coding="utf-8-sig"):
    with file.open("w", encoding=coding, newline="") as text:
        writer = csv.DictWriter(text, [*rows[0]], delimiter=mark)
        writer.writeheader()
        writer.writerows(rows)
    status = cli.main(["label", "--out", str(out), "--read", str(file), *words])
    told = capsys.readouterr()
    return status, told.out + told.err


@pytest.mark.parametrize("mark", ",;\t")
@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16", "cp1252"])
def test_a_spreadsheet_goes_out_and_comes_back_moved_and_cut(tmp_path, capsys, mark, coding):
    out = sample_at(tmp_path / "labels", 6, text='=cmd()\nüber; "all"')
    rows = sheet(out, tmp_path / "out.csv", capsys)
    assert [row["number"] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert not any("doc-" in "".join(row.values()) for row in rows)
    for row, grade in zip(rows, ("2.0", "u", "Cannot say", "", "0", "3,0"), strict=True):
        row |= {"grade": grade, "colour": "red"}
    moved = [
        {name: row[name] for name in ("grade", "colour", "document", "key")} for row in rows[::-1]
    ]
    status, told = back(
        out, tmp_path / "in.csv", moved, capsys, "--person", "ann", mark=mark, coding=coding
    )
    assert (status, "5 answers, 5 of them new" in told) == (0, True)
    labels = read_labels(str(out))
    assert labels.rows["grade"].to_pylist() == [2.0]
    assert (labels.unsure, labels.ahead) == (2, 2)
    assert "2 documents judged out of turn" in told
    _, told = back(out, tmp_path / "in.csv", moved, capsys, "--person", "ann")
    assert "5 answers, 0 of them new" in told
    assert [row["number"] for row in sheet(out, tmp_path / "rest.csv", capsys)] == ["1"]


@pytest.mark.parametrize("start", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_no_text_is_taken_for_a_formula(tmp_path, capsys, start):
    out = sample_at(tmp_path / "labels", 1)
    table = pq.read_table(out / "documents.parquet")
    for name in ("query", "document"):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, pa.array([start]))
    pq.write_table(table, out / "documents.parquet")
    row = sheet(out, tmp_path / "out.csv", capsys)[0]
    assert row["query"] == row["document"] == f"'{start}"


def test_a_text_longer_than_a_cell_is_cut_and_says_so(tmp_path, capsys):
    out = sample_at(tmp_path / "labels", 1, text="x" * 40_000)
    row = sheet(out, tmp_path / "out.csv", capsys)[0]
    assert len(row["document"]) < 32_767
    assert "the whole text has 40,007 characters" in row["document"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"grade": "good"}, "in.csv: row 3, cell E3 (grade): 'good' is no grade from 0 to 3"),
        ({"grade": "4"}, "'4' is no grade from 0 to 3"),
        ({"grade": "1.5"}, "'1.5' is no grade"),
        ({"key": "kwrong"}, "row 3: no document of this sample has the key 'kwrong'"),
        ({"person": ""}, "row 3: whose answer is it?"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named_and_nothing_is_kept(tmp_path, capsys, change, says):
    out = sample_at(tmp_path / "labels", 3)
    rows = [row | {"grade": "1", "person": "ann"} for row in sheet(out, tmp_path / "o.csv", capsys)]
    rows[1] |= change
    status, told = back(out, tmp_path / "in.csv", rows, capsys)
    assert status == 1
    assert says in told
    assert (out / "answers.jsonl").read_bytes() == b""


def test_two_people_in_one_file_and_a_document_twice(tmp_path, capsys):
    out = sample_at(tmp_path / "labels", 12)
    rows = sheet(out, tmp_path / "out.csv", capsys)
    both = [row | {"grade": str(n % 3), "person": "ann"} for n, row in enumerate(rows)]
    both += [row | {"grade": str(min(n % 3, 1)), "person": "bob"} for n, row in enumerate(rows)]
    _, told = back(out, tmp_path / "in.csv", both, capsys)
    assert "24 answers" in told
    assert "ann and bob on 12 documents: the same grade on 67%, weighted kappa 0.67" in told
    between = between_people(read_labels(str(out)).rows, 3)
    assert [(each.person_a, each.person_b, each.documents) for each in between] == [
        ("ann", "bob", 12)
    ]
    both[0]["grade"], both[0]["person"] = "2", "bob"
    status, told = back(out, tmp_path / "in.csv", both, capsys)
    assert (status, "another grade than in" in told) == (1, True)


def test_people_are_not_compared_on_a_scale_too_fine_for_a_table():
    rows = [("q", f"d{n}", who, n * 1e7, None) for n in range(4) for who in ("ann", "bob")]
    names = ["query_id", "doc_id", "person", "grade", "probability"]
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    assert between_people(table, 3e7) == []


def test_a_file_that_is_no_sheet_says_what_it_has(tmp_path, capsys):
    out = sample_at(tmp_path / "labels", 3)
    (tmp_path / "in.csv").write_text("id,grade\n1,2\n")
    assert cli.main(["label", "--out", str(out), "--read", str(tmp_path / "in.csv")]) == 1
    assert (
        "wants the columns key and grade of label --csv, and has id, grade"
        in capsys.readouterr().err
    )


def test_grades_are_named_by_the_lines_of_a_rubric():
    assert names_of(RUBRIC, 3) == ["Not relevant", "Related", "Answers in part", "Answers it"]
    assert names_of("# Ours\n- 0: no\n- 1: well (perhaps)\n- 3. yes, all of it\n", 3) == [
        "no",
        "well",
        "",
        "yes",
    ]
    assert names_of("Whatever you think.", 3) == ["", "", "", ""]
