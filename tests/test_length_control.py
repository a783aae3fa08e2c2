"""Scores beside a coefficient of length: against independent regressions, and what it removes."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize

from zelo_ray import cli, fit_votes
from zelo_ray.fitting.covariate import CLUSTERS, fit_with_covariate
from zelo_ray.fitting.outcomes import Games, OutcomeModel
from zelo_ray.fitting.ratings import rate
from zelo_ray.formats.results import write_tables
from zelo_ray.formats.tables import table_of
from zelo_ray.records import Vote


def games_of(rng, items, games, scores, x, slope):
    """Games between random items; x is a number of each item, or of each game."""
    first = rng.integers(0, items, games)
    second = (first + rng.integers(1, items, games)) % items
    apart = x if len(x) == games and items != games else x[first] - x[second]
    chance = 1 / (1 + np.exp(-(scores[first] - scores[second] + slope * apart)))
    won = (rng.random(games) < chance).astype(float)
    tied = (rng.random(games) < 0.1).astype(float)
    won, lost = won * (1 - tied), (1 - won) * (1 - tied)
    return Games(items=items, first=first, second=second, won=won, lost=lost, tied=tied), apart


def run_of(seed, queries=3, items=6, games=24, slope=0.7, spread=1.0, relation=0.0):
    """Queries whose documents have lengths; their scores may go with the lengths."""
    rng = np.random.default_rng(seed)
    made, apart, truth = [], [], []
    for _ in range(queries):
        lengths = rng.normal(0, 1, items)
        own = rng.normal(0, spread, items) + relation * lengths
        query, x = games_of(rng, items, games, own, lengths, slope)
        made.append(query)
        apart.append(x)
        truth.append(own)
    return made, apart, truth


def objective(parameters, made, apart, prior_sd):
    value, at = 0.0, 1
    for games, x in zip(made, apart, strict=True):
        scores = parameters[at : at + games.items]
        at += games.items
        logits = scores[games.first] - scores[games.second] + parameters[0] * x
        value += (games.won + games.tied / 2) @ np.logaddexp(0, -logits)
        value += (games.lost + games.tied / 2) @ np.logaddexp(0, logits)
        value += scores @ scores / (2 * prior_sd**2)
    return value


def hessian(function, at, step=1e-4):
    size = len(at)
    steps = step * np.eye(size)
    return np.array(
        [
            [
                (
                    function(at + a + b)
                    - function(at + a - b)
                    - function(at - a + b)
                    + function(at - a - b)
                )
                / (4 * step**2)
                for b in steps
            ]
            for a in steps
        ]
    )


@pytest.mark.parametrize("prior_sd", [0.8, 2.5])
def test_it_is_the_maximum_of_the_posterior_with_its_curvature(prior_sd):
    made, apart, _ = run_of(1)
    fitted = fit_with_covariate(made, apart, prior_sd)

    def value(parameters):
        return objective(parameters, made, apart, prior_sd)

    start = np.zeros(1 + sum(games.items for games in made))
    best = minimize(value, start, method="BFGS", options={"gtol": 1e-9}).x
    assert fitted.coefficient == pytest.approx(best[0], abs=1e-5)
    scores = best[1:].reshape(3, -1)
    scores -= scores.mean(axis=1, keepdims=True)
    assert np.array(fitted.scores) == pytest.approx(scores, abs=1e-5)
    covariance = np.linalg.inv(hessian(value, best))
    assert fitted.std_error == pytest.approx(covariance[0, 0] ** 0.5, rel=1e-4)
    centring = np.eye(6) - 1 / 6
    for query, errors in enumerate(fitted.std_errors):
        block = covariance[1 + 6 * query : 7 + 6 * query, 1 + 6 * query : 7 + 6 * query]
        assert errors == pytest.approx(np.diag(centring @ block @ centring) ** 0.5, rel=1e-3)


def test_with_lengths_of_games_it_is_a_logistic_regression_on_items_and_length():
    rng = np.random.default_rng(3)
    own, x = np.array([0.0, 0.5, 1.0, -0.5]), rng.normal(0, 1, 400)
    games, apart = games_of(rng, 4, 400, own, x, 0.6)
    fitted = fit_with_covariate([games], [apart], prior_sd=1e4)
    design = np.zeros((400, 5))
    design[np.arange(400), games.first] += 1
    design[np.arange(400), games.second] -= 1
    design[:, 4] = apart
    won = games.won + games.tied / 2
    check = sm.GLM(won, design[:, 1:], family=sm.families.Binomial()).fit(tol=1e-12)
    assert fitted.coefficient == pytest.approx(check.params[3], abs=1e-5)
    assert fitted.std_error == pytest.approx(check.bse[3], rel=1e-4)
    scores = np.append(0.0, check.params[:3])
    assert fitted.scores[0] == pytest.approx(scores - scores.mean(), abs=1e-4)


def test_the_error_over_many_queries_is_that_of_a_regression_clustered_by_query():
    """Scores held at 0 by a narrow prior leave the coefficient alone."""
    made, apart, _ = run_of(5, queries=30, spread=0.0)
    fitted = fit_with_covariate(made, apart, prior_sd=1e-4)
    won = np.concatenate([games.won + games.tied / 2 for games in made])
    query = np.repeat(np.arange(30), 24)
    model = sm.GLM(won, np.concatenate(apart), family=sm.families.Binomial())
    check = model.fit(
        cov_type="cluster", cov_kwds={"groups": query, "use_correction": False}, tol=1e-12
    )
    assert fitted.coefficient == pytest.approx(check.params[0], abs=1e-5)
    assert fitted.std_error == pytest.approx(check.bse[0] * (30 / 29) ** 0.5, rel=1e-4)
    assert fitted.queries == 30 >= CLUSTERS


def test_without_differences_of_length_it_is_the_plain_fit_and_no_coefficient():
    made, apart, _ = run_of(2)
    fitted = fit_with_covariate(made, [0 * x for x in apart], 2.5)
    assert np.isnan(fitted.coefficient)
    assert np.isnan(fitted.std_error)
    for games, scores, errors in zip(made, fitted.scores, fitted.std_errors, strict=True):
        plain = rate(games, OutcomeModel(prior_sd=2.5))
        assert scores == pytest.approx(plain.scores, abs=1e-8)
        assert errors == pytest.approx(plain.std_errors, abs=1e-8)


# the command


def votes_file(folder, queries=12, bias=1.5, seed=4):
    """Votes on pairs of documents by length and chance, and the documents."""
    rng = np.random.default_rng(seed)
    votes, pools = [], []
    for q in range(queries):
        lengths = rng.integers(20, 400, 6)
        made, _ = games_of(rng, 6, 30, rng.normal(0, 0.5, 6), np.log2(lengths), bias)
        for a, b, won, tied in zip(made.first, made.second, made.won, made.tied, strict=True):
            preference = 0 if tied else -1 if won else 1
            ids = {"query_id": f"q{q}", "doc_id_a": f"d{a}", "doc_id_b": f"d{b}"}
            votes.append({**ids, "preference": preference})
        documents = [{"id": f"d{n}", "content": "x" * length} for n, length in enumerate(lengths)]
        pools.append({"query": {"id": f"q{q}", "query": "which?"}, "documents": documents})
    for name, rows in (("votes", votes), ("pools", pools)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return votes, pools


def fit_files(folder, *words):
    words = (str(folder / "votes.jsonl"), "--games", "rows", *words)
    return cli.main(["fit", *words])


def test_controlled_scores_stand_beside_the_plain_ones(tmp_path, capsys):
    votes_file(tmp_path)
    texts = ("--control", "length", "--texts", str(tmp_path / "pools.jsonl"))
    assert fit_files(tmp_path, "--out", str(tmp_path / "plain.csv")) == 0
    assert fit_files(tmp_path, *texts, "--out", str(tmp_path / "both.csv")) == 0
    printed = capsys.readouterr().out
    assert re.search(
        r"A doubling of length goes with \+1\.\d+ ± 0\.\d+ logits, by 12 queries", printed
    )
    assert "takes away what is true" in " ".join(printed.split())
    plain, both = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("plain", "both"))
    new = ["length", "score_length_controlled", "std_error_length_controlled"]
    pd.testing.assert_frame_equal(plain, both.drop(columns=new))
    within = both.groupby("query_id")
    assert within.score_length_controlled.mean().abs().max() < 1e-9

    def correlation(name):
        return both.groupby("query_id")[["length", name]].corr().iloc[::2, 1].mean()

    assert correlation("score") > 0.6
    assert abs(correlation("score_length_controlled")) < 0.3


def test_in_python_and_on_the_scale_of_elo(tmp_path):
    votes, _ = votes_file(tmp_path)
    options = {"control": "length", "texts": [str(tmp_path / "pools.jsonl")], "games": "rows"}
    fitted, elo = fit_votes(votes, **options), fit_votes(votes, scale="elo", **options)
    (effect,) = fitted.effects.to_pandas().to_dict("records")
    assert (effect["query_id"], effect["effect"]) == ("", "length")
    assert abs(effect["value"] - 1.5) < 4 * effect["std_error"]
    logits, points = (f.to_pandas().sort_values(["query_id", "doc_id"]) for f in (fitted, elo))
    expected = 1000 + 400 / np.log(10) * logits.score_length_controlled.to_numpy()
    assert points.score_length_controlled.to_numpy() == pytest.approx(expected)


def test_documents_without_a_text_get_no_controlled_score_and_are_counted(tmp_path, capsys):
    _, pools = votes_file(tmp_path)
    del pools[0]["documents"][2]
    place = tmp_path / "fewer.jsonl"
    place.write_text("".join(json.dumps(row) + "\n" for row in pools) + "{broken\n")
    texts = ("--control", "length", "--texts", str(place))
    assert fit_files(tmp_path, *texts, "--out", str(tmp_path / "both.csv")) == 0
    printed = capsys.readouterr().out
    assert "1 document without a text that is known" in printed
    assert "skipped 1 invalid line" in printed
    frame = pd.read_csv(tmp_path / "both.csv")
    unknown = frame[frame.score_length_controlled.isna()]
    assert unknown[["query_id", "doc_id"]].to_numpy().tolist() == [["q0", "d2"]]
    assert unknown.score.notna().all()


def test_what_cannot_be_controlled_is_refused_in_words(tmp_path, capsys):
    votes_file(tmp_path)
    texts = ("--texts", str(tmp_path / "pools.jsonl"))
    for words, why in (
        (("--control", "length"), "needs the documents: --texts FILE"),
        (texts, "texts: needs control"),
        (("--control", "length", *texts, "--mle"), "cannot be combined with mle"),
        (("--control", "length", *texts, "--order-effect"), "cannot be combined with order_effect"),
        (("--control", "length", *texts, "--ties", "davidson"), "combined with ties"),
    ):
        assert fit_files(tmp_path, *words) == 2
        assert why in capsys.readouterr().err
    other = tmp_path / "other.jsonl"
    other.write_text((tmp_path / "pools.jsonl").read_text().replace('"id": "d', '"id": "e'))
    assert fit_files(tmp_path, "--control", "length", "--texts", str(other)) == 1
    assert "text of no document" in capsys.readouterr().err


def test_equal_lengths_tell_nothing_and_that_is_told(tmp_path, capsys):
    _, pools = votes_file(tmp_path)
    for pool in pools:
        for document in pool["documents"]:
            document["content"] = "same"
    (tmp_path / "pools.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pools))
    assert fit_files(tmp_path, "--control", "length", "--texts", str(tmp_path / "pools.jsonl")) == 0
    assert "there is nothing to control" in capsys.readouterr().out


def test_lengths_that_order_every_comparison_leave_no_coefficient_and_no_score(tmp_path, capsys):
    rows = [("a", "b", -1), ("b", "c", 1), ("a", "c", -1)]
    votes = [
        {"query_id": "q", "doc_id_a": a, "doc_id_b": b, "preference": preference}
        for a, b, preference in rows
    ]
    documents = [{"id": i, "content": "x" * n} for i, n in (("a", 14), ("b", 5), ("c", 8))]
    pool = {"query": {"id": "q", "query": "which?"}, "documents": documents}
    (tmp_path / "votes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in votes))
    (tmp_path / "pools.jsonl").write_text(json.dumps(pool) + "\n")
    texts = ("--control", "length", "--texts", str(tmp_path / "pools.jsonl"))
    assert fit_files(tmp_path, *texts, "--out", str(tmp_path / "both.csv")) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "no finite coefficient exists" in printed
    assert "equally long, or nearly so" not in printed
    frame = pd.read_csv(tmp_path / "both.csv")
    assert frame[["score_length_controlled", "std_error_length_controlled"]].isna().all(axis=None)
    assert frame.score.notna().all()


def test_lengths_that_hardly_differ_order_nothing():
    made, apart, _ = run_of(2)
    fitted = fit_with_covariate(made, [1e-8 * np.abs(x) for x in apart], 2.5)
    assert np.isnan(fitted.coefficient)
    assert not fitted.separated
    assert np.isfinite(fitted.scores).all()


def test_a_run_has_its_own_texts(tmp_path, capsys):
    """Votes of a run lie beside its documents; a query without votes does not matter."""
    votes, pools = votes_file(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    rows = [Vote(**row, judge="j", swapped=False, reasoning="", key="") for row in votes]
    write_tables(str(out), {"votes": table_of(rows, Vote)})
    (out / "annotated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pools))
    for place in (out, out / "votes.parquet"):
        assert cli.main(["fit", str(place), "--control", "length"]) == 0
        assert "A doubling of length goes with" in capsys.readouterr().out
    (out / "annotated").mkdir()
    (out / "annotated.jsonl").rename(out / "annotated" / "part-00000.jsonl")
    assert cli.main(["fit", str(out), "--control", "length"]) == 0
    assert "A doubling of length goes with" in capsys.readouterr().out
