"""``agree`` on verdicts: words on pairs beside the people's, against sklearn and krippendorff."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders import agreement_of, rows_of, set_in_file, write_lines
from zelo_ray.errors import InputError
from zelo_ray.evaluation.agreement import COEFFICIENTS, RatingMatrix
from zelo_ray.evaluation.agreement.differences import differences
from zelo_ray.evaluation.agreement.intervals import draw_samples, interval
from zelo_ray.formats.judgments.all_judgments import read_all_judgments
from zelo_ray.formats.tables import table_of
from zelo_ray.records import Contest, Verdict

WORDS = ("model_b", "tie", "model_a")


def of_coefficient(name, one, other, levels):
    """A coefficient by another's code, of two lists of grades; NaN where all are equal."""
    import krippendorff
    from sklearn.metrics import cohen_kappa_score, matthews_corrcoef

    both = np.array([one, other])
    if name == "agreement":
        return float(np.mean(both[0] == both[1])) if both.size else np.nan
    if len(np.unique(both)) < 2:
        return np.nan
    if name == "kappa":
        return cohen_kappa_score(*both, labels=range(levels))
    if name == "mcc":
        constant = any(len(np.unique(each)) < 2 for each in both)
        return np.nan if constant else matthews_corrcoef(*both)
    return krippendorff.alpha(both, level_of_measurement="nominal", value_domain=range(levels))


def test_differences_are_those_of_brute_force():
    rng = np.random.default_rng(7)
    queries = np.repeat(np.arange(12), 6)
    truth = rng.integers(0, 3, len(queries))
    grades = np.stack(
        [truth, *(np.where(rng.random(72) < e, rng.integers(0, 3, 72), truth) for e in (0.3, 0.6))]
    )
    grades[rng.random(grades.shape) < 0.15] = -1
    ratings = RatingMatrix(("people", "good", "poor"), grades.astype(np.int16), queries, 3)
    named = {name: COEFFICIENTS[name] for name in ("agreement", "kappa", "alpha-nominal", "mcc")}
    found = differences(
        ratings, "people", [("good", "poor")], named, resamples=20, seed=3, thresholds=[2]
    )
    assert [(f.scale, f.coefficient) for f in found] == [
        (scale, name) for scale in ("0-2", ">=2") for name in named
    ]
    common = np.flatnonzero((grades >= 0).all(axis=0))
    _, place = np.unique(queries[common], return_inverse=True)
    weights = draw_samples(place.max() + 1, 20, 3).astype(int)
    for one in found:
        cut = grades[:, common] >= 2 if one.scale == ">=2" else grades[:, common]
        cut = cut.astype(int)
        levels = 2 if one.scale == ">=2" else 3

        def apart(items, cut=cut, one=one, levels=levels):
            people, *judges = cut[:, items]
            return [of_coefficient(one.coefficient, people, judge, levels) for judge in judges]

        a, b = apart(np.arange(len(common)))
        assert (one.value_a, one.value_b) == pytest.approx((a, b))
        assert one.difference == pytest.approx(a - b)
        assert one.relative == pytest.approx(100 * (a - b) / b)
        sampled = [
            np.subtract(*apart(np.repeat(np.arange(len(common)), row[place]))) for row in weights
        ]
        assert (one.low, one.high) == pytest.approx(interval(np.array(sampled), len(weights[0])))
        assert (one.items, one.queries) == (len(common), place.max() + 1)


def test_a_difference_that_is_not_known():
    grades = np.array([[0, 2, 0, -1], [0, 2, 2, -1], [2, 0, 2, 1], [-1, -1, -1, 1]], np.int16)
    ratings = RatingMatrix(("people", "a", "b", "alone"), grades, np.arange(4), 3)
    named = {name: COEFFICIENTS[name] for name in ("kappa", "fleiss")}
    first, second = differences(
        ratings, "people", [("a", "b"), ("a", "alone")], named, resamples=100, seed=0
    )
    assert first.value_b < 0 < first.difference
    assert np.isnan([first.relative, first.low, first.high]).all()  # three queries, and below 0
    assert (second.items, second.queries) == (0, 0)
    assert np.isnan([second.value_a, second.difference, second.low, second.relative]).all()


def line(question, winner, judge="j", a="x", b="y", **more):
    """A line of FastChat."""
    ids = {"question_id": question, "model_a": a, "model_b": b}
    return {**ids, "winner": winner, "judge": judge, **more}


def verdict(query_id, winner, swapped=False, method="samre", judge="openai:m", b="y"):
    scores, keys = (5.0, 4.0), ("k1", "k2")
    return Verdict(
        *(query_id, "x", b, method, judge, winner, scores, 1, (scores,), (), (), (), swapped),
        flipped=False,
        keys=keys,
    )


def contest(query_id, left, right, winner, swapped=False):
    who = ("", query_id, "openai:m", 0, 1, left, right, winner)
    return Contest(*who, 0.9, "better", "because", swapped, left, "k")


def votes(found):
    return [tuple(row.values()) for row in found.to_pylist()]


def same_words(report):
    """Return each judge and on how many it says the same as people, by the table's rows."""
    return [(row[0].text, row[2]) for row in report.table("outcomes").rows]


@pytest.mark.parametrize(
    ("turn", "with_ties", "decided"),
    [(1, "886 of 1,343", "727 of 859"), (2, "871 of 1,325", "731 of 864")],
)
def test_fastchats_own_counts(tmp_path, published, turn, with_ties, decided):
    folder = published / "mtbench_human"
    for name in ("gpt4_pair", "human"):
        rows = map(json.loads, (folder / f"{name}.jsonl").read_text().splitlines())
        write_lines(tmp_path / f"{name}.jsonl", [row for row in rows if row["turn"] == turn])
    sources = [tmp_path / "gpt4_pair.jsonl", "--human", tmp_path / "human.jsonl"]
    found = agreement_of(*sources, "--people", "expert*", *set_in_file(resamples=100))
    assert same_words(found.report)[2:] == [("gpt4_pair", with_ties), ("gpt4_pair", decided)]


def test_the_majority_of_mt_bench(tmp_path, published):
    folder = published / "mtbench_human"
    sources = [folder / "gpt4_pair.jsonl", "--human", folder / "human.jsonl"]
    report = agreement_of(*sources, "--out", tmp_path, *set_in_file(resamples=100)).report
    table = report.table("outcomes")
    assert [row[2] for row in table.rows] == [
        *("1,219 of 1,814", "953 of 1,078", "2,220 of 3,355", "1,823 of 2,129")
    ]
    assert table.columns[-1] == "kappa"
    assert [round(row[-1].value, 3) for row in table.rows[:2]] == [0.505, 0.767]


def simulated(folder, judges=(("good", 0.2), ("fair", 0.5), ("poor", 0.9)), both_ways=False):
    """People's words on pairs of 20 queries, and judges that err on so many of them."""
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 3, 120)
    said = {}
    for name, noise in judges:
        own = np.where(rng.random(120) < noise, rng.integers(0, 3, 120), truth)
        said[name] = np.where(rng.random(120) < 0.1, -1, own)
    people = [
        line(f"q{i // 6}", WORDS[word], "someone", a=f"d{i % 6}", b=f"c{i % 6}")
        for i, word in enumerate(truth)
    ]
    if both_ways:
        people.append(line("q0", WORDS[2 - truth[0]], "another", a="c0", b="d0"))
    # Judges have A and B the other way round.
    rows = [
        line(f"q{i // 6}", WORDS[2 - word], name, a=f"c{i % 6}", b=f"d{i % 6}")
        for name, words in said.items()
        for i, word in enumerate(words)
        if word >= 0
    ]
    human = write_lines(folder / "people.jsonl", people)
    return truth, said, [write_lines(folder / "judges.jsonl", rows), "--human", human]


@pytest.mark.parametrize("both_ways", [False, True])
def test_outcomes_are_those_of_others(tmp_path, both_ways):
    truth, said, words = simulated(tmp_path, both_ways=both_ways)
    results = agreement_of(*words, "--out", tmp_path / "out", *set_in_file(resamples=100))
    assert max(map(len, results.to_text(80).splitlines()[:-1])) <= 80
    turn = (lambda grades: 2 - grades) if both_ways else (lambda grades: grades)  # by id: c is A
    checked = 0
    for row in rows_of(tmp_path / "out", "outcomes"):
        own = said[row["rater_b"]]
        both = own >= 0
        people, judge = turn(truth[both]), turn(own[both])
        if row["scale"] == ">=2":
            people, judge = people >= 2, judge >= 2
        elif row["scale"] in ("0-1", "votes decided"):
            known = (people != 1) & (judge != 1)
            people, judge = people[known] // 2, judge[known] // 2
        if both_ways and row["scale"].startswith("votes"):
            continue  # there is one more
        levels = 2 if row["scale"] in (">=2", "0-1") else 3
        expected = of_coefficient(row["coefficient"], people.astype(int), judge.astype(int), levels)
        assert row["value"] == pytest.approx(expected), row
        assert row["items"] == len(people)
        assert row["low"] <= row["value"] <= row["high"]
        checked += 1
    assert checked == 3 * (4 * 3 + (0 if both_ways else 2))
    apart = rows_of(tmp_path / "out", "differences")
    assert {(row["rater_a"], row["rater_b"]) for row in apart} == {
        ("good", "fair"),
        ("good", "poor"),
        ("fair", "poor"),
    }
    first = results.report.table("differences").rows[0]
    assert [cell.text for cell in first[:2]] == ["good", "fair"]
    assert first[3].value > 0
    assert [row[0].text for row in results.report.table("outcomes").rows[:3]] == [*said]


def test_the_people_are_no_judge_of_the_panel(say, tmp_path):
    _, _, words = simulated(tmp_path)
    say(*words, "--out", tmp_path / "with", *set_in_file(resamples=0))
    say(words[0], "--out", tmp_path / "without", *set_in_file(resamples=0))
    for name in ("voting", "pairs"):
        assert str(rows_of(tmp_path / "with", name)) == str(rows_of(tmp_path / "without", name))
    assert rows_of(tmp_path / "without", "outcomes") == []
    record = json.loads((tmp_path / "with/agree.json").read_text())
    assert record["voters"] == ["good", "fair", "poor"]
    assert record["counts"]["voices"] == {"judgments": 120, "queries": 20}


def test_the_words_of_several_people_are_one_word_and_many_votes(say, tmp_path):
    human = [line("q", w, f"p{i}") for i, w in enumerate(["model_a", "model_a", "model_b"])]
    human += [line("r", "model_a", "p1"), line("r", "model_b", "p2"), line("s", "model_b", "p3")]
    judge = [line("q", "model_a"), line("r", "tie (inconsistent)"), line("s", "model_a")]
    paths = [write_lines(tmp_path / f"{n}.jsonl", r) for n, r in (("h", human), ("j", judge))]
    say(paths[1], "--human", paths[0], "--out", tmp_path / "out")
    found = {
        row["scale"]: (round(row["value"] * row["items"]), row["items"])
        for row in rows_of(tmp_path / "out", "outcomes")
        if row["coefficient"] == "agreement"
    }
    expected = {"0-2": (2, 3), ">=2": (2, 3), "0-1": (1, 2)}
    assert found == expected | {"votes": (2, 6), "votes decided": (2, 4)}


def test_verdicts_and_contests_of_annotate_are_votes(tmp_path):
    own = [verdict("q1", "model_a"), verdict("q1", "model_a", swapped=True)]
    own += [verdict("q2", "tie", swapped=True), verdict("q2", "model_b", method="baseline-weak")]
    own += [verdict("q1", "model_a", b="z", judge="k")]
    pq.write_table(table_of(own, Verdict), tmp_path / "verdicts.parquet")
    fights = [contest("q1", "x", "y", "x"), contest("q1", "x", "z", "z", swapped=True)]
    fights += [contest("q1", "z", "w", "tie")]
    pq.write_table(table_of(fights, Contest), tmp_path / "contests.parquet")
    for name in ("run.json", "scores.parquet", "winners.parquet"):  # as an --out holds them
        (tmp_path / name).write_text("not looked at")
    assert votes(read_all_judgments([str(tmp_path)]).votes) == [
        ("q1", "x", "y", "best-of openai:m", -1.0, False),
        ("q1", "x", "z", "best-of openai:m", 1.0, True),
        ("q1", "z", "w", "best-of openai:m", 0.0, False),
        ("q1", "x", "y", "samre openai:m", -1.0, None),  # one word, of both orders
        ("q2", "x", "y", "samre openai:m", 0.0, True),
        ("q2", "x", "y", "baseline-weak openai:m", 1.0, False),
        ("q1", "x", "z", "samre k", -1.0, False),
    ]
    with pytest.raises(InputError, match="leave out me="):
        read_all_judgments([f"me={tmp_path / 'verdicts.parquet'}"])


def test_fastchats_lines_are_votes_of_their_judges(tmp_path):
    rows = [line(81, "model_b", "p", turn=1), line(81, "tie (inconsistent)", "q", turn=2)]
    path = str(write_lines(tmp_path / "f.jsonl", rows))
    expected = [("81-1", "x", "y", "p", 1.0, None), ("81-2", "x", "y", "q", 0.0, None)]
    assert votes(read_all_judgments([path]).votes) == expected
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "f.parquet")
    assert votes(read_all_judgments([str(tmp_path / "f.parquet")]).votes) == expected
    plain = str(write_lines(tmp_path / "p.jsonl", [line("a", "model_a")]))
    assert votes(read_all_judgments([plain]).votes) == [("a", "x", "y", "j", -1.0, None)]
    nameless = [{k: v for k, v in line("a", "tie").items() if k != "judge"}]
    path = str(write_lines(tmp_path / "file.jsonl", nameless))
    assert votes(read_all_judgments([path]).votes) == [("a", "x", "y", "file", 0.0, None)]


def test_some_of_the_people(tmp_path):
    rows = [line(1, "model_a", "expert_1"), line(1, "model_b", "author_1"), line(2, None, "expert")]
    human = str(write_lines(tmp_path / "h.jsonl", rows))
    source = str(write_lines(tmp_path / "j.jsonl", [line(1, "tie")]))
    found = read_all_judgments([source], human=human)
    assert [row[3:5] for row in votes(found.human_votes)] == [("human", -1.0), ("human", 1.0)]
    assert found.notes == (f"{human}: 1 row without an answer (null)",)
    found = read_all_judgments([source], human=human, people="expert*")
    assert [row[3:5] for row in votes(found.human_votes)] == [("human", -1.0)]
    with pytest.raises(InputError, match=r"h.jsonl: no row is of a judge like nobody\*"):
        read_all_judgments([source], human=human, people="nobody*")
    (tmp_path / "q.qrels").write_text("1 0 x 1\n")
    with pytest.raises(InputError, match=r"q.qrels: no row is of a judge like expert"):
        read_all_judgments([source], human=str(tmp_path / "q.qrels"), people="expert*")


def test_a_turn_that_is_not_there(tmp_path):
    plain, turned = line(2, "tie"), line(1, "tie", turn=1)
    for rows, says in (
        ([turned, plain], ":2: has no turn"),
        ([plain, turned], ":2: has a turn, which the first line lacks"),
    ):
        path = str(write_lines(tmp_path / "t.jsonl", rows))
        with pytest.raises(InputError, match=f"t.jsonl{says}"):
            read_all_judgments([path])


def test_judges_that_have_no_pair_in_common_with_people(say, tmp_path):
    human = write_lines(tmp_path / "h.jsonl", [line(q, "tie") for q in range(6)])
    same = write_lines(tmp_path / "a.jsonl", [line(q, "tie", "same") for q in range(6)])
    other = write_lines(tmp_path / "b.jsonl", [line(0, "tie", "other", a="z")])
    found = agreement_of(same, other, "--human", human)
    assert not found.complete
    assert "other and human judged no pair in common" in found.report.notes
    counts = [("same", text) for text in ("6 of 6", "\N{EN DASH}") * 2]
    assert same_words(found.report) == counts
    graded = tmp_path / "graded.txt"
    graded.write_text("q1 0 d1 1\n")
    two = tmp_path / "two.txt"
    two.write_text("q1 0 d1 2\n")
    status, lines = say(graded, two, "--human", human)
    assert status == 3
    assert "human voted on pairs, but no judge did" in lines


def test_people_are_chosen_of_somebody(say, tmp_path):
    status, lines = say(tmp_path, "--people", "expert*")
    assert (status, len(lines)) == (2, 1)
    assert "people: needs human" in lines[0]
