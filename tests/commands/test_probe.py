"""What moves a judge that should not: the changes, the draw, the figures, and the command."""

import json
import random
from collections import Counter

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.crash import bare_environment
from tests.helpers.jobs import run_job
from zelo_ray import cli, load_run
from zelo_ray.command_options import ProbeOptions
from zelo_ray.commands.probe.changes import PROBES, draw_sample
from zelo_ray.commands.probe.measure import ShiftedJudgment, is_harmful, measure_shifts
from zelo_ray.commands.probe.run import choose_probes, make_plan
from zelo_ray.engine.ledger import read_rows
from zelo_ray.errors import InputError
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.protocols import load_protocol
from zelo_ray.providers import build_panel
from zelo_ray.providers.simulated import BIASES

JUDGE, QUERY = "simulated:judge", "how do I reset it?"
CHANGING = [name for name in PROBES if name != "order"]
texts = st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta"]), min_size=1, max_size=80)


# The changes


@given(texts.map(" ".join), st.integers(0, 99))
def test_a_change_adds_one_bias_and_takes_no_word(text, seed):
    """It hangs on the seed alone, and no simulated judge with another bias sees it."""
    for name in CHANGING:
        change = PROBES[name].change
        changed, again = (change(text, QUERY, random.Random(seed)) for _ in range(2))
        assert changed == again != text
        assert not Counter(text.split()) - Counter(changed.split())
        moved = {
            bias: feature(QUERY, changed) - feature(QUERY, text) for bias, feature in BIASES.items()
        }
        length = moved.pop("length")
        assert moved == {bias: float(bias == name) for bias in moved}
        assert name != "length" or length == pytest.approx(1)


# The draw


def pools_file(folder, queries=12, documents=4):
    """Pools whose truth is 1 for each document, so that a grade can move either way."""
    rng, lines = random.Random(5), []
    for q in range(queries):
        rows = [
            {
                "id": f"d{d}",
                "content": " ".join(rng.choices(["oak", "elm", "ash", "fir", "yew"], k=100)),
                "metadata": {"grade": 1},
            }
            for d in range(documents)
        ]
        query = {"id": f"q{q}", "query": f"which tree is number {q}?"}
        lines.append(json.dumps({"query": query, "documents": rows}) + "\n")
    (folder / "pools.jsonl").write_text("".join(lines))
    return folder / "pools.jsonl"


def sample_of(place, **fields):
    """The sample of a probe, and the plan that asks about it."""
    options = ProbeOptions(inputs=(str(place),), out=str(place.parent / "out"), **fields)
    sample = draw_sample(options, choose_probes(options), options.inputs, options.out)
    return sample, make_plan(options, sample.place)


def requests_of(place, plan, judge_options):
    """The first requests about each pool of a file, which can be read."""
    panel = build_panel((JUDGE,), {JUDGE: judge_options})
    for line in read_lines(str(place), LineLimits()):
        assert line.pool, line.reason
        yield from next(load_protocol("graded").rounds(line.pool, panel, plan))


def test_originals_are_asked_about_as_annotate_does(tmp_path):
    """So a ledger pays for them once; and a bias of a simulated judge is in the key."""
    place = pools_file(tmp_path, queries=2)
    sample, plan = sample_of(place, documents=8, seed=7)
    asked, probed, biased = (
        {(r.query_id, r.item[0], r.key) for r in requests_of(file, plan, options)}
        for file, options in (
            (place, {}),
            (sample.place, {"biases": None}),
            (sample.place, {"biases": {"length": 1.0}}),
        )
    )
    assert asked < probed
    assert len(probed) == 8 * 5
    assert not probed & biased


def test_no_document_is_taken_for_a_copy_or_ends_the_prompt(tmp_path):
    place = pools_file(tmp_path)
    text = place.read_text().replace('"d1"', '"d0~length"').replace('"d2"', '"d0~length~"')
    place.write_text(text)
    sample, plan = sample_of(place, documents=48)
    copies = {(pair.pool_id, pair.changed_id) for pair in sample.pairs}
    originals = {(pair.pool_id, pair.doc_id) for pair in sample.pairs}
    ids = {(pair.pool_id, pair.doc_id, pair.changed_id) for pair in sample.pairs}
    assert len(ids) == len(sample.pairs) == 48 * 4
    assert not copies & originals
    for request in requests_of(sample.place, plan, {}):
        lines = request.with_codes("salt").user.splitlines()
        ends = {row for row in lines if row.startswith("[end of document")}
        assert len(ends - {"[end of document]"}) == 1


def test_what_judges_would_not_see_is_left_out_and_told(tmp_path):
    """Or what is too long."""
    place = pools_file(tmp_path, queries=3, documents=1)
    lines = [json.loads(line) for line in place.read_text().splitlines()]
    lines[0]["documents"][0]["content"] = "oak " * 100_000
    place.write_text("".join(json.dumps(line) + "\n" for line in lines) + "{broken\n")
    sample, _ = sample_of(place, document_tokens=64, probes=("length", "stuffing"))
    found = {(pair.query_id, pair.probe) for pair in sample.pairs}
    assert found == {("q1", "stuffing"), ("q2", "stuffing")}
    assert sample.rejected == 1
    assert sorted(sample.left_out.values()) == [1, 1, 2]
    assert len(sample.notes) == 4
    place.write_text("{broken\n")
    with pytest.raises(InputError, match="no pool with documents"):
        sample_of(place)


# The figures


def shifts_of(by_query, judge="a", probe="length", original=1.0):
    return [
        ShiftedJudgment(judge, probe, f"q{q}", f"d{d}", original, original + shift, shift, ())
        for q, shifts in enumerate(by_query)
        for d, shift in enumerate(shifts)
    ]


def measured(rows):
    """The shifts, and the other figures by their names."""
    figures = measure_shifts(rows)
    others = {row.what: row.value for row in figures if row.what != "shift"}
    return [row for row in figures if row.what == "shift"], others


def test_the_figures_of_a_judge_by_hand():
    rows = shifts_of([[1, 0], [1], [0], [-1], [1], [1, 1, 1], [0], [1]])
    [shift], others = measured(rows)
    assert shift.value == pytest.approx((0.5 + 1 + 0 - 1 + 1 + 1 + 0 + 1) / 8)
    assert (shift.items, shift.queries) == (11, 8)
    assert (others["up"], others["down"]) == pytest.approx((7 / 11, 1 / 11))
    # Of the 2**6 signs of .5, 1, 1, 1, 1, -1 these sum to 3.5 or more: all positive but one of 1
    # (5 ways) or .5 (sum 4.5), or none; both sides.
    assert shift.p == pytest.approx(2 * (5 + 1 + 1) / 2**6)
    assert shift.low < shift.value < shift.high


def test_a_gate_fails_on_a_sure_harmful_shift_beyond_its_margin():
    for by_query, probe, margin, fails in (
        ([[1], [0.8]] * 6, "length", 0, True),
        ([[1], [0.8]] * 6, "length", 0.5, True),
        ([[1], [0.8]] * 6, "length", 0.89, False),  # the mean is above it, not its interval
        ([[-1]] * 12, "length", 0, False),  # a judge that marks repetition down does no harm
        ([[-1]] * 12, "order", 0, True),
        ([[-1]] * 12, "order", 1, False),
        ([[1]] * 4, "length", 0, False),
    ):
        [shift], _ = measured(shifts_of(by_query, probe=probe))
        assert is_harmful(shift, margin) == fails


# The command


@pytest.fixture
def probing(tmp_path):
    """Run it on Ray; its status, and the rows of its table by probe."""
    pools_file(tmp_path, queries=24)

    def run(*words, biases=None, options=None, **traits):
        config = {
            "judge_options": {JUDGE: {"noise": 0.3, "biases": biases, **traits}},
            "prices": {JUDGE: {"input": 2.0, "output": 8.0}},
            **(options or {}),
        }
        (tmp_path / "config.json").write_text(json.dumps(config))
        places = (str(tmp_path / "pools.jsonl"), "--out", str(tmp_path / "out"))
        own = ("--config", str(tmp_path / "config.json"), "--judges", JUDGE)
        status, printed = run_job(bare_environment(), "probe", *places, *own, *words)
        assert "Traceback" not in printed
        rows = pq.read_table(tmp_path / "out" / "figures.parquet").to_pylist()
        return status, {row["against"]: row for row in rows if row["what"] == "shift"}

    return run


def sure(rows):
    return [name for name, row in rows.items() if row["p"] < 0.05]


def test_a_known_bias_is_found_under_a_cap_and_paid_once(probing, tmp_path):
    """Little money, then enough, then the same again; and by a milder gate."""
    biases, out = {"injection": 1.0}, str(tmp_path / "out")
    status, _ = probing("--documents", "48", "--max-usd", "0.2", biases=biases)
    paid = [*read_rows(out)]
    assert status == 3
    assert 0.1 < sum(reply.dollars for reply in paid) <= 0.2
    found = [probing("--documents", "48", "--max-usd", "5", biases=biases) for _ in range(2)]
    assert found[0] == found[1]
    status, rows = found[0]
    assert (status, sure(rows), rows["injection"]["items"]) == (4, ["injection"], 48)
    assert rows["injection"]["value"] == pytest.approx(1, abs=0.25)
    assert load_run(out).failing == [[JUDGE, "injection"]]
    status, _ = probing("--documents", "48", "--fail-above", "1.5", biases=biases)
    assert (status, load_run(out).failing) == (0, [])
    replies = [*read_rows(out)]
    assert len(replies) == len({reply.key for reply in replies}) == 48 * 5
    assert {reply.key for reply in paid} < {reply.key for reply in replies}
    shifted = pq.read_table(tmp_path / "out" / "shifted.parquet").to_pylist()
    assert {len(row["keys"]) for row in shifted} == {2}
    assert load_run(out).report.warnings[0].code == "demonstration"
    assert cli.main(["report", out]) == 0


def test_a_judge_that_prefers_a_place_is_moved_by_the_order_alone(probing):
    words = ("--protocol", "zelo", "--documents", "30", "--probes", "order", "length", "stuffing")
    for traits, probe, sign in (
        ({"position_bias": 2.0}, "order", 1),
        ({"position_bias": -2.0}, "order", -1),  # a fault in either direction
        ({"biases": {"stuffing": 2.0}}, "stuffing", 1),  # the preference is for the changed copy
    ):
        status, rows = probing(*words, "--replace", **traits)
        assert (status, sure(rows)) == (4, [probe])
        assert rows[probe]["value"] * sign > 0.3
