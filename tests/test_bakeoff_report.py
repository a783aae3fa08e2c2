"""The page of a bake-off: who leads, which differences are real, and what is left out."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.test_report import Page
from zelo_ray.api.results import render_text
from zelo_ray.commands.bakeoff.report import BAKEOFF_REPORT
from zelo_ray.commands.bakeoff.slices import DIFFICULTY
from zelo_ray.commands.report import write_report
from zelo_ray.formats.results import write_json
from zelo_ray.formats.tables import table_of
from zelo_ray.records import Comparison, Mean, Metric
from zelo_ray.reports.charts.labels import labels
from zelo_ray.reports.terminal import render_lines

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
    missing = [int(np.sum(~row)) for row in answered]
    summary = {
        "truth": {"queries": queries, "documents": 1234, "kind": "grades"},
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
    curve = {arm: [[k, (i + k) / 130] for k in (1, 5, 10, 100)] for i, arm in enumerate(arms)}
    run = {
        "kind": "bakeoff",
        "run_id": "20261101T000000Z-abc",
        "versions": {"zelo-ray": "1.2.3"},
        "options": {
            "confidence": 0.95,
            "truth": f"s3://name:secret@host/{say}qrels.txt?token=secret",
            "ties": "trec",
            "seed": 7,
            "resamples": 10_000,
        },
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


def test_what_rerankers_were_told_has_a_section(tmp_path, written):
    assert "told" not in written[2].sections
    write_bakeoff(tmp_path)
    run = json.loads((tmp_path / "run.json").read_text())
    run["options"] |= {"instructions": "A nurse can act on it.", "show_query": ["narrative"]}
    (tmp_path / "run.json").write_text(json.dumps(run))
    write_report(str(tmp_path))
    words = Page((tmp_path / "report.html").read_text(encoding="utf-8")).words("told")
    assert "A nurse can act on it." in words
    assert "With each query they were shown" in words
    assert "narrative" in words


def report_of(out, **written):
    write_bakeoff(out, **written)
    return BAKEOFF_REPORT.read(str(out))


def test_the_leaderboard_stands_by_the_leading_measure(tmp_path):
    arms, values = write_bakeoff(tmp_path)
    report = BAKEOFF_REPORT.read(str(tmp_path))
    table = report.table("leaderboard")
    assert table.columns == ["ranker", *MEASURES, "ranked"]
    assert [row[0].text for row in table.rows] == list(arms)
    mean = values[0].mean()
    best = table.rows[0][1]
    assert (best.value, best.low, best.high) == pytest.approx((mean, mean - 0.05, mean + 0.04))
    assert [row[3] for row in table.rows] == ["60 of 60"] * 4 + ["59 of 60"]
    assert report.tiles == [("nDCG@10 of bm25", best), ("judged documents", "1,234")]
    names = ["leaderboard", "differences", "failures"]
    assert [section.name for section in report.sections if section] == names


def test_means_over_fewer_queries_say_so_and_costs_have_a_column(tmp_path):
    write_bakeoff(tmp_path, queries=30)
    run = json.loads((tmp_path / "run.json").read_text())
    run["summary"]["truth"]["queries"] = 31
    run["summary"]["rankers"][0] |= {"dollars": 0.5, "unpriced": 2}
    write_json(str(tmp_path), "run.json", run)
    table = BAKEOFF_REPORT.read(str(tmp_path)).table("leaderboard")
    assert table.rows[0][1].endswith("] over 30")
    assert table.rows[0][-1] == "$0.5000 + ?"


def test_the_terminal_shows_the_report_in_its_width(tmp_path):
    report = report_of(tmp_path)
    for width in (80, 120):
        text = render_text(render_lines(report, width), width)
        lines = [line for line in text.splitlines() if not line.startswith("results: ")]
        assert max(map(len, lines)) <= width
        assert "bm25 has the highest nDCG@10." in text
        assert "6 of 10 differences are significant" in " ".join(text.split())


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


def test_the_foot_says_how_the_numbers_were_made(written, tmp_path):
    facts = (
        *("20261101T000000Z-abc", "zelo-ray 1.2.3", "truth s3://host/qrels.txt"),
        *("ties trec", "seed 7", "10,000 resamples"),
    )
    foot = written[2].words().rpartition("Run ")[2]
    assert [fact for fact in facts if fact not in foot] == []
    assert "labels taken as they are" in foot
    assert "secret" not in written[2].words()
    write_bakeoff(tmp_path, label_draws=200, pairs={(0, 1): {"p_labels": 0.8}})
    write_report(str(tmp_path))
    page = Page((tmp_path / "report.html").read_text())
    foot = page.words().rpartition("Run ")[2]
    assert [fact for fact in facts if fact not in foot] == []
    assert "200 draws of the labels" in foot
    first = dict(zip(*page.table("differences")[:2], strict=True))
    assert first["A above in draws"] == "80%"


def test_differences_are_told_from_the_side_of_the_row(written):
    _arms, values, page = written
    chances = dict(page.chart("differences", 1))["nDCG@10"]["data"][0]
    assert chances["z"][0] == [None, 0.8, *[0.9995] * 3]
    assert chances["z"][1][0] == pytest.approx(0.2)
    apart = values[1].mean() - values[0].mean()
    assert chances["hovertext"][1][0].startswith(f"original minus bm25: {apart:+.4f} [")
    assert chances["text"][1][:3] == ["20.0%", "", "80.0%"]
    forest = dict(page.chart("differences", 0))["AP"]
    assert forest["layout"]["yaxis"]["ticktext"][0] == "original"
    assert forest["layout"]["yaxis"]["ticktext"][-1] == "run-file (on 59 common queries)"
    both = [values[0] - row for row in values[1:-1]] + [(values[0] - values[-1])[:-1]]
    assert forest["data"][0]["x"] == pytest.approx([apart.mean() for apart in both])
    assert forest["data"][0]["marker"]["symbol"] == ["circle-open", *["circle"] * 3]
    for row in page.table("differences")[1:]:
        assert row[3].startswith("+"), "the better arm is A"


def test_every_query_that_was_answered_is_in_the_histograms_and_in_the_scatter(written):
    arms, values, page = written
    [(_, ridges)] = page.chart("distribution", 0)
    assert [sum(trace["y"]) for trace in ridges["data"]] == [60, 60, 60, 60, 59]
    named = [note["text"] for note in ridges["layout"]["annotations"]]
    assert named == [*arms[:-1], "run-file, 1 not ranked"]
    assert len({str(ridges["layout"][f"yaxis{i}"]["range"]) for i in ("", 2, 3, 4, 5)}) == 1
    duel = page.chart("distribution", 1)
    assert [name for name, _, _ in duel["rankers"]] == list(arms)
    assert duel["rankers"][1][2] == pytest.approx(values[1])
    assert duel["rankers"][-1][2][-1] is None
    assert duel["queries"][0] == "q0: which one?"


def test_the_hardest_queries_come_first(written):
    _, values, page = written
    [(_, figure)] = page.chart("difficulty", 0)
    middle = figure["data"][1]["y"]
    means = values.mean(axis=0)
    means[-1] = values[:-1, -1].mean()  # of those that answered
    assert middle == sorted(middle)
    assert middle == pytest.approx(sorted(means))
    assert page.table("difficulty")[1][0].partition(":")[0] == f"q{means.argmin()}"


def test_slices_curves_contrasts_failures_and_unjudged_are_there(written):
    arms, _, page = written
    slices = dict(page.chart("slices", 0))
    assert list(slices) == ["domain", DIFFICULTY]
    assert slices["domain"]["layout"]["yaxis"]["ticktext"] == ["law (20)", "faq (20)"]
    [(_, curves)] = page.chart("curves", 0)
    assert [trace["name"] for trace in curves["data"]] == list(arms)
    text = page.words("contrasts")
    assert text.index("d0 Text 0") < text.index("d1 Text 1")
    assert "bm25 and run-file which one?" in text
    assert "one? q0 · 0.900 and 0.200 bm25 0.900" in text
    right = text.rpartition("run-file")[2]
    assert right.index("? d1") < right.index("0 d2") < right.index("3 d0")
    assert page.table("failures")[1] == ["run-file", "1", "failed: too few scores"]
    assert page.table("failed")[1] == ["run-file", "q59", "failed", "too few scores", "3"]
    assert page.table("unjudged")[1] == ["bm25", "1", "1"]


@pytest.mark.parametrize(
    ("name", "section"),
    [
        *(("comparisons", "differences"), ("metrics", "distribution"), ("slices", "slices")),
        *(("failures", "failures"), ("holes", "unjudged"), ("means", "leaderboard")),
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
    assert len(page.chart("difficulty", 0)[0][1]["data"][1]["y"]) == 7


def test_a_bakeoff_of_one_ranker_has_a_page(tmp_path):
    write_bakeoff(tmp_path, arms=("alone",), queries=9)
    write_report(str(tmp_path))
    page = Page((tmp_path / "report.html").read_text())
    text = page.words()
    assert "Bake-off of 1 ranker on 9 queries" in text
    assert "alone is the only ranker" in text
    assert "differences" not in page.sections
    assert len(page.charts["distribution"]) == 1
    assert page.table("difficulty")[0] == ["query", "nDCG@10"]


def test_of_many_arms_the_best_are_drawn_and_the_surplus_is_folded(tmp_path):
    arms, _ = write_bakeoff(tmp_path, arms=[f"arm-{i:02}" for i in range(12)])
    write_report(str(tmp_path))
    page = Page((tmp_path / "report.html").read_text())
    [(_, curves)] = page.chart("curves", 0)
    assert [trace["name"] for trace in curves["data"]] == arms[:8]
    assert len({trace["marker"]["symbol"] for trace in curves["data"]}) == 8
    [(_, slices)] = [item for item in page.chart("slices", 0) if item[0] == "domain"]
    assert len({trace["marker"]["symbol"][0] for trace in slices["data"]}) == 8
    assert [len(table) for table in page.tables["differences"]] == [31, 37]
    assert "36 more" in page.words("differences")
    matrix = dict(page.chart("differences", 1))["AP"]["data"][0]
    assert matrix["showscale"]
    assert "and 5 more." in page.words()


def test_a_curve_ends_where_the_ranking_does(tmp_path):
    write_bakeoff(tmp_path)
    ranked = [("bm25", "q1")] * 7 + [("bm25", "q2")] + [("original", "q1")] * 10
    rows = [
        {"run": run, "query_id": query_id, "doc_id": str(number), "score": -float(number)}
        for number, (run, query_id) in enumerate(ranked)
    ]
    _save(tmp_path, "runs", pa.Table.from_pylist(rows))
    write_report(str(tmp_path))
    [(_, curves)] = Page((tmp_path / "report.html").read_text()).chart("curves", 0)
    x = {trace["name"]: trace["x"] for trace in curves["data"]}
    assert (x["bm25"], x["original"], x["run-file"]) == ([1, 5, 7], [1, 5, 10], [1, 5, 10, 100])
    assert curves["data"][0]["y"][2] == pytest.approx(10 / 130)


def test_relevance_is_marked_only_where_it_has_a_threshold(tmp_path):
    truth = {"queries": 60, "documents": 1234, "kind": "scores"}
    for marks, summed in ((2, {}), (0, {"truth": truth})):
        write_bakeoff(tmp_path, **summed)
        write_report(str(tmp_path))
        page = Page((tmp_path / "report.html").read_text())
        assert page.attributes.count(("class", "relevance relevant")) == marks


def test_values_of_a_slice_beyond_the_first_are_counted(tmp_path):
    write_bakeoff(tmp_path)
    [row, *_] = pq.read_table(tmp_path / "slices.parquet").to_pylist()
    rows = [row | {"slice": "tenant", "value": f"t{i:02}"} for i in range(31)]
    _save(tmp_path, "slices", pa.Table.from_pylist(rows))
    write_report(str(tmp_path))
    page = Page((tmp_path / "report.html").read_text())
    assert "Of tenant the first 30 of 31 values." in page.words("slices")
    [(name, figure)] = page.chart("slices", 0)
    assert (name, len(figure["layout"]["yaxis"]["ticktext"])) == ("tenant", 30)


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
