"""The page of a bake-off: who leads, which differences are real, and what is left out."""

import itertools
import json

import numpy as np
import orjson
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.test_report import Page
from zelo_ray.formats.results import write_json
from zelo_ray.formats.tables import table_of
from zelo_ray.records import Comparison, Mean, Metric
from zelo_ray.report import write_report

MEASURES = ("nDCG@10", "AP")
ARMS = ("bm25", "original", "cross-encoder", "my.module:Custom", "run-file")


def _save(out, name, table):
    pq.write_table(table, out / f"{name}.parquet")


def _values(arms, queries, seed=3):
    """A measure by [arm, query], the first arm best; the last arm lacks the last query."""
    rng = np.random.default_rng(seed)
    ease = rng.normal(0, 1, queries)
    skill = np.linspace(1.2, -0.8, len(arms))[:, None]
    values = 1 / (1 + np.exp(-(skill + ease + rng.normal(0, 0.6, (len(arms), queries)))))
    return np.round(values, 4)


def _comparisons(arms, values):
    for measure in MEASURES:
        for (i, one), (j, other) in itertools.combinations(enumerate(arms), 2):
            apart = values[i] - values[j]
            reach = 1.96 * apart.std() / np.sqrt(len(apart))
            p = 0.4 if j == i + 1 else 0.001
            yield Comparison(
                *(one, other, measure, values[i].mean(), values[j].mean(), apart.mean()),
                *(apart.mean() - reach, apart.mean() + reach, p, p, 1 - p / 2, len(apart)),
                *(int((apart > 0).sum()), int((apart == 0).sum()), int((apart < 0).sum())),
            )


def write_bakeoff(out, arms=ARMS, queries=60, say=""):
    """The files of a contest; ``say`` is a text that every field of data begins with."""
    arms = [f"{say}{arm}" for arm in arms]
    ids = [f"{say}q{i}" for i in range(queries)]
    values = _values(arms, queries)
    write = {
        "metrics": table_of(
            [
                Metric(arm, query_id, measure, float(values[i, j]))
                for measure in MEASURES
                for i, arm in enumerate(arms)
                for j, query_id in enumerate(ids)
            ],
            Metric,
        ),
        "means": table_of(
            [
                Mean(arm, measure, mean, mean - 0.05, mean + 0.04, queries)
                for measure in MEASURES
                for arm, mean in zip(arms, values.mean(axis=1), strict=True)
            ],
            Mean,
        ),
        "comparisons": table_of(list(_comparisons(arms, values)), Comparison),
        "failures": pa.table(
            {
                "run": arms[:1],
                "query_id": ids[:1],
                "status": ["failed"],
                "reason": [f"{say}too few scores"],
                "attempts": [3],
            }
        ),
        "slices": pa.Table.from_pylist(
            [
                {
                    "slice": name,
                    "value": f"{say}{value}",
                    "run": arm,
                    "measure": "nDCG@10",
                    "mean": 0.5,
                    "low": 0.4,
                    "high": 0.7,
                    "queries": 20,
                }
                for name, value in (("domain", "law"), ("domain", "faq"), ("difficulty", "hard"))
                for arm in arms
            ]
        ),
        "holes": pa.table(
            {"run": arms[:1], "query_id": ids[:1], "doc_id": [f"{say}d9"], "rank": [4]}
        ),
    }
    for name, table in write.items():
        _save(out, name, table)
    documents = [
        {
            "doc_id": f"{say}d{i}",
            "text": f"{say}Text {i}",
            "relevance": grade,
            "rank_a": a,
            "rank_b": b,
        }
        for i, (grade, a, b) in enumerate([(3.0, 1, 3), (None, 2, 1), (0.0, None, 2)])
    ]
    contrast = {
        "query_id": ids[0],
        "query": f"{say}which one?",
        "run_a": arms[0],
        "run_b": arms[-1],
        "value_a": 0.9,
        "value_b": 0.2,
        "documents": documents,
    }
    counts = {"answered": queries, "missing": 0, "failed": 0, "dollars": 0.0, "unpriced": 0}
    summary = {
        "truth": {"queries": queries, "documents": 1234, "kind": "grades"},
        "arms": [{"name": arm, **counts, "note": f"{say}as it came"} for arm in arms],
        "measures": list(MEASURES),
        "leading": MEASURES[0],
        "seconds": {"measure": 0.5},
    }
    curve = {arm: [[k, (i + k) / 130] for k in (1, 5, 10, 100)] for i, arm in enumerate(arms)}
    run = {
        "kind": "bakeoff",
        "run_id": "20261101T000000Z-abc",
        "versions": {},
        "options": {"confidence": 0.95},
        "summary": summary,
        "curves": {"R": curve},
        "contrasts": [contrast],
    }
    write_json(str(out), "run.json", run)
    return arms, values


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("contest")
    arms, values = write_bakeoff(out)
    write_report(str(out))
    return arms, values, Page((out / "report.html").read_text(encoding="utf-8"))


def test_the_leaderboard_stands_by_the_leading_measure(written):
    arms, values, page = written
    rows = page.table("leaderboard")
    assert [row[0] for row in rows[1:]] == list(arms)
    mean = values[0].mean()
    assert rows[1][1] == f"{mean:.3f} [{mean - 0.05:.3f}, {mean + 0.04:.3f}]"
    assert rows[0][1:3] == list(MEASURES)


def test_the_head_says_from_which_arms_the_best_cannot_be_told(written):
    text = written[2].words()
    assert "bm25 has the highest nDCG@10. It cannot be told apart from original on" in text
    assert "6 of 10 differences would be a surprise" in text


def test_differences_are_told_from_the_side_of_the_row(written):
    _arms, values, page = written
    chances = dict(page.chart("differences", 1))["nDCG@10"]["data"][0]
    assert chances["z"][0] == [None, 0.8, *[0.9995] * 3]
    assert chances["z"][1][0] == pytest.approx(0.2)
    apart = values[1].mean() - values[0].mean()
    assert chances["text"][1][0].startswith(f"original minus bm25: {apart:+.4f} [")
    forest = dict(page.chart("differences", 0))["AP"]
    assert forest["layout"]["yaxis"]["ticktext"][0] == "original"
    assert forest["data"][0]["x"] == pytest.approx(
        [-(v.mean() - values[0].mean()) for v in values[1:]]
    )


def test_every_query_is_in_every_histogram_and_in_the_scatter(written):
    arms, values, page = written
    [(_, ridges)] = page.chart("distribution", 0)
    assert [sum(trace["y"]) for trace in ridges["data"]] == [values.shape[1]] * len(arms)
    duel = page.chart("distribution", 1)
    assert [name for name, _ in duel["arms"]] == list(arms)
    assert duel["arms"][1][1] == pytest.approx(values[1])
    assert duel["queries"][0] == "q0: which one?"


def test_the_hardest_queries_come_first(written):
    _, values, page = written
    [(_, figure)] = page.chart("difficulty", 0)
    middle = figure["data"][1]["y"]
    assert middle == sorted(middle)
    assert middle == pytest.approx(sorted(values.mean(axis=0)))
    assert page.table("difficulty")[1][0].partition(":")[0] == f"q{values.mean(axis=0).argmin()}"


def test_slices_curves_contrasts_failures_and_holes_are_there(written):
    arms, _, page = written
    slices = dict(page.chart("slices", 0))
    assert list(slices) == ["domain", "difficulty"]
    assert slices["domain"]["layout"]["yaxis"]["ticktext"] == ["law (20)", "faq (20)"]
    [(_, curves)] = page.chart("curves", 0)
    assert [trace["name"] for trace in curves["data"]] == list(arms)
    text = page.words("contrasts")
    assert text.index("d0 Text 0") < text.index("d1 Text 1")
    right = text.rpartition("run-file")[2]
    assert right.index("? d1") < right.index("0 d2") < right.index("3 d0")
    assert "too few scores" in page.words("failures")
    assert page.table("holes")[1] == ["bm25", "1", "1"]


def test_every_figure_is_one_that_plotly_knows(written):
    charts = [chart for found in written[2].charts.values() for chart in found]
    figures = [figure for chart in charts if isinstance(chart, list) for _, figure in chart]
    assert len(figures) >= 10
    for figure in figures:
        text = orjson.dumps(figure).decode()
        for name in {word for word in text.split('"') if word.startswith("--")}:
            text = text.replace(f'"{name}"', '"#123456"')
        go.Figure(json.loads(text))


@pytest.mark.parametrize(
    ("name", "section"),
    [
        *(("comparisons", "differences"), ("metrics", "distribution"), ("slices", "slices")),
        *(("failures", "failures"), ("holes", "holes"), ("means", "leaderboard")),
    ],
)
def test_a_section_without_its_file_is_left_out(tmp_path, name, section):
    write_bakeoff(tmp_path, queries=8)
    write_report(str(tmp_path))
    assert section in Page((tmp_path / "report.html").read_text()).sections
    (tmp_path / f"{name}.parquet").unlink()
    write_report(str(tmp_path))
    assert section not in Page((tmp_path / "report.html").read_text()).sections


def test_undefined_values_and_an_arm_that_never_ran_are_shown_as_such(tmp_path):
    write_bakeoff(tmp_path, queries=8)
    metrics = pq.read_table(tmp_path / "metrics.parquet").to_pylist()
    for row in metrics:
        row["value"] = float("nan") if row["query_id"] == "q3" else row["value"]
    _save(tmp_path, "metrics", pa.Table.from_pylist(metrics))
    run = json.loads((tmp_path / "run.json").read_text())
    counts = {"answered": 0, "missing": 8, "failed": 8, "dollars": 0.5, "unpriced": 2}
    run["summary"]["arms"].append({"name": "absent", **counts, "note": "no key"})
    write_json(str(tmp_path), "run.json", run)
    write_report(str(tmp_path))
    page = Page((tmp_path / "report.html").read_text())
    assert page.table("leaderboard")[-1] == (
        ["absent", *["\N{EN DASH}"] * 2, "0", "8", "8", "0.5000 + ?", "no key"]
    )
    [(_, ridges)] = page.chart("distribution", 0)
    assert {sum(trace["y"]) for trace in ridges["data"]} == {7}
    assert len(page.chart("difficulty", 0)[0][1]["data"][1]["y"]) == 7


def test_a_contest_of_one_arm_has_a_page(tmp_path):
    write_bakeoff(tmp_path, arms=("alone",), queries=3)
    (tmp_path / "comparisons.parquet").unlink()
    write_report(str(tmp_path))
    page = Page((tmp_path / "report.html").read_text())
    assert "alone has the highest nDCG@10." in page.words()
    assert len(page.charts["distribution"]) == 1
