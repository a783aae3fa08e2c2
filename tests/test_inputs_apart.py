"""What users bring in several files: runs and their texts, folders, and assistants' answers."""

import json
import shlex
from pathlib import Path

import pytest

from tests.builders import set_in_file
from tests.crash import bare_environment
from tests.games import write
from tests.input_pools import (
    CORPUS,
    POOLS,
    QRELS,
    QUERIES,
    ROWS,
    RUN,
    brought,
    cells,
    folder,
    lines,
    of_run,
    put,
)
from zelo_ray.cli import main
from zelo_ray.commands.convert import convert
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.input import InputOptions, convert_inputs
from zelo_ray.formats.interchange.texts import read_texts
from zelo_ray.options import ConvertOptions

__all__ = ["folder"]


def order(pools):
    return {pool["query"]["id"]: [d["id"] for d in pool["documents"]] for pool in pools}


def test_qrels_do_not_tell_their_grades_by_the_order(folder):
    put(folder / "qrels.tsv", QRELS.replace(" 0 ", "\t").replace(" ", "\t"))
    beir, _ = of_run(folder, run="qrels.tsv")
    found, told = of_run(folder, run="qrels.txt")
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


@pytest.mark.parametrize(
    ("part", "head"),
    [
        ("corpus", "docid\ttitle\tabstract"),
        ("corpus", "title\tabstract\tdoc_id"),
        ("corpus", "_id\tabstract"),
        ("queries", "qid\tutterance"),
    ],
)
def test_a_head_that_calls_the_text_by_an_unknown_name_is_no_text(tmp_path, part, head):
    path, cells = tmp_path / "texts.tsv", head.split("\t")
    path.write_text(f"{head}\n" + "\t".join(f"{cell} one" for cell in cells) + "\n")
    with pytest.raises(InputError, match=rf"texts.tsv:2: has no text .*{cells[-1]}"):
        [*read_texts(str(path), part)]
    text = "utterance" if part == "queries" else "abstract"
    (document,) = read_texts(str(path), part, columns={"text": text})
    assert document.content.endswith(f"{text} one")


@pytest.mark.parametrize("text", ["d1\thello there\n", "q1\ttopic\n", "d1\tx\tA title\ttext\n"])
def test_lines_without_a_head_are_texts(tmp_path, text):
    path = tmp_path / "texts.tsv"
    path.write_text(text)
    (document,) = read_texts(str(path), "corpus")
    assert (document.id, document.content) == (text[:2], text[3:-1])


def test_what_lacks_a_text_or_a_candidate_is_named(folder):
    put(folder / "corpus.jsonl", lines(CORPUS[:2]))
    put(folder / "more.jsonl", lines([*QUERIES, {"_id": "q9", "text": "idle"}]))
    found, told = of_run(folder, queries="more.jsonl")
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
    assert order(of_run(folder, run="rows.csv")[0]) == order(POOLS)


def test_candidates_have_their_texts_from_the_folder_they_lie_in_or_from_one_given(tmp_path):
    root = str(tmp_path / "set")
    put(tmp_path / "set" / "corpus.jsonl", lines(CORPUS))
    put(tmp_path / "set" / "queries.jsonl", lines(QUERIES))
    run = put(tmp_path / "mine.run", RUN)
    assert order(brought(tmp_path, root, run)[0]) == order(POOLS)
    with pytest.raises(InputError, match="nothing in it says which documents to judge"):
        convert_inputs([root], str(tmp_path), InputOptions())
    for name, text in (("bm25.run", RUN), ("scoreddocs.trec", RUN), ("qrels.trec", QRELS)):
        place = Path(put(tmp_path / "set" / name, text))
        found, told = brought(tmp_path, root)
        assert {query: sorted(ids) for query, ids in order(found).items()} == order(POOLS)
        assert told[0].startswith("BEIR or MTEB folder: 2 queries, 6 ")
        place.unlink()


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


def test_convert_pool_knows_the_same(folder):
    out = folder / "pools.jsonl"
    options = {"corpus": str(folder / "corpus.jsonl"), "queries": str(folder / "queries.tsv")}
    convert(ConvertOptions(what="pool", source=str(folder / "mine.run"), out=str(out), **options))
    assert order([json.loads(line) for line in out.read_text().splitlines()]) == order(POOLS)
    with pytest.raises(OptionError, match="add --corpus and --queries"):
        convert(ConvertOptions(what="pool", source=str(folder / "mine.run"), out=str(out)))


@pytest.mark.ray
def test_a_contest_ranks_the_documents_of_its_truth(tmp_path, one_ray):
    root = tmp_path / "set"
    rated = [
        {"query-id": f"q{q}", "corpus-id": f"d{d}", "score": d} for q in range(2) for d in range(3)
    ]
    (root / "qrels").mkdir(parents=True)
    write(root / "qrels/test-00000-of-00001.parquet", rated)
    for name, rows in (("corpus", CORPUS), ("queries", QUERIES)):
        (root / name).mkdir()
        for n in range(2):
            write(root / name / f"test-0000{n}-of-00002.parquet", rows[n::2])
    pools = put(root / "pools.jsonl", lines(POOLS))
    out = str(tmp_path / "out")
    words = ["--truth", str(root), "--rerankers", "bm25", "original", *set_in_file(resamples=100)]
    status, printed = one_ray.run(bare_environment(), "bakeoff", *words, "--out", out)
    assert (status, "Means over 2 queries" in printed) == (0, True), printed
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["notes"] == [f"left out other files of {root}: {Path(pools).name}"]
