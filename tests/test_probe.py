"""What moves a judge that should not: the changes, the draw, the figures, and the command."""

import json
import random
from collections import Counter
from dataclasses import asdict
from random import Random

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.power import TTestPower

from tests.builders import stored
from tests.crash import ROOT, bare_environment
from zelo_ray import cli, load_run
from zelo_ray.commands.probe.job import choose_probes, make_plan
from zelo_ray.commands.probe.measured import (
    ShiftedJudgment,
    detectable_shift,
    have_enough_queries,
    measure_shifts,
    queries_needed,
)
from zelo_ray.commands.probe.report import describe_too_few, warn_of_shifts
from zelo_ray.commands.probe.sample import draw_documents, draw_sample
from zelo_ray.engine.ledger import read_rows
from zelo_ray.errors import InputError, OptionError
from zelo_ray.evaluation.probes import PROBES, Subject, load_probe
from zelo_ray.evaluation.probes.injection import WORDINGS
from zelo_ray.formats.pools import LineLimits, read_lines
from zelo_ray.options import ProbeOptions
from zelo_ray.protocols import load_protocol
from zelo_ray.providers import build_panel
from zelo_ray.providers.simulated_biases import FEATURES

JUDGE = "simulated:judge"
CHANGING = [name for name in PROBES if name != "order"]
words = st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta"]), min_size=1, max_size=80)


def subject_of(text, query="how do I reset it?", seed=0):
    return Subject(text, query, Random(seed))


@given(words, st.integers(0, 99))
def test_a_change_keeps_every_word_of_the_document_and_hangs_on_the_seed_alone(text, seed):
    text = " ".join(text)
    for name in CHANGING:
        change = load_probe(name).change
        changed = change(subject_of(text, seed=seed))
        assert changed == change(subject_of(text, seed=seed))
        assert changed != text
        assert not Counter(text.split()) - Counter(changed.split())


@given(words, st.integers(0, 99))
def test_each_probe_shows_the_simulated_judges_the_bias_of_its_name_and_no_other(text, seed):
    text, query = " ".join(text), "how do I reset it?"
    for name in CHANGING:
        changed = load_probe(name).change(subject_of(text, query, seed))
        moved = {
            bias: feature(query, changed) - feature(query, text)
            for bias, feature in FEATURES.items()
            if bias != "length"
        }
        assert moved == {bias: float(bias == name) for bias in moved}
        if name == "length":
            before, after = (FEATURES["length"](query, shown) for shown in (text, changed))
            assert after - before == pytest.approx(1)


def test_every_wording_of_an_instruction_is_drawn():
    change = load_probe("injection").change
    drawn = {change(subject_of("text", seed=seed)).removesuffix("\n\ntext") for seed in range(60)}
    assert drawn == set(WORDINGS)


def test_documents_are_drawn_over_all_queries_before_a_second_one_of_any():
    counts = {f"q{n}": 1 + n % 7 for n in range(20)}
    for documents in (5, 20, 33, 1000):
        chosen = draw_documents(counts, documents, seed=3)
        sizes = {query_id: len(places) for query_id, places in chosen.items()}
        assert sum(sizes.values()) == min(documents, sum(counts.values()))
        assert all(len({*places}) == len(places) for places in chosen.values())
        most = max(sizes.values())
        assert all(size >= min(most - 1, counts[q]) for q, size in sizes.items())
        assert chosen == draw_documents(dict(reversed(counts.items())), documents, seed=3)
    assert draw_documents(counts, 5, 3).keys() != draw_documents(counts, 5, 4).keys()


def pools_file(folder, queries=12, documents=4, **more):
    """Pools whose truth is 1 for each document, so that a grade can move either way."""
    rng = random.Random(5)
    lines = []
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
        lines.append({"query": query, "documents": rows, **more})
    place = folder / "pools.jsonl"
    place.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return place


def options_of(folder, **fields):
    given = {"inputs": (str(folder / "pools.jsonl"),), "out": str(folder / "out"), **fields}
    return ProbeOptions(**given)


def sample_of(folder, **fields):
    options = options_of(folder, **fields)
    return draw_sample(options, choose_probes(options)[0], options.inputs, str(folder))


def test_a_document_may_be_called_as_a_copy_would_be(tmp_path):
    place = pools_file(tmp_path)
    text = place.read_text().replace('"d1"', '"d0~length"').replace('"d2"', '"d0~length~"')
    place.write_text(text)
    sample = sample_of(tmp_path, documents=48)
    for line in read_lines(sample.place, LineLimits()):
        assert line.pool, line.reason
    ids = {(pair.pool_id, pair.original_id, pair.changed_id) for pair in sample.pairs}
    assert len(ids) == len(sample.pairs) == 48 * 4
    copies = {(pair.pool_id, pair.changed_id) for pair in sample.pairs}
    originals = {(pair.pool_id, pair.original_id) for pair in sample.pairs}
    assert copies.isdisjoint(originals)


def test_originals_are_asked_about_as_annotate_does_so_a_ledger_pays_for_them_once(tmp_path):
    place = pools_file(tmp_path, queries=2)
    options = options_of(tmp_path, documents=8, seed=7)
    sample = draw_sample(options, choose_probes(options)[0], [str(place)], str(tmp_path / "out"))
    plan = make_plan(options, sample.place)
    panel = build_panel((JUDGE,), {})

    def keys(file):
        for line in read_lines(str(file), LineLimits()):
            requests = next(load_protocol("graded").rounds(line.pool, panel, plan))
            yield from ((r.query_id, r.item[0], r.key) for r in requests)

    asked, probed = {*keys(place)}, {*keys(sample.place)}
    assert asked < probed
    assert len(probed) == 8 * 5


def test_a_document_that_pretends_to_end_ends_nothing_and_a_bias_is_no_key(tmp_path):
    place = pools_file(tmp_path, queries=1, documents=1)
    sample = sample_of(tmp_path, probes=("injection",))
    plan = make_plan(options_of(tmp_path), sample.place)
    (panel,), (again,), (biased,) = (
        build_panel((JUDGE,), {JUDGE: options})
        for options in ({}, {"biases": None}, {"biases": {"length": 1.0}})
    )
    (line,) = read_lines(sample.place, LineLimits())
    requests = [
        next(load_protocol("graded").rounds(line.pool, [judge], plan))
        for judge in (panel, again, biased)
    ]
    for request in requests[0]:
        user = request.with_codes("salt").user
        closing = [row for row in user.splitlines() if row.startswith("[end of document")]
        assert sum(row != "[end of document]" for row in closing) == 1
    assert [r.key for r in requests[0]] == [r.key for r in requests[1]]
    assert {r.key for r in requests[0]}.isdisjoint(r.key for r in requests[2])
    assert place.exists()


def test_what_judges_would_not_see_or_what_is_too_long_is_left_out_and_told(tmp_path):
    place = pools_file(tmp_path, queries=3, documents=1)
    lines = [json.loads(line) for line in place.read_text().splitlines()]
    lines[0]["documents"][0]["content"] = "oak " * 100_000
    place.write_text("".join(json.dumps(line) + "\n" for line in lines) + "{broken\n")
    sample = sample_of(tmp_path, document_tokens=64, probes=("length", "stuffing"))
    assert {pair.query_id for pair in sample.pairs} == {"q1", "q2"}
    assert {pair.probe for pair in sample.pairs} == {"stuffing"}
    assert sample.rejected == 1
    assert sample.notes == [
        "length: 2 documents left out, as judges would not see the change (--document-tokens)",
        "length: 1 document left out, longer than 65,536 bytes",
        "stuffing: 1 document left out, longer than 65,536 bytes",
    ]
    place.write_text("{broken\n")
    with pytest.raises(InputError, match="no pool with documents"):
        sample_of(tmp_path)


def test_probes_that_cannot_be_made_are_told_of_or_refused_if_they_were_named(tmp_path):
    kinds, notes = choose_probes(options_of(tmp_path))
    assert [kind.name for kind in kinds] == ["length", "stuffing", "injection", "popularity"]
    assert [note.split()[0] for note in notes] == ["order"]
    kinds, _ = choose_probes(options_of(tmp_path, protocol="zelo"))
    assert [kind.name for kind in kinds] == [*PROBES]
    for name, why in (
        ("order", "takes --protocol zelo"),
        ("lenght", "did you mean 'length'"),
    ):
        with pytest.raises(OptionError, match=why):
            choose_probes(options_of(tmp_path, probes=(name,)))


def shifts_of(by_query, judge="a", probe="length", original=1.0):
    return [
        ShiftedJudgment(judge, probe, f"q{q}", f"d{d}", original, original + shift, shift, ())
        for q, shifts in enumerate(by_query)
        for d, shift in enumerate(shifts)
    ]


def measured(rows, missing=None):
    return measure_shifts(rows, missing or {}, top=3.0, resamples=500, seed=1)


def test_the_figures_of_a_judge_by_hand():
    rows = shifts_of([[1, 0], [1], [0], [-1], [1], [1, 1, 1], [0], [1]])
    (shift,) = measured([*rows, *()], {("a", "length"): 2})
    assert shift.shift == pytest.approx((0.5 + 1 + 0 - 1 + 1 + 1 + 0 + 1) / 8)
    assert (shift.documents, shift.queries, shift.missing) == (11, 8, 2)
    assert (shift.up, shift.down) == pytest.approx((7 / 11, 1 / 11))
    # Of the 2**6 signs of .5, 1, 1, 1, 1, -1 these sum to 3.5 or more: all positive but one of 1
    # (5 ways) or .5 (sum 4.5), or none; both sides.
    assert shift.p == pytest.approx(2 * (5 + 1 + 1) / 2**6)
    assert shift.low < shift.shift < shift.high
    assert shift.at_top == 0
    assert measured(shifts_of([[0]] * 6, original=3.0))[0].at_top == 1


def test_holm_counts_all_judges_and_probes():
    strong = shifts_of([[1]] * 10)
    shifts = measured(
        [
            *strong,
            *shifts_of([[0]] * 10, probe="stuffing"),
            *shifts_of([[1]] * 10, judge="b"),
            *shifts_of([[1], [-1]] * 5, judge="b", probe="stuffing"),
        ]
    )
    assert [(s.judge, s.probe) for s in shifts] == [
        ("a", "length"),
        ("a", "stuffing"),
        ("b", "length"),
        ("b", "stuffing"),
    ]
    assert [s.p for s in shifts] == pytest.approx([2 / 2**10, 1, 2 / 2**10, 1])
    assert [s.p_holm for s in shifts] == pytest.approx([8 / 2**10, 1, 8 / 2**10, 1])
    assert [s.moved for s in shifts] == [True, False, True, False]


@pytest.mark.parametrize(("n", "tests"), [(20, 1), (50, 4), (200, 12)])
def test_the_detectable_shift_is_that_of_a_power_analysis(n, tests):
    means = np.random.default_rng(n).normal(0, 0.7, n)
    effect = TTestPower().solve_power(nobs=n, alpha=0.05 / tests, power=0.8)
    ratio = detectable_shift(means, tests) / (effect * means.std(ddof=1))
    assert 1 <= ratio < 1 + 2 / n, "a randomisation test of few queries finds less than a t test"


def test_nothing_is_said_of_power_where_nothing_moved_or_few_queries_are():
    assert np.isnan(detectable_shift(np.zeros(50), 1))
    assert np.isnan(detectable_shift(np.arange(4.0), 1))
    for tests in (1, 4, 12, 40):
        needed = queries_needed(tests)
        assert tests * 2 / 2**needed < 0.05 <= max(tests * 2 / 2 ** (needed - 1), 2 / 2**5)


def test_each_probe_needs_queries_of_its_own_and_only_those_that_lack_them_are_named():
    many = shifts_of([[1]] * 12)
    assert have_enough_queries(measured(many))
    shifts = measured([*many, *shifts_of([[1]] * 3, probe="stuffing")])
    assert not have_enough_queries(shifts)
    [note] = describe_too_few([asdict(shift) for shift in shifts], queries_needed(2))
    assert note.startswith("Too few queries: 3 (stuffing); the shift of a probe cannot be")
    assert "length" not in note
    assert not [*describe_too_few([asdict(shift) for shift in measured(many)], 12)]


def test_a_gate_fails_on_a_sure_shift_in_the_harmful_direction_beyond_its_margin():
    up, down = measured(shifts_of([[1], [0.8]] * 6))[0], measured(shifts_of([[-1]] * 12))[0]
    assert up.fails(0)
    assert up.fails(0.5)
    assert not up.fails(0.95)
    assert not down.fails(0), "a judge that marks repetition down does no harm"
    (either,) = measured(shifts_of([[-1]] * 12, probe="order"))
    assert either.fails(0)
    assert not either.fails(1)
    (few,) = measured(shifts_of([[1]] * 4))
    assert not few.fails(0)


def test_a_warning_says_what_a_judge_does_and_what_helps():
    rows = [
        {"judge": "a", "probe": probe, "shift": shift, "low": low, "high": high, "p_holm": p}
        for probe, shift, low, high, p in (
            ("length", 0.5, 0.3, 0.7, 0.01),
            ("length", -0.5, -0.7, -0.3, 0.01),
            ("order", -0.5, -0.7, -0.3, 0.01),
            ("stuffing", 0.5, -0.1, 1.1, 0.2),
        )
    ]
    first, second = warn_of_shifts(rows, "zelo")
    assert "says everything twice (+0.50 [+0.30, +0.70] of preference)" in first.text
    assert "prefers what is shown second" in second.text


# the command


@pytest.fixture
def probing(one_ray, tmp_path):
    """Runs the command on Ray; its status, what it printed, and the rows of its table."""

    def run(*words, biases=None, options=None, **traits):
        pools_file(tmp_path, queries=24)
        config = {
            "judge_options": {JUDGE: {"noise": 0.3, "biases": biases, **traits}},
            "prices": {JUDGE: {"input": 2.0, "output": 8.0}},
            **(options or {}),
        }
        (tmp_path / "config.json").write_text(json.dumps(config))
        own = ("--config", str(tmp_path / "config.json"), "--judges", JUDGE)
        places = (str(tmp_path / "pools.jsonl"), "--out", str(tmp_path / "out"))
        status, printed = one_ray.run(bare_environment(), "probe", *places, *own, *words)
        assert "Traceback" not in printed
        rows = pq.read_table(tmp_path / "out" / "probes.parquet").to_pylist()
        return status, printed, {row["probe"]: row for row in rows}

    return run


@pytest.mark.ray
def test_a_known_bias_is_found_and_no_other_and_nothing_is_paid_for_twice(probing, tmp_path):
    biases = {"injection": 1.0}
    status, printed, rows = probing("--documents", "48", biases=biases)
    assert status == 4
    assert f"{JUDGE} is moved by injection." in printed
    assert rows["injection"]["shift"] == pytest.approx(1, abs=0.25)
    assert rows["injection"]["p_holm"] < 0.05
    assert all(row["p_holm"] > 0.05 for name, row in rows.items() if name != "injection")
    assert "order was not probed" in printed
    replies = len(stored(tmp_path / "out"))
    assert replies == 48 * 5
    status, printed, again = probing("--documents", "48", biases=biases)
    assert (status, again) == (4, rows)
    assert load_run(tmp_path / "out").failing == [(JUDGE, "injection")]
    assert "Up to date" in printed
    status, _, _ = probing("--documents", "48", "--fail-above", "1.5", biases=biases)
    assert status == 0
    assert len(stored(tmp_path / "out")) == replies
    shifted = pq.read_table(tmp_path / "out" / "shifted.parquet").to_pylist()
    assert {len(row["keys"]) for row in shifted} == {2}
    run = load_run(tmp_path / "out")
    assert run.failing == []
    assert run.report.warnings.every[0].code.name == "DEMONSTRATION"
    assert cli.main(["report", str(tmp_path / "out")]) == 0


@pytest.mark.ray
def test_a_judge_that_prefers_a_place_is_moved_by_the_order_alone(probing):
    words = ("--protocol", "zelo", "--documents", "30", "--probes", "order", "length", "stuffing")
    status, _, rows = probing(*words, position_bias=2.0)
    assert status == 4
    assert rows["order"]["shift"] > 0.3
    assert [name for name, row in rows.items() if row["p_holm"] < 0.05] == ["order"]
    status, _, rows = probing(*words, "--replace", position_bias=-2.0)
    assert status == 4, "a fault in either direction"
    assert rows["order"]["shift"] < -0.3
    status, _, rows = probing(*words, "--replace", biases={"stuffing": 2.0})
    assert [name for name, row in rows.items() if row["p_holm"] < 0.05] == ["stuffing"]
    assert rows["stuffing"]["shift"] > 0.5, "the preference is for the changed copy"


@pytest.mark.ray
def test_with_few_queries_or_failures_it_is_not_complete(probing, tmp_path):
    status, printed, rows = probing("--documents", "4", "--probes", "length")
    assert status == 3
    assert "Too few queries: 4" in printed
    assert np.isnan(rows["length"]["low"])
    failing = ("--documents", "30", "--replace", "--probes", "length")
    status, printed, rows = probing(*failing, options={"reasks": 0}, refusals=0.2)
    assert status == 3
    assert rows["length"]["missing"] > 0
    assert rows["length"]["missing"] + rows["length"]["documents"] == 30
    assert "did not judge" in printed


@pytest.mark.ray
def test_a_cap_holds_and_the_same_command_goes_on_where_it_stopped(probing, tmp_path):
    words = ("--documents", "48", "--max-usd")
    status, printed, _ = probing(*words, "0.2", biases={"injection": 1.0})
    paid = [*read_rows(str(tmp_path / "out"))]
    assert status == 3
    assert "the budget of $0.2000 is used up" in printed
    assert "did not judge" in printed
    assert 0.1 < sum(reply.dollars for reply in paid) <= 0.2
    status, _, rows = probing(*words, "5", biases={"injection": 1.0})
    assert status == 4
    assert rows["injection"]["documents"] == 48
    replies = [*read_rows(str(tmp_path / "out"))]
    assert len(replies) == len({reply.key for reply in replies}) == 48 * 5
    assert {reply.key for reply in paid} < {reply.key for reply in replies}


def test_an_estimate_asks_and_writes_nothing(tmp_path, capsys):
    pools_file(tmp_path)
    words = ["probe", str(tmp_path / "pools.jsonl"), "--out", str(tmp_path / "out")]
    assert (
        cli.main([*words, "--judges", "openai:gpt-6-luna", "--documents", "10", "--dry-run"]) == 0
    )
    printed = capsys.readouterr()
    assert "50 of 50 requests about 10 queries are left to ask" in printed.out
    assert "--max-usd" in printed.out.splitlines()[-1]
    assert "--pilot" not in printed.out
    assert not (tmp_path / "out").exists()


def test_a_judge_that_replays_answers_cannot_be_probed(tmp_path, capsys):
    pools_file(tmp_path)
    words = ["probe", str(tmp_path / "pools.jsonl"), "--out", str(tmp_path / "out")]
    recorded = f"recorded:{ROOT / 'data' / 'recordings'}"
    for more in ((), ("--dry-run",)):
        assert cli.main([*words, "--judges", recorded, *more]) == 2
        assert "to what a probe asks none were recorded" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_results_of_another_command_are_left_alone(tmp_path, capsys):
    pools_file(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.json").write_text('{"kind": "annotate"}')
    words = ["probe", str(tmp_path / "pools.jsonl"), "--out", str(tmp_path / "out")]
    assert cli.main([*words, "--judges", JUDGE]) == 1
    assert "holds the results of annotate" in capsys.readouterr().err
