"""The page of a bake-off: who leads, which differences are real, and what is left out."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.test_report import Page
from zelo_ray.commands.bakeoff.report import BAKEOFF_REPORT
from zelo_ray.commands.bakeoff.slices import DIFFICULTY
from zelo_ray.commands.report import write_report
from zelo_ray.formats.results import write_json
from zelo_ray.formats.tables import table_of
from zelo_ray.records import Comparison, Mean, Metric
from zelo_ray.reports.charts.labels import labels

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


def _comparisons(arms, values, answered, say):
    for measure in MEASURES:
        for (i, one), (j, other) in itertools.combinations(enumerate(arms), 2):
            apart = (values[i] - values[j])[answered[i] & answered[j]]
            reach = 1.96 * apart.std() / np.sqrt(len(apart))
            p = 0.4 if j == i + 1 else 0.001
            row = Comparison(
                *(one, other, measure, values[i].mean(), values[j].mean(), apart.mean()),
                *(apart.mean() - reach, apart.mean() + reach, p, p, 1 - p / 2, np.nan, len(apart)),
                *(int((apart > 0).sum()), int((apart == 0).sum()), int((apart < 0).sum())),
            )
            yield replace(row, **say.get((i, j), {}))


def write_bakeoff(out, arms=ARMS, queries=60, say="", pairs=None, **summed):
    """The files of a contest, in which the last arm did not answer the last query.

    Args:
        say: a text that every field of data begins with.
        pairs: by the places of two arms, fields of their comparisons that are to differ.
        summed: fields of the summary that are to differ.
    """
    arms = [f"{say}{arm}" for arm in arms]
    ids = [f"{say}q{i}" for i in range(queries)]
    values = _values(arms, queries)
    answered = np.ones(values.shape, dtype=bool)
    answered[-1, -1] = False
    values[-1, -1] = 0.0
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
        "comparisons": table_of(
            list(_comparisons(arms, values, answered, pairs or {})), Comparison
        ),
        "failures": pa.table(
            {
                "run": arms[-1:],
                "query_id": ids[-1:],
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
                for name, value in (("domain", "law"), ("domain", "faq"), (DIFFICULTY, "hard"))
                for arm in arms
            ]
        ),
        "unjudged": pa.table(
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
    missing = [int(np.sum(~row)) for row in answered]
    summary = {
        "truth": {"queries": queries, "documents": 1234, "kind": "grades", "relevant_from": 1},
        "rankers": [
            {
                "name": arm,
                "answered": queries - lost,
                "missing": lost,
                "failed": lost,
                "dollars": 0.0,
                "unpriced": 0,
                "note": f"{say}a note" if say else "",
            }
            for arm, lost in zip(arms, missing, strict=True)
        ],
        "standing": arms,
        "label_draws": 0,
        "measures": list(MEASURES),
        "leading": MEASURES[0],
        "seconds": {"measure": 0.5},
        **summed,
    }
    run = {
        "kind": "bakeoff",
        "run_id": "20261101T000000Z-abc",
        "versions": {"zelo-ray": "1.2.3"},
        "options": {
            "confidence": 0.95,
            "truth": f"s3://name:secret@host/{say}qrels.txt?token=secret",
            "seed": 7,
            "resamples": 10_000,
        },
        "summary": summary,
        "contrasts": [contrast],
    }
    write_json(str(out), "run.json", run)
    return arms, values


def report_of(out, **written):
    write_bakeoff(out, **written)
    return BAKEOFF_REPORT.read(str(out))


def test_the_lead_says_from_which_rankers_the_best_does_not_differ(tmp_path):
    [lead] = report_of(tmp_path).lead
    similar, worse = lead.split("; ")
    assert similar.startswith("bm25 has the highest nDCG@10. ")
    assert similar.endswith("not differ significantly from original")
    assert "above cross-encoder, my.module:Custom" in worse
    assert "and run-file (on 59 common queries)" in worse


@pytest.mark.parametrize(
    ("fields", "significance", "doubt"),
    [
        ({"p_holm": 0.01}, "significant", ""),
        ({"p_holm": 0.01, "p_labels": 0.8}, "significant", "other answers of the judges"),
        ({"p_holm": 0.01, "kin": "gpt"}, "only by judges of gpt", ""),
        ({}, "not significant", ""),
        ({"queries": 3}, "too few queries", ""),
    ],
)
def test_a_row_says_no_more_than_its_comparison_allows(tmp_path, fields, significance, doubt):
    report = report_of(tmp_path, pairs={(0, 1): fields})
    first, second, shown, *_ = report.table("differences").rows[0]
    assert (first.text, second.text) == ("bm25", "original")
    begin, _, rest = shown.partition(", ")
    assert begin == significance
    assert doubt in rest
    assert bool(doubt) == bool(rest)
    assert ("bm25 has the highest nDCG@10. It is above original" in report.lead[0]) == (
        (significance, doubt) == ("significant", "")
    )


def test_a_ranker_with_a_lower_mean_may_be_above_where_both_ranked(tmp_path):
    turned = {"p_holm": 0.01, "difference": -0.2, "queries": 9}
    report = report_of(tmp_path, pairs={(0, 1): turned})
    assert "It has the higher mean" in report.lead[0]
    assert "below original (on 9 common queries)" in report.lead[0]
    first = report.table("differences").rows[0]
    assert ([cell.text for cell in first[:2]], first[3].value) == (["original", "bm25"], 0.2)


def test_too_few_queries_are_said_once(tmp_path):
    undefined = dict.fromkeys(("low", "high", "p_better"), np.nan) | {"queries": 3}
    pairs = dict.fromkeys(itertools.combinations(range(len(ARMS)), 2), undefined)
    report = report_of(tmp_path, pairs=pairs)
    assert "takes 5 queries" in report.lead[0]
    assert "here are 3 queries" in report.lead[0]
    section = report.section("differences")
    assert [part.form for part in section.parts] == ["chart", "table"], "no matrix without a chance"
    first = report.table("differences").rows[0]
    assert first[2] == "too few queries"
    assert np.isnan(first[3].low)
    assert np.isnan(first[5].value)


def test_rankers_that_share_the_lead_are_both_named(tmp_path):
    write_bakeoff(tmp_path)
    means = pq.read_table(tmp_path / "means.parquet").to_pylist()
    for row in means:
        row["mean"] = means[0]["mean"] if row["run"] == "original" else row["mean"]
    _save(tmp_path, "means", pa.Table.from_pylist(means))
    [lead] = BAKEOFF_REPORT.read(str(tmp_path)).lead
    assert lead.startswith("bm25 and original share the highest")
    assert "nDCG@10. bm25 is above cross-" in lead


def test_damage_of_the_ledger_and_what_may_be_billed_are_noted(tmp_path):
    notes = report_of(tmp_path, damaged=2, maybe_dollars=3.0, uncounted={}).notes
    assert notes[0].startswith("The ledger held 2 damaged lines")
    assert notes[1].startswith("Up to $3.00 more may have been billed")
    assert not report_of(tmp_path, damaged=0, maybe_dollars=0.0, uncounted={}).notes


def test_the_foot_says_how_the_numbers_were_made(tmp_path):
    write_bakeoff(tmp_path, label_draws=200)
    write_report(str(tmp_path))
    facts = (
        *("20261101T000000Z-abc", "zelo-ray 1.2.3", "truth s3://host/qrels.txt"),
        *("seed 7", "10,000 resamples", "200 draws of the labels"),
    )
    text = Page((tmp_path / "report.html").read_text()).words()
    assert [fact for fact in facts if fact not in text.rpartition("Run ")[2]] == []
    assert "secret" not in text


@pytest.mark.parametrize(
    ("name", "section"),
    [
        *(("comparisons", "differences"), ("metrics", "distribution"), ("slices", "slices")),
        *(("failures", "failures"), ("unjudged", "unjudged"), ("means", "leaderboard")),
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
    run["summary"]["rankers"].append({"name": "absent", **counts, "note": "no key"})
    write_json(str(tmp_path), "run.json", run)
    write_report(str(tmp_path))
    page = Page((tmp_path / "report.html").read_text())
    dash = "\N{EN DASH}"
    assert page.table("leaderboard")[-1] == ["absent", dash, dash, "0 of 8", "$0.5000 + ?"]
    assert page.table("failures")[1] == ["absent", "8", "no key"]
    assert "absent ranked none of 8 queries: it takes no part." in page.words()
    [(_, ridges)] = page.chart("distribution", 0)
    assert [sum(trace["y"]) for trace in ridges["data"]] == [7, 7, 7, 7, 6]


SCALES = (("scores", None), ("grades", 4.0))


def test_relevance_is_marked_only_where_it_has_a_threshold(tmp_path):
    truth = {"queries": 60, "documents": 1234}
    scores, high = ({**truth, "kind": kind, "relevant_from": n} for kind, n in SCALES)
    for marks, summed in ((2, {}), (0, {"truth": scores}), (0, {"truth": high})):
        write_bakeoff(tmp_path, **summed)
        write_report(str(tmp_path))
        page = Page((tmp_path / "report.html").read_text())
        assert page.attributes.count(("class", "relevance relevant")) == marks


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["short", "<b>"], ["short", "&lt;b&gt;"]),
        (["a" * 20 + "x" + "b" * 20, "c"], ["a" * 17 + "…" + "b" * 18, "c"]),
        (
            [f"rerank:some/very-long-{i}@http://localhost:8000/rerank" for i in "12"],
            ["…very-long-1@http://lo…", "…very-long-2@http://lo…"],
        ),
        (
            [f"{'a' * 60}{middle}{'b' * 60}" for middle in "12"],
            ["…aaaaaaaaaa1bbbbbbbbbb…", "…aaaaaaaaaa2bbbbbbbbbb…"],
        ),
        (
            ["1" + "a" * 30 + i + "b" * 30 + "1" for i in "23"] + ["2" + "a" * 60],
            ["1" + "a" * 30 + i + "b" * 30 + "1" for i in "23"] + ["2" + "a" * 60],
        ),
    ],
)
def test_labels_are_short_and_as_different_as_the_names(names, shown):
    assert labels(names) == shown
