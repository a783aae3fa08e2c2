"""The page of a bake-off: who leads, which differences are real, and what is left out."""

import itertools
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zelo_ray.commands.bakeoff.report import BAKEOFF_REPORT
from zelo_ray.commands.bakeoff.slices import DIFFICULTY
from zelo_ray.commands.report import write_report
from zelo_ray.files.storage import write_json
from zelo_ray.files.tables import table_of
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
    metrics = [
        Metric(arm, query_id, measure, float(values[i, j]))
        for measure in MEASURES
        for i, arm in enumerate(arms)
        for j, query_id in enumerate(ids)
    ]
    means = [
        Mean(arm, measure, mean, mean - 0.05, mean + 0.04, queries)
        for measure in MEASURES
        for arm, mean in zip(arms, values.mean(axis=1), strict=True)
    ]
    rest = {"measure": "nDCG@10", "mean": 0.5, "low": 0.4, "high": 0.7, "queries": 20}
    slices = [
        {"slice": name, "value": f"{say}{value}", "run": arm, **rest}
        for name, value in (("domain", "law"), ("domain", "faq"), (DIFFICULTY, "hard"))
        for arm in arms
    ]
    failure = {"run": arms[-1], "query_id": ids[-1], "status": "failed"}
    failure |= {"reason": f"{say}too few scores", "attempts": 3}
    unjudged = {"run": arms[0], "query_id": ids[0], "doc_id": f"{say}d9", "rank": 4}
    _save(out, "metrics", table_of(metrics, Metric))
    _save(out, "means", table_of(means, Mean))
    comparisons = _comparisons(arms, values, answered, pairs or {})
    _save(out, "comparisons", table_of([*comparisons], Comparison))
    for name, rows in (("failures", [failure]), ("slices", slices), ("unjudged", [unjudged])):
        _save(out, name, pa.Table.from_pylist(rows))
    keys = ("relevance", "rank_a", "rank_b")
    documents = [
        {"doc_id": f"{say}d{i}", "text": f"{say}Text {i}"} | dict(zip(keys, row, strict=True))
        for i, row in enumerate([(3.0, 1, 3), (None, 2, 1), (0.0, None, 2)])
    ]
    contrast = {"query_id": ids[0], "query": f"{say}which one?", "documents": documents}
    contrast |= {"run_a": arms[0], "run_b": arms[-1], "value_a": 0.9, "value_b": 0.2}
    note = {"dollars": 0.0, "unpriced": 0, "note": f"{say}a note" if say else ""}
    rankers = [
        {"name": arm, "answered": queries - lost, "missing": lost, "failed": lost, **note}
        for arm, lost in zip(arms, (~answered).sum(axis=1).tolist(), strict=True)
    ]
    truth = {"queries": queries, "documents": 1234, "kind": "grades", "relevant_from": 1}
    summary = {"truth": truth, "rankers": rankers, "standing": arms, "label_draws": 0}
    summary |= {"measures": list(MEASURES), "leading": MEASURES[0], "seconds": {"measure": 0.5}}
    place = f"s3://name:secret@host/{say}qrels.txt?token=secret"
    run = {
        "kind": "bakeoff",
        "run_id": "20261101T000000Z-abc",
        "versions": {"zelo-ray": "1.2.3"},
        "options": {"confidence": 0.95, "truth": place, "seed": 7},
        "summary": summary | summed,
        "contrasts": [contrast],
    }
    write_json(str(out), "run.json", run)
    return arms, values


def report_of(out, **written):
    write_bakeoff(out, **written)
    return BAKEOFF_REPORT.read(str(out))


def test_a_row_says_no_more_than_its_comparison_allows(tmp_path):
    for fields, significance, doubtful in (
        ({"p_holm": 0.01}, "significant", False),
        ({"p_holm": 0.01, "p_labels": 0.8}, "significant", True),
        ({"p_holm": 0.01, "kin": "gpt"}, "only by judges of gpt", False),
        ({}, "not significant", False),
        ({"queries": 3}, "too few queries", False),
    ):
        report = report_of(tmp_path, pairs={(0, 1): fields})
        first, second, shown, *_ = report.table("differences").rows[0]
        assert (first.text, second.text) == ("bm25", "original")
        begin, _, doubt = shown.partition(", ")
        assert (begin, bool(doubt)) == (significance, doubtful)
        is_sure = (significance, doubtful) == ("significant", False)
        assert ("It is above original" in report.lead[0]) == is_sure


def test_the_lead_may_be_shared_or_lost_where_both_ranked(tmp_path):
    turned = {"p_holm": 0.01, "p_labels": 0.01, "difference": -0.2, "queries": 9}
    report = report_of(tmp_path, pairs={(0, 1): turned})
    assert "below original (on 9 common queries)" in report.lead[0]
    first = report.table("differences").rows[0]
    assert [*(cell.text for cell in first[:2]), first[2]] == ["original", "bm25", "significant"]
    assert first[3].value == 0.2
    means = pq.read_table(tmp_path / "means.parquet").to_pylist()
    for row in means:
        row["mean"] = means[0]["mean"] if row["run"] == "original" else row["mean"]
    _save(tmp_path, "means", pa.Table.from_pylist(means))
    [lead] = BAKEOFF_REPORT.read(str(tmp_path)).lead
    assert lead.startswith("bm25 and original share the highest")


def test_of_too_few_queries_nothing_is_shown_as_a_figure(tmp_path):
    undefined = dict.fromkeys(("low", "high", "p_better"), np.nan) | {"queries": 3}
    pairs = dict.fromkeys(itertools.combinations(range(len(ARMS)), 2), undefined)
    first = report_of(tmp_path, pairs=pairs).table("differences").rows[0]
    assert first[2] == "too few queries"
    assert np.isnan([first[3].low, first[5].value]).all()


def test_damage_and_what_may_be_billed_are_noted(tmp_path):
    for damaged, dollars, notes in ((2, 3.0, 2), (0, 0.0, 0)):
        summed = {"damaged": damaged, "maybe_dollars": dollars, "uncounted": {}}
        assert len(report_of(tmp_path, **summed).notes) == notes


def test_the_page_tells_no_secret_of_an_address(tmp_path):
    write_bakeoff(tmp_path)
    write_report(str(tmp_path))
    text = (tmp_path / "report.html").read_text()
    assert "s3://host/qrels.txt" in text
    assert "secret" not in text


def test_labels_of_charts_differ_as_the_names_do():
    alike = ["1" + "a" * 30 + i + "b" * 30 + "1" for i in "23"] + ["2" + "a" * 60]
    for names, shown in (
        (["short", "<b>"], ["short", "&lt;b&gt;"]),
        (["a" * 20 + "x" + "b" * 20, "c"], ["a" * 17 + "…" + "b" * 18, "c"]),
        (
            [f"{'a' * 60}{middle}{'b' * 60}" for middle in "12"],
            ["…aaaaaaaaaa1bbbbbbbbbb…", "…aaaaaaaaaa2bbbbbbbbbb…"],
        ),
        (alike, alike),
    ):
        assert labels(names) == shown
