"""``label --pairs``: people say which of two documents is better, by keyboard or in a sheet."""

import json
import signal
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.labelling import back, sheet
from tests.test_label_page import IDLE, SHOWN, TEXT, Serving, enter, judge, press
from zelo_ray import cli
from zelo_ray.command_options import LabelOptions
from zelo_ray.commands.label.candidates import find_pair_candidates
from zelo_ray.commands.label.run import open_work
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.judges import read_all_judgments
from zelo_ray.files.labels import answers_in, read_labels, read_sample
from zelo_ray.files.tables import table_of
from zelo_ray.records import Score, Vote

QUERIES, DOCUMENTS = 6, 5


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A run of two judges who prefer the lower number, and differ over d3 and d4."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    votes, scores, lines = [], [], []
    for q in range(QUERIES):
        for a in range(DOCUMENTS):
            scores.append(Score(f"q{q}", f"d{a}", -float(a), 0.1, 8, a + 1))
            for b in range(a):
                for n, name in enumerate(("one", "two")):
                    wins = 1.0 if (a, b, n) != (4, 3, 1) else -1.0
                    ids = (f"d{a}", f"d{b}") if n else (f"d{b}", f"d{a}")
                    preference = wins if n else -wins
                    votes.append(Vote(f"q{q}", *ids, name, preference, bool(q % 2), "", "k"))
        documents = [{"id": f"d{d}", "content": f"text {d} of {q}"} for d in range(DOCUMENTS)]
        query = {"id": f"q{q}", "query": f"query {q}?"}
        lines.append(json.dumps({"query": query, "documents": documents}) + "\n")
    pq.write_table(table_of(votes, Vote), "out/votes.parquet")
    pq.write_table(table_of(scores, Score), "out/scores.parquet")
    Path("out/annotated.jsonl").write_text("".join(lines))
    Path("out/run.json").write_text("{}")
    return tmp_path


def drawn(out="pairs", **given):
    given = {"run": "out", "pairs": True, "labels": 20, "out": str(out), **given}
    with open_work(LabelOptions(**given), print) as work:
        return [item.ids for item in work.desk.items]


def better(item):
    """The text of the page that has the lower number, as a key."""
    numbers = [int(text.split()[1]) for text in item]
    return "a" if numbers[0] < numbers[1] else "b"


def test_pairs_are_those_that_judges_compared_whichever_way_round_they_did():
    pairs = drawn(labels=200)
    assert len({*pairs}) == len(pairs) == QUERIES * DOCUMENTS * (DOCUMENTS - 1) // 2
    assert all(a < b for _, a, b in pairs)
    assert drawn(out="again", labels=7) == pairs[:7]  # any number of them is a sample


def test_split_pairs_are_drawn_more_often():
    def sizes(draw):
        candidates = find_pair_candidates("out", draw)
        return dict(zip(candidates.ids, candidates.size.tolist(), strict=True))

    assert {*sizes("random").values()} == {1.0}
    split = sizes("disagreement")
    assert split["q0", "d3", "d4"] > 9 * split["q0", "d0", "d1"] > 0


def test_a_run_that_compared_nothing_and_other_kinds_of_samples_are_refused():
    Path("graded").mkdir()
    pq.write_table(pq.read_table("out/scores.parquet"), "graded/scores.parquet")
    grades = {"query_id": ["q0"], "doc_id": ["d0"], "judge": ["one"], "grade": [3]}
    pq.write_table(pa.table(grades), "graded/grades.parquet")
    Path("graded/run.json").write_text("{}")
    with pytest.raises(InputError, match="graded: its judges compared no documents"):
        drawn(run="graded", out="none")
    drawn(out="single", pairs=False)
    with pytest.raises(OptionError, match="pairs: single holds documents; name another --out"):
        drawn(out="single")
    drawn()
    with pytest.raises(OptionError, match="contest: pairs holds pairs; name another --out"):
        drawn(run=None, pairs=False, contest="contest")


def files_in(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def test_no_results_are_written_over_a_sample():
    """Nor over its chances to be drawn, in `pairs.parquet`, by a table of that name."""
    for out in ("pairs", "elsewhere"):
        drawn(out=out)
    before = files_in("pairs")
    assert {"label.json", "pairs.parquet"} < before.keys()
    for words in (("--human", "pairs"), ("--human", "elsewhere"), ()):
        assert cli.main(["agree", "out/votes.parquet", *words, "--out", "pairs"]) == 2
        assert files_in("pairs") == before


def test_preferences_are_no_grades():
    drawn()
    with pytest.raises(InputError, match="which of two documents is better, and graded none"):
        read_labels("pairs")
    with pytest.raises(InputError, match="pairs: holds no preference of a person"):
        read_all_judgments(["out"], human="pairs")


@pytest.mark.nightly
def test_twenty_pairs_by_keyboard_with_a_kill_in_the_middle(browser, tmp_path):
    out = tmp_path / "pairs"
    wanted = drawn(out)
    keys, given, firsts = "abtu" * 5, [], Counter()

    async def answer(tab, key):
        first, second = [await tab.run(TEXT.format(name)) for name in ("document", "document-b")]
        firsts[int(first.split()[1]) < int(second.split()[1])] += 1
        given.append((first, second, key))
        await judge(tab, key)

    async def visit(tab):
        with Serving(out) as first:
            await enter(tab, first.url, "Ann")
            await press(tab, "r")
            for key in "atb":  # letters of a reason are no answers
                await press(tab, key)
            await press(tab, "Enter")
            assert "0 of 20" in await tab.run(TEXT.format("progress"))
            for key in keys[:9]:
                await answer(tab, key)
            await judge(tab, "z")
            assert "You had said: a (A is better)" in await tab.run(TEXT.format("notice"))
            await judge(tab, "a")
            await answer(tab, keys[9])
            first.end(signal.SIGKILL)
        texts = [await tab.run(TEXT.format(name)) for name in ("document", "document-b")]
        await press(tab, keys[10])
        await tab.until(f"{TEXT.format('notice')}?.includes('not saved yet')")
        with Serving(out) as second:
            assert second.url == first.url
            await tab.until(f"{TEXT.format('progress')}?.startsWith('11 of 20') && {IDLE}")
            given.append((*texts, keys[10]))
            for key in keys[11:]:
                await answer(tab, key)
            await tab.until(SHOWN.format("done"))
            told = second.end(signal.SIGTERM)
        assert "Judged 20 of 20 pairs" in told

    browser.visit(visit)
    assert min(firsts.values()) >= 4  # both orders are shown
    said = {ids: by["Ann"] for ids, by in answers_in(str(out)).items()}
    assert {*said} == {*wanted}
    shown = [[int(text.split()[1]) for text in texts] for *texts, _ in given]
    for (first, second), (text, _, key) in zip(shown, given, strict=True):
        ids = (f"q{text.split()[-1]}", f"d{min(first, second)}", f"d{max(first, second)}")
        preference = {"a": -1.0, "b": 1.0, "t": 0.0, "u": None}[key]
        turned = preference and (preference if first < second else -preference)
        assert (said[ids].value, said[ids].swapped) == (turned, first > second)
    assert [each.note for each in said.values() if each.note] == ["atb"]


def test_a_sheet_of_pairs_comes_back_in_the_order_that_it_showed(tmp_path, capsys):
    out = tmp_path / "pairs"
    drawn(out)
    rows = sheet(out, tmp_path / "out.csv", capsys)
    assert {"document_a", "document_b", "better"} < {*rows[0]}
    assert {row["key"].endswith("-ba") for row in rows} == {True, False}
    words = {"a": "A", "b": " b "}
    for row in rows:
        row["better"] = words[better((row["document_a"], row["document_b"]))]
    rows[3] |= {"better": "tie", "note": "word for word"}
    rows[5]["better"] = "?"
    status, told = back(out, tmp_path / "in.csv", rows, capsys, "--person", "bob")
    assert (status, "20 of them new" in told) == (0, True)
    sample = read_sample(str(out))
    assert Counter(answer.value for answer, _ in sample.answers) == {-1.0: 18, 0.0: 1}
    assert (sample.cannot_say, sample.out_of_turn) == (1, 0)
    assert all(0 < chance < 1 for _, chance in sample.answers)
    assert "0 of them new" in back(out, tmp_path / "in.csv", rows, capsys, "--person", "bob")[1]
    rows[0]["better"] = "C"
    status, told = back(out, tmp_path / "in.csv", rows, capsys, "--person", "bob")
    assert (status, "'C' is neither A, B, tie nor u (cannot say)" in told) == (1, True)


def test_agree_compares_judges_with_what_people_said_of_pairs(tmp_path, capsys):
    out = tmp_path / "pairs"
    drawn(out, labels=60)
    rows = sheet(out, tmp_path / "out.csv", capsys)
    for row in rows:
        row["better"] = better((row["document_a"], row["document_b"]))
    back(out, tmp_path / "in.csv", rows, capsys, "--person", "ann")
    assert cli.main(["agree", "out", "--human", str(out), "--out", "agreement"]) == 0
    printed = capsys.readouterr().out
    one, two = (
        next(line for line in printed.splitlines() if line.startswith(name)).split()
        for name in ("one", "two")
    )
    assert "60 of 60" in " ".join(one)
    assert "54 of 60" in " ".join(two)  # but for d3 and d4 of six queries
