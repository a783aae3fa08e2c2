"""Recorded judges say again what was written down, and nothing where nothing was."""

import asyncio
import gzip
import json
import math
from dataclasses import replace

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders import (
    ask,
    pool_of,
    request_of,
    results_of,
    rows_of,
    write_lines,
)
from zelo_ray.command_options import BakeoffOptions
from zelo_ray.engine.ledger import Ledger
from zelo_ray.errors import PanelError
from zelo_ray.files.recordings import read_recording
from zelo_ray.protocols import PROTOCOLS, advance, load_protocol
from zelo_ray.providers import Fatal, build_panel
from zelo_ray.providers.recorded import Recorded
from zelo_ray.records import Document
from zelo_ray.rerankers import build_rankers

OPINIONS = [
    {"query_id": "q1", "doc_id": f"d{n}", "worth": n * 0.9, "rationale": f"Because of {n}."}
    for n in range(4)
]


@pytest.fixture
def recording(tmp_path):
    return write_lines(tmp_path / "ada.jsonl", OPINIONS)


def judged(recording, out, protocol="zelo", pool=None, **fields):
    """The judgments that a protocol makes of the pool of four documents, by recorded judges."""
    return step(recording, out, protocol, pool, **fields).judgments


def step(recording, out, protocol="zelo", pool=None, **fields):
    """What a protocol comes to: judgments and failures."""
    out.mkdir(exist_ok=True)
    pool = pool or pool_of()
    asker = ask([pool], out, {}, judges=[f"recorded:{recording}"], protocol=protocol, **fields)
    panel, options = asker.job
    return advance(load_protocol(protocol).rounds(pool, panel, options), Ledger(str(out)))


def refusal(name):
    with pytest.raises(PanelError) as raised:
        build_panel([str(name)], {}, {})
    return str(raised.value)


def test_a_vote_is_by_the_difference_of_worth(recording, tmp_path):
    votes = {(v.doc_id_a, v.doc_id_b): v for v in judged(recording, tmp_path / "out")}
    assert votes["d0", "d1"].preference == pytest.approx(math.tanh(0.9), abs=1e-4)
    assert votes["d0", "d3"].preference == pytest.approx(math.tanh(2.7), abs=1e-4)
    assert "d3, worth 2.7 of 3: Because of 3." in votes["d0", "d3"].reasoning


def test_a_grade_is_the_one_written_down_or_the_nearest_to_the_worth(recording, tmp_path):
    told = [*OPINIONS[:3], {**OPINIONS[3], "grade": 1, "covered": ["how"], "missing": ["when"]}]
    write_lines(recording, told)
    grades = judged(recording, tmp_path / "out", "graded")
    assert [grade.grade for grade in grades] == [0, 1, 2, 1]
    assert grades[3].rationale == "Because of 3."
    assert (grades[3].facets_covered, grades[3].facets_missing) == (("how",), ("when",))


def test_every_protocol_judges_and_nothing_fails(recording, tmp_path):
    for protocol in PROTOCOLS:
        found = step(recording, tmp_path / protocol, protocol)
        assert found.judgments
        assert (found.failures, found.missing) == ((), ())
    for protocol in ("samre", "baseline-strong", "baseline-weak"):
        verdicts = judged(recording, tmp_path / f"both-{protocol}", protocol, both_orders=True)
        assert {verdict.winner for verdict in verdicts} == {"model_b"}
    assert judged(recording, tmp_path / "best-of", "best-of")[-1].winner_id == "d3"


def test_what_nobody_has_an_opinion_on_is_a_failure(recording, tmp_path):
    write_lines(recording, OPINIONS[:3])
    found = step(recording, tmp_path / "out", "graded")
    assert [grade.doc_id for grade in found.judgments] == ["d0", "d1", "d2"]
    (failure,) = found.failures
    assert failure.doc_ids == ("d3",)
    assert failure.reason.startswith(f"recorded:{recording}: ")
    assert "no opinion on document 'd3' of query 'q1'" in failure.reason


def test_two_queries_of_the_same_words_are_not_answered_for_each_other(recording, tmp_path):
    more = [{**row, "query_id": "q2", "worth": 3 - row["worth"]} for row in OPINIONS]
    write_lines(recording, OPINIONS + more)
    first = judged(recording, tmp_path / "out", "graded")
    second = judged(recording, tmp_path / "out", "graded", pool=pool_of(query_id="q2"))
    assert [[each.grade for each in grades] for grades in (first, second)] == [
        [0, 1, 2, 3],
        [3, 2, 1, 0],
    ]


def test_an_opinion_on_the_very_pair_counts_first(recording, tmp_path):
    pair = {"query_id": "q1", "doc_id_a": "d0", "doc_id_b": "d3", "preference": -0.5}
    write_lines(recording, [*OPINIONS, {**pair, "reasoning": "I like it."}])
    votes = {(v.doc_id_a, v.doc_id_b): v for v in judged(recording, tmp_path / "out")}
    assert votes["d0", "d3"].preference == -0.5
    assert "I like it." in votes["d0", "d3"].reasoning
    assert votes["d0", "d1"].preference > 0


def test_votes_alone_answer_votes_and_no_grades(tmp_path, recording):
    first = judged(recording, tmp_path / "one")
    rows = [{k: getattr(v, k) for k in v.__dataclass_fields__} for v in first]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "votes.parquet")
    name = f"{tmp_path}/votes.parquet#recorded:{recording}"
    again = judged(name, tmp_path / "two")
    assert [(v.doc_id_a, v.doc_id_b, v.preference) for v in again] == [
        (v.doc_id_a, v.doc_id_b, v.preference) for v in first
    ]
    assert len(step(name, tmp_path / "three", "graded").failures) == 4


def test_the_results_of_a_run_are_a_recording_of_each_of_its_judges(tmp_path):
    results_of(tmp_path, [pool_of()])
    (tmp_path / "run.json").write_text("{}")
    names = [judge.name for judge in build_panel([f"recorded:{tmp_path}"], {}, {})]
    judges = sorted({row["judge"] for row in rows_of(tmp_path, "votes")})
    assert sorted(names) == [f"recorded:{tmp_path}#{judge}" for judge in judges]


def test_a_folder_is_a_panel_and_packing_changes_no_question(tmp_path):
    text = "".join(json.dumps(row) + "\r\n" for row in OPINIONS).encode()
    (tmp_path / "a.jsonl").write_bytes(text)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(text))
    panel = build_panel([f"recorded:{tmp_path}"], {}, {})
    assert [judge.name for judge in panel] == [
        f"recorded:{tmp_path}/a.jsonl",
        f"recorded:{tmp_path}/b.jsonl.gz",
    ]
    assert len({judge.options["recording"] for judge in panel}) == 1


def test_judges_that_rows_name_are_a_panel(recording):
    write_lines(recording, [{**row, "judge": name} for row in OPINIONS for name in ("Ada", "Bo")])
    names = [judge.name for judge in build_panel([f"recorded:{recording}"], {}, {})]
    assert names == [f"recorded:{recording}#Ada", f"recorded:{recording}#Bo"]
    (one,) = build_panel([f"recorded:{recording}#Bo"], {}, {})
    assert one.name == f"recorded:{recording}#Bo"
    assert "no judge 'Boo'" in refusal(f"recorded:{recording}#Boo")


def test_another_content_is_another_question_and_another_place_is_none(recording, tmp_path):
    (before,) = build_panel([f"recorded:{recording}"], {}, {})
    write_lines(recording, [{**OPINIONS[0], "worth": 2}, *OPINIONS[1:]])
    (after,) = build_panel([f"recorded:{recording}"], {}, {})
    moved = replace(before, options={**before.options, "file": "/elsewhere"})
    first, second, third = (request_of(judge=judge).key for judge in (before, after, moved))
    assert first != second
    assert first == third


BAD = [
    ({"worth": 3.5}, "worth: must be at most 3"),
    ({"worth": "2"}, "worth: must be a number"),
    ({"worth": None}, "has neither worth nor grade"),
    ({"grade": 4}, "grade: must be at most 3"),
    ({"doc_id": 7.5}, "doc_id: must be a text"),
    ({"query_id": None}, "query_id: is missing"),
    (OPINIONS[0], "a second opinion on d0 of query q1"),
]


def test_what_is_no_recording_is_refused_with_its_place(recording, tmp_path):
    for row, why in BAD:
        write_lines(recording, [OPINIONS[0], {**OPINIONS[1], **row}])
        assert refusal(f"recorded:{recording}").startswith(f"recorded:{recording}:2: {why}")
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "torn.jsonl").write_text(f'{json.dumps(OPINIONS[0])}\n{{"query_id": \n')
    (tmp_path / "folder").mkdir()
    for name, why in (
        ("none.jsonl", "no such file"),
        ("empty.jsonl", "an empty file"),
        ("torn.jsonl:2", "is not valid JSON"),
        ("folder", "this folder holds no recording"),
    ):
        said = refusal(f"recorded:{tmp_path}/{name.removesuffix(':2')}")
        assert said.startswith(f"recorded:{tmp_path}/{name}: {why}")


@pytest.mark.parametrize("lines", [OPINIONS[:2], None])
def test_a_recording_that_a_node_does_not_see_as_it_was_stops_its_judge(recording, lines):
    (judge,) = build_panel([f"recorded:{recording}"], {}, {})
    write_lines(recording, lines) if lines else recording.unlink()
    read_recording.cache_clear()  # a node has a memory of its own
    request = request_of(judge=judge, query_id="q1", documents=(Document("d1", "x"),))
    why = "has changed since the run began" if lines else "no such file"
    with pytest.raises(Fatal, match=f"{why}; every node must see the recording"):
        asyncio.run(Recorded().send(request))


def test_a_recorded_judge_may_rank_in_a_bakeoff(recording, tmp_path):
    options = BakeoffOptions(
        truth="qrels", pools=("x",), out="out", rerankers=(f"ada=recorded:{recording}",)
    )
    (arm,) = build_rankers(options, {}, run_id="run")
    assert (arm.name, arm.protocol) == ("ada", "rerank")
    other = BakeoffOptions(
        truth="qrels", pools=("x",), out="out", rerankers=(f"recorded:{tmp_path}",)
    )
    write_lines(tmp_path / "bo.jsonl", OPINIONS[:1])
    with pytest.raises(PanelError, match="stands for 2 judges; name one"):
        build_rankers(other, {}, run_id="run")


def test_a_recording_at_a_url_is_read_once_for_all_its_judges(tmp_path):
    with fsspec.open("memory://opinions/ada.jsonl", "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in OPINIONS)
    (judge,) = build_panel(["recorded:memory://opinions/ada.jsonl"], {}, {})
    before = read_recording.cache_info().misses
    documents = (Document("d1", "x"), Document("d2", "y"))
    for _ in range(3):
        request = request_of(judge=judge, query_id="q1", documents=documents)
        assert asyncio.run(Recorded().send(request)).status == "ok"
    assert read_recording.cache_info().misses == before
