"""Whether judges may have read what they judge: what is recognised, what is not, what is said."""

import json
from pathlib import Path

import pytest

from tests.builders import pool_of, results_of, write_run
from tests.crash import ROOT
from zelo_ray.commands.annotate.report import ANNOTATE_REPORT
from zelo_ray.formats.public_collections import (
    FEWEST_QUERIES,
    CollectionRecogniser,
    hash_query,
)
from zelo_ray.formats.results import write_text
from zelo_ray.reports.contamination import warn_of_public_data
from zelo_ray.reports.source import Source
from zelo_ray.reports.warning_codes import WarningCode

REAL = ROOT.parent / "shared" / "data"
DOCUMENTS = {
    "MS MARCO": ("msmarco_passage_12_345678901", "msmarco_v2.1_doc_01_1674#4_231"),
    "ClueWeb": ("clueweb09-en0000-00-00000", "clueweb22-en0000-00-00001"),
    "GOV2": ("GX000-00-13923627",),
    "NFCorpus": ("MED-10", "MED-4090"),
    "TREC Robust": ("FBIS3-1", "FT911-3032", "FR940104-0-00001", "LA010189-0001"),
    "WT10g": ("WTX001-B01-1",),
    "TREC newswire": ("AP880212-0001", "WSJ870324-0001"),
}


def recognised(queries, doc_ids):
    recogniser = CollectionRecogniser()
    for query in queries:
        recogniser.add(query, doc_ids)
    return [(c.name, c.by, c.matched, c.total) for c in recogniser.collections]


@pytest.mark.parametrize(
    ("name", "doc_id"),
    [(name, doc_id) for name, ids in DOCUMENTS.items() for doc_id in ids],
)
def test_ids_of_a_collection_are_recognised_where_most_documents_have_them(name, doc_id):
    assert recognised(["a"], [doc_id] * 5) == [(name, "documents", 5, 5)]
    assert recognised(["a"], [f"{doc_id}~length"] * 5 + ["x"] * 5)[0][2:] == (5, 10)
    assert not recognised(["a"], [doc_id] * 4), "too few"
    assert not recognised(["a"], [doc_id] * 5 + ["x"] * 6), "too small a share"


@pytest.mark.parametrize(
    "doc_id",
    ["7187158", "doc-12", "MEDICAL-1", "d1", "FT1", "tick-removal-01", "GX-1", "xMED-10", "LA1-1"],
)
def test_plain_ids_recognise_nothing(doc_id):
    assert not recognised(["a query of my own"], [doc_id] * 20)


def texts_of(folder, name):
    path = REAL / folder / name
    if not path.exists():
        pytest.skip("the collection is not here")
    if name.endswith(".jsonl"):
        return [json.loads(line)["turns"][0] for line in path.read_text().splitlines()]
    return [line.partition("\t")[2] for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("folder", "file", "name"),
    [
        ("trec_dl19", "queries.tsv", "TREC Deep Learning 2019"),
        ("cranfield", "queries.tsv", "Cranfield"),
        ("mtbench_human", "question.jsonl", "MT-Bench"),
        ("llmjudge2024", "llm4eval_query_2024.txt", "LLMJudge 2024 (TREC Deep Learning 2023)"),
    ],
)
def test_every_query_of_a_real_collection_is_recognised_and_of_no_other(folder, file, name):
    texts = texts_of(folder, file)
    assert recognised(texts, []) == [(name, "queries", len(texts), len(texts))]
    shouted = [f"  {text.upper()}?! " for text in texts[:FEWEST_QUERIES]]
    assert recognised(shouted, [])[0][0] == name, "case, spaces and punctuation do not count"
    assert not recognised(texts[: FEWEST_QUERIES - 1], []), "two may be chance"
    own = [f"{text} at home" for text in texts]
    assert not recognised([*texts[:3], *own[:40]], [])


def test_the_sample_is_of_no_public_collection():
    recogniser = CollectionRecogniser()
    for path in sorted((ROOT / "data" / "sample").glob("*.jsonl")):
        for pool in map(json.loads, path.read_text().splitlines()):
            recogniser.add(pool["query"]["query"], [row["id"] for row in pool["documents"]])
    assert not recogniser.collections


def test_a_hash_shows_no_text_and_is_of_the_words():
    assert hash_query("What is  X?") == hash_query("what is x")
    assert hash_query("what is x") != hash_query("what is y")
    table = Path(ROOT / "zelo_ray" / "formats" / "public_queries.txt").read_text()
    for line in table.splitlines():
        name, _, hashes = line.partition("\t")
        assert name
        assert all(len(digest) == 10 and int(digest, 16) >= 0 for digest in hashes.split())


def write_lines(folder, doc_id="MED-{}"):
    lines = [
        {
            "query": {"id": f"q{q}", "query": f"query {q}"},
            "documents": [{"id": doc_id.format(10 * q + d), "content": "text"} for d in range(3)],
        }
        for q in range(4)
    ]
    write_text(str(folder), "annotated.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


def test_only_models_may_have_read_something(tmp_path):
    source = Source(str(tmp_path))
    judges = ["openai:gpt-6-luna", "offline:bm25"]
    assert not [*warn_of_public_data(source, "annotated.jsonl", judges, "judges")], "no such file"
    write_lines(tmp_path)
    (warning,) = warn_of_public_data(source, "annotated.jsonl", judges, "judges")
    assert warning.code is WarningCode.COLLECTION_IS_PUBLIC
    assert warning.text == (
        "openai:gpt-6-luna may have read NFCorpus, with its labels (12 of 12 documents have ids as "
        "there)"
    )
    free = ["offline:bm25", "simulated:judge"]
    assert not [*warn_of_public_data(source, "annotated.jsonl", free, "judges")]
    write_lines(tmp_path, "doc-{}")
    assert not [*warn_of_public_data(source, "annotated.jsonl", judges, "judges")]


def test_a_run_says_so(tmp_path):
    pool = pool_of()
    write_run(tmp_path, results_of(tmp_path, [pool]))
    codes = [warning.code for warning in ANNOTATE_REPORT.read(str(tmp_path)).warnings.every]
    assert WarningCode.COLLECTION_IS_PUBLIC not in codes
    write_lines(tmp_path)
    codes = [warning.code for warning in ANNOTATE_REPORT.read(str(tmp_path)).warnings.every]
    assert WarningCode.COLLECTION_IS_PUBLIC in codes
