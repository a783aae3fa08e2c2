"""The desk of `label`: who gets which document, what is kept, and what is taken back."""

import json
import subprocess
import sys

import pytest

from tests.labelling import sample_at, sheet
from zelo_ray import cli
from zelo_ray.command_options import LabelOptions
from zelo_ray.commands.label import draw
from zelo_ray.commands.label.desk import LabelDesk
from zelo_ray.commands.label.store import Answers
from zelo_ray.files.labels import DOCUMENT, PersonsAnswer, read_answers


class Hand:
    """A clock that is set by hand."""

    time = 0.0

    def now(self):
        return self.time


def desk_at(out, clock=None):
    _, sample = draw.draw_sample(LabelOptions(out=str(out)), print)
    return LabelDesk(sample, Answers(str(out), print), DOCUMENT, clock or Hand())


def test_a_document_is_before_one_person_until_they_leave_it(tmp_path):
    clock = Hand()
    desk = desk_at(sample_at(tmp_path, 3), clock)
    ann, bob = (desk.assign_next(name)["item"]["key"] for name in ("ann", "bob"))
    assert [ann, bob] == [each.key for each in desk.items[:2]]
    assert desk.assign_next("ann")["item"]["key"] == ann  # the page was loaded anew
    after = desk.save_answer("bob", bob, 2.0)
    assert after["item"]["key"] == desk.items[2].key
    clock.time = 1000.0
    assert desk.assign_next("cid")["item"]["key"] == ann
    assert desk.save_answer("ann", ann, 1.0)["progress"]["done"] == 2  # late, and kept all the same


def test_an_answer_that_is_sent_twice_is_kept_once_and_undone_once(tmp_path):
    desk = desk_at(sample_at(tmp_path, 3))
    key = desk.items[0].key
    first = desk.save_answer("ann", key, 2.0)
    again = desk.save_answer("ann", key, 2.0)
    assert (first["item"], first["previous"]) == (again["item"], key)
    assert len((tmp_path / "answers.jsonl").read_bytes().splitlines()) == 1
    back = desk.undo("ann", key)
    assert (back["item"]["key"], back["before"], back["previous"]) == (key, 2.0, None)
    assert desk.undo("ann", key)["progress"]["done"] == 0
    assert len((tmp_path / "answers.jsonl").read_bytes().splitlines()) == 2
    anew = desk_at(tmp_path)
    assert anew.assign_next("ann")["item"]["key"] == key


def test_a_document_that_was_left_open_comes_before_all_others_and_is_named(tmp_path, capsys):
    out = sample_at(tmp_path / "labels", 5, overlap=1.0)
    desk = desk_at(out)
    for number in (0, 1, 3):
        desk.save_answer("ann", desk.items[number].key, 1.0)
    assert desk.assign_next("bob")["item"]["key"] == desk.items[2].key
    numbers = [row["key"] for row in sheet(out, tmp_path / "out.csv", capsys, "--person", "bob")]
    assert numbers == [desk.items[n].key for n in (2, 0, 1, 3, 4)]
    cli.main(["label", "--out", str(out), "--csv", str(tmp_path / "again.csv")])
    line = next(each for each in capsys.readouterr().out.splitlines() if "out of turn" in each)
    assert line.endswith("(still missing: document 'doc-2' of query 'q2').")


def test_undoing_goes_back_over_a_restart(tmp_path):
    desk = desk_at(sample_at(tmp_path, 4))
    keys = [each.key for each in desk.items]
    for key in keys[:3]:
        desk.save_answer("ann", key, 1.0)
    desk.save_answer("bob", keys[3], 1.0)
    anew = desk_at(tmp_path)
    assert anew.assign_next("ann")["previous"] == keys[2]
    assert anew.undo("ann", keys[2])["previous"] == keys[1]
    assert anew.undo("ann", keys[1])["previous"] == keys[0]


def test_the_share_that_two_judge_goes_to_a_second_person_only(tmp_path):
    out = sample_at(tmp_path, 40, overlap=0.3)
    desk = desk_at(out)
    twice = [each.key for each in desk.items if each.raters_wanted == 2]
    assert 4 < len(twice) < 22
    told = desk.assign_next("ann")
    while told["item"]:
        told = desk.save_answer("ann", told["item"]["key"], 1.0)
    assert (told["progress"]["done"], told["progress"]["second"]) == (40, len(twice))
    told, seen = desk.assign_next("bob"), []
    while told["item"]:
        seen.append(told["item"]["key"])
        told = desk.save_answer("bob", seen[-1], 2.0)
    assert seen == twice
    assert desk.assign_next("cid")["item"] is None
    about = json.loads((out / "label.json").read_text())
    (out / "label.json").write_text(json.dumps(about | {"overlap": 0.5}))
    assert {*twice} <= {each.key for each in desk_at(out).items if each.raters_wanted == 2}


def test_what_a_killed_process_tore_is_set_aside_and_said(tmp_path):
    desk = desk_at(sample_at(tmp_path, 3))
    desk.save_answer("ann", desk.items[0].key, 2.0)
    with (tmp_path / "answers.jsonl").open("ab") as file:
        file.write(b'{"at": "2026-0')
    said = []
    answers = Answers(str(tmp_path), said.append)
    assert len(answers.current) == 1
    assert "moved an incomplete last line" in said[0]
    assert (tmp_path / "answers.torn").read_bytes() == b'{"at": "2026-0\n'
    answers.append([PersonsAnswer("", "ann", desk.items[1].ids, 1.0)])
    assert len(Answers(str(tmp_path), pytest.fail).current) == 2


FULL = """
import resource, sys
from zelo_ray.commands.label.store import Answers
from zelo_ray.files.labels import PersonsAnswer
answers = Answers(sys.argv[1], print)
names = ("ann", "bob")
one, two = ([PersonsAnswer("now", who, ("q", f"d{n}"), 2.0) for n in range(3)] for who in names)
answers.append(one)
size = sum(len(each.to_json_line()) for each in one)
least, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + len(two[0].to_json_line()) + 9, most))
try:
    answers.append(two)
except OSError as error:
    print(error.strerror)
resource.setrlimit(resource.RLIMIT_FSIZE, (least, most))
answers.append(two[:1])
"""


def test_of_answers_that_a_full_disk_refuses_nothing_is_left(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert run.stdout == "File too large\n"
    kept, _ = read_answers(str(tmp_path / "answers.jsonl"))
    assert [each.person for each in kept] == ["ann"] * 3 + ["bob"]


def test_who_lets_go_of_the_directory_keeps_nothing_more(tmp_path):
    desk = desk_at(sample_at(tmp_path, 3))
    desk.close()
    with pytest.raises(OSError, match="has ended"):
        desk.save_answer("ann", desk.items[0].key, 2.0)
    assert (tmp_path / "answers.jsonl").read_bytes() == b""
