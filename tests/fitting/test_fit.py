"""Ratings from anybody's comparisons, against figures that others published and other programs."""

import csv
from random import Random

import choix
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from tests.helpers.games import baseball, citations, run, scores_of, write
from zelo_ray.errors import InputError
from zelo_ray.fitting import bradley_terry
from zelo_ray.fitting.ratings import Comparisons, rate
from zelo_ray.fitting.scores import score_votes
from zelo_ray.records import Vote


def by_item(scores):
    """Score and standard error of each item."""
    frame = scores.to_pandas().set_index("doc_id")
    return {item: (row.score, row.std_error) for item, row in frame.iterrows()}


def published(table, digits=4):
    """Lines of a name and two numbers, as R prints them, to so many digits."""
    rows = [line.rsplit(maxsplit=2) for line in table.strip().splitlines()]
    return {
        name.strip(): tuple(pytest.approx(float(each), abs=0.6 * 10.0**-digits) for each in numbers)
        for name, *numbers in rows
    }


def games_of(seed, items=6, rows=60):
    """Random games with ties in both orders, in which nobody wins all."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, items, rows)
    second = (first + rng.integers(1, items, rows)) % items
    won, lost, tied = rng.multinomial(6, [0.45, 0.35, 0.2], rows).astype(float).T
    return Comparisons(items, first, second, won + tied / 2, lost + tied / 2)


# What others published


def test_citations_are_those_of_bradley_terry_2():
    """The last table of BTabilities of BradleyTerry2, which has sum contrasts."""
    found = by_item(scores_of(citations(), mle=True))
    # R stops when the deviance no longer changes in its eighth digit.
    table = """
        Biometrika    0.7899221 0.04333047
        Comm Statist -2.1591504 0.07257974
        JASA          0.3103523 0.04164102
        JRSS-B        1.0588761 0.05304699
    """
    assert found == published(table, digits=7)


def test_baseball_is_that_of_agresti():
    """The summary of BradleyTerry2, whose scores are differences to one team."""
    frame = scores_of(baseball(), mle=True).to_pandas().set_index("doc_id")
    table = {
        "Baltimore": 0.0, "Boston": 1.1077, "Cleveland": 0.6839, "Detroit": 1.4364,
        "Milwaukee": 1.5814, "New York": 1.2476, "Toronto": 1.2945,
    }  # fmt: skip
    for team, score in table.items():
        assert frame.score[team] - frame.score["Baltimore"] == pytest.approx(score, abs=6e-5)
    assert frame.comparisons.tolist() == [78] * 7
    assert frame.wins.tolist() == [50, 47, 44, 43, 40, 31, 18]


@pytest.mark.parametrize("name", ["simple", "food"])
def test_evalicas_golden_ratings_are_reproduced_from_its_own_files(published, name):
    folder = published / "evalica_fixtures"
    with (folder / f"{name}-golden.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["algorithm"] == "bradley_terry"]
    golden = {row["item"]: float(row["score"]) for row in rows}
    frame = scores_of(folder / f"{name}.csv", mle=True).to_pandas().set_index("doc_id")
    strengths = np.exp(frame.score)
    assert set(frame.index) == set(golden)
    for item, strength in (strengths / strengths.sum()).items():
        assert strength == pytest.approx(golden[item], abs=1e-12)


def test_choix_finds_the_same_with_the_same_prior():
    rng = Random(3)
    games = [tuple(rng.sample(range(8), 2)) for _ in range(40)]
    rows = [{"winner": winner, "loser": loser} for winner, loser in games]
    for prior_sd in (0.7, 2.5):
        found = by_item(scores_of(rows, prior_sd=prior_sd))
        theirs = choix.opt_pairwise(8, games, alpha=0.5 / prior_sd**2, tol=1e-12)
        for item, score in enumerate(theirs - theirs.mean()):
            assert found[str(item)][0] == pytest.approx(score, abs=1e-6)
    theirs = choix.ilsr_pairwise(8, games, tol=1e-10, max_iter=1000)
    found = by_item(scores_of(rows, mle=True))
    for item, score in enumerate(theirs - theirs.mean()):
        assert found[str(item)][0] == pytest.approx(score, abs=1e-6)


# What other programs say of the same model


def test_half_wins_are_a_binomial_regression():
    games = games_of(1)
    rows, items = len(games.first), games.items
    x = np.zeros((rows, items))
    x[np.arange(rows), games.first] += 1
    x[np.arange(rows), games.second] -= 1
    theirs = sm.GLM(
        np.stack([games.won, games.lost], 1), x[:, :-1], family=sm.families.Binomial()
    ).fit(tol=1e-12)
    scores, found = rate(games, np.inf)
    np.testing.assert_allclose((scores - scores[-1])[:-1], theirs.params, atol=1e-8)
    centre = np.vstack([np.eye(items - 1), np.zeros(items - 1)]) - 1 / items
    errors = np.sqrt((centre @ theirs.cov_params() @ centre.T).diagonal())
    np.testing.assert_allclose(found, errors, atol=1e-8)


# What has no finite scores


def test_what_has_no_finite_maximum_is_told_and_has_one_with_a_prior(capsys, tmp_path):
    rows = [{"winner": a, "loser": b} for a, b in ("xy", "yx", "xz", "yz")]
    with pytest.raises(InputError, match=r"no finite maximum likelihood: wins .* x, y; z"):
        scores_of(rows, mle=True)
    assert np.isfinite(scores_of(rows).to_pandas().score).all()
    status, out, err = run(capsys, write(tmp_path / "a.jsonl", rows), "--mle")
    assert (status, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert "no finite maximum likelihood" in err
    assert "prior" in err


def test_items_that_never_met_have_no_scores():
    rows = [{"a": "x", "b": "y", "win": 1}, {"a": "z", "b": "w", "win": 1}]
    with pytest.raises(InputError, match="2 parts that never met: w, z; x, y"):
        scores_of(rows)


def test_a_fit_that_does_not_converge_raises(monkeypatch):
    monkeypatch.setattr(bradley_terry, "MAX_STEPS", 1)
    with pytest.raises(ArithmeticError, match="did not converge in 1 steps"):
        scores_of(baseball())


# Votes as annotate writes them


def votes_of(seed, queries=3):
    rng = Random(seed)
    return [
        {
            "query_id": f"q{query}",
            "doc_id_a": f"d{a}",
            "doc_id_b": f"d{b}",
            "preference": rng.choice([-1.0, -0.3, 0.0, 0.2, 0.9]),
            "judge": judge,
            "swapped": rng.random() < 0.5,
        }
        for query in range(queries)
        for a, b in [(n, (n + 1) % 7) for n in range(7)] + [rng.sample(range(7), 2)] * 2
        for judge in rng.sample(["x", "y", "z"], rng.randint(1, 3)) * rng.choice([1, 2])
    ]


@pytest.mark.parametrize("seed", range(5))
def test_votes_are_fitted_as_annotate_does(seed):
    rows = votes_of(seed)
    found = scores_of(rows).to_pandas().drop(columns="wins")
    votes = [
        Vote(
            r["query_id"], r["doc_id_a"], r["doc_id_b"], r["judge"], r["preference"], False, "", ""
        )
        for r in rows
    ]
    own = [[v for v in votes if v.query_id == q] for q in sorted({v.query_id for v in votes})]
    wanted = pd.DataFrame([score for fit in score_votes(own) for score in fit.scores])
    pd.testing.assert_frame_equal(found, wanted[list(found)], rtol=0, atol=1e-9)


def test_votes_on_a_pair_are_one_game_and_other_rows_are_games_of_their_own():
    thrice = [{"doc_id_a": "x", "doc_id_b": "y", "preference": -1, "judge": j} for j in "abc"]
    shared = by_item(scores_of(thrice))
    assert shared == by_item(scores_of(thrice[:1]))
    others = [{"a": "x", "b": "y", "preference": -1, "judge": j} for j in "abc"]
    assert by_item(scores_of(others))["x"][0] > shared["x"][0]


def test_the_order_of_rows_changes_no_bit():
    rows = votes_of(1)
    one = scores_of(rows).to_arrow()
    assert one.equals(scores_of(Random(2).sample(rows, len(rows))).to_arrow())
