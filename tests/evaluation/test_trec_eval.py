"""NIST's own numbers: the fixtures of trec_eval, and every run of the Deep Learning track 2019."""

import csv
import re

import pyarrow as pa
import pytest

from zelo_ray.evaluation.measures import Truth, evaluate, parse_measure, rank_run

NAMES = {
    r"ndcg": "nDCG",
    r"ndcg_cut_(\d+)": "nDCG@{}",
    r"map": "AP",
    r"map_cut_(\d+)": "AP@{}",
    r"recip_rank": "RR",
    r"P_(\d+)": "P@{}",
    r"Rprec": "Rprec",
    r"success_(\d+)": "Success@{}",
    r"recall_(\d+)": "R@{}",
    r"unj_(\d+)": "Judged@{}",
}
"""What trec_eval calls the measures that are here too. It tells what is unjudged, not judged."""


@pytest.fixture
def fixtures(published):
    return published / "trec_eval_fixtures"


@pytest.fixture
def dl19(published):
    return published / "trec_dl19"


def table(path, column, name):
    """The query, the document and a number of each line; what follows is junk."""
    rows = [line.split() for line in path.read_text().splitlines()]
    return pa.table(
        {
            "query_id": [row[0] for row in rows],
            "doc_id": [row[2] for row in rows],
            name: [float(row[column]) for row in rows],
        }
    )


def truth_of(path):
    return Truth(table(path, 3, "relevance"))


def run_of(path):
    return table(path, 4, "score")


def told(path):
    """Measure, query (or "all") and value of each line whose measure is here too."""
    for line in path.read_text().splitlines():
        name, query_id, value = line.split()
        for pattern, text in NAMES.items():
            if match := re.fullmatch(pattern, name):
                number = 1 - float(value) if name.startswith("unj") else float(value)
                yield text.format(*match.groups()), query_id, number


@pytest.mark.parametrize(
    ("expected", "count"), [("out.test.a", 46), ("out.test.aq", 184), ("out.test.meas_params", 44)]
)
def test_trec_evals_own_expectations(fixtures, expected, count):
    """Each query's value, and the mean."""
    truth = truth_of(fixtures / "qrels.test")
    lines = list(told(fixtures / expected))
    assert len(lines) == count
    ranked = rank_run(truth, run_of(fixtures / "results.test"))
    each = [parse_measure(text) for text in dict.fromkeys(text for text, *_ in lines)]
    values = evaluate(each, ranked)
    found = {
        (str(measure), query_id): value
        for measure, row in zip(each, values, strict=True)
        for query_id, value in [*zip(truth.query_ids, row, strict=True), ("all", row.mean())]
    }
    for text, query_id, value in lines:
        assert found[text, query_id] == pytest.approx(value, abs=0.5001e-4), (text, query_id)


def test_ndcg_of_the_deep_learning_track_2019_is_nists(dl19):
    """Every topic of every official run, to its fourth decimal."""
    with (dl19 / "official_ndcg_cut_10.csv").open() as file:
        official = {
            (row["runid"], row["topic"]): row["ndcg_cut_10"] for row in csv.DictReader(file)
        }
    truth = truth_of(dl19 / "qrels.txt")
    ours, each = {}, [parse_measure("nDCG@10")]
    for path in (dl19 / "runs_top10").glob("*.run"):
        (values,) = evaluate(each, rank_run(truth, run_of(path)))
        ours[path.stem, "average"] = f"{values.mean():.4f}"
        ours |= {(path.stem, q): f"{v:.4f}" for q, v in zip(truth.query_ids, values, strict=True)}
    assert len(ours) == 37 * (43 + 1)
    assert ours == official
