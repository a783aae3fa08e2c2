"""Recorded judges say again what was written down, and nothing where nothing was."""

import asyncio
import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.files.reading import as_lines, read_recording, write_file, write_folder
from tests.helpers.builders import ask, pool_of, request_of, results_of, rows_of
from zelo_ray.command_options import BakeoffOptions
from zelo_ray.engine.ledger import Ledger
from zelo_ray.errors import PanelError
from zelo_ray.protocols import PROTOCOLS, advance, load_protocol
from zelo_ray.providers import Fatal, build_panel
from zelo_ray.providers.recorded import Recorded
from zelo_ray.records import Document
from zelo_ray.rerankers import build_rankers

OPINIONS = [
    {"query_id": "q1", "doc_id": f"d{n}", "worth": n * 0.9, "rationale": f"Because of {n}."}
    for n in range(4)
]
PAIR = {"query_id": "q1", "doc_id_a": "d0", "doc_id_b": "d3", "preference": -0.5}


@pytest.fixture
def recording(tmp_path):
    return write_file(tmp_path / "ada.jsonl", OPINIONS)


def judge(recording, out, protocol="zelo", pool=None, **fields):
    """What a protocol comes to by recorded judges: judgments and failures."""
    out.mkdir(exist_ok=True)
    pool = pool or pool_of()
    asker = ask([pool], out, {}, judges=[f"recorded:{recording}"], protocol=protocol, **fields)
    panel, options = asker.job
    return advance(load_protocol(protocol).rounds(pool, panel, options), Ledger(str(out)))


def votes_of(*job, **fields):
    return {(v.doc_id_a, v.doc_id_b): v for v in judge(*job, **fields).judgments}


def panel_of(place):
    return [judge.name for judge in build_panel([f"recorded:{place}"], {}, {})]


def send(request):
    return asyncio.run(Recorded().send(request))


def test_a_vote_is_written_or_follows_from_worth(recording, tmp_path):
    votes = votes_of(recording, tmp_path / "out")
    assert votes["d0", "d1"].preference == pytest.approx(math.tanh(0.9), abs=1e-4)
    assert votes["d0", "d3"].preference == pytest.approx(math.tanh(2.7), abs=1e-4)
    assert "d3, worth 2.7 of 3: Because of 3." in votes["d0", "d3"].reasoning
    write_file(recording, [*OPINIONS, {**PAIR, "reasoning": "I like it."}])
    vote = votes_of(recording, tmp_path / "again")["d0", "d3"]
    assert (vote.preference, "I like it." in vote.reasoning) == (-0.5, True)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_judges_and_nothing_fails(recording, tmp_path, protocol):
    found = judge(recording, tmp_path / "out", protocol)
    assert found.judgments
    assert (found.failures, found.missing) == ((), ())
    if protocol in ("samre", "baseline-strong", "baseline-weak"):
        verdicts = judge(recording, tmp_path / "both", protocol, both_orders=True).judgments
        assert {verdict.winner for verdict in verdicts} == {"model_b"}


def test_a_missing_opinion_is_a_failure(recording, tmp_path):
    write_file(recording, OPINIONS[:3])
    found = judge(recording, tmp_path / "out", "graded")
    assert [grade.doc_id for grade in found.judgments] == ["d0", "d1", "d2"]
    (failure,) = found.failures
    assert failure.doc_ids == ("d3",)
    assert "no opinion on document 'd3' of query 'q1'" in failure.reason


# Panels, and their keys


def test_a_panel_is_a_file_or_a_run(tmp_path):
    rows = [{**row, "judge": name} for row in OPINIONS for name in ("Ada", "Bo")]
    place = write_file(tmp_path / "both.jsonl", rows)
    assert panel_of(place) == [f"recorded:{place}#Ada", f"recorded:{place}#Bo"]
    assert panel_of(f"{place}#Bo") == [f"recorded:{place}#Bo"]
    with pytest.raises(PanelError, match="no judge 'Boo'"):
        panel_of(f"{place}#Boo")
    results_of(tmp_path / "run", [pool_of()])
    write_file(tmp_path / "run/run.json", "{}")
    judges = {row["judge"] for row in rows_of(tmp_path / "run", "votes")}
    assert sorted(panel_of(tmp_path / "run")) == [
        f"recorded:{tmp_path}/run#{j}" for j in sorted(judges)
    ]


def test_a_key_holds_the_content_and_no_place(recording, tmp_path):
    folder = tmp_path / "folder"
    files = [write_file(folder / name, OPINIONS) for name in ("a.jsonl", "b.jsonl.gz")]
    panel = build_panel([f"recorded:{folder}"], {}, {})
    assert [judge.name for judge in panel] == [f"recorded:{file}" for file in files]
    assert len({judge.options["recording"] for judge in panel}) == 1
    moved = replace(panel[0], options={**panel[0].options, "file": "/elsewhere"})
    write_file(files[0], [{**OPINIONS[0], "worth": 2}, *OPINIONS[1:]])
    (after,) = build_panel([f"recorded:{files[0]}"], {}, {})
    first, second, third = (request_of(judge=judge).key for judge in (panel[0], after, moved))
    assert first != second
    assert first == third


BAD = {
    "too much": ({"worth": 3.5}, "worth: must be less than or equal to 3"),
    "a text": ({"worth": "2"}, "worth: must be a valid number"),
    "nothing": ({"worth": None}, "an opinion on a document has doc_id, and worth or grade"),
    "a grade": ({"grade": 4}, "grade: must be less than or equal to 3"),
    "half a grade": ({"grade": 1.5}, "the grade 1.5 is not a whole number"),
    "no text": ({"doc_id": 7.5}, "doc_id: cannot be 7.5"),
    "no query": ({"query_id": None}, "query_id: must be"),
    "one of two": ({"doc_id_a": "d"}, "an opinion on two documents has doc_id_b and preference"),
    "twice": (OPINIONS[0], "a second opinion on d0 of query q1"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_row_of_a_recording_is_named(recording, case):
    row, says = BAD[case]
    write_file(recording, [OPINIONS[0], {**OPINIONS[1], **row}])
    with pytest.raises(PanelError, match=f"ada.jsonl:2: {says}"):
        panel_of(recording)


def test_what_is_no_recording_is_refused(tmp_path):
    torn = as_lines(OPINIONS[:1]) + '{"query_id": \n'
    write_folder(tmp_path, {"empty.jsonl": "\n", "torn.jsonl": torn, "folder/notes.txt": "x"})
    for name, says in (
        ("none.jsonl", ": no such file"),
        ("empty.jsonl", ": an empty file"),
        ("torn.jsonl", ":2: is not valid JSON"),
        ("folder", ": this folder holds no recording"),
    ):
        with pytest.raises(PanelError, match=f"{name}{says}"):
            panel_of(tmp_path / name)


@pytest.mark.parametrize("rows", [OPINIONS[:2], None])
def test_a_recording_that_changed_stops_its_judge(recording, rows):
    (judge,) = build_panel([f"recorded:{recording}"], {}, {})
    write_file(recording, rows) if rows else Path(recording).unlink()
    read_recording.cache_clear()  # a node has a memory of its own
    request = request_of(judge=judge, query_id="q1", documents=(Document("d1", "x"),))
    why = "has changed since the run began" if rows else "no such file"
    with pytest.raises(Fatal, match=f"{why}; every node must see the recording"):
        send(request)


def test_a_recorded_judge_may_rank_in_a_bakeoff(recording, tmp_path):
    def rankers(spec):
        options = BakeoffOptions(truth="qrels", pools=("x",), out="out", rerankers=(spec,))
        return build_rankers(options, {}, run_id="run")

    (arm,) = rankers(f"ada=recorded:{recording}")
    assert (arm.name, arm.protocol) == ("ada", "rerank")
    write_file(tmp_path / "bo.jsonl", OPINIONS[:1])
    with pytest.raises(PanelError, match="stands for 2 judges; name one"):
        rankers(f"recorded:{tmp_path}")
