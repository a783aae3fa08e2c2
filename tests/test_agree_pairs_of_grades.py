"""``agree`` on judges that voted and people who graded."""

from tests.builders import agreement_of, rows_of, write_lines


def test_grades_of_people_are_a_word_on_the_pairs_that_judges_voted_on(tmp_path):
    def vote(a, b, preference, judge="j"):
        two = {"query_id": "q", "doc_id_a": a, "doc_id_b": b}
        return two | {"judge": judge, "preference": preference}

    votes = [vote("d1", "d2", -1.0), vote("d3", "d1", 1.0), vote("d2", "d3", 1.0)]
    judges = write_lines(tmp_path / "votes.jsonl", [*votes, vote("d1", "d4", -1.0)])
    grades = {"d1": 3, "d2": 1, "d3": 1}  # of d4 they say nothing, and d2 and d3 are equal
    rows = [{"query_id": "q", "doc_id": d, "judge": "p", "grade": g} for d, g in grades.items()]
    human = write_lines(tmp_path / "human.jsonl", rows)
    found = agreement_of(judges, "--human", human, "--out", tmp_path / "out")
    assert found.complete
    assert any("name the better document of 2 pairs" in note for note in found.report.notes)
    [same] = [
        row
        for row in rows_of(tmp_path / "out", "outcomes")
        if (row["scale"], row["coefficient"]) == ("0-2", "agreement")
    ]
    assert (same["items"], same["value"]) == (2, 1.0)


def test_votes_and_grades_without_a_pair_in_common_are_told(say, tmp_path):
    two = {"query_id": "q", "doc_id_a": "a", "doc_id_b": "b", "judge": "j", "preference": 1.0}
    judges = write_lines(tmp_path / "votes.jsonl", [two, two | {"judge": "k"}])
    one = {"query_id": "other", "doc_id": "a", "judge": "p", "grade": 1}
    human = write_lines(tmp_path / "human.jsonl", [one])
    status, lines = say(judges, "--human", human)
    assert status == 3
    assert any(line.startswith("judges voted, but human graded both ") for line in lines)
