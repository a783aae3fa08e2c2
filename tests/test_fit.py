"""Ratings from anybody's comparisons, against figures that others published and other programs."""

import csv
import math
from random import Random

import choix
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize

from tests.games import baseball, citations, run, write
from zelo_ray import fit_votes
from zelo_ray.errors import InputError
from zelo_ray.fitting import ratings
from zelo_ray.fitting.bradley_terry import score_votes
from zelo_ray.fitting.identifiability import UnratedReason
from zelo_ray.fitting.outcomes import Games, OutcomeModel
from zelo_ray.fitting.ratings import rate
from zelo_ray.records import Vote

PUDDINGS = """
1 2 19 22 16, 1 3 16 19 12, 2 3 19 19 10, 1 4 18 23 13, 2 4 23 19 9, 3 4 19 20 15, 1 5 13 19 18,
2 5 16 20 12, 3 5 16 15 17, 4 5 17 14 16, 1 6 18 21 12, 2 6 22 20 12, 3 6 13 18 10, 4 6 14 19 18,
5 6 11 21 12
"""
"""Wins of each, and ties, of two brands (Davidson 1970, JASA 65:317; `pudding` of PlackettLuce)."""


def puddings():
    rows = [row.split() for row in PUDDINGS.split(",")]
    return [
        {"a": a, "b": b, "a_wins": int(won), "b_wins": int(lost), "ties": int(tied)}
        for a, b, won, lost, tied in rows
    ]


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
    """Random games with ties in both orders, in which nobody wins all; and their frame."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, items, rows)
    second = (first + rng.integers(1, items, rows)) % items
    counts = rng.multinomial(6, [0.45, 0.35, 0.2], rows).astype(float)
    games = Games(items=items, first=first, second=second, won=counts[:, 0], lost=counts[:, 1],
                  tied=counts[:, 2])  # fmt: skip
    frame = pd.DataFrame({"a": first, "b": second, "a_wins": counts[:, 0],
                          "b_wins": counts[:, 1], "ties": counts[:, 2]})  # fmt: skip
    return games, frame


def differences(games, *, order):
    """What each row's comparison is of, against the last item."""
    rows, items = len(games.first), games.items
    x = np.zeros((rows, items + 1))
    x[np.arange(rows), games.first] += 1
    x[np.arange(rows), games.second] -= 1
    x[:, items] = 1
    return x[:, [*range(items - 1), items]] if order else x[:, : items - 1]


# What others published


@pytest.mark.parametrize(
    ("reference", "table"),
    [
        (
            "Biometrika",
            """
            Biometrika    0.0000000 0.00000000
            Comm Statist -2.9490725 0.10254534
            JASA         -0.4795698 0.06058873
            JRSS-B        0.2689541 0.07082997
            """,
        ),
        (
            "JASA",
            """
            Biometrika    0.4795698 0.06058873
            Comm Statist -2.4695027 0.09817049
            JASA          0.0000000 0.00000000
            JRSS-B        0.7485238 0.07294356
            """,
        ),
        (
            None,
            """
            Biometrika    0.7899221 0.04333047
            Comm Statist -2.1591504 0.07257974
            JASA          0.3103523 0.04164102
            JRSS-B        1.0588761 0.05304699
            """,
        ),
    ],
)
def test_citations_are_those_of_bradley_terry_2(reference, table):
    """BTabilities of BradleyTerry2, whose last table has sum contrasts."""
    found = by_item(fit_votes(citations(), mle=True, reference=reference))
    # R stops when the deviance no longer changes in its eighth digit.
    assert found == published(table, digits=7)


def test_baseball_is_that_of_agresti():
    """The summaries of BradleyTerry2, without and with what playing at home is worth."""
    plain = fit_votes(baseball(), mle=True, reference="Baltimore")
    assert by_item(plain) == published("""
        Baltimore 0.0000 0.0000
        Boston    1.1077 0.3339
        Cleveland 0.6839 0.3319
        Detroit   1.4364 0.3396
        Milwaukee 1.5814 0.3433
        New York  1.2476 0.3359
        Toronto   1.2945 0.3367
    """)
    assert len(plain.effects) == 0
    home = fit_votes(baseball(), mle=True, reference="Baltimore", order_effect=True)
    assert by_item(home) == published("""
        Baltimore 0.0000 0.0000
        Boston    1.1438 0.3378
        Cleveland 0.7047 0.3350
        Detroit   1.4754 0.3446
        Milwaukee 1.6196 0.3474
        New York  1.2813 0.3404
        Toronto   1.3271 0.3403
    """)
    (effect,) = home.effects
    assert (effect["effect"], effect["value"]) == ("order", pytest.approx(0.3023, abs=5e-5))
    assert effect["std_error"] == pytest.approx(0.1309, abs=5e-5)
    frame = home.to_pandas()
    assert frame.comparisons.tolist() == [78] * 7
    assert frame.wins.tolist() == [50, 47, 44, 43, 40, 31, 18]


def test_puddings_are_those_of_davidson():
    """The summary of PlackettLuce, which stops after as many iterations as Davidson did."""
    found = fit_votes(puddings(), mle=True, ties="davidson", reference="1")
    scores = {item: pytest.approx(each, abs=2e-4) for item, each in by_item(found).items()}
    assert scores == {
        "1": (0, 0), "2": (0.2202, 0.1872), "3": (0.1530, 0.1935), "4": (0.1753, 0.1882),
        "5": (0.1339, 0.1927), "6": (0.3771, 0.1924),
    }  # fmt: skip
    (tie,) = found.effects
    assert tie["effect"] == "tie"
    assert (tie["value"], tie["std_error"]) == pytest.approx((-0.2919, 0.0825), abs=5e-5)


@pytest.mark.parametrize("name", ["simple", "food"])
def test_evalicas_golden_ratings_are_reproduced_from_its_own_files(published, name):
    folder = published / "evalica_fixtures"
    with (folder / f"{name}-golden.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["algorithm"] == "bradley_terry"]
    golden = {row["item"]: float(row["score"]) for row in rows}
    frame = fit_votes(folder / f"{name}.csv", mle=True).to_pandas().set_index("doc_id")
    strengths = np.exp(frame.score)
    assert set(frame.index) == set(golden)
    for item, strength in (strengths / strengths.sum()).items():
        assert strength == pytest.approx(golden[item], abs=1e-12)


def test_choix_finds_the_same_with_the_same_prior():
    rng = Random(3)
    games = [tuple(rng.sample(range(8), 2)) for _ in range(40)]
    rows = [{"winner": winner, "loser": loser} for winner, loser in games]
    for prior_sd in (0.7, 2.5):
        found = by_item(fit_votes(rows, prior_sd))
        theirs = choix.opt_pairwise(8, games, alpha=0.5 / prior_sd**2, tol=1e-12)
        for item, score in enumerate(theirs - theirs.mean()):
            assert found[str(item)][0] == pytest.approx(score, abs=1e-6)
    theirs = choix.ilsr_pairwise(8, games, tol=1e-10, max_iter=1000)
    found = by_item(fit_votes(rows, mle=True))
    for item, score in enumerate(theirs - theirs.mean()):
        assert found[str(item)][0] == pytest.approx(score, abs=1e-6)


# What other programs say of the same model


@pytest.mark.parametrize("order", [False, True])
def test_half_wins_are_a_binomial_regression(order):
    games, _ = games_of(1)
    won, lost = games.won + games.tied / 2, games.lost + games.tied / 2
    theirs = sm.GLM(
        np.stack([won, lost], 1), differences(games, order=order), family=sm.families.Binomial()
    ).fit(tol=1e-12)
    found = rate(games, OutcomeModel(prior_sd=None, order=order), reference=games.items - 1)
    scores = np.append(found.scores[:-1], found.effects["order"][0] if order else [])
    errors = np.append(found.std_errors[:-1], found.effects["order"][1] if order else [])
    np.testing.assert_allclose(scores, theirs.params, atol=1e-8)
    np.testing.assert_allclose(errors, theirs.bse, atol=1e-8)


def test_davidsons_ties_are_a_log_linear_model():
    """Poisson counts with a level for each row (Fienberg & Larntz 1976, Biometrika 63:245)."""
    games, _ = games_of(2)
    x = differences(games, order=True)
    rows = len(x)
    level, none = np.eye(rows), np.zeros((rows, 1))
    design = np.block([[x / 2, none, level], [-x / 2, none, level], [0 * x, none + 1, level]])
    counts = np.concatenate([games.won, games.lost, games.tied])
    theirs = sm.GLM(counts, design, family=sm.families.Poisson()).fit(tol=1e-12)
    found = rate(games, OutcomeModel(prior_sd=None, order=True, ties="davidson"), games.items - 1)
    pairs = [*zip(found.scores[:-1], found.std_errors[:-1], strict=True)]
    pairs += [found.effects["order"], found.effects["tie"]]
    ours = np.array(pairs).T
    np.testing.assert_allclose(ours[0], theirs.params[: x.shape[1] + 1], atol=1e-7)
    np.testing.assert_allclose(ours[1], theirs.bse[: x.shape[1] + 1], atol=1e-7)


@pytest.mark.parametrize("ties", ["half", "davidson"])
def test_firths_correction_maximises_the_likelihood_times_jeffreys_prior(ties):
    """That is what it amounts to in an exponential family (Firth 1993, Biometrika 80:27)."""
    games, _ = games_of(3, items=4, rows=9)
    x = differences(games, order=True)
    halves = np.array([0.5, -0.5, 0.0] if ties == "davidson" else [0.5, -0.5])
    tie = np.array([0.0, 0.0, 1.0])[: len(halves)]
    counts = np.stack([games.won, games.lost, games.tied], 1)
    if ties == "half":
        counts = counts[:, :2] + games.tied[:, np.newaxis] / 2
    # Of each row and outcome, what the parameters multiply.
    u = x[:, np.newaxis, :] * halves[:, np.newaxis]
    if ties == "davidson":
        u = np.concatenate([u, np.broadcast_to(tie[:, np.newaxis], (*u.shape[:2], 1))], axis=2)

    def penalised(at):
        logits = u @ at
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        p = np.exp(logs)
        mean = np.einsum("rk,rkp->rp", p, u)
        spread = np.einsum("rk,rkp,rkq->rpq", p, u, u) - np.einsum("rp,rq->rpq", mean, mean)
        information = np.einsum("r,rpq->pq", counts.sum(axis=1), spread)
        return -(counts * logs).sum() - np.linalg.slogdet(information)[1] / 2

    theirs = minimize(penalised, np.zeros(u.shape[2]), method="BFGS", options={"gtol": 1e-9}).x
    model = OutcomeModel(prior_sd=None, firth=True, order=True, ties=ties)
    found = rate(games, model, reference=games.items - 1)
    ours = [*found.scores[:-1], *(value for value, _ in found.effects.values())]
    np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize(("won", "lost"), [(3, 0), (7, 2), (1, 9)])
def test_firths_correction_of_two_items_adds_half_a_win_to_each(won, lost):
    rows = [{"a": "x", "b": "y", "a_wins": won, "b_wins": lost}]
    score, _ = by_item(fit_votes(rows, firth=True, reference="y"))["x"]
    assert score == pytest.approx(math.log((won + 0.5) / (lost + 0.5)), abs=1e-9)


def test_a_wide_prior_is_none_and_elo_is_the_same_in_points():
    plain = by_item(fit_votes(baseball(), mle=True))
    for item, each in by_item(fit_votes(baseball(), prior_sd=1e5)).items():
        assert each == pytest.approx(plain[item], abs=1e-6)
    elo = by_item(fit_votes(baseball(), mle=True, scale="elo"))
    for item, (score, error) in plain.items():
        assert elo[item] == pytest.approx(
            (1000 + 400 * math.log10(math.exp(score)), 400 * math.log10(math.exp(error)))
        )
    anchored = by_item(
        fit_votes(baseball(), mle=True, scale="elo", reference="Boston", offset=1114)
    )
    assert anchored["Boston"] == (1114, 0)
    gap = anchored["Detroit"][0] - anchored["Baltimore"][0]
    assert gap == pytest.approx(elo["Detroit"][0] - elo["Baltimore"][0])


# What has no finite scores


def test_what_has_no_finite_maximum_is_told_and_has_one_with_a_prior_or_firth(capsys, tmp_path):
    rows = [{"winner": a, "loser": b} for a, b in ("xy", "yx", "xz", "yz")]
    found = fit_votes(rows, mle=True)
    assert len(found) == 0
    assert found.unscored[""].startswith("no finite maximum likelihood: wins go one way only")
    assert "x, y; z" in found.unscored[""]
    for options in ({}, {"firth": True}):
        assert np.isfinite(fit_votes(rows, **options).to_pandas().score).all()
    status, out, err = run(capsys, write(tmp_path / "a.jsonl", rows), "--mle")
    assert (status, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert "no finite maximum likelihood" in err
    assert "--firth" in err
    assert "prior" in err


@pytest.mark.parametrize(
    ("rows", "options", "says"),
    [
        # Whoever stood first won, and both stood first: no score, and no end to what it is worth.
        (["xy1", "yx1"], {"order_effect": True}, "ties or standing first decide too much"),
        (["xy1", "yx1", "xy0"], {"ties": "davidson"}, "needs ties"),
        (["xy=", "yx=", "xy="], {"ties": "davidson"}, "ties or standing first decide too much"),
        (["xy1", "xy0"], {"order_effect": True}, "always the same"),
        (["xy1", "zw1"], {}, "2 parts that never met: w, z; x, y"),
    ],
)
def test_parameters_that_run_away_are_told(rows, options, says):
    won = {"1": 1, "0": 0, "=": 0.5}
    frame = [{"a": row[0], "b": row[1], "win": won[row[2]]} for row in rows]
    for more in ({"mle": True}, {"firth": True}):
        found = fit_votes(frame, **options, **more)
        if more == {"mle": True}:
            assert says in found.unscored[""]
        else:
            assert bool(len(found)) == ("decide" in says or "needs" in says)


@pytest.mark.parametrize("seed", range(6))
def test_a_maximum_is_found_to_be_finite_if_and_only_if_the_prior_does_not_hold_it(seed):
    """A prior a hundred times wider must not move scores that are finite, and moves others."""
    rng = np.random.default_rng(seed)
    for _ in range(10):
        first = rng.integers(0, 4, 7)
        second = (first + rng.integers(1, 4, 7)) % 4
        result = rng.integers(0, 3, 7)
        games = Games(items=4, first=first, second=second, won=(result == 0) * 1.0,
                      lost=(result == 1) * 1.0, tied=(result == 2) * 1.0)  # fmt: skip
        plain = rate(games, OutcomeModel(prior_sd=None, order=True, ties="davidson"))
        if plain.reason and plain.reason.code is UnratedReason.DISCONNECTED:
            continue
        near, far = (
            rate(games, OutcomeModel(prior_sd=sd, order=True, ties="davidson")) for sd in (1e2, 1e4)
        )
        moved = max(
            np.abs(near.scores - far.scores).max(),
            *(abs(near.effects[name][0] - far.effects[name][0]) for name in near.effects),
        )
        assert (moved > 0.5) == bool(plain.reason), plain.reason


def test_a_fit_that_does_not_converge_raises(monkeypatch):
    monkeypatch.setattr(ratings, "MAX_STEPS", 2)
    with pytest.raises(ArithmeticError, match="no maximum after 2 steps"):
        fit_votes(baseball())


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
    found = fit_votes(rows).to_pandas().drop(columns="wins")
    votes = [
        Vote(
            r["query_id"], r["doc_id_a"], r["doc_id_b"], r["judge"], r["preference"], False, "", ""
        )
        for r in rows
    ]
    own = [[v for v in votes if v.query_id == q] for q in sorted({v.query_id for v in votes})]
    wanted = pd.DataFrame([score for fit in score_votes(own) for score in fit.scores])
    pd.testing.assert_frame_equal(found, wanted[list(found)], rtol=0, atol=1e-9)


def test_the_order_of_rows_changes_no_bit():
    rows = votes_of(1)
    for options in ({}, {"games": "rows", "order_effect": True, "firth": True}):
        one = fit_votes(rows, **options).to_arrow()
        assert one.equals(fit_votes(Random(2).sample(rows, len(rows)), **options).to_arrow())


def test_rows_may_be_games_of_their_own_and_pairs_may_be_one():
    thrice = [{"doc_id_a": "x", "doc_id_b": "y", "preference": -1, "judge": j} for j in "abc"]
    shared = by_item(fit_votes(thrice))
    assert shared == by_item(fit_votes(thrice[:1]))
    assert by_item(fit_votes(thrice, games="rows"))["x"][0] > shared["x"][0]
    others = [{"a": "x", "b": "y", "preference": -1, "judge": j} for j in "abc"]
    assert by_item(fit_votes(others)) == by_item(fit_votes(thrice, games="rows"))
    assert by_item(fit_votes(others, games="pairs")) == shared


def test_what_a_judge_saw_first_is_known_from_swapped():
    """Whoever is seen first wins two games of three, under either name of the columns."""
    seen = [
        ("x", "y", 1),
        ("y", "x", 1),
        ("x", "y", 0),
        ("y", "x", 1),
        ("x", "y", 1),
        ("y", "x", 0),
    ]
    plain = [{"a": a, "b": b, "win": won} for a, b, won in seen]
    turned = [
        {"a": "x", "b": "y", "preference": -1 if won == (a == "x") else 1, "swapped": a != "x"}
        for a, _, won in seen
    ]
    one, other = (fit_votes(rows, mle=True, order_effect=True) for rows in (plain, turned))
    assert one.to_arrow().equals(other.to_arrow())
    (effect,) = other.effects
    assert effect["value"] == pytest.approx(math.log(2))
    with pytest.raises(InputError, match="swapped that is true or false in every row"):
        fit_votes([*turned[1:], turned[0] | {"swapped": None}], order_effect=True)
