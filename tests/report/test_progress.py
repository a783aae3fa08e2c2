"""How a protocol is driven: rounds, parts that go on apart, judges that are lost, replays."""

from tests.helpers.builders import PANEL, Shelf, request_of
from zelo_ray.protocols import Parallel, Progress, advance
from zelo_ray.records import Failure

ONE, TWO = PANEL


def talk(judge, rounds=3):
    """A judge is asked again and again, each time with what it said last."""
    said = []
    for _ in range(rounds):
        (reply,) = yield [request_of(f"Round {len(said)}, {said}", judge)]
        said.append(reply.text or reply.reason)
    return [(judge.name, *said)]


def side_by_side(judges=PANEL):
    return [
        each for talked in (yield Parallel([talk(judge) for judge in judges])) for each in talked
    ]


def in_step(judges=PANEL, rounds=3):
    replies = []
    for number in range(rounds):
        replies += yield [request_of(f"Round {number}, {len(replies)}", judge) for judge in judges]
    return [reply.text or Failure("q", (), reply.judge, "failed", "", 0, "") for reply in replies]


def answer(shelf, step, *judges):
    mine = [request for request in step.missing if request.judge in judges]
    for request in mine:
        shelf.put(request, f"{request.judge.model} has word {len(shelf.replies)}")
    return len(mine)


def test_a_reply_is_heard_though_others_of_its_round_are_missing_and_is_counted_once():
    shelf = Shelf()
    first = advance(in_step(), shelf)
    answer(shelf, first, ONE)
    progress = Progress(in_step(), remember=True)
    step = progress.step(shelf)
    assert (step.reply_counts, [r.judge for r in step.missing]) == ({ONE.name: 1}, [TWO])
    assert progress.step(shelf).reply_counts == {ONE.name: 1}
    assert [each.judge for each in progress.answered_requests] == [ONE]
    answer(shelf, step, TWO)
    step = progress.step(shelf)
    assert step.reply_counts == {ONE.name: 1, TWO.name: 1}
    answer(shelf, step, TWO)
    assert progress.step(shelf).reply_counts == {ONE.name: 1, TWO.name: 2}
    assert {name: len(keys) for name, keys in progress.answered_keys().items()} == {
        ONE.name: 1,
        TWO.name: 2,
    }


def test_a_judge_does_not_wait_for_another_where_parts_go_apart():
    shelf, progress = Shelf(), Progress(side_by_side())
    rounds = 0
    while answer(shelf, progress.step(shelf), ONE):
        rounds += 1
    assert rounds == 3
    assert [request.judge for request in progress.step(shelf).missing] == [TWO]
    while answer(shelf, step := progress.step(shelf), TWO):
        pass
    assert [said[0] for said in step.judgments] == [ONE.name, TWO.name]
    assert all(len(said) == 4 for said in step.judgments)
    assert step.judgments == advance(side_by_side(), shelf).judgments


def test_parts_may_have_parts_and_there_may_be_none():
    def nested():
        none = yield Parallel([])
        deep = yield Parallel([side_by_side(), side_by_side(PANEL[:1])])
        return [none, *(len(each) for each in deep)]

    shelf, progress = Shelf(), Progress(nested())
    asked = 0
    while new := answer(shelf, step := progress.step(shelf), *PANEL):
        asked += new
    assert step.judgments == ([], 2, 1)
    assert asked == 6  # what two parts ask alike is asked once
