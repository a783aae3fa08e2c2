"""Scores that cannot mean what a reader thinks are told in terminal, page and ``run.json``."""

import json
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.fakes.rerank import Rerankers, rank
from tests.input_pools import brought, lines, put
from tests.test_bakeoff import contest_of, truth_of
from zelo_ray import bakeoff
from zelo_ray.cli import main
from zelo_ray.commands.bakeoff.outcome import MeasuredRanker
from zelo_ray.files.candidates import find_doubts
from zelo_ray.files.judgments import read_runs
from zelo_ray.records import Document, Pool
from zelo_ray.reports.warning_codes import WarningCode

CASES = Path(__file__).parents[1] / "golden" / "cases"
TRUTH = str(CASES / "runs.qrels")
EQUAL, DISTANCES, RIGHT = (
    str(CASES / f"{name}.run") for name in ("all-scores-equal", "distances", "ranks-and-scores")
)


def run_of(*queries, ranks=None):
    """A run from the scores of each query; ``ranks`` are those that it came with."""
    rows = [(f"q{q}", f"d{d}", s) for q, scores in enumerate(queries) for d, s in enumerate(scores)]
    columns = dict(zip(("query_id", "doc_id", "score"), zip(*rows, strict=True), strict=True))
    table = pa.table({name: list(values) for name, values in columns.items()})
    return table if ranks is None else table.append_column("rank", pa.array(ranks, pa.float64()))


def test_the_cases_are_told_in_all_three_places(tmp_path, capsys):
    out = tmp_path / "out"
    words = ["bakeoff", "--truth", TRUTH, "--runs", EQUAL, DISTANCES, RIGHT]
    assert main([*words, "--out", str(out)]) == 3
    shown = " ".join(capsys.readouterr().out.split())
    page = (out / "report.html").read_text()
    for text in (shown, page):
        for code, run in (
            (WarningCode.EQUAL_SCORES, "const"),
            (WarningCode.REVERSED_RANKS, "dist"),
        ):
            values = {"run": run, "among": "the first 10", "queries": "15 of 15 queries"}
            assert code.text.format(**values) in text
        assert "of best" not in text.partition("Warning: ")[2].partition("results:")[0]
    warned = json.loads((out / "run.json").read_text())["summary"]["warnings"]
    assert [(one["code"], one["run"], one["queries"], one["of_queries"]) for one in warned] == [
        ("equal_scores", "const", 15, 15),
        ("reversed_ranks", "dist", 15, 15),
    ]
    assert warned[0]["depth"] == 10


def test_runs_whose_scores_are_all_equal_in_a_fifth_of_the_queries_are_told():
    plain = [[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]] * 4
    assert find_doubts(run_of([1, 1], *plain), 10) == {"equal_scores": (1, 5)}
    assert find_doubts(run_of([1, 1], *plain, *plain), 10) == {}
    assert find_doubts(run_of([3, 2, 2, 2]), 10) == {}
    assert find_doubts(run_of([2, 2, 2, 1]), 3) == {"equal_scores": (1, 1)}
    assert find_doubts(run_of([1], [1]), 10) == {}, "a document alone is equal to none"
    near = run_of([0.1 + 1e-12, 0.1, 0.1 - 1e-12])  # as they are measured, in 32 bits
    assert [*find_doubts(near, None)] == ["equal_scores"]


def test_a_run_with_the_odd_tie_is_not_doubted():
    chance = random.Random(3)
    for decimals in (2, 3):
        queries = [[round(chance.gauss(20, 5), decimals) for _ in range(100)] for _ in range(50)]
        ranks = np.concatenate([np.argsort(np.argsort(-np.array(q))) for q in queries])
        assert find_doubts(run_of(*queries, ranks=ranks), 10) == {}


def test_ranks_that_have_nothing_to_do_with_scores_are_no_reverse():
    chance = random.Random(4)
    for size in (4, 20):
        queries = [[chance.random() for _ in range(size)] for _ in range(200)]
        ranks = [r for _ in queries for r in chance.sample(range(size), size)]
        assert find_doubts(run_of(*queries, ranks=ranks), 10) == {}
        reverse = [r for q in queries for r in np.argsort(np.argsort(q))]
        found = find_doubts(run_of(*queries, ranks=reverse), 10)
        assert found == {"reversed_ranks": (200, 200)}
    some = run_of(*([1, 2, 3, 4, 5],) * 2, *([5, 4, 3, 2, 1],) * 8, ranks=[0, 1, 2, 3, 4] * 10)
    assert find_doubts(some, 10) == {"reversed_ranks": (2, 10)}
    assert find_doubts(run_of([1, 2, 3, 4], ranks=[np.nan] * 4), 10) == {}


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.run"])
def test_ranks_are_read_where_there_are_any(tmp_path, name):
    path, rows = tmp_path / name, [("q", f"d{n}", n, n / 10) for n in range(5)]
    frame = pd.DataFrame(rows, columns=["query_id", "doc_id", "rank", "score"])
    if name == "a.parquet":
        frame.to_parquet(path)
    elif name == "a.csv":
        frame.to_csv(path, index=False)
    else:
        path.write_text("".join(f"q Q0 d{n} {n} {n / 10} r\n" for n in range(5)))
    [run] = read_runs([str(path)]).values()
    assert [*find_doubts(run, 10)] == ["reversed_ranks"]


def test_ranks_may_be_anything(tmp_path):
    path = put(tmp_path / "a.run", "q Q0 d1 - 2 r\nq Q0 d2 x 1 r\n")
    [run] = read_runs([path]).values()
    assert run["rank"].null_count == 2
    path = put(tmp_path / "a.csv", "query_id,doc_id,rank,score\nq,d,first,1\n")
    [run] = read_runs([path]).values()
    assert run.column_names == ["query_id", "doc_id", "score"]


def test_a_frame_with_ranks_is_looked_at(tmp_path):
    rows = [("parcel-missing", f"parcel-missing-0{n}", n, n / 10) for n in range(1, 8)]
    frame = pd.DataFrame(rows, columns=["query_id", "doc_id", "rank", "score"])
    bakeoff(truth=TRUTH, runs={"mine": frame}, out=tmp_path, progress=None)
    warned = json.loads((tmp_path / "run.json").read_text())["summary"]["warnings"]
    assert [(one["code"], one["run"]) for one in warned] == [("reversed_ranks", "mine")]


@pytest.mark.parametrize("spec", ["cohere:m", "tei=rerank:m@{}/tei"])
def test_a_server_that_scores_all_alike_is_told(tmp_path, monkeypatch, spec):
    documents = tuple(Document(each, f"text {each}") for each in "abcd")
    with Rerankers() as server:
        environ = server.point(monkeypatch)
        options = {"reranker_options": {"tei": {"documents_field": "texts"}}}
        more = options if spec.startswith("tei") else {}
        pools = [Pool(f"q{n}", "what?", documents) for n in range(3)]
        found = rank(pools, tmp_path, environ, spec.format(server.url), **more).scores
    rows = [(q, d, s) for q, scores in found.items() for d, s in scores.items()]
    columns = [list(column) for column in zip(*rows, strict=True)]
    run = pa.table(dict(zip(("query_id", "doc_id", "score"), columns, strict=True)))
    outcome = contest_of(MeasuredRanker("server", run), truth=truth_of(queries=[*found]))
    [caution] = outcome.cautions
    assert (caution.code, caution.run, caution.queries) == ("equal_scores", "server", 3)


def test_candidates_of_doubtful_runs_are_told_where_they_are_taken(tmp_path, capsys):
    docs = [{"_id": f"d{n}", "text": f"text {n}"} for n in range(5)]
    corpus = put(tmp_path / "corpus.jsonl", lines(docs))
    queries = put(tmp_path / "queries.tsv", "q\twhat\n")
    texts = {"corpus": corpus, "queries": queries}
    turned = put(tmp_path / "a.run", "".join(f"q Q0 d{n} {n} {n} far\n" for n in range(5)))
    _, told = brought(tmp_path, turned, **texts)
    [note] = [line for line in told if "ranks of far are the reverse" in line]
    assert "in 1 of 1 query" in note
    flat = put(tmp_path / "b.run", "".join(f"q Q0 d{n} {n} 1 flat\n" for n in range(5)))
    words = ["convert", "pool", "--runs", turned, flat, "--corpus", corpus, "--queries", queries]
    assert main([*words, "--out", str(tmp_path / "pools.jsonl")]) == 0
    shown = capsys.readouterr().out
    assert "the ranks of far are the reverse of its scores" in shown
    assert "scores of flat are all equal in 1 of 1" in shown


def test_other_commands_that_measure_runs_say_it_too(tmp_path, capsys):
    other = put(tmp_path / "b.qrels", Path(TRUTH).read_text())
    runs = ["--runs", EQUAL, DISTANCES, RIGHT]
    main(["compare-labels", "--old", TRUTH, "--new", other, *runs])
    first = capsys.readouterr().out
    main(["agree", TRUTH, "--human", other, *runs, "--measure", "nDCG@10"])
    for text in (first, capsys.readouterr().out):
        shown = " ".join(text.split())
        assert "ranks of dist are the reverse" in shown
        assert "reverse of its scores in 15 of 15" in shown
        assert "scores of const are all equal in 15 of" in shown
        assert " best are" not in shown


def test_none_of_the_official_runs_of_trec_is_doubted(published):
    files = sorted((published / "trec_dl19").glob("runs_top*/*.run"))
    assert len(files) == 43
    for file in files:
        [run] = read_runs([str(file)]).values()
        assert find_doubts(run, 10) == {}, file
