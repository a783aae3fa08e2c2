"""Debate: what is asked in which step, when it ends, and what its replies come to."""

import json
import re
from fractions import Fraction

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Shelf, lines_of, options_of, pool_of
from tests.debates import (
    FORGERIES,
    GOLDEN,
    ONE,
    PANEL,
    POOL,
    CountingShelf,
    blocks,
    check_count,
    check_forgeries,
    debating,
    pinned,
    play,
    points,
    seed_with,
    systems,
)
from zelo_ray.protocols import Progress, advance, samre
from zelo_ray.protocols.samre import Defence, Feedback, Scores
from zelo_ray.records import Document, Failure, Pool, Verdict, read_verdict, verdict_schema
from zelo_ray.settle import settle, write_results

IN_ORDER, SWAPPED = seed_with(False), seed_with(True)


def verdict_of(*totals, swapped=False, **fields):
    seed = SWAPPED if swapped else IN_ORDER
    step, asked = play(samre, debating(*totals), seed=seed, **fields)
    (verdict,) = step.judgments
    assert verdict.keys == tuple(r.key for requests in asked for r in requests)
    return verdict, asked


# Golden transcripts


def refuse_the_second(request, number):
    defends_second = "You speak for Answer 2" in request.user
    return "refused" if number == 2 and defends_second else None


def no_scores(request, number):
    return '{"relevance": 10}' if number == 2 and request.verdict is Scores else None


ALTERNATING = (70, 60), (60, 65), (80, 70), (60, 62)
TRANSCRIPTS = {
    "an early stop": lambda: play(samre, debating((70, 60), (66, 64)), seed=IN_ORDER),
    "four rounds that alternate": lambda: play(samre, debating(*ALTERNATING), seed=SWAPPED),
    "a tie in a round": lambda: play(samre, debating((60, 60), (60, 66), (64, 66)), seed=IN_ORDER),
    "a round without scores": lambda: play(
        samre, debating((70, 60), otherwise=no_scores), seed=IN_ORDER
    ),
    "a refusal in round 2": lambda: play(
        samre, debating((70, 60), otherwise=refuse_the_second), seed=IN_ORDER
    ),
    "orders that differ": lambda: play(
        samre, debating((70, 60), (66, 64)), seed=IN_ORDER, both_orders=True
    ),
}


def golden():
    """What the golden file holds, as it is now."""
    played = {name: transcript() for name, transcript in TRANSCRIPTS.items()}
    found = {name: pinned(*each) for name, each in played.items()}
    return {"systems": systems(*played.values()), "transcripts": found}


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_the_transcript_is_the_golden_one(name):
    """Every change of a prompt asks and pays for everything anew: it takes a new file's name."""
    kept = json.loads((GOLDEN / "debate-samre.json").read_text(encoding="utf-8"))
    assert list(kept["transcripts"]) == list(TRANSCRIPTS)
    played = TRANSCRIPTS[name]()
    assert systems(played).items() <= kept["systems"].items()
    assert pinned(*played) == kept["transcripts"][name]


# Steps


def test_a_round_is_two_defences_then_feedback_and_scores():
    verdict, asked = verdict_of(*ALTERNATING)
    kinds = [[r.verdict for r in requests] for requests in asked]
    assert kinds == [[Defence, Defence], [Feedback, Scores]] * 4
    assert (verdict.rounds, len(verdict.keys)) == (4, 16)


def test_two_rounds_that_lean_alike_end_it_and_ties_lean_no_way():
    def lengths(*totals):
        return verdict_of(*totals)[0].rounds

    assert lengths((70, 60), (61, 60)) == 2
    assert lengths((60, 61), (60, 70)) == 2
    assert lengths((60, 60), (60, 60), (60, 60), (60, 60)) == 4
    assert lengths((70, 60), (60, 60), (70, 60), (70, 60)) == 4
    assert lengths((70, 60), (60, 70), (60, 70)) == 3


@pytest.mark.parametrize("rounds", [1, 2, 3, 6, "samre", None])
def test_a_debate_has_at_most_so_many_rounds(rounds):
    most = rounds if isinstance(rounds, int) else 4
    totals = [(70, 60), (60, 70)] * 3
    verdict, asked = verdict_of(*totals, rounds=rounds)
    assert verdict.rounds == most
    assert len(verdict.keys) == samre.count(POOL, ONE, options_of(rounds=rounds))["openai:one"]
    assert f"This is round {most} of at most {most}." in asked[-1][0].user
    assert f"at most {most} rounds" in asked[-1][1].user


@pytest.mark.parametrize("swapped", [False, True])
def test_pairs_are_for_a_and_b_whichever_was_shown_first(swapped):
    totals = [(70, 60), (60, 65), (80, 70), (60, 62)]
    verdict, _ = verdict_of(*totals, swapped=swapped)
    turned = [pair[::-1] if swapped else pair for pair in totals]
    assert verdict.score_history == tuple(turned)
    assert verdict.average_scores == tuple(sum(column) / 4 for column in zip(*turned, strict=True))
    assert verdict.winner == ("model_b" if swapped else "model_a")
    assert verdict.swapped == swapped
    first = "Defence of Answer 2" if swapped else "Defence of Answer 1"
    assert verdict.arguments[1][0] == f"{first} in round 2."
    assert verdict.feedback[3] == "Feedback in round 4."
    assert verdict.reasoning[0].splitlines()[5] == "rebuttal: as seen in round 1"
    assert (verdict.doc_id_a, verdict.doc_id_b) == ("doc-8", "doc-9")


def test_equal_means_are_a_tie():
    verdict, _ = verdict_of((70, 60), (60, 70), (61, 60), (60, 61))
    assert (verdict.winner, verdict.average_scores) == ("tie", (62.75, 62.75))


def test_means_are_not_rounded():
    verdict, _ = verdict_of((60, 61), (61, 60), (62, 60))
    assert verdict.average_scores == (float(Fraction(183, 3)), float(Fraction(181, 3)))
    assert verdict.winner == "model_a"


# What is shown to whom


def test_an_advocate_sees_what_was_said_so_far_and_its_own_answer_first():
    _, asked = verdict_of(*ALTERNATING)
    first, second = asked[0]
    assert set(blocks(first.user)[1]) == {"question", "Answer 1", "Answer 2"}
    _, found = blocks(asked[4][1].user)
    assert list(found) == [
        *("question", "Answer 2", "Answer 1"),
        *("last feedback of the judge", "last argument of your opponent"),
        *("your argument of round 1", "your argument of round 2"),
    ]
    assert found["last feedback of the judge"] == "Feedback in round 2."
    assert found["last argument of your opponent"] == "Defence of Answer 1 in round 2."
    assert found["your argument of round 1"] == "Defence of Answer 2 in round 1."
    assert [d.id for d in first.documents] == ["doc-8", "doc-9"]
    assert [d.id for d in second.documents] == ["doc-9", "doc-8"]


def test_the_judge_sees_both_defences_and_its_scores_of_the_rounds_before():
    _, asked = verdict_of(*ALTERNATING)
    for request in asked[5]:
        _, found = blocks(request.user)
        assert list(found)[:3] == ["question", "Answer 1", "Answer 2"]
        assert found["defence of Answer 2"] == "Defence of Answer 2 in round 3."
        assert "Round 1: Answer 1: 70, Answer 2: 60\nRound 2: Answer 1: 60" in request.user
        assert "Round 3:" not in request.user
    assert all("None; this is the first round." in request.user for request in asked[1])


def test_ids_metadata_and_judges_are_not_shown():
    _, asked = play(samre, debating(*ALTERNATING), panel=PANEL)
    for request in (r for requests in asked for r in requests):
        assert not re.search(
            "query-7|doc-8|doc-9|worth|openai|anthropic|model_", request.user + request.system
        )


def test_the_same_judge_plays_all_roles_of_its_own_debate():
    step, asked = play(samre, debating((70, 60), (70, 60)), panel=PANEL)
    for judge, verdict in zip(PANEL, step.judgments, strict=True):
        keys = {r.key for requests in asked for r in requests if r.judge == judge}
        assert verdict.judge == judge.name
        assert set(verdict.keys) == keys


@pytest.mark.parametrize("text", FORGERIES)
def test_a_document_cannot_close_its_block(text):
    check_forgeries(samre, text)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(max_size=30) | st.sampled_from(FORGERIES), min_size=6, max_size=6))
def test_nothing_that_is_said_can_close_its_block(texts):
    *documents, query, one, other, judge = (f"{text}." for text in texts)
    pool = Pool("q", query, tuple(Document(f"d{i}", text) for i, text in enumerate(documents)))
    seed = seed_with(False, pool) if documents[0] != documents[1] else 0

    def say(request, number):
        if request.verdict is Feedback:
            return judge
        own = "You speak for Answer 1" in request.user
        return (one if own else other) if request.verdict is Defence else None

    _, asked = play(samre, debating((9, 9), (9, 9), otherwise=say), pool, rounds=2, seed=seed)
    code, found = blocks(asked[2][1].user)
    assert found["question"] == query
    assert {found["Answer 1"], found["Answer 2"]} == set(documents)
    assert found["last feedback of the judge"] == Feedback(text=judge).text
    assert found["last argument of your opponent"] == Defence(text=one).text
    assert found["your argument of round 1"] == Defence(text=other).text
    assert not any(code in each for each in found.values())


# Failures


STATUSES = ["refused", "filtered", "truncated", "failed"]
NO_GOOD = {  # what cannot be read, and why
    "an empty defence": (Defence, " \n", "text: String should have at least 1 character"),
    "an empty feedback": (Feedback, "", "text: String should have at least 1 character"),
    "scores in prose": (Scores, "(70, 60)", "Invalid JSON"),
    "scores of 21": (Scores, points(121, 60), "less than or equal to 20"),
    "scores of 0": (Scores, points(5, 60), "greater than or equal to 1"),
    "a float": (Scores, points(60, 60).replace("10", "10.5"), "valid integer"),
    "a text": (Scores, points(60, 60).replace("10", '"10"'), "valid integer"),
    "8/10": (Scores, points(60, 60).replace("10", "8/10"), "Invalid JSON"),
    "NaN": (Scores, points(60, 60).replace("10", "NaN"), "valid integer"),
    "no rebuttal": (Scores, points(60, 60).replace("rebuttal", "retort"), "rebuttal: Field"),
    "a sum": (Scores, points(60, 60)[:-1] + ', "total": 1}', "total: Extra inputs"),
    "fenced": (Scores, f"```json\n{points(60, 60)}\n```", "Invalid JSON"),
}


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", [*NO_GOOD, *STATUSES])
def test_a_reply_that_is_no_good_ends_the_debate_without_a_verdict(name, number):
    kind, said, why = NO_GOOD.get(name, (Scores, name, "because"))

    def bad(request, current):
        return said if (request.verdict, current) == (kind, number) else None

    step, asked = play(samre, debating((70, 60), (70, 60), otherwise=bad))
    assert step.judgments == ()
    assert len(asked) == 2 * number - (kind is Defence)
    assert len(step.failures) == (2 if kind is Defence else 1)
    for failure in step.failures:
        assert (failure.query_id, failure.doc_ids) == ("query-7", ("doc-8", "doc-9"))
        assert failure.status == (name if name in STATUSES else "invalid")
        assert why in failure.reason
        assert failure.key in {r.key for r in asked[-1] if r.verdict is kind}


def test_a_judge_that_is_absent_fails_alone():
    options, shelf = options_of(), Shelf()
    say = debating((70, 60), (70, 60))
    for number in range(4):
        step = advance(samre.rounds(POOL, PANEL, options), shelf, {"anthropic:two": "no key"})
        for request in step.missing:
            if request.judge == PANEL[0]:
                shelf.put(request, say(request, number))
    step = advance(samre.rounds(POOL, PANEL, options), shelf, {"anthropic:two": "no key"})
    assert [v.judge for v in step.judgments] == ["openai:one"]
    assert {f.reason for f in step.failures} == {"not asked: no key"}


# Both orders


def winner_in(request, a, b):
    """Totals as shown, of a judge that gives A and B their due."""
    return (a, b) if request.documents[0].id == "doc-8" else (b, a)


def test_orders_that_agree_are_one_word():
    def fair(request, number):
        return points(*winner_in(request, 70, 60)) if request.verdict is Scores else None

    step, asked = play(samre, debating(otherwise=fair), both_orders=True)
    assert [(v.swapped, v.winner, v.flipped) for v in step.judgments] == [
        (False, "model_a", False),
        (True, "model_a", False),
    ]
    assert [len(requests) for requests in asked] == [4, 4, 4, 4]


@pytest.mark.parametrize(("a", "b"), [(70, 60), (60, 60)])
def test_orders_that_differ_are_a_tie_in_both_rows(a, b):
    """A tie and a win differ, too."""

    def first(request, number):
        swapped = request.documents[0].id == "doc-9"
        return points(*((a, b) if swapped else (70, 60))) if request.verdict is Scores else None

    step, _ = play(samre, debating(otherwise=first), both_orders=True)
    assert {(v.winner, v.flipped) for v in step.judgments} == {("tie", True)}
    assert step.judgments[0].average_scores == (70, 60)
    assert step.judgments[1].average_scores == (b, a)


def test_a_failure_in_one_order_leaves_no_verdict_in_the_other():
    def bad(request, number):
        swapped = request.documents[0].id == "doc-9"
        return "refused" if request.verdict is Scores and swapped and number == 2 else None

    step, _ = play(samre, debating((70, 60), (60, 70), (60, 70), otherwise=bad), both_orders=True)
    assert step.judgments == ()
    assert [failure.status for failure in step.failures] == ["refused"]


def test_the_order_that_is_drawn_is_one_of_both():
    _, both = play(samre, debating((70, 60), (70, 60)), both_orders=True)
    _, one = play(samre, debating((70, 60), (70, 60)))
    assert {r.key for r in one[0]} < {r.key for r in both[0]}


# Plan


def keys(pool, panel=PANEL, **fields):
    asked = advance(samre.rounds(pool, panel, options_of(**fields)), Shelf()).missing
    return {r.key for r in asked}


def test_the_same_seed_asks_the_same_and_another_does_not():
    pool = pool_of(range(12))
    assert keys(pool, seed=1, cycles=2) == keys(pool, seed=1, cycles=2)
    assert keys(pool, seed=1, cycles=2) != keys(pool, seed=2, cycles=2)


def test_orders_are_balanced_and_differ_between_judges():
    options, pool = options_of(cycles=20), pool_of(range(20))
    asked = advance(samre.rounds(pool, PANEL, options), Shelf()).missing
    first = {judge.name: [] for judge in PANEL}
    for request in asked[::2]:
        a, b = (int(d.id[1:]) for d in request.documents)
        first[request.judge.name].append(a < b)
    for orders in first.values():
        assert 0.35 < sum(orders) / len(orders) < 0.65
    one, other = first.values()
    assert 0.35 < sum(a != b for a, b in zip(one, other, strict=True)) / len(one) < 0.65


def test_another_panel_leaves_the_requests_of_the_others_alone():
    pool = pool_of(range(6))
    assert keys(pool, PANEL) == keys(pool, ONE) | keys(pool, PANEL[1:])


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 6), st.integers(1, 2), st.integers(1, 3), st.booleans(), st.integers(1, 5))
def test_the_count_is_the_most(documents, judges, cycles, both, rounds):
    fields = {"cycles": cycles, "both_orders": both, "rounds": rounds}
    asked, pairings = check_count(samre, 4 * rounds, documents, judges, **fields)
    assert asked == 2 * pairings


def test_a_pool_too_small_asks_nothing():
    for documents in ((), (1,)):
        step, asked = play(samre, debating(), pool_of(documents))
        assert (step.judgments, step.failures, asked) == ((), (), [])
    assert samre.MIN_DOCUMENTS == 2


def test_documents_past_the_limit_and_past_their_length_are_not_shown():
    pool = Pool("q", "query", tuple(Document(f"d{i}", f"{i} " + "x" * 999) for i in range(3)))
    options = options_of(document_limit=2, document_tokens=16)
    asked = advance(samre.rounds(pool, ONE, options), Shelf()).missing
    assert {d.id for r in asked for d in r.documents} == {"d0", "d1"}
    assert not any("x" * 64 in r.user for r in asked)


# Replay


def test_a_replay_reads_each_reply_once():
    shelf = CountingShelf()
    step, asked = play(samre, debating(*ALTERNATING), shelf=shelf, panel=PANEL, both_orders=True)
    shelf.reads.clear()
    again = advance(samre.rounds(POOL, PANEL, options_of(both_orders=True)), shelf)
    assert again.judgments == step.judgments
    assert len(again.keys) == len(set(again.keys)) == sum(map(len, asked)) == 64
    assert shelf.reads == dict.fromkeys(again.keys, 1)


def test_a_debate_that_goes_on_reads_each_reply_once():
    shelf, say, steps = CountingShelf(), debating(*ALTERNATING), 0
    progress = Progress(samre.rounds(POOL, ONE, options_of()))
    while missing := progress.step(shelf).missing:
        for request in missing:
            shelf.put(request, say(request, steps))
        steps += 1
    assert steps == 8
    assert set(shelf.reads.values()) == {1}


def test_debates_go_on_without_waiting_for_each_other():
    """A judge's second step does not wait for another judge's first."""
    shelf, options = Shelf(), options_of()
    for request in advance(samre.rounds(POOL, PANEL, options), shelf).missing:
        if request.judge == PANEL[0]:
            shelf.put(request, "A defence.")
    waits = advance(samre.rounds(POOL, PANEL, options), shelf).missing
    kinds = {judge.name: {r.verdict for r in waits if r.judge == judge} for judge in PANEL}
    assert kinds == {"openai:one": {Feedback, Scores}, "anthropic:two": {Defence}}


def test_answers_that_are_alike_are_defended_once():
    """The two orders are then the same questions, and a judge that favours one place ties."""
    pool = Pool("q", "query", (Document("a", "the same"), Document("b", "the same")))
    step, asked = play(samre, debating((70, 60), (70, 60)), pool, both_orders=True)
    assert [len(requests) for requests in asked] == [2, 2, 2, 2]
    assert {(v.winner, v.flipped) for v in step.judgments} == {("tie", True)}


# Scores of documents


def test_winners_become_scores():
    pool = pool_of(range(5))

    def fair(request, number):
        if request.verdict is not Scores:
            return None
        return points(*(60 + int(d.id[1:]) for d in request.documents))

    step, _ = play(samre, debating(otherwise=fair), pool, panel=PANEL, both_orders=True)
    (fitted,) = samre.fit([step.judgments], options_of())
    assert [score.doc_id for score in fitted.scores] == ["d4", "d3", "d2", "d1", "d0"]
    assert {score.comparisons for score in fitted.scores} == {8}  # four pairs, two judges


def test_a_pair_that_flips_counts_once_as_a_tie():
    flips, _ = play(samre, debating((70, 60), (70, 60)), both_orders=True)
    ties, _ = play(samre, debating(*[(60, 60)] * 4))
    assert len(flips.judgments) == 2
    found = samre.fit([flips.judgments, ties.judgments, []], options_of())
    assert found[0] == found[1]
    assert found[0].scores[0].score == 0
    assert found[2].reason == "it has no votes"


# The forms of answers


@given(st.text(min_size=1).filter(str.strip))
def test_what_is_written_reads_back(text):
    for kind in (Defence, Feedback):
        try:
            said = kind(text=text)
        except ValueError:
            return
        assert kind.read(said.write()) == said
        assert kind.read(f"\r\n{said.write()} \n") == said


def test_prose_has_no_schema_and_scores_have_one_without_siblings_of_a_reference():
    """OpenAI refuses a schema with a description beside a reference."""
    assert verdict_schema(Defence) is None
    assert verdict_schema(Feedback) is None
    properties = verdict_schema(Scores)["properties"]
    assert all(set(each) == {"$ref"} for each in properties.values())
    assert next(iter(verdict_schema(Scores)["$defs"]["Points"]["properties"])) == "justification"


def test_reasons_hold_nothing_of_the_text():
    for kind, said, _ in NO_GOOD.values():
        found = read_verdict(kind, said)
        assert isinstance(found, str)
        assert "so it is" not in found
        assert "\n" not in found


def test_what_comes_out_is_kept_whole(tmp_path):
    def bad(request, number):
        return "refused" if request.judge == PANEL[1] else None

    shelf, pool = Shelf(), pool_of((0, 1))
    step, _ = play(samre, debating((70, 60), (60, 50), otherwise=bad), pool, PANEL, shelf)
    options = options_of(protocol="samre", out=str(tmp_path), min_coverage=0.3)
    summary = write_results([settle(lines_of([pool]), PANEL, options, shelf)], options)
    (row,) = pq.read_table(tmp_path / "verdicts.parquet").to_pylist()
    assert Verdict(**{name: _tuples(value) for name, value in row.items()}) == step.judgments[0]
    assert (row["method"], row["judge"], row["rounds"]) == ("samre", "openai:one", 2)
    failures = pq.read_table(tmp_path / "failures.parquet").to_pylist()
    assert [Failure(**{k: _tuples(v) for k, v in f.items()}) for f in failures] == [*step.failures]
    assert (summary.judgments, summary.failures, summary.scored) == (1, 2, 2)


def _tuples(value):
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
