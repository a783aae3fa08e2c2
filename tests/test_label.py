"""`label`: what is drawn for a bake-off, and what is refused."""

import csv
import html
import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.labelling import back, sample_at
from zelo_ray import cli
from zelo_ray.command_options import BakeoffOptions, LabelOptions
from zelo_ray.commands.label import draw, open_work
from zelo_ray.commands.label.candidates import Candidates, find_wording
from zelo_ray.commands.label.page import labelling_page
from zelo_ray.engine.lock import claim_folder
from zelo_ray.errors import InputError, LockError, OptionError
from zelo_ray.evaluation.people.sampling import inclusion_probabilities, sample_threshold
from zelo_ray.files.labels import PersonsAnswer, read_labels
from zelo_ray.options import load_options

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
        ids=pairs,
        size=sizes,
        truth="truth",
        digest="",
        pools=(str(pools),),
        wording={},
        measure="nDCG@10",
        rankers=("one", "two"),
    )
    held = {"frame": found}
    monkeypatch.setattr(draw, "find_candidates", lambda contest, measure: held["frame"])
    return held


def options(out, **given):
    return LabelOptions(out=str(out), **given)


def drawn(out, **given):
    with open_work(options(out, **given), print) as work:
        return [each.ids for each in work.desk.items]


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
    words = "--truth qrels --runs one.run two.run --pools pools.jsonl"
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
    assert (status, "Judged 35 of 35 documents" in told) == (0, True)
    then = next(line for line in told.splitlines() if line.startswith("Next step: "))
    assert cli.main(shlex.split(then)[3:]) in (0, 3, 4)
    again = json.loads(Path("contest-people/run.json").read_text())
    assert again["measures"] == ["nDCG@5", "Pairs"]
    assert "1 person labelled 35 documents" in capsys.readouterr().out


def test_more_counts_from_what_is_answered(tmp_path, contest, capsys):
    out = tmp_path / "labels"
    pairs = drawn(out, contest="contest", labels=12)
    with open_work(options(out), print) as work:
        work.desk.answers.append(PersonsAnswer("", "ann", pair, 1.0) for pair in pairs[:4])
    capsys.readouterr()
    assert len(drawn(out, more=8)) == len(drawn(out, more=3)) == 12
    assert capsys.readouterr().out.count("Nothing added: 8 documents") == 2
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
    threshold = sample_threshold(before["priority"].to_numpy(), 12)
    sizes = contest["frame"].size.copy()
    sizes[::2], sizes[1::2] = sizes[::2] * 1.8, sizes[1::2] / 3
    contest["frame"] = replace(contest["frame"], size=sizes, rankers=("one", "three"))
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
    assert json.loads((out / "label.json").read_text())["rankers"] == ["one", "two", "three"]
    assert drawn(out, contest="contest") == now  # and again: nothing changes
    assert len(json.loads((out / "label.json").read_text())["stages"]) == 2


def test_chances_of_a_finished_sample_are_those_of_the_design(tmp_path, contest):
    out = tmp_path / "labels"
    pairs = drawn(out, contest="contest", labels=12)
    with open_work(options(out), print) as work:
        work.desk.answers.append(PersonsAnswer("", "ann", pair, 1.0) for pair in pairs)
    table = pq.read_table(out / "documents.parquet")
    threshold = sample_threshold(table["priority"].to_numpy(), 12)
    wanted = inclusion_probabilities(table["size"].to_numpy()[:12], threshold)
    np.testing.assert_allclose(read_labels(str(out)).rows["probability"].to_numpy(), wanted)


@pytest.mark.parametrize("truth", ["truth", "truth/", "truth/scores.parquet", "elsewhere/run"])
def test_people_are_told_what_the_judges_were_told(tmp_path, contest, monkeypatch, truth):
    """By the contest, or else by the run that made its truth; or what `label` was given."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / truth.replace("/scores.parquet", "")
    place.mkdir(parents=True)
    told = {"instructions": "what a nurse can act on <today>", "show_query": ["narrative"]}
    (place / "run.json").write_text(json.dumps({"options": told}))
    pools = tmp_path / "pools.jsonl"
    pools.write_text(
        pools.read_text().replace('"query": "query', '"narrative": "why", "query": "query')
    )
    frame = contest["frame"]
    own = BakeoffOptions(truth=truth, out="contest", pools=frame.pools)

    def page(folder, **given):
        with open_work(options(tmp_path / folder, contest="contest", **given), print) as work:
            return work.about["show_query"], html.unescape(labelling_page(work, "a token")[0])

    contest["frame"] = replace(frame, wording=find_wording(own))
    fields, text = page("one")
    assert fields == ["narrative"]
    assert "what a nurse can act on <today>" in text
    fields, text = page("two", instructions="what a cook can use", show_query=("narrative",))
    assert "what a cook can use" in text
    assert "nurse" not in text
    ranked = own.model_copy(update={"instructions": "what the contest says"})
    contest["frame"] = replace(frame, wording=find_wording(ranked))
    assert "what the contest says" in page("three")[1]


def test_answers_of_some_of_a_sample_are_a_sample_of_so_many(tmp_path):
    """A mean weighted by the chances has no bias, wherever people stop."""
    rng = np.random.default_rng(0)
    sizes, worth = rng.uniform(0.05, 1, 40), rng.uniform(0, 3, 40)
    for stop in (5, 15):
        sums = []
        for _ in range(1500):
            priority = sizes / (1 - rng.uniform(size=40))
            order = np.argsort(-priority)
            chance = inclusion_probabilities(sizes[order[:stop]], priority[order[stop]])
            sums.append((worth[order[:stop]] / chance).sum())
        error = np.std(sums) / np.sqrt(len(sums))
        assert abs(np.mean(sums) - worth.sum()) < 4 * error


def test_other_fields_are_shown_while_nobody_has_answered_and_refused_after(tmp_path, contest):
    """Else people would see what they saw, and `label.json` say that they see the fields."""
    out, pools = tmp_path / "labels", tmp_path / "pools.jsonl"
    drawn(out, contest="contest", labels=3)
    pools.write_text(pools.read_text().replace('"query": "query', '"why": "W", "query": "query'))
    with pytest.raises(OptionError, match="no query has the field 'y'"):
        drawn(out, show_query=("y",))
    with open_work(options(out, show_query=("why",)), print) as work:
        assert {each.query.partition("\n")[2] for each in work.desk.items} == {"why: W"}
        work.desk.answers.append([PersonsAnswer("", "ann", work.desk.items[0].ids, 1.0)])
    assert len(drawn(out, show_query=("why",))) == 3
    with pytest.raises(OptionError, match="people who saw why of queries"):
        drawn(out, show_query=("y",))
    assert json.loads((out / "label.json").read_text())["show_query"] == ["why"]


def test_what_holds_for_the_whole_sample_cannot_change(tmp_path, contest):
    out = tmp_path / "labels"
    drawn(out, contest="contest", labels=3)
    assert len(drawn(out, measure="nDCG@10", seed=0)) == 3
    for name, value in (("seed", 5), ("measure", "P@5")):
        with pytest.raises(OptionError, match=f"{name}: .* was drawn with"):
            drawn(out, **{name: value})


def test_there_must_be_a_contest_a_difference_and_texts(tmp_path, contest):
    out = tmp_path / "labels"
    with pytest.raises(OptionError, match="holds no sample; name a bake-off"):
        drawn(out)
    with pytest.raises(OptionError, match="--more extends a sample"):
        drawn(out, contest="contest", more=3)
    frame = contest["frame"]
    contest["frame"] = replace(frame, size=np.zeros(len(frame.size)))
    with pytest.raises(InputError, match="no label could change a difference"):
        drawn(out, contest="contest")
    contest["frame"] = replace(
        frame, ids=[(query_id, f"x{doc_id}") for query_id, doc_id in frame.ids]
    )
    with pytest.raises(InputError, match=r"no text for document 'xd.*by --pools"):
        drawn(out, contest="contest")
    assert not (out / "label.json").exists()


def test_options_that_make_no_sense_are_refused():
    for given in (
        {"out": "s3://bucket/labels"},
        {"out": "x", "labels": 1, "more": 1},
        {"out": "x", "csv": "a", "read": "b"},
        {"out": "x", "rubric": "nowhere.md"},
    ):
        with pytest.raises(OptionError):
            load_options(LabelOptions, given)


def test_one_process_at_a_time_and_no_results_of_others(tmp_path):
    out = sample_at(tmp_path / "labels", 2)
    with claim_folder(str(out), kind="label"), pytest.raises(LockError, match="in use by another"):
        drawn(out)
    other = tmp_path / "judged"
    other.mkdir()
    (other / "run.json").write_text('{"kind": "bakeoff"}')
    with pytest.raises(LockError, match="results of bakeoff"):
        drawn(other, contest="contest")


def test_a_contest_is_labelled_from_another_folder(tmp_path, capsys, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    monkeypatch.chdir(here)
    documents = [{"id": f"d{d}", "content": f"text {d}"} for d in range(4)]
    pool = {"query": {"id": "q", "query": "why?"}, "documents": documents}
    Path("pools.jsonl").write_text(json.dumps(pool) + "\n")
    Path("qrels").write_text("".join(f"q 0 d{d} {d}\n" for d in range(4)))
    for name, sign in (("one", 1), ("two", -1)):
        Path(f"{name}.run").write_text(
            "".join(f"q Q0 d{d} 1 {sign * d} {name}\n" for d in range(4))
        )
    words = "--truth qrels --runs one.run two.run --pools pool*.jsonl --out contest"
    assert cli.main(["bakeoff", *words.split()]) == 0
    monkeypatch.chdir(there)
    Path("qrels").write_text("somebody else's")
    words = ["label", "--contest", str(here / "contest"), "--out", "labels", "--csv", "out.csv"]
    assert cli.main(words) == 0
    about = json.loads(Path("labels/label.json").read_text())
    assert about["truth"]["place"] == str(here / "qrels")
    assert about["pools"] == [str(here / "pool*.jsonl")]
    (here / "qrels").unlink()
    Path("qrels").unlink()
    capsys.readouterr()
    assert cli.main(words) == 1
    told = capsys.readouterr().err
    assert f"{here / 'contest'} was measured with {here / 'qrels'}, which no longer exists" in told
