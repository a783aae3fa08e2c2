"""A judge that is asked the same, whoever else is on the panel, plans for itself alone."""

import pytest

from tests.builders import Shelf, judge_of, pool_of
from zelo_ray.protocols import PROTOCOLS, Progress, load_protocol
from zelo_ray.records import SyntheticFeatures, synthesize_answer

PANEL = tuple(judge_of(f"openai:{name}") for name in "abc")
SEEN = SyntheticFeatures(
    pair_preference=0.4, document_grade=2, scores=(1.0, 2.0), words="so", argument="thus"
)
ALONE = [
    *((name, {}) for name in PROTOCOLS),
    ("zelo", {"votes": "one"}),
    ("best-of", {"decide": "panel"}),
    ("best-of", {"order": "zelo"}),
    ("baseline-strong", {"rounds": "samre"}),
]


def asked_of_each(protocol, options, judges, pool):
    """By judge, all requests up to the end, where all answer alike."""
    progress, shelf, asked = Progress(protocol.rounds(pool, judges, options)), Shelf(), {}
    while missing := progress.step(shelf).missing:
        for request in missing:
            asked.setdefault(request.judge.name, set()).add(request.key)
            shelf.put(request, synthesize_answer(request, SEEN))
    return asked


@pytest.mark.parametrize(("name", "given"), ALONE)
def test_whoever_plans_alone_asks_what_the_panel_would_ask_of_it(name, given):
    protocol, pool = load_protocol(name), pool_of()
    options = protocol.options(inputs=("in",), out="out", **given)
    together = asked_of_each(protocol, options, PANEL, pool)
    counts = protocol.count(pool, PANEL, options)
    apart, counted = {}, {}
    for judge in PANEL:
        heeded = protocol.judges_in_scope([judge], PANEL, options)
        apart |= {judge.name: asked_of_each(protocol, options, heeded, pool).get(judge.name)}
        counted |= {judge.name: protocol.count(pool, heeded, options)[judge.name]}
    assert {n: keys for n, keys in apart.items() if keys} == together
    assert counted == counts


def test_most_ways_of_judging_plan_alone():
    made = {name: load_protocol(name).options(inputs=("in",), out="out") for name in PROTOCOLS}
    assert {
        name for name in PROTOCOLS if not load_protocol(name).judges_are_independent(made[name])
    } == {
        "lean",
        "zelo+graded",
    }
