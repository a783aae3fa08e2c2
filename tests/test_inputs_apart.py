"""What users bring in several files: runs and their texts, folders, and assistants' answers."""

import json
import shlex
from collections import namedtuple
from pathlib import Path

import pandas as pd
import pytest

from tests.crash import bare_environment
from tests.test_inputs import POOLS, ROWS, brought, cells, lines, put
from zelo_ray import estimate
from zelo_ray.api.frames import convert_pools
from zelo_ray.cli import main
from zelo_ray.commands.convert import convert
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.input import InputOptions, convert_inputs
from zelo_ray.options import ConvertOptions

RUN = "".join(
    f"{pool['query']['id']} Q0 {document['id']} {rank} {9 - rank} mine\n"
    for pool in POOLS
    for rank, document in enumerate(pool["documents"])
)
QRELS = "".join(f"q{q} 0 d{d} {d}\n" for q in range(2) for d in range(3))
CORPUS = [{"_id": f"d{d}", "title": "", "text": f"text {d}"} for d in range(3)]
QUERIES = [{"_id": f"q{q}", "text": f"query {q}"} for q in range(2)]


@pytest.fixture
def folder(tmp_path):
    """A run, and texts beside it."""
    put(tmp_path / "mine.run", RUN)
    put(tmp_path / "qrels.txt", QRELS)
    put(tmp_path / "corpus.jsonl", lines(CORPUS))
    put(tmp_path / "queries.tsv", "".join(f"{q['_id']}\t{q['text']}\n" for q in QUERIES))
    return tmp_path


def order(pools):
    return {pool["query"]["id"]: [d["id"] for d in pool["documents"]] for pool in pools}


def write_corpus(path):
    if path.suffix == ".parquet":
        pd.DataFrame(CORPUS).to_parquet(path)
    elif path.suffix == ".csv":
        put(path, cells(CORPUS, ";"))
    elif path.suffix == ".tsv":
        put(path, cells([{"docno": row["_id"], "text": row["text"]} for row in CORPUS], "\t"))
    else:
        put(path, "".join(f"{row['_id']}\t{row['text']}\n" for row in CORPUS))
    return str(path)


@pytest.mark.parametrize("name", ["c.parquet", "c.csv", "c.tsv", "c.txt"])
def test_a_run_keeps_its_order_and_takes_texts_from_anywhere(folder, name):
    corpus = write_corpus(folder / name)
    queries = str(folder / "queries.tsv")
    found, told = brought(folder, str(folder / "mine.run"), corpus=corpus, queries=queries)
    assert order(found) == {"q0": ["d0", "d1", "d2"], "q1": ["d0", "d1", "d2"]}
    assert told[0].startswith("TREC run: 2 queries, 6 documents")


def test_qrels_do_not_tell_their_grades_by_the_order(folder):
    texts = {"corpus": str(folder / "corpus.jsonl"), "queries": str(folder / "queries.tsv")}
    rows = "".join(f"q{q}\td{d}\t{d}\n" for q in range(2) for d in range(3))
    beir, _ = brought(folder, put(folder / "qrels.tsv", rows), **texts)
    found, told = brought(folder, str(folder / "qrels.txt"), **texts)
    assert found == beir
    assert {query: sorted(ids) for query, ids in order(found).items()} == {
        "q0": ["d0", "d1", "d2"],
        "q1": ["d0", "d1", "d2"],
    }
    assert "relevance" not in json.dumps(found)
    assert told[0].startswith("judgments: 2 queries")


def test_the_error_says_which_flags_to_add(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    words = ["annotate", "mine.run", "--judges", "offline:bm25", "--dry-run", "--out", "o"]
    assert main(words) == 2
    why, command = capsys.readouterr().err.splitlines()
    assert why.startswith(f"zelo-ray: {folder}/mine.run is a TREC run without ")
    assert why.endswith(": add --corpus and --queries")
    files = ["--corpus", f"{folder}/corpus.jsonl", "--queries", f"{folder}/queries.tsv"]
    assert command == "  " + shlex.join(["zelo-ray", *words[:2], *words[-2:], *words[2:-2], *files])
    assert main([*words, "--corpus", "corpus.jsonl", "--queries", "queries.tsv"]) == 0
    assert "TREC run: 2 queries, 6 documents" in capsys.readouterr().out
    assert not (folder / "o").exists()


def test_one_missing_flag_is_named_alone(folder):
    run = str(folder / "mine.run")
    with pytest.raises(OptionError, match=r"without the texts of queries: add --queries$"):
        convert_inputs([run], str(folder), InputOptions(corpus=str(folder / "corpus.jsonl")))


def test_what_lacks_a_text_or_a_candidate_is_named(folder):
    put(folder / "corpus.jsonl", lines(CORPUS[:2]))
    queries = put(folder / "more.jsonl", lines([*QUERIES, {"_id": "q9", "text": "idle"}]))
    texts = {"corpus": str(folder / "corpus.jsonl"), "queries": queries}
    found, told = brought(folder, str(folder / "mine.run"), **texts)
    assert order(found) == {"q0": ["d0", "d1"], "q1": ["d0", "d1"]}
    missing, idle = told[1:]
    assert missing.endswith("the corpus lacks: 1 of 3 documents (d2)")
    assert idle == "left out queries without candidates: 1 (q9)"


@pytest.mark.parametrize("lacking", ["passage", "question"])
def test_rows_without_a_text_find_it_elsewhere(folder, lacking):
    rows = [{name: value for name, value in row.items() if name != lacking} for row in ROWS]
    place = put(folder / "rows.csv", cells(rows))
    flag = "corpus" if lacking == "passage" else "queries"
    with pytest.raises(OptionError, match=f"add --{flag}"):
        convert_inputs([place], str(folder), InputOptions())
    texts = {"corpus": str(folder / "corpus.jsonl"), "queries": str(folder / "queries.tsv")}
    assert order(brought(folder, place, **texts)[0]) == order(POOLS)


@pytest.mark.parametrize("candidates", ["top_ranked", "qrels", "run", "scoreddocs"])
def test_folders_of_collections(tmp_path, candidates):
    root = tmp_path / "set"
    put(root / "corpus.jsonl", lines(CORPUS))
    put(root / "queries.jsonl", lines(QUERIES))
    ranked = [{"query-id": f"q{q}", "corpus-ids": ["d2", "d0"]} for q in range(2)]
    rows = "".join(f"q{q}\td{d}\t1\n" for q in range(2) for d in range(3))
    files = {
        "top_ranked": ("top_ranked.jsonl", lines(ranked)),
        "qrels": ("qrels/test.tsv", f"query-id\tcorpus-id\tscore\n{rows}"),
        "run": ("bm25.run", RUN),
        "scoreddocs": ("scoreddocs.trec", RUN),
    }
    put(root / files[candidates][0], files[candidates][1])
    found, told = brought(tmp_path, str(root))
    assert len(found) == 2
    assert told[0].startswith(
        f"BEIR or MTEB folder: 2 queries, {4 if candidates == 'top_ranked' else 6} "
    )


def test_a_folder_as_ir_datasets_exports_it(tmp_path):
    root = tmp_path / "set"
    put(root / "docs.tsv", "".join(f"{row['_id']}\t{row['text']}\n" for row in CORPUS))
    put(root / "queries.tsv", "".join(f"{row['_id']}\t{row['text']}\n" for row in QUERIES))
    put(root / "qrels.trec", QRELS)
    assert {q: sorted(ids) for q, ids in order(brought(tmp_path, str(root))[0]).items()} == {
        "q0": ["d0", "d1", "d2"],
        "q1": ["d0", "d1", "d2"],
    }


def test_a_folder_gives_a_run_its_texts(tmp_path):
    put(tmp_path / "set" / "corpus.jsonl", lines(CORPUS))
    put(tmp_path / "set" / "queries.jsonl", lines(QUERIES))
    run = put(tmp_path / "mine.run", RUN)
    assert order(brought(tmp_path, str(tmp_path / "set"), run)[0]) == order(POOLS)
    with pytest.raises(InputError, match="nothing in it says which documents to judge"):
        convert_inputs([str(tmp_path / "set")], str(tmp_path), InputOptions())


def test_a_folder_of_tables_is_one_input(tmp_path):
    for part in range(2):
        rows = ROWS[part * 3 : part * 3 + 3]
        pd.DataFrame(rows).to_parquet(put(tmp_path / "rows" / f"part-{part}.parquet", ""))
    assert brought(tmp_path, str(tmp_path / "rows"))[0] == POOLS


def test_kinds_are_not_mixed(folder):
    rows = put(folder / "rows.csv", cells(ROWS))
    with pytest.raises(InputError, match="are of different kinds"):
        convert_inputs([rows, str(folder / "mine.run")], str(folder), InputOptions())


def test_places_may_be_urls(folder):
    put("memory://bring/rows.csv.gz", cells(ROWS))
    found = convert_inputs(["memory://bring/rows.csv.gz"], "memory://bring/out", InputOptions())
    assert found.places[0].startswith("memory://bring/out/input/pools-")
    assert (
        convert_inputs(["memory://bring/rows.csv.gz"], "memory://bring/out", InputOptions())
        == found
    )


def session(assistant, name="s", answer="yes"):
    turns = [
        {"qa_id": str(n), "query": f"question {n}", "assistant": f"{assistant}: {answer}"}
        for n in range(2)
    ]
    return {"session_id": name, "assistant_id": assistant, "conversation": turns}


@pytest.mark.parametrize("shared", [True, False])
def test_answers_of_assistants_meet_in_one_pool(tmp_path, shared):
    names = [
        put(tmp_path / f"{n}.json", json.dumps([session(n, "s" if shared else n)], indent=2))
        for n in ("red", "blue")
    ]
    found, told = brought(tmp_path, *names)
    assert order(found) == {"0": ["red", "blue"], "1": ["red", "blue"]}
    assert found[0]["query"].get("session_id") == ("s" if shared else None)
    kind, _, counts = told[0].partition(": ")
    assert kind == "conversations of assistants"
    assert counts.startswith("2 queries, 4 documents")


def test_equal_ids_of_several_sessions_stay_apart(tmp_path):
    rows = [session(who, name) for name in ("s", "t") for who in ("red", "blue")]
    found, _ = brought(tmp_path, put(tmp_path / "a.jsonl", lines(rows)))
    assert [*order(found)] == ["s:0", "s:1", "t:0", "t:1"]


def test_a_data_set_of_ir_datasets_in_memory():
    doc, query = namedtuple("Doc", "doc_id text"), namedtuple("Query", "query_id text")
    qrel = namedtuple("Qrel", "query_id doc_id relevance")

    class Held:
        docs_iter = staticmethod(lambda: [doc(d["_id"], d["text"]) for d in CORPUS])
        queries_iter = staticmethod(lambda: [query(q["_id"], q["text"]) for q in QUERIES])
        qrels_iter = staticmethod(lambda: [qrel("q0", "d0", 1), qrel("q0", "d1", 0)])

    data, _told = convert_pools(Held(), {})
    assert sorted(d["id"] for d in json.loads(data)["documents"]) == ["d0", "d1"]


def test_estimates_and_comparisons_take_them(folder, capsys):
    texts = {"corpus": folder / "corpus.jsonl", "queries": folder / "queries.tsv"}
    told = str(estimate(folder / "mine.run", out=folder / "o", judges="offline:bm25", **texts))
    assert "about 2 queries" in told
    frame = pd.DataFrame(ROWS).rename(columns={"passage": "html"})
    told = estimate(frame, out=folder / "o", judges="offline", columns="content=html")
    assert "about 2 queries" in str(told)
    flags = [word for name, place in texts.items() for word in (f"--{name}", str(place))]
    words = ["compare-protocols", str(folder / "mine.run"), *flags, "--dry-run"]
    more = ["--human", str(folder / "qrels.txt"), "--judges", "offline", "--out", str(folder / "o")]
    assert main([*words, *more, "--protocols", "zelo", "graded"]) == 0
    assert "All 2 protocols together" in capsys.readouterr().out
    assert not (folder / "o").exists()


def test_convert_pool_knows_the_same(folder):
    out = folder / "pools.jsonl"
    options = {"corpus": str(folder / "corpus.jsonl"), "queries": str(folder / "queries.tsv")}
    convert(ConvertOptions(what="pool", source=str(folder / "mine.run"), out=str(out), **options))
    assert order([json.loads(line) for line in out.read_text().splitlines()]) == order(POOLS)
    with pytest.raises(OptionError, match="add --corpus and --queries"):
        convert(ConvertOptions(what="pool", source=str(folder / "mine.run"), out=str(out)))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["anotate", "x"], "command 'anotate' (did you mean 'annotate'?)"),
        (["annotate", "x", "--juges", "y"], "option --juges (did you mean '--judges'?)"),
    ],
)
def test_one_wrong_letter_is_one_short_line(capsys, words, says):
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert len(line) < 140


@pytest.mark.ray
@pytest.mark.parametrize("parts", [False, True])
def test_a_contest_ranks_the_documents_of_its_truth(tmp_path, one_ray, parts):
    root = tmp_path / "set"
    rated = [
        {"query-id": f"q{q}", "corpus-id": f"d{d}", "score": d} for q in range(2) for d in range(3)
    ]
    if parts:
        for name, rows in (("corpus", CORPUS), ("queries", QUERIES), ("qrels", rated)):
            (root / name).mkdir(parents=True)
            for n in range(2):
                pd.DataFrame(rows[n::2]).to_parquet(root / name / f"test-0000{n}-of-00002.parquet")
    else:
        put(root / "corpus.jsonl", lines(CORPUS))
        put(root / "queries.jsonl", lines(QUERIES))
        put(root / "qrels" / "test.tsv", cells(rated, "\t"))
    pools = put(root / "pools.jsonl", lines(POOLS))
    out = str(tmp_path / "out")
    words = ["--truth", str(root), "--rerankers", "bm25", "original", "--resamples", "100"]
    status, printed = one_ray.run(bare_environment(), "bakeoff", *words, "--out", out)
    assert (status, "Means over 2 queries" in printed) == (0, True), printed
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["notes"] == [f"left out other files of {root}: {Path(pools).name}"]
