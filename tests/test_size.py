"""Plans of calls, simulated: what judges of known habits would say, and what it comes to."""

import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zelo_ray import cli, size
from zelo_ray.commands.size import find_cheapest_plan
from zelo_ray.errors import InputError, OptionError
from zelo_ray.fitting.panel import Habits, PanelModel, default_model
from zelo_ray.fitting.sizing.plans import Plan, PlanSimulator
from zelo_ray.fitting.sizing.synthetic import simulate_answers, spread_truth

PLAIN = Habits(slopes=(1.0,), terms=(-30.0, 0.0), grade_means=(-1.0, 0.0, 1.0, 2.0))
SMALL = {"documents": 8, "pools": 6, "cycles": [1, 2], "calls": [4]}


def panel(judges=2, *, rho=0.0, own_sd=0.0, **habits) -> PanelModel:
    names = tuple(f"j{number}" for number in range(judges))
    known = replace(default_model(names), rho=rho, own_sd=own_sd)
    return replace(known, habits=(replace(PLAIN, **habits),) * judges)


def votes(model, truth):
    """Preferences of [queries, judges] for the first document of two, shown first."""
    return simulate_answers(np.asarray(truth), model, seed=3).preferences[:, :, 0, 1]


def test_without_ties_votes_follow_bradley_and_terry():
    model = panel()
    assert model.win_scale == pytest.approx(2 * (1 - 1 / (1 + math.exp(0))) * 2, rel=1e-6)
    won = votes(model, np.tile([1.0, 0.0], (20_000, 1))) > 0
    # The levels -1 and 1 of equal slope 1 lie 2 x apart on the model's scale.
    expected = 1 / (1 + math.exp(-2 / model.win_scale))
    assert won.mean() == pytest.approx(expected, abs=0.01)


def test_ties_are_davidsons():
    tied = votes(panel(terms=(math.log(0.5), 0.0)), np.zeros((20_000, 2))) == 0
    assert tied.mean() == pytest.approx(0.5 / 2.5, abs=0.01)


def test_errors_correlate_by_rho():
    """Equal documents: signs agree with probability 1/2 + asin(rho) / pi (Sheppard 1899)."""
    said = votes(panel(rho=0.6), np.zeros((20_000, 2)))
    agreed = (said[:, 0] > 0) == (said[:, 1] > 0)
    assert agreed.mean() == pytest.approx(0.5 + math.asin(0.6) / math.pi, abs=0.01)


def test_a_bias_favours_what_is_shown_first():
    model = panel(bias=0.5)
    imagined = simulate_answers(np.zeros((20_000, 2)), model, seed=1)
    expected = 1 / (1 + math.exp(-2 * 0.5))
    assert (imagined.preferences[:, :, 0, 1] > 0).mean() == pytest.approx(expected, abs=0.01)
    assert (imagined.preferences[:, :, 1, 0] > 0).mean() == pytest.approx(expected, abs=0.01)


def test_sizes_of_preferences_have_the_judges_levels():
    model = replace(panel(slopes=(0.5, 2.0), terms=(-1.0, 0.0, 0.0), cuts=(0.4,)), sizes=True)
    said = simulate_answers(
        spread_truth(1.7, queries=20, documents=6, seed=0), model, seed=0
    ).preferences
    assert set(np.unique(np.abs(said)).round(4)) == {0.0, 0.2125, 0.7}


def test_better_documents_get_better_grades():
    imagined = simulate_answers(np.tile([-2.0, 0.0, 4.0], (500, 1)), panel(), seed=0)
    means = imagined.grades.mean(axis=(0, 1))
    assert means[0] < means[1] < means[2]


@pytest.fixture(scope="module")
def sizes():
    model = default_model(("a", "b", "c"))
    truth = spread_truth(1.7, queries=12, documents=15, seed=0)
    return PlanSimulator(simulate_answers(truth, model, 0), model)


@pytest.mark.parametrize(
    ("plan", "calls"),
    [
        (Plan("zelo", 2, "all"), 6),
        (Plan("zelo", 2, "one"), 2),
        (Plan("zelo", 7, "all"), 21),  # all 105 pairs of 15, by three judges
        (Plan("zelo", 99, "one"), 7),
    ],
)
def test_a_plan_costs_its_pairs_by_its_voters(sizes, plan, calls):
    assert sizes.simulate(plan).calls_a_document == pytest.approx(calls)


def test_a_lean_plan_keeps_to_its_calls(sizes):
    for calls in (3, 4, 5, 6):
        assert calls - 0.8 < sizes.simulate(Plan("lean", calls)).calls_a_document <= calls + 1e-9


def test_all_pairs_are_at_no_distance_from_themselves(sizes):
    whole, few = sizes.simulate(Plan("zelo", 7, "all")), sizes.simulate(Plan("zelo", 1, "all"))
    # Orders differ, which changes no vote of judges without a bias.
    assert (whole.rmse, whole.largest) == pytest.approx((0, 0), abs=1e-9)
    assert whole.tau == pytest.approx(1)
    assert few.largest > few.rmse > 0.3
    assert few.tau < 0.9


def test_more_calls_leave_less_error(sizes):
    for kind in (Plan("zelo", 0, "one"), Plan("zelo", 0, "all")):
        found = [sizes.simulate(replace(kind, amount=cycles)) for cycles in (1, 2, 4, 7)]
        errors, distances = [one.std_error for one in found], [one.rmse for one in found]
        assert errors == sorted(errors, reverse=True)
        assert distances == sorted(distances, reverse=True)


def test_the_cheapest_plan_is_the_least_of_its_kind(sizes):
    grid = [Plan("zelo", cycles, votes) for cycles in (1, 7) for votes in ("all", "one")]
    found = {plan: sizes.simulate(plan) for plan in grid}
    best = find_cheapest_plan(0.9, found, sizes)
    assert (
        sizes.simulate(best).std_error
        <= 0.9
        < sizes.simulate(replace(best, amount=best.amount - 1)).std_error
    )
    assert (best.protocol, best.votes) == ("zelo", "one")


def test_an_error_that_no_plan_reaches_is_said():
    assert size(**SMALL, error=0.01).answer.startswith("No plan reaches a std_error of 0.01")


def test_the_same_seed_gives_the_same_table():
    one, other, third = (size(**SMALL, seed=seed).to_text() for seed in (1, 1, 2))
    assert one == other
    assert one != third


@pytest.fixture
def pilot(tmp_path):
    """A directory as a run of lean leaves it."""
    out = tmp_path / "pilot"
    out.mkdir()
    rows = [(f"q{q}", 0.5 * d, 0.2) for q in range(3) for d in range(12)]
    names = ("query_id", "score", "std_error")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    pq.write_table(
        pa.table({name: list(own) for name, own in columns.items()}), out / "scores.parquet"
    )
    (out / "judges.json").write_text(json.dumps(panel(3).to_json()))
    judges = {f"j{number}": {"answered": 100, "dollars": 0.25} for number in range(3)}
    (out / "run.json").write_text(json.dumps({"judges": judges, "panel": []}))
    return out


def test_a_pilot_says_documents_prices_and_judges(pilot):
    found = size(judges_from=pilot, pools=4, cycles=[1], calls=[4], queries=10)
    row = found.to_pandas().set_index("plan").loc["zelo --cycles 1 --votes all"]
    assert row.calls == 10 * 12 * 3
    assert row.dollars == pytest.approx(row.calls * 0.0025)
    assert "3 judges as in the pilot" in found.notes[0]


def test_a_pilot_without_learned_judges_has_guessed_ones(pilot):
    (pilot / "judges.json").unlink()
    assert len(size(judges_from=pilot, pools=4, cycles=[1], calls=[4])) == 5


@pytest.mark.parametrize("text", ["{}", '{"judges": 3}', "[]"])
def test_a_pilots_judges_that_are_none_are_refused(pilot, text):
    (pilot / "judges.json").write_text(text)
    with pytest.raises(InputError, match=r"judges\.json"):
        size(judges_from=pilot)


def test_no_pilot_is_one_line(tmp_path, capsys):
    assert cli.main(["size", "--judges-from", str(tmp_path)]) != 0
    assert "scores.parquet" in capsys.readouterr().err


def test_the_command_prints_a_table_and_writes_a_page(tmp_path, capsys):
    grid = ["--documents", "8", "--pools", "6", "--cycles", "1", "2", "--calls", "4"]
    assert cli.main(["size", *grid, "--error", "1.2", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    page = (tmp_path / "out" / "size.html").read_text()
    assert "A std_error of 1.2 takes" in said
    assert "A std_error of 1.2 takes" in page
    table = pq.read_table(tmp_path / "out" / "size.parquet")
    assert {"plan", "calls", "loss", "std_error", "rmse", "largest", "tau"} <= {*table.column_names}
    assert all(plan in said for plan in table["plan"].to_pylist())


@pytest.mark.parametrize(
    "options", [{"error": 0}, {"documents": 1}, {"cycles": [0]}, {"calls": [2]}, {"spread": -1}]
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(OptionError):
        size(**options)
