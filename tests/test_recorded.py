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
from tests.crash import ROOT
from zelo_ray.engine.ledger import Ledger
from zelo_ray.errors import PanelError
from zelo_ray.formats.recordings import hash_recording, read_recording
from zelo_ray.options import BakeoffOptions
from zelo_ray.protocols import PROTOCOLS, advance, load_protocol
from zelo_ray.providers import Fatal, Refused, build_panel
from zelo_ray.providers.recorded import Recorded
from zelo_ray.records import Document
from zelo_ray.reports.progress.names import shorten_names
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


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_judges_and_nothing_fails(recording, tmp_path, protocol):
    found = step(recording, tmp_path / "out", protocol)
    assert found.judgments
    assert (found.failures, found.missing) == ((), ())


@pytest.mark.parametrize("protocol", ["samre", "baseline-strong", "baseline-weak"])
def test_the_worthier_of_two_answers_wins(recording, tmp_path, protocol):
    verdicts = judged(recording, tmp_path / "out", protocol, both_orders=True)
    assert {verdict.winner for verdict in verdicts} == {"model_b"}


def test_the_worthiest_is_crowned(recording, tmp_path):
    contests = judged(recording, tmp_path / "out", "best-of")
    assert contests[-1].winner_id == "d3"


def test_what_nobody_has_an_opinion_on_is_a_failure(recording, tmp_path):
    write_lines(recording, OPINIONS[:3])
    found = step(recording, tmp_path / "out", "graded")
    assert [grade.doc_id for grade in found.judgments] == ["d0", "d1", "d2"]
    (failure,) = found.failures
    assert failure.doc_ids == ("d3",)
    assert failure.reason.startswith(f"recorded:{recording}: ")
    assert "no opinion on document 'd3' of query 'q1'" in failure.reason


def test_an_opinion_is_on_one_query_alone(recording, tmp_path):
    found = step(recording, tmp_path / "out", pool=pool_of(query_id="q2"))
    assert (found.judgments, len(found.failures)) == ((), 6)


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
    said = f"recorded:{recording}: no judge 'Boo' (did you mean 'Bo'?); has Ada, Bo"
    assert refusal(f"recorded:{recording}#Boo") == said


def test_another_content_is_another_question_and_another_place_is_none(recording, tmp_path):
    (before,) = build_panel([f"recorded:{recording}"], {}, {})
    write_lines(recording, [{**OPINIONS[0], "worth": 2}, *OPINIONS[1:]])
    (after,) = build_panel([f"recorded:{recording}"], {}, {})
    moved = replace(before, options={**before.options, "file": "/elsewhere"})
    first, second, third = (request_of(judge=judge).key for judge in (before, after, moved))
    assert first != second
    assert first == third


def test_a_recording_may_be_at_a_url(tmp_path):
    with fsspec.open("memory://opinions/ada.jsonl", "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in OPINIONS)
    assert len(judged("memory://opinions/ada.jsonl", tmp_path / "out", "graded")) == 4


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"worth": 3.5}, "worth: must be at most 3"),
        ({"worth": "2"}, "worth: must be a number"),
        ({"worth": None}, "has neither worth nor grade"),
        ({"grade": 4}, "grade: must be at most 3"),
        ({"doc_id": 7.5}, "doc_id: must be a text"),
        ({"doc_id": True}, "doc_id: must be a text"),
        ({"query_id": None}, "query_id: is missing"),
        (OPINIONS[0], "a second opinion on d0 of query q1…{file}:1"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(recording, row, why):
    write_lines(recording, [OPINIONS[0], {**OPINIONS[1], **row}])
    start, *rest = f"recorded:{recording}:2: {why}".replace("{file}", str(recording)).split("…")
    message = refusal(f"recorded:{recording}")
    assert message.startswith(start)
    assert message.endswith(rest[-1] if rest else start)


def test_what_is_no_recording_is_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "torn.jsonl").write_text('{"query_id": \n')
    (tmp_path / "folder").mkdir()
    assert refusal("recorded").startswith("write recorded:FILE, or recorded:FOLDER")
    assert refusal(f"recorded:{tmp_path}/none.jsonl") == (
        f"recorded:{tmp_path}/none.jsonl: no such file"
    )
    assert refusal(f"recorded:{tmp_path}/empty.jsonl").endswith("empty.jsonl: holds no opinion")
    assert "torn.jsonl:1: is not valid JSON" in refusal(f"recorded:{tmp_path}/torn.jsonl")
    assert refusal(f"recorded:{tmp_path}/folder").endswith(
        "this folder holds no recording (.jsonl or .ndjson)"
    )


def test_ids_may_be_whole_numbers(tmp_path):
    pair = {"query_id": 1, "doc_id_a": 7, "doc_id_b": 8, "preference": 0.5}
    rows = [{"query_id": 1, "doc_id": 7, "worth": 1}, pair]
    place = str(write_lines(tmp_path / "ints.jsonl", rows))
    pq.write_table(pa.Table.from_pylist(rows[:1]), tmp_path / "ints.parquet")
    packed = f"{tmp_path}/ints.parquet"
    assert set(read_recording(place, hash_recording(place))[""]) == {("1", "7"), ("1", "7", "8")}
    assert set(read_recording(packed, hash_recording(packed))[""]) == {("1", "7")}


def test_a_judge_of_a_folder_is_told_by_its_file(tmp_path):
    for letter in "ab":
        write_lines(tmp_path / f"reader-{letter}.jsonl", OPINIONS)
    there = [f"recorded:{tmp_path}/reader-{letter}.jsonl" for letter in "ab"]
    assert refusal(f"recorded:{tmp_path}#reader-a") == (
        f"recorded:{tmp_path}: no judge 'reader-a' (did you mean '{there[0]}'?); "
        f"there are {', '.join(there)}"
    )
    write_lines(tmp_path / "reader-b.jsonl", [{**row, "judge": "Bo"} for row in OPINIONS])
    assert f"did you mean '{there[1]}#Bo'" in refusal(f"recorded:{tmp_path}#Bo")
    assert f"there are {there[0]}" in refusal(f"{there[0]}#Bo")


@pytest.mark.parametrize(
    ("slip", "there"),
    [
        ("recording", "recordings"),
        ("recordings/reader-a", "recordings/reader-a.jsonl.gz"),
        ("recordings/reader-a.json", "recordings/reader-a.jsonl.gz"),
    ],
)
def test_the_nearest_recording_is_named(tmp_path, monkeypatch, slip, there):
    (tmp_path / "recordings").mkdir()
    (tmp_path / "recordings" / "reader-a.jsonl.gz").write_bytes(b"")
    for place in ("", f"{tmp_path}/"):
        monkeypatch.chdir(tmp_path)
        near = f"no such file (did you mean '{place}{there}'?)"
        assert refusal(f"recorded:{place}{slip}") == f"recorded:{place}{slip}: {near}"


def test_a_recording_is_read_once_however_many_judges_there_are(tmp_path):
    for number in range(40):
        write_lines(tmp_path / f"{number}.jsonl", OPINIONS)
    panel = build_panel([f"recorded:{tmp_path}"], {}, {})
    before = read_recording.cache_info().misses
    for judge in panel * 2:
        documents = (Document("d1", "x"), Document("d2", "y"))
        request = request_of(judge=judge, query_id="q1", documents=documents)
        asyncio.run(Recorded().send(request))
    assert read_recording.cache_info().misses == before


def test_an_option_is_refused(recording):
    name = f"recorded:{recording}"
    with pytest.raises(PanelError, match="unknown option 'noise'; known: none"):
        build_panel([name], {name: {"noise": 1}}, {})


@pytest.mark.parametrize("lines", [OPINIONS[:2], None])
def test_a_recording_that_a_node_does_not_see_as_it_was_stops_its_judge(recording, lines):
    (judge,) = build_panel([f"recorded:{recording}"], {}, {})
    write_lines(recording, lines) if lines else recording.unlink()
    read_recording.cache_clear()  # a node has a memory of its own
    request = request_of(judge=judge, query_id="q1", documents=(Document("d1", "x"),))
    why = "has changed since the run began" if lines else "no such file"
    with pytest.raises(Fatal, match=f"{why}; every node must see the recording"):
        asyncio.run(Recorded().send(request))


def test_a_protocol_that_does_not_tell_the_query_is_refused(recording):
    (judge,) = build_panel([f"recorded:{recording}"], {}, {})
    with pytest.raises(Refused, match="the protocol passes no query_id to its Request"):
        asyncio.run(Recorded().send(request_of(judge=judge, documents=(Document("d1", "x"),))))


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


def test_names_that_are_shortened_still_say_that_judges_are_recordings():
    names = [f"recorded:data/recordings/reader-{letter}.jsonl" for letter in "abc"]
    assert all(name.startswith("recorded:") for name in shorten_names(names, 25).values())


@pytest.mark.parametrize("reader", ["reader-a", "reader-b", "reader-c"])
def test_each_reader_of_the_sample_has_one_opinion_on_every_document(reader):
    place = str(ROOT / "data" / "recordings" / f"{reader}.jsonl")
    (held,) = read_recording(place, hash_recording(place)).values()
    lines = (ROOT / "data" / "qrels.txt").read_text().splitlines()
    assert set(held) == {(query, doc) for query, _, doc, _ in map(str.split, lines)}
    assert len(held) == sum(map(len, held.values())) == 329
    assert all(one.worth is not None and one.rationale for (one,) in held.values())
