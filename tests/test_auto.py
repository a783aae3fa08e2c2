"""So many calls a document: grades by all judges first, then rings of battles."""

from collections import Counter
from functools import partial
from itertools import product

import pytest
from zelo_ray.protocols.auto import AutoOptions

from tests import builders
from tests.builders import judge_of, pool_of, truly
from tests.test_lean import tables_of
from zelo_ray.commands import load as load_command
from zelo_ray.errors import OptionError
from zelo_ray.files.tables import table_of
from zelo_ray.protocols import auto
from zelo_ray.records import Failure

PANEL = (judge_of("openai:one"), judge_of("anthropic:two"), judge_of("gemini:three"))
POOL = pool_of([(7 * place) % 25 / 8 for place in range(25)])
GIVEN = {"inputs": ["in.jsonl"], "out": "out", "judges": ["offline"]}

options_of = partial(builders.options_of, protocol="auto")


def asked_of(calls, panel=PANEL, **fields):
    """Grades of each document by judge, and battles, of the first round; and calls in all."""
    options = options_of(calls_per_document=calls, audits=0, until_loss=0.0, **fields)
    step, rounds = builders.play(auto.PROTOCOL, options, POOL, panel, truly, None, None)
    grades = Counter((r.documents[0].id, r.judge.name) for r in rounds[0] if len(r.documents) == 1)
    assert max(grades.values()) == 1
    battles = sum(len(r.documents) == 2 for r in rounds[0])
    return step, grades.total() / 25, battles / 25, sum(map(len, rounds)) / 25


def test_all_judges_grade_as_far_as_a_ring_can_be_paid_for():
    for calls, grades, rings, judges in (
        *((2, 1, 1, 3), (3, 2, 1, 3), (4, 3, 1, 3), (5, 3, 2, 3), (6, 3, 2, 3)),
        *((4, 1, 2, 1), (4, 2, 2, 2)),
    ):
        _, *first, total = asked_of(calls, PANEL[:judges])
        assert first == [grades, rings]
        assert total <= calls


def test_what_is_given_stands():
    _, *first, _ = asked_of(6, grades_per_document=2, rings=3)
    assert first == [2, 3]


def test_calls_without_a_protocol_are_spent_by_auto():
    assert load_command("annotate", GIVEN).protocol == "zelo"
    options = load_command("annotate", {**GIVEN, "calls_per_document": 4})
    assert isinstance(options, AutoOptions)
    assert options.protocol == "auto"
    assert (
        load_command("annotate", {**GIVEN, "calls_per_document": 4, "protocol": "lean"}).protocol
        == "lean"
    )
    with pytest.raises(
        OptionError, match="1 grade and 1 ring take 2, not 1; for 1 call a document"
    ):
        load_command("annotate", {**GIVEN, "calls_per_document": 1})


def test_a_run_says_what_was_chosen():
    options = options_of(calls_per_document=4)
    step, *_ = asked_of(4)
    learned = auto.learn(tables_of([step]), options)
    assert learned.notes[0].startswith(
        "auto: of 4 calls a document 3 grades by different judges and 1 ring of battles came first"
    )
    (fit,) = auto.PROTOCOL.fit([step.judgments], options, learned)
    assert len(fit.scores) == 25


@pytest.mark.parametrize("silent", [(), ("gemini:three",), ("gemini:three", "openai:one")])
def test_a_run_says_what_was_asked_whoever_answered(silent):
    options = options_of(calls_per_document=4)

    def some(request):
        return "no answer" if request.judge.name in silent else truly(request)

    step, _ = builders.play(auto.PROTOCOL, options, POOL, PANEL, some)
    tables = tables_of([step]) | {"failures": table_of(step.failures, Failure)}
    assert {*tables} == {*auto.PROTOCOL.learned_from(options)}
    learned = auto.learn(tables, options)
    assert "3 grades by different judges and 1 ring" in learned.notes[0]


def test_the_first_round_keeps_to_the_calls_whatever_the_panel():
    """The size of a panel such as ``offline`` is not known when options are read."""
    each = product((2, 2.5, 3, 5, 7.9, 12), (None, 1, 2, 3), (None, 1, 2))
    for calls, grades, rings in each:
        given = {"calls_per_document": calls, "grades_per_document": grades, "rings": rings}
        try:
            options = load_command("annotate", {**GIVEN, **given})
        except OptionError:
            assert max(1, grades or 1) + (rings or 1) > calls
            continue
        assert all(sum(options.first_round(judges)) <= calls for judges in (1, 2, 3, 5))
