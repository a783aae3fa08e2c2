"""The queue of `label`: who gets which document, what is kept, and what is taken back."""

import json
import subprocess
import sys

import pytest

from tests.helpers.labelling import sample_at, sheet
from zelo_ray import cli
from zelo_ray.command_options import LabelOptions
from zelo_ray.commands.label.draw import draw_sample
from zelo_ray.commands.label.queue import Answers, LabelQueue
from zelo_ray.files.labels import PersonsAnswer, read_answers


class Hand:
    """A clock that is set by hand."""

    time = 0.0

    def now(self):
        return self.time


def queue_at(out, clock=None):
    return LabelQueue(
        str(out), *draw_sample(LabelOptions(out=str(out)), print), print, clock or Hand()
    )


def test_a_document_is_before_one_person_until_they_leave_it(tmp_path):
    clock = Hand()
    queue = queue_at(sample_at(tmp_path, 3), clock)
    ann, bob = (queue.next(name)["item"]["key"] for name in ("ann", "bob"))
    assert [ann, bob] == [task.key for task in queue.tasks[:2]]
    assert queue.next("ann")["item"]["key"] == ann  # the page was loaded anew
    assert queue.answer("bob", bob, 2.0, "")["item"]["key"] == queue.tasks[2].key
    clock.time = 1000.0
    assert queue.next("cid")["item"]["key"] == ann
    assert queue.answer("ann", ann, 1.0, "")["progress"]["done"] == 2  # late, and kept all the same


def test_an_answer_that_is_sent_twice_is_kept_once_and_undone_once_over_a_restart(tmp_path):
    queue = queue_at(sample_at(tmp_path, 4))
    keys = [task.key for task in queue.tasks]
    first, again = (queue.answer("ann", keys[0], 2.0, "") for _ in range(2))
    assert (first["item"], first["previous"]) == (again["item"], keys[0])
    assert len((tmp_path / "answers.jsonl").read_bytes().splitlines()) == 1
    for key in keys[1:3]:
        queue.answer("ann", key, 1.0, "")
    queue.answer("bob", keys[3], 1.0, "")
    queue = queue_at(tmp_path)
    assert queue.next("ann")["previous"] == keys[2]
    for key, before in ((keys[2], keys[1]), (keys[1], keys[0])):
        assert queue.undo("ann", key)["previous"] == before
    shown = queue.undo("ann", keys[0])
    assert (shown["item"]["key"], shown["before"], shown["previous"]) == (keys[0], 2.0, None)
    assert "before" not in queue.undo("ann", keys[0])
    assert len((tmp_path / "answers.jsonl").read_bytes().splitlines()) == 7
    assert queue_at(tmp_path).next("ann")["item"]["key"] == keys[0]


def test_a_sheet_that_somebody_filled_in_is_not_written_over(tmp_path, capsys):
    out, path = sample_at(tmp_path / "labels", 5), tmp_path / "out.csv"
    sheet(out, path, capsys)
    path.write_text(path.read_text("utf-8-sig").replace('"",""', '"3",""', 1))
    filled = path.read_bytes()
    assert cli.main(["label", "--out", str(out), "--csv", str(path)]) == 2
    assert "holds answers; read them by --read" in capsys.readouterr().err
    assert path.read_bytes() == filled


def test_the_share_that_two_judge_goes_to_a_second_person_only(tmp_path):
    out = sample_at(tmp_path, 40, overlap=0.3)
    queue = queue_at(out)
    twice = [task.key for task in queue.tasks if task.copies == 2]
    assert 4 < len(twice) < 22
    seen = {"ann": [], "bob": []}
    for person, keys in seen.items():
        shown = queue.next(person)
        while shown["item"]:
            keys.append(shown["item"]["key"])
            shown = queue.answer(person, keys[-1], 1.0, "")
        if person == "ann":
            assert (shown["progress"]["done"], shown["progress"]["second"]) == (40, len(twice))
    assert seen["bob"] == twice
    assert queue.next("cid")["item"] is None
    about = json.loads((out / "label.json").read_text())
    (out / "label.json").write_text(json.dumps(about | {"overlap": 0.5}))
    assert {*twice} <= {task.key for task in queue_at(out).tasks if task.copies == 2}


def test_what_a_killed_process_tore_is_set_aside_and_said(tmp_path):
    queue = queue_at(sample_at(tmp_path, 3))
    queue.answer("ann", queue.tasks[0].key, 2.0, "")
    with (tmp_path / "answers.jsonl").open("ab") as file:
        file.write(b'{"at": "2026-0')
    said = []
    answers = Answers(str(tmp_path), said.append)
    assert (len(answers.current), len(said)) == (1, 1)
    assert (tmp_path / "answers.torn").read_bytes() == b'{"at": "2026-0\n'
    answers.append([PersonsAnswer("", "ann", queue.tasks[1].ids, 1.0)])
    assert len(Answers(str(tmp_path), pytest.fail).current) == 2


FULL = """
import resource, sys
from zelo_ray.commands.label.queue import Answers
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


def test_a_document_that_was_left_open_comes_before_all_others_and_is_named(tmp_path, capsys):
    out = sample_at(tmp_path / "labels", 5, overlap=1.0)
    queue = queue_at(out)
    for number in (0, 1, 3):
        queue.answer("ann", queue.tasks[number].key, 1.0, "")
    assert queue.next("bob")["item"]["key"] == queue.tasks[2].key
    keys = [row["key"] for row in sheet(out, tmp_path / "out.csv", capsys, "--person", "bob")]
    assert keys == [queue.tasks[n].key for n in (2, 0, 1, 3, 4)]
    cli.main(["label", "--out", str(out), "--csv", str(tmp_path / "again.csv"), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["result"]["not_yet_counted"] == 1
    assert any("document 'doc-2' of query 'q2'" in line for line in told["lead"])
