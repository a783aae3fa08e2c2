"""``agree``: against what others have published, and against sklearn and krippendorff."""

import csv
import json
import re
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.builders import agreement_of, write_lines, write_qrels
from tests.helpers.labelling import sample
from zelo_ray.commands.agree.measure import FLIPS, PAIR_SCALES, POSITION
from zelo_ray.commands.agree.report import build_report
from zelo_ray.commands.compare.items import read_people
from zelo_ray.errors import InputError
from zelo_ray.evaluation import agreement
from zelo_ray.evaluation.agreement import (
    RatingMatrix,
    compare_agreement,
    draw_samples,
    estimate_values,
)
from zelo_ray.evaluation.coefficients import COEFFICIENTS
from zelo_ray.files.judges import read_all_judgments
from zelo_ray.files.tables import table_of
from zelo_ray.records import Contest, Verdict
from zelo_ray.report.figures import Figure, figures_table
from zelo_ray.report.results import Results


def figures(results, column="value"):
    """Figures by whom they are against, whose they are, scale and name."""
    names = ("against", "of", "scale", "what")
    return {tuple(row[n] for n in names): row[column] for row in results.figures}


def shown(results, section, column):
    """The texts of a column of a section's table."""
    [table] = [part for part in results.report.section(section).parts if hasattr(part, "rows")][:1]
    place = table.columns.index(column)
    return [getattr(row[place], "value", row[place]) for row in table.rows]


def of_pairs(results):
    """The rows of people's and judges' verdicts on pairs."""
    return [r for r in results.figures if r["against"] == "human" and r["scale"] in PAIR_SCALES]


# What others have published


def test_published_kappas_and_alphas_of_33_judges(tmp_path, published):
    """All 264, to the 4 decimals that are published; grades above 3 are clipped there, too."""
    folder = published / "llmjudge2024"
    words = [folder / "submissions", "--human", folder / "llmjudge_test_qrel_idx.txt"]
    with pytest.raises(InputError, match=r"RMITIR-llama70B.txt:\d+: the grade 5 is not in 0 to 3"):
        agreement_of(*words)
    asked = ("--coefficients", "kappa", "alpha-ordinal", "--clip")
    results = agreement_of(*words, *asked)
    found, wrong = figures(results), []
    with (folder / "published_agreement.csv").open() as file:
        published = list(csv.DictReader(file))
    scales = {"4pt": "0-3", "0v123": ">=1", "01v23": ">=2", "012v3": ">=3"}
    for row, scale in product(published, scales):
        for short, name in (("kappa", "kappa"), ("alpha", "alpha-ordinal")):
            value = found["human", row["submission"], scales[scale], name]
            if abs(round(value, 4) - float(row[f"{short}_{scale}"])) > 1e-9:
                wrong.append((row["submission"], scale, name, value))
    assert not wrong
    assert len(published) * len(scales) * 2 == 264
    clipped = r"([^/]+): (\d+) of 4,423 .* to 0 to 3 \((\d+)\)$"
    assert [re.search(clipped, note).groups() for note in results.record["notes"]] == [
        ("RMITIR-llama70B.txt", "2", "5"),
        ("h2oloo-zeroshot2.txt", "1", "10"),
    ]


def test_krippendorffs_example(tmp_path, published):
    """Four observers, twelve units, five codes, and gaps (Krippendorff 2011): .743, .815, .849."""
    with (published / "evalica_fixtures/codings.csv").open() as file:
        coders = list(csv.reader(file))
    source = write_lines(
        tmp_path / "codings.jsonl",
        [
            {"query_id": "units", "doc_id": f"u{i}", "judge": f"coder {c}", "grade": int(code)}
            for c, codes in enumerate(coders)
            for i, code in enumerate(codes)
            if code
        ],
    )
    results = agreement_of(source, "--levels", 6)
    found = figures(results)
    for name, value, exact in (
        ("nominal", 904 / 1216, 1e-12),
        ("ordinal", 0.815, 5e-4),
        ("interval", 0.849, 5e-4),
    ):
        key = ("", "all judges", "0-5", f"alpha-{name}")
        assert found[key] == pytest.approx(value, abs=exact)
        assert figures(results, column="items")[key] == 11, "the twelfth unit has one code"


def test_fastchats_own_counts(tmp_path, published):
    """By turn, each vote beside each; and of both turns, the majority with its kappa."""
    folder = published / "mtbench_human"
    rows = {
        name: [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        for name in ("gpt4_pair", "human")
    }
    for turn, counts in ((1, [(886, 1343), (727, 859)]), (2, [(871, 1325), (731, 864)])):
        gpt4, human = (
            write_lines(tmp_path / f"{name}.jsonl", [row for row in each if row["turn"] == turn])
            for name, each in rows.items()
        )
        results = agreement_of(gpt4, "--human", human, "--people", "expert*")
        assert same_of(results, "votes", "votes, both decided") == counts
    sources = [folder / "gpt4_pair.jsonl", "--human", folder / "human.jsonl"]
    results = agreement_of(*sources)
    assert same_of(results, "pairs", "pairs, both decided", "votes", "votes, both decided") == [
        *((1219, 1814), (953, 1078), (2220, 3355), (1823, 2129))
    ]
    found = figures(results)
    kappas = [found["human", "gpt4_pair", s, "kappa"] for s in ("pairs", "pairs, both decided")]
    assert [round(value, 3) for value in kappas] == [0.505, 0.767]


def same_of(results, *scales):
    """How often a judge says the same as people, and of how many, by scale."""
    rows = {row["scale"]: row for row in of_pairs(results) if row["what"] == "agreement"}
    found = [rows[scale] for scale in scales]
    return [(round(row["value"] * row["items"]), row["items"]) for row in found]


# Judges that grade


def test_who_judged_nothing_in_common_is_missing(tmp_path):
    grades = {"a": [1, 2, 3, 0], "b": [None] * 4 + [1, 2], "human": [1, 2, 2, 0]}
    paths = [write_qrels(tmp_path / f"{name}.txt", each) for name, each in grades.items()]
    graded = agreement_of(*paths[:2], "--human", paths[2])
    voted = [
        write_lines(tmp_path / "a.jsonl", [line(q, "tie", "a") for q in range(6)]),
        write_lines(tmp_path / "b.jsonl", [line(0, "tie", "b", a="z")]),
        write_lines(tmp_path / "h.jsonl", [line(q, "tie") for q in range(6)]),
    ]
    voted = agreement_of(*voted[:2], "--human", voted[2])
    for results in (graded, voted):
        assert not results.complete
        values = {key: value for key, value in figures(results).items() if key[0] == "human"}
        assert not any(value == value for key, value in values.items() if key[1] == "b")
        assert any(value == value for key, value in values.items() if key[1] == "a")


# Judges that vote, and differences


def grade(query_id, doc_id, judge, value):
    return {"query_id": query_id, "doc_id": doc_id, "judge": judge, "grade": value}


def of_coefficient(name, one, other, levels):
    """A coefficient by another's code, of two lists of grades; NaN where all are equal."""
    import krippendorff
    from sklearn.metrics import cohen_kappa_score, matthews_corrcoef

    both = np.array([one, other]).astype(int)
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


def test_differences_are_those_of_brute_force(monkeypatch):
    rng = np.random.default_rng(7)
    queries = np.repeat(np.arange(12), 6)
    truth = rng.integers(0, 3, len(queries))
    grades = np.stack(
        [truth, *(np.where(rng.random(72) < e, rng.integers(0, 3, 72), truth) for e in (0.3, 0.6))]
    )
    grades[rng.random(grades.shape) < 0.15] = -1
    ratings = RatingMatrix(("people", "good", "poor"), grades.astype(np.int16), queries, 3)
    named = {name: COEFFICIENTS[name] for name in ("agreement", "kappa", "alpha-nominal", "mcc")}
    monkeypatch.setattr(agreement, "SAMPLES", 50)
    agreement.draw_samples.cache_clear()
    found = [*compare_agreement(ratings, "people", ("good", "poor"), named, [2])]
    scales = [(each.scale, each.coefficient) for each in found]
    assert scales == [*product(("0-2", ">=2"), named)]
    common = np.flatnonzero((grades >= 0).all(axis=0))
    _, place = np.unique(queries[common], return_inverse=True)
    weights = draw_samples(place.max() + 1)[:51].astype(int)
    for one in found:
        cut = grades[:, common] >= 2 if one.scale == ">=2" else grades[:, common]
        levels = 2 if one.scale == ">=2" else 3

        def apart(items, cut=cut, one=one, levels=levels):
            people, *judges = cut[:, items]
            return [of_coefficient(one.coefficient, people, judge, levels) for judge in judges]

        every = np.arange(len(common))
        a, b = apart(every)
        assert (one.more.value, one.relative) == pytest.approx((a - b, 100 * (a - b) / b))
        sampled = [np.subtract(*apart(np.repeat(every, row[place]))) for row in weights]
        expected = estimate_values(np.array(sampled), len(weights[0]))
        assert one.more[1:3] == pytest.approx((expected.low, expected.high))
        assert (one.items, one.more.queries) == (len(common), place.max() + 1)
    agreement.draw_samples.cache_clear()


def line(question, winner, judge="j", a="x", b="y", **more):
    """A line of FastChat."""
    ids = {"question_id": question, "model_a": a, "model_b": b}
    return {**ids, "winner": winner, "judge": judge, **more}


WORDS = ("model_b", "tie", "model_a")


@pytest.mark.parametrize("both_ways", [False, True])
def test_outcomes_are_those_of_others(tmp_path, both_ways):
    """Judges name A and B the other way round; and people once both ways, so that A is by id."""
    rng = np.random.default_rng(5)
    truth, said, rows = rng.integers(0, 3, 120), {}, []
    names = [(f"q{i // 6}", f"d{i % 6}", f"c{i % 6}") for i in range(120)]
    for name, noise in (("good", 0.2), ("fair", 0.5), ("poor", 0.9)):
        own = np.where(rng.random(120) < noise, rng.integers(0, 3, 120), truth)
        said[name] = np.where(rng.random(120) < 0.1, -1, own)
        rows += [
            line(q, WORDS[2 - word], name, a=c, b=d)
            for (q, d, c), word in zip(names, said[name], strict=True)
            if word >= 0
        ]
    people = [line(q, WORDS[w], "ann", a=d, b=c) for (q, d, c), w in zip(names, truth, strict=True)]
    people += [line("q0", WORDS[2 - truth[0]], "bob", a="c0", b="d0")] * both_ways
    judges = write_lines(tmp_path / "judges.jsonl", rows)
    human = write_lines(tmp_path / "people.jsonl", people)
    results, checked = agreement_of(judges, "--human", human), 0
    for row in of_pairs(results):
        if both_ways and row["scale"].startswith("votes"):
            continue  # there is one more
        both = np.array([truth, said[row["of"]]])
        both = both[:, both[1] >= 0]
        both = 2 - both if both_ways else both
        levels = 3 if row["scale"] in ("pairs", "votes") else 2
        if row["scale"] == "pairs, A or not":
            both = both >= 2
        elif "decided" in row["scale"]:
            both = both[:, (both != 1).all(axis=0)] // 2
        expected = of_coefficient(row["what"], *both, levels)
        assert (row["value"], row["items"]) == (pytest.approx(expected), both.shape[1]), row
        assert row["low"] <= row["value"] <= row["high"]
        checked += 1
    assert checked == 3 * (4 * 3 + (0 if both_ways else 2))
    pairs = {(row["of"], row["against"]) for row in results.rows("figures", what="more agreement")}
    assert pairs == {("good", "fair"), ("good", "poor"), ("fair", "poor")}
    assert shown(results, "outcomes", "judge")[:3] == [*said]
    alone = agreement_of(judges)
    same = [r for r in results.figures if r["against"] != "human" and "more" not in r["what"]]
    assert str([*alone.figures]) == str(same), "people are no judge of the panel"


# Several people, and votes that repeat


A, TIE, B = -1.0, 0.0, 1.0


def vote(query_id, preference, judge, a="x", b="y", **more):
    ids = {"query_id": query_id, "doc_id_a": a, "doc_id_b": b, "judge": judge}
    return {**ids, "preference": preference, **more}


def same_words(folder, people, judges, *options):
    """Agreement with people by scale: how often the same, of how many."""
    paths = [write_lines(folder / f"{n}.jsonl", r) for n, r in (("p", people), ("j", judges))]
    results = agreement_of(paths[1], "--human", paths[0], *options)
    rows = [row for row in of_pairs(results) if row["what"] == "agreement"]
    return {row["scale"]: (round(row["value"] * row["items"], 6), row["items"]) for row in rows}


PEOPLE = [vote("q", A, "ann"), vote("q", A, "bob"), vote("q", B, "cy"), vote("r", TIE, "ann")]
JUDGE = [vote("q", A, "j"), vote("r", B, "j")]
NAMELESS = [{k: v for k, v in row.items() if k != "judge"} for row in PEOPLE]
BOTH_ORDERS = [vote("q", A, "j", swapped=False), vote("q", TIE, "j", swapped=True)]


def test_several_people_are_one_word_and_many_votes(tmp_path):
    for people, judge, expected in (
        (PEOPLE, JUDGE, {"pairs": (1, 2), "votes": (2, 4), "votes, both decided": (2, 3)}),
        (PEOPLE * 3, JUDGE * 4, {"pairs": (1, 2), "votes": (2, 4), "votes, both decided": (2, 3)}),
        ([*PEOPLE, *[vote("q", B, "cy")] * 5], JUDGE, {"pairs": (1, 2)}),
        (NAMELESS, JUDGE, {"pairs": (1, 2), "votes": (2, 4)}),
        ([*PEOPLE[:1], vote("q", B, "bob")], JUDGE, {"pairs": (0, 1), "pairs, A or not": (0, 1)}),
        (PEOPLE, BOTH_ORDERS, {"votes": (1, 3)}),  # half of its votes say A
    ):
        assert same_words(tmp_path, people, judge).items() >= expected.items()
    path = write_lines(tmp_path / "p.jsonl", [*PEOPLE, *[vote("q", B, "cy")] * 5])
    assert [item.verdict for item in read_people(str(path)).items("q", "xy")] == [2]


def test_of_several_people_who_grade_the_median_counts(tmp_path):
    """As a table with a column person, and as a directory of ``label``."""
    answers = [("ann", "d0", 3.0), ("bob", "d0", 1.0), ("cy", "d0", 1.0), ("bob", "d1", 2.0)]
    place = sample(tmp_path / "labels", [0.9, 0.1], [2.0, 1.0], answers)
    rows = [grade("q", "d0", "j", 1), grade("q", "d1", "j", 2)]
    judge, table = write_lines(tmp_path / "j.jsonl", rows), tmp_path / "people.csv"
    rows = [f"q,{doc_id},{who},{grade:g}" for who, doc_id, grade in answers]
    table.write_text("\n".join(["query_id,doc_id,person,grade", *rows]) + "\n")
    for human in (place, table):
        results = agreement_of(judge, "--human", human)
        for column, value in (("value", 1), ("items", 2)):
            assert figures(results, column=column)["human", "j", "0-3", "agreement"] == value


def test_lenient_is_judge_benchs_count(tmp_path):
    """Two verdicts on a pair whose label is A or B: its sum of right and wrong is above 0."""
    lenient = ("--both-orders", "lenient")
    for first, second in product((A, TIE, B), repeat=2):
        told = [vote("q", first, "j", swapped=False), vote("q", second, "j", swapped=True)]
        turned = [vote("q", first, "j"), vote("q", -second, "j", a="y", b="x")]
        for judge, label in product((told, turned), (A, B)):
            people = [vote("q", label, "ann")]
            found = same_words(tmp_path, people, judge, *lenient)
            right = sum((said == label) - (said == -label) for said in (first, second)) > 0
            assert found["pairs"] == found["votes"] == (right, 1)
            assert same_words(tmp_path, people, judge)["pairs"] == (first == second == label, 1)


def test_grades_of_people_are_a_word_on_pairs(say, tmp_path):
    pairs = [("d1", "d2", A), ("d3", "d1", B), ("d2", "d3", B), ("d1", "d4", A)]
    votes = [vote("q", preference, "j", a, b) for a, b, preference in pairs]
    judges = write_lines(tmp_path / "votes.jsonl", votes)
    grades = {"d1": 3, "d2": 1, "d3": 1}  # of d4 they say nothing, and d2 and d3 are equal
    human = [grade("q", doc_id, "p", value) for doc_id, value in grades.items()]
    results = agreement_of(judges, "--human", write_lines(tmp_path / "human.jsonl", human))
    assert results.complete
    for column, value in (("value", 1.0), ("items", 2)):
        found = figures(results, column)
        assert found["human", "j", "pairs", "agreement"] == value
    other = write_lines(tmp_path / "other.jsonl", [grade("other", "d1", "p", 1)])
    graded = [write_qrels(tmp_path / f"{name}.txt", [1, 2]) for name in ("one", "two")]
    assert say(judges, "--human", other)[0] == 3, "nothing in common"
    assert say(*graded, "--human", judges)[0] == 3, "people alone voted"


# Where votes are read


def votes(found):
    return [tuple(row.values()) for row in found.to_pylist()]


def test_verdicts_and_contests_of_annotate_are_votes(tmp_path):
    def verdict(query_id, winner, swapped=False, method="samre", judge="openai:m", b="y"):
        ids, scores = (query_id, "x", b, method, judge, winner), (5.0, 4.0)
        return Verdict(*ids, scores, 1, (scores,), (), (), (), swapped, flipped=False, keys=("k",))

    def contest(left, right, winner, swapped=False):
        who = ("", "q1", "openai:m", 0, 1, left, right, winner)
        return Contest(*who, 0.9, "better", "because", swapped, left, "k")

    own = [verdict("q1", "model_a"), verdict("q1", "model_a", swapped=True)]
    own += [verdict("q2", "tie", swapped=True), verdict("q2", "model_b", method="baseline-weak")]
    own += [verdict("q1", "model_a", b="z", judge="k")]
    pq.write_table(table_of(own, Verdict), tmp_path / "verdicts.parquet")
    fights = [
        contest("x", "y", "x"),
        contest("x", "z", "z", swapped=True),
        contest("z", "w", "tie"),
    ]
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
    with pytest.raises(InputError, match="me="):
        read_all_judgments([f"me={tmp_path / 'verdicts.parquet'}"])


def test_fastchats_lines_are_votes_of_their_judges(tmp_path):
    rows = [line(81, "model_b", "p", turn=1), line(81, "tie (inconsistent)", "q", turn=2)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "turns.parquet")
    turns = [("81-1", "x", "y", "p", 1.0, None), ("81-2", "x", "y", "q", 0.0, None)]
    nameless = {name: value for name, value in line("a", "tie").items() if name != "judge"}
    for place, expected in (
        (write_lines(tmp_path / "turns.jsonl", rows), turns),
        (tmp_path / "turns.parquet", turns),
        (write_lines(tmp_path / "p.jsonl", [line("a", "model_a")]), [("a", *"xyj", -1.0, None)]),
        (write_lines(tmp_path / "f.jsonl", [nameless]), [("a", *"xyf", 0.0, None)]),
    ):
        assert votes(read_all_judgments([str(place)]).votes) == expected
    plain, turned = line(2, "tie"), line(1, "tie", turn=1)
    for rows in ([turned, plain], [plain, turned]):
        path = str(write_lines(tmp_path / "t.jsonl", rows))
        with pytest.raises(InputError, match=r"t.jsonl:[12]: has no 'turn'"):
            read_all_judgments([path])


def test_some_of_the_people(tmp_path):
    rows = [line(1, "model_a", "expert_1"), line(1, "model_b", "author_1"), line(2, None, "expert")]
    human = str(write_lines(tmp_path / "h.jsonl", rows))
    source = str(write_lines(tmp_path / "j.jsonl", [line(1, "tie")]))
    for people, expected in ((None, [-1.0, 1.0]), ("expert*", [-1.0])):
        found = read_all_judgments([source], human=human, people=people)
        assert found.human_votes["preference"].to_pylist() == expected
        [item] = read_people(human, people).items("1", "xy")
        assert item.verdict == (2 if people else 1)
    (tmp_path / "q.qrels").write_text("1 0 x 1\n")
    for place in (human, str(tmp_path / "q.qrels")):
        with pytest.raises(InputError, match="nobody"):
            read_all_judgments([source], human=place, people="nobody*")


# What is warned of


def codes_of(*figures):
    """The codes of warnings about figures of judges."""
    judges = [*dict.fromkeys(figure.of for figure in figures)]
    record = {"compares": "raters", "judges": judges, "panel": judges, "voters": [], "counts": {}}
    record |= {
        "options": {"levels": 4, "trust": 0.97},
        "relevant": None,
        "notes": [],
        "missing": [],
    }
    results = Results(record, {"figures": figures_table(figures)}, build=build_report)
    return [warn.code for warn in results.report.warnings]


def test_biases_are_said_where_the_whole_interval_matters():
    for what, above, below in (
        (POSITION, (0.37, 0.34, 0.40), (0.43, 0.40, 0.46)),
        (FLIPS, (0.4, 0.3, 0.5), (0.4, 0.2, 0.5)),
    ):
        assert codes_of(Figure("x", "", what, "", *above, items=99)) == ["place"]
        assert codes_of(Figure("x", "", what, "", *below, items=99)) == []
        assert codes_of(Figure("x", "", what, "", *above, items=3)) == []


def test_judges_at_chance():
    good, poor, inverted = (0.6, 0.5, 0.7), (0.1, -0.1, 0.19), (-0.4, -0.5, -0.3)
    wide = (0.63, 0.0, 1.0)
    for rows, found in (
        ([good], []),
        ([good, poor], [("chance", "doubtful")]),
        ([poor, poor], [("chance", "wrong")]),
        ([good, inverted], [("chance", "doubtful")]),
        ([wide], [("few_labels", "doubtful")]),
        ([wide, wide], [("few_labels", "doubtful")]),
    ):
        figures = [
            Figure(f"j{n}", "human", "kappa", "0-3", *row, items=99) for n, row in enumerate(rows)
        ]
        assert codes_of(*figures) == [code for code, _ in found]
