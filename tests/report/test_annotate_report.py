"""The report of annotate: what it counts, lists and warns of, on values and not on words."""

import re
from dataclasses import asdict

import pyarrow.parquet as pq
import pytest

from tests.helpers.builders import pool_of, results_of, write_run
from tests.helpers.hills import write_contests, write_verdicts
from tests.helpers.results import JUDGES, write_graded
from tests.report.test_report import EVIL, Page, page_of, votes_of
from zelo_ray.commands import load_results as load
from zelo_ray.commands.annotate import queries
from zelo_ray.commands.annotate.judges import Counts, count_grades, count_votes
from zelo_ray.commands.annotate.report import finished_tournaments
from zelo_ray.commands.annotate.warnings import warn_of_asking, warn_of_judges
from zelo_ray.commands.report import write_report
from zelo_ray.engine.replies import budget_used_up
from zelo_ray.engine.write_results import Summary
from zelo_ray.reasons import Disabled, StopReason, Unscored, UnscoredReason
from zelo_ray.records import Pool


def rows_of(out, section, place=-1):
    """The rows of a table of a report, as dicts."""
    table = load(str(out)).report.section(section).parts[place]
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


# Votes and grades


def counted(*votes):
    counts = Counts()
    count_votes(counts, votes_of(*votes))
    return counts


def test_judges_agree_by_the_sign_on_pairs_that_both_compared():
    counts = counted(
        ("q1", "a", "b", "j1", 0.5, False),
        ("q1", "a", "b", "j2", 0.1, True),
        ("q1", "a", "c", "j1", -0.5, False),
        ("q1", "c", "a", "j2", -0.2, False),  # the same pair, named the other way
        ("q1", "b", "c", "j1", 0.0, False),
        ("q1", "b", "c", "j2", -0.2, True),
        ("q2", "a", "b", "j1", 0.4, False),
        ("q2", "x", "y", "j2", -0.4, False),  # only one of them compared it
    )
    assert counts.agreement("j2", "j1") == (0.5, 3)
    assert counts.agreement("j1", "j3")[1] == 0
    assert sorted(counts.preferences["j2"][0].tolist()) == [-0.4, -0.2, -0.2, 0.1]


def test_the_share_of_the_document_shown_first_minds_what_was_swapped():
    counts = counted(
        ("q", "a", "b", "j", -0.5, False),  # for a, which was first
        ("q", "a", "c", "j", -0.5, True),  # for a, which was second
        ("q", "b", "c", "j", 0.5, True),  # for c, which was first
        ("q", "b", "d", "j", 0.0, True),
    )
    assert (counts.first["j"], counts.votes["j"], counts.tied["j"]) == (2.5, 4, 1)


def test_sums_over_chunks_are_sums_over_all(tmp_path):
    write_graded(tmp_path, repeats=2)
    table = pq.read_table(tmp_path / "grades.parquet")
    size = 4 * 3 * 2  # of a query
    whole, parts = Counts(), Counts()
    count_grades(whole, table)
    for part in (table.slice(0, size), table.slice(size)):
        count_grades(parts, part)
    assert all((whole.grades[name] == parts.grades[name]).all() for name in JUDGES)
    assert all((table == parts.confusion[two]).all() for two, table in whole.confusion.items())


# Tournaments and verdicts


def test_tournaments_come_to_what_is_counted_by_hand(tmp_path):
    write_contests(tmp_path)
    results = load(str(tmp_path))
    over = finished_tournaments(results)
    assert (len(over), sum(winner == answers[0] for *_, answers, winner in over)) == (6, 2)
    rows = rows_of(tmp_path, "tournaments")
    assert [(row["judge"], row["tournaments"], row["with a winner"]) for row in rows] == [
        ("j1", 4, 4),
        ("j2", 4, 2),
    ]
    won = {row["answer"]: row["won"].value for row in rows_of(tmp_path, "winners")}
    assert won == pytest.approx({"a": 0.375, "b": 0, "c": 0.625})


def test_verdicts_of_both_orders_are_one_word_on_a_pair(tmp_path):
    write_verdicts(tmp_path)
    one, two = rows_of(tmp_path, "verdicts")
    assert [one[name] if name == "pairs" else one[name].value for name in ("pairs", "tie")] == [
        2,
        1,
    ]
    assert (one["reversed"].value, one["tie in one order"].value) == (0.5, 0)
    assert (two["tie"].value, two["reversed"].value) == (0, 0)
    won = {row["answer"]: row["won"].value for row in rows_of(tmp_path, "winners")}
    assert won == {"a": 0.375, "b": 0.625}


# The page


def test_of_many_queries_those_to_look_at_and_the_first_are_listed(tmp_path, monkeypatch):
    for name, value in {"QUERIES": 12, "TELLING": 4, "_LEAST": 2}.items():
        monkeypatch.setattr(queries, name, value)
    pools = [pool_of(tuple(range(3 + i % 3)), f"q-{i:03}") for i in range(60)]
    write_run(tmp_path, results_of(tmp_path, [*pools, Pool("empty", "no documents", ())]))
    write_report(str(tmp_path))
    page = page_of(tmp_path)
    found = re.findall(r"q-\d\d\d|empty", page.words("queries"))
    assert found[-1] == "empty", "it has no scores"
    assert 8 <= len(found) <= 12
    missing = next(pool.query_id for pool in pools if pool.query_id not in found)
    write_report(str(tmp_path), missing)
    page = page_of(tmp_path)
    assert re.search(r"q-\d\d\d", page.words("queries"))[0] == missing
    assert "table" in page.unpacked[0]


def test_matrices_stand_in_input_order_and_by_score(tmp_path):
    write_run(tmp_path, results_of(tmp_path, [pool_of((1, 0, 2))]))
    write_report(str(tmp_path))
    tables = Page(page_of(tmp_path).unpacked[1]).tables[""]
    rows = [[row[0] for row in table[1:]] for table in tables]
    assert rows == [["d0", "d1", "d2"], ["d2", "d0", "d1"]]
    assert [cell.startswith("-") for cell in tables[1][3][1:3]] == [True, True], "d1 lost"


@pytest.mark.parametrize("write", [write_contests, write_verdicts, write_graded])
def test_data_is_shown_and_not_run(tmp_path, write):
    write(tmp_path, say=EVIL)
    write_report(str(tmp_path))
    page = page_of(tmp_path)
    for part in (page, *map(Page, page.unpacked)):
        assert not {"img", "iframe", "object", "link"} & set(part.tags)
        assert not [name for name, _ in part.attributes if name.startswith("on")]
        assert EVIL in part.words()
    assert "secret" not in page.words(), "a password in a URL"


# Warnings


def codes(warnings):
    return [(warn.code, warn.severity) for warn in warnings]


NO_VOTES = {"q": Unscored.because(UnscoredReason.NO_VOTES)}


@pytest.mark.parametrize(
    ("code", "above", "below"),
    [
        (
            ("missing", "doubtful"),
            {"failures_by_judge": {"x": {"invalid": 21}}, "answers_by_judge": {"x": 79}},
            {"failures_by_judge": {"x": {"invalid": 5}}, "answers_by_judge": {"x": 95}},
        ),
        (
            ("missing", "wrong"),
            {"failures_by_judge": {"x": {"failed": 50}}, "answers_by_judge": {"x": 50}},
            {},
        ),
        (("unscored", "wrong"), {"unscored": NO_VOTES, "queries": 9}, {"queries": 9}),
        (("stopped", "wrong"), {"disabled": {"x": Disabled(StopReason.FATAL, "no money")}}, {}),
        (("stopped", "wrong"), {"disabled": {"x": budget_used_up(1.5)}}, {}),
        (("rejected", "doubtful"), {"rejected": 2}, {}),
    ],
)
def test_what_is_missing_is_said_from_its_limit_on(code, above, below):
    assert codes(warn_of_asking(asdict(Summary("", **above)))) == [code]
    assert codes(warn_of_asking(asdict(Summary("", **below)))) == []


def voted(first, of, judge="x"):
    return {"votes": {judge: of}, "first": {judge: float(first)}}


@pytest.mark.parametrize(
    ("code", "above", "below"),
    [
        (("place", "doubtful"), voted(370, 1000), voted(430, 1000)),
        (("place", "doubtful"), voted(48, 60), voted(40, 60)),
        (("place", "wrong"), voted(30, 30), voted(29, 29)),
        (
            ("contradiction", "doubtful"),
            {"pairs": {("x", "y"): 900}, "agreed": {("x", "y"): 342}},
            {"pairs": {("x", "y"): 900}, "agreed": {("x", "y"): 387}},
        ),
        (
            ("alike", "doubtful"),
            {"votes": {"x": 1, "y": 1}, "first": {"x": 0, "y": 1}}
            | {"pairs": {("x", "y"): 100}, "agreed": {("x", "y"): 97}},
            {"votes": {"x": 1, "y": 1}, "first": {"x": 0, "y": 1}}
            | {"pairs": {("x", "y"): 99}, "agreed": {("x", "y"): 99}},
        ),
    ],
)
def test_judges_are_warned_of_from_a_limit_on(code, above, below):
    def found(given):
        counts = Counts()
        for name, values in given.items():
            getattr(counts, name).update(values)
        return codes(warn_of_judges(counts, ["x", "y"]))

    assert found(above) == [code]
    assert found(below) == []


def test_a_tie_in_one_order_does_not_turn_round(tmp_path):
    told = [("q0", "a", "b", "j1", ((60, 60),), False), ("q0", "a", "b", "j1", ((60, 71),), True)]
    write_verdicts(tmp_path, told=told)
    [one] = rows_of(tmp_path, "verdicts")
    assert (one["reversed"].value, one["tie in one order"].value) == (0, 1)
    assert "winners" not in [section.name for section in load(str(tmp_path)).report.sections]
