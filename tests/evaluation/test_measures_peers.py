"""Measures against independent libraries, on random runs of every awkward kind."""

import sys

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.contests import metrics_of
from zelo_ray.evaluation.measures import parse_measure

SEEDS = st.integers(0, 2**32 - 1)
# ir_measures reads measures by ast.Num, which is deprecated and, from Python 3.14 on, gone.
pytestmark = pytest.mark.filterwarnings(r"ignore:ast\.|Attribute [ns] is:DeprecationWarning")
reads_measures = pytest.mark.skipif(sys.version_info >= (3, 14), reason="ir_measures needs ast.Num")


def contest(seed, *, low=0, high=4, levels=6):
    """A truth and a run: ties, missing queries, unjudged documents, strangers."""
    rng = np.random.default_rng(seed)
    truth, run = {}, {}
    for q in range(int(rng.integers(1, 8))):
        names = [f"d{i}" for i in rng.permutation(40)]
        known = names[: rng.integers(2, 25)]
        truth[f"q{q}"] = {d: int(rng.integers(low, high)) for d in known}
        found = [f"d{i}" for i in rng.permutation(60)[: rng.integers(1, 40)]]
        if rng.random() < 0.8:
            # Steps of 1/8 are exact as 32-bit floats, so that all peers see the same ties.
            run[f"q{q}"] = {d: float(rng.integers(-levels, levels)) / 8 for d in found}
    run["stranger"] = {"d1": 1.0}
    return truth, run


def agree(ours, theirs, *, queries, abs=1e-9):  # noqa: A002 - as pytest.approx has it
    for query_id in queries:
        assert ours[query_id] == pytest.approx(theirs[query_id], abs=abs, nan_ok=True), query_id


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from([1, 2]))
def test_pytrec_eval(seed, rel):
    """The C code of trec_eval. It leaves out missing queries, which are 0 here."""
    truth, run = contest(seed, levels=rel * 4)
    at = {
        "P": (1, 5, 30),
        "success": (1, 5, 30),
        "recall": (1, 5, 30),
        "map_cut": (3, 30),
        "ndcg_cut": (1, 5, 10, 100),
    }
    names = {
        f"{name}_{k}": f"{written}@{k}"
        for name, written in [
            ("P", f"P(rel={rel})"),
            ("success", f"Success(rel={rel})"),
            ("recall", f"R(rel={rel})"),
            ("map_cut", f"AP(rel={rel})"),
            ("ndcg_cut", "nDCG"),
        ]
        for k in at[name]
    }
    names |= {"map": f"AP(rel={rel})", "recip_rank": f"RR(rel={rel})", "ndcg": "nDCG"}
    names["Rprec"] = f"Rprec(rel={rel})"
    wanted = {f"{name}.{','.join(map(str, ks))}" for name, ks in at.items()}
    wanted |= {"map", "recip_rank", "ndcg", "Rprec"}
    judge = pytrec_eval.RelevanceEvaluator(truth, wanted, relevance_level=rel)
    theirs = judge.evaluate({q: docs for q, docs in run.items() if q in truth})
    ours = metrics_of(names.values(), truth, run)
    for name, text in names.items():
        found = {q: theirs[q][name] if q in theirs else 0.0 for q in truth}
        agree(ours[text], found, queries=truth)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_trec_eval_compares_scores_as_32_bit_floats_and_ids_as_bytes(seed):
    rng = np.random.default_rng(seed)
    names = ["a", "B", "é", "ß", "￿", "𝄞", "10", "9", "aa", "a-"]
    truth = {"q": {name: int(rng.integers(0, 4)) for name in names}}
    steps = rng.integers(0, 3, len(names)) * 1e-8  # below and above half a step of 32 bits at 0.3
    run = {"q": {name: float(0.3 + step) for name, step in zip(names, steps, strict=True)}}
    theirs = pytrec_eval.RelevanceEvaluator(truth, {"ndcg", "map"}).evaluate(run)["q"]
    ours = metrics_of(["nDCG", "AP"], truth, run)
    assert ours["nDCG"]["q"] == pytest.approx(theirs["ndcg"], abs=1e-9)
    assert ours["AP"]["q"] == pytest.approx(theirs["map"], abs=1e-9)


@reads_measures
@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_ir_measures(seed):
    """Every measure and query, the missing ones too: what is written alike is worth alike.

    Of its providers, pytrec_eval orders ties as trec_eval does. Those of Judged and of RR with a
    cut-off take the lesser doc_id first, so that their runs are without ties here; so does that of
    nDCG with exponential gains, which is a Perl script and left to scikit-learn.
    """
    tied = ["nDCG@5", "nDCG", "AP", "AP(rel=2)@7", "RR", "RR(rel=3)", "P(rel=2)@4", "R@3"]
    tied += ["Success@1", "Success(rel=2)@5", "Rprec", "Rprec(rel=3)"]
    untied = ["Judged@3", "Judged@50", "Judged", "RR@5", "RR(rel=2)@3"]
    truth, run = contest(seed, low=-1)
    # trec_eval knows no negative grades; they are irrelevant for it once they are 0.
    lifted = {q: {d: max(0, r) for d, r in docs.items()} for q, docs in truth.items()}
    ours = metrics_of(tied, truth, run)
    for text, theirs in of_ir_measures(tied, lifted, run).items():
        agree(ours[text], theirs, queries=truth)
    distinct = {q: {d: s + i * 1e-3 for i, (d, s) in enumerate(r.items())} for q, r in run.items()}
    ours = metrics_of(untied, truth, distinct)
    for text, theirs in of_ir_measures(untied, truth, distinct).items():
        agree(ours[text], theirs, queries=truth)


@reads_measures
@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_gdeval(seed):
    """TREC's script for ERR, which ir_measures runs: with ties, and to five decimals.

    It leaves out queries without a relevant document, which are 0 here.
    """
    truth, run = ({q[1:]: docs for q, docs in of.items()} for of in contest(seed, low=-1, high=5))
    run = {q: docs for q, docs in run.items() if q in truth}
    ours = metrics_of(["ERR@1", "ERR@5", "ERR@20"], truth, run)
    theirs = of_ir_measures([*ours], truth, run) if run else {text: {} for text in ours}
    for text, by_query in ours.items():
        found = {q: theirs[text].get(q, 0.0) for q in truth}
        agree(by_query, found, queries=truth, abs=0.5001e-5)


def of_ir_measures(texts, truth, run):
    by_text = {text: {} for text in texts}
    parsed = {str(ir_measures.parse_measure(text)): text for text in texts}
    for found in ir_measures.iter_calc(map(ir_measures.parse_measure, texts), truth, run):
        by_text[parsed[str(found.measure)]][found.query_id] = found.value
    return by_text


@reads_measures
@pytest.mark.parametrize(
    "text",
    [
        *("nDCG@10", "nDCG(dcg='exp-log2')@10", "AP(rel=2)@100", "RR"),
        *("P(rel=2)@10", "Judged@10", "Success(rel=2)@10", "Success@5", "Rprec", "Rprec(rel=2)"),
        *("ERR", "ERR@20"),
    ],
)
def test_ir_measures_writes_measures_alike(text):
    assert str(ir_measures.parse_measure(text)) == str(parse_measure(text)) == text
