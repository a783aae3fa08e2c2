"""First stages by rerankers: every pair is ranked, and no document is scored twice for it."""

import json

import numpy as np
import pytest

from tests.builders import Shelf, SilentWatch, rows_of, set_in_file
from tests.fakes.rerank import Rerankers
from zelo_ray.commands.bakeoff.first_stages import build_grid, name_pair, unite_first_stages
from zelo_ray.commands.bakeoff.report import BAKEOFF_REPORT
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.pools import LineLimits, read_lines
from zelo_ray.options import BakeoffOptions
from zelo_ray.protocols import Progress, find_protocol
from zelo_ray.protocols.first_stages import FIRST_STAGES, view_of_stage
from zelo_ray.records import Document, Pool
from zelo_ray.rerankers import asking_options, build_rankers

pytestmark = pytest.mark.nightly

QUERIES = 8
ORDERS = {"bm25": ("a", "b", "c", "d"), "dense": ("d", "e", "b")}
WORTH = {"a": 3.0, "b": 1.0, "c": 0.5, "d": 2.0, "e": 0.0}
PATHS = {"OPENAI_API_KEY": "a-key-for-tests-only"}


def document(query, name):
    return {"id": f"{query}-{name}", "content": f"{name} of {query} [[worth={WORTH[name]}]]"}


def write_stages(folder, orders=ORDERS):
    places = []
    for stage, order in orders.items():
        lines = [
            {
                "query": {"id": f"q{q}", "query": f"what is asked in q{q}?"},
                "documents": [document(f"q{q}", name) for name in order],
            }
            for q in range(QUERIES)
        ]
        path = folder / f"{stage}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        places.append(f"{stage}={path}")
    truth = folder / "truth.qrels"
    rows = [(q, name) for q in range(QUERIES) for name in WORTH]
    truth.write_text("".join(f"q{q} 0 q{q}-{name} {int(WORTH[name])}\n" for q, name in rows))
    return places, str(truth)


def unite(folder, pools, **texts):
    options = BakeoffOptions(truth="none", out=str(folder / "out"), pools=tuple(pools), **texts)
    return unite_first_stages(options, SilentWatch())


def test_pools_of_first_stages_are_united_and_keep_their_orders(tmp_path):
    places, _ = write_stages(tmp_path)
    options, stages = unite(tmp_path, places)
    assert stages == ("bm25", "dense")
    pools = [line.pool for line in read_lines(options.pools[0], LineLimits())]
    assert [d.id[-1] for d in pools[0].documents] == ["a", "b", "c", "d", "e"]
    for stage, order in ORDERS.items():
        assert tuple(d.id[-1] for d in view_of_stage(pools[3], stage).documents) == order


def test_runs_are_first_stages_where_texts_are_named(tmp_path):
    runs = []
    corpus = [document(f"q{q}", name) for q in range(QUERIES) for name in WORTH]
    rows = [{"_id": row["id"], "text": row["content"]} for row in corpus]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    queries = [{"_id": f"q{q}", "text": f"what is asked in q{q}?"} for q in range(QUERIES)]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    for stage, order in ORDERS.items():
        lines = [
            f"q{q} Q0 q{q}-{name} {rank} {-rank} {stage}\n"
            for q in range(QUERIES)
            for rank, name in enumerate(order, 1)
        ]
        (tmp_path / f"{stage}.run").write_text("".join(lines))
        runs.append(f"{stage}={tmp_path}/{stage}.run")
    texts = {"corpus": f"{tmp_path}/corpus.jsonl", "queries": f"{tmp_path}/queries.jsonl"}
    options, _ = unite(tmp_path, runs, **texts)
    first = next(iter(read_lines(options.pools[0], LineLimits()))).pool
    for stage, order in ORDERS.items():
        assert tuple(d.id[-1] for d in view_of_stage(first, stage).documents) == order
    assert options.corpus is None


def test_pools_without_names_are_no_grid(tmp_path):
    place = write_stages(tmp_path)[0][0].partition("=")[2]
    options, stages = unite(tmp_path, [place])
    assert (options.pools, stages) == ((place,), ())


def test_names_are_for_all_or_none_and_texts_of_one_id_are_one(tmp_path):
    places, _ = write_stages(tmp_path)
    with pytest.raises(OptionError, match="has no name"):
        unite(tmp_path, [places[0], places[1].partition("=")[2]])
    other = tmp_path / "other.jsonl"
    other.write_text((tmp_path / "bm25.jsonl").read_text().replace("a of", "another of"))
    with pytest.raises(InputError, match="its text in changed is not that of"):
        unite(tmp_path, [places[0], f"changed={other}"])


def pool_of_stages():
    names = [*dict.fromkeys(name for order in ORDERS.values() for name in order)]
    return Pool(
        "q",
        "what?",
        tuple(
            Document(
                name,
                f"text {name}",
                {FIRST_STAGES: {s: o.index(name) for s, o in ORDERS.items() if name in o}},
            )
            for name in names
        ),
    )


def grid_of(*rerankers, **fields):
    options = BakeoffOptions(truth="none", out="out", rerankers=rerankers, **fields)
    made = build_rankers(options, PATHS, run_id="run")
    asked = {ranker.name: (ranker, asking_options(ranker, options)) for ranker in made}
    return build_grid(asked, tuple(ORDERS))


def replay(ranker, options, shelf, answer):
    """Ask until nothing is missing; the requests, and what came of them."""
    rounds = find_protocol(ranker.protocol).rounds(pool_of_stages(), (ranker.judge,), options)
    progress, asked = Progress(rounds), []
    while missing := (step := progress.step(shelf)).missing:
        asked += missing
        for request in missing:
            shelf.put(request, json.dumps(answer(request)))
    return asked, {row.doc_id: row.score for row in step.judgments}


def test_a_pointwise_judge_sees_each_document_once_for_all_first_stages():
    grid, shelf = grid_of("pointwise:openai:gpt-6-luna"), Shelf()
    (asked,) = grid.asked.values()

    def answer(request):
        return {"reasoning": "", "relevance": ord(request.documents[0].id) - ord("a")}

    requests, _ = replay(*asked, shelf, answer)
    assert sorted(request.documents[0].id for request in requests) == ["a", "b", "c", "d", "e"]
    for name, pair in grid.rankers.items():
        more, scores = replay(*pair, shelf, answer)
        assert not more
        assert set(scores) == set(ORDERS[grid.pairs[name][0]])


def test_a_reranker_of_whole_pools_sees_each_first_stage_as_it_is():
    grid, shelf = grid_of("listwise:openai:gpt-6-luna"), Shelf()
    (asked,) = grid.asked.values()
    requests, _ = replay(*asked, shelf, lambda r: {"order": [*range(1, len(r.documents) + 1)]})
    assert [tuple(d.id for d in r.documents) for r in requests] == [*ORDERS.values()]
    ranker, options = grid.rankers[name_pair("dense", "listwise:openai:gpt-6-luna")]
    more, scores = replay(ranker, options, shelf, None)
    assert not more
    assert sorted(scores, key=lambda d: -scores[d]) == [*ORDERS["dense"]]


def test_an_encoder_scores_the_union_once_and_each_first_stage_takes_its_own(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    grid, shelf = grid_of(f"e=cross-encoder:{tmp_path}", document_limit=2), Shelf()
    (asked,) = grid.asked.values()

    def answer(request):
        return {"scores": [float(ord(d.id[0])) for d in request.documents]}

    (request,), _ = replay(*asked, shelf, answer)
    assert [d.id for d in request.documents] == ["a", "b", "d", "e"], "the first two of each"
    for stage, found in (("bm25", {"a", "b"}), ("dense", {"d", "e"})):
        more, scores = replay(*grid.rankers[name_pair(stage, "e")], shelf, answer)
        assert not more
        assert set(scores) == found


@pytest.mark.ray
def test_a_grid_names_the_best_pair_and_the_effect_of_each_factor(one_ray, tmp_path):
    places, truth = write_stages(tmp_path)
    out = tmp_path / "out"
    with Rerankers() as server:
        words = ["bakeoff", "--truth", truth, "--pools", *places, *set_in_file(resamples=200)]
        words += ["--rerankers", "original", "bm25", f"hosted=rerank:m@{server.url}/vllm/v1"]
        words += ["--latency-queries", "2", "--out", str(out)]
        status, printed = one_ray.run({}, *words)
        assert status == 0, printed
        assert len(server.journal) == 2 * QUERIES + 2 * 2
        assert one_ray.run({}, *words)[0] == 0
        assert len(server.journal) == 2 * QUERIES + 2 * 2, "a second run pays nothing"
    assert "The best pair is bm25 > hosted" in printed
    assert "First stages, against the mean of all pairs: bm25 +" in printed
    rows = [row for row in rows_of(out, "grid") if row["measure"] == "nDCG@10"]
    pairs = {(row["first_stage"], row["reranker"]): row for row in rows}
    assert len(pairs) == 2 * 3 + 2 + 3
    of_bm25 = [row["mean"] for (stage, name), row in pairs.items() if stage == "bm25" and name]
    assert pairs["bm25", ""]["mean"] == pytest.approx(np.mean(of_bm25))
    effects = [pairs[stage, ""]["effect"] for stage in ORDERS]
    assert sum(effects) == pytest.approx(0, abs=1e-9)
    table = BAKEOFF_REPORT.read(str(out)).table("grid")
    assert [row[0].text for row in table.rows] == ["bm25", "dense", "mean"]
