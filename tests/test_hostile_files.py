"""Files and names that are not what they should be: one line that helps, and nothing steered."""

import json
import os
import random
import shutil
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from tests.builders import pool_of, reply_to, results_of, set_in_file, small_disk, write_run
from tests.hills import write_contests, write_verdicts
from tests.input_pools import POOLS, brought, in_memory, lines, put
from tests.test_bakeoff import all_like, contest_of, entry_of, report_of
from zelo_ray import cli, measure
from zelo_ray.cli import print_lines
from zelo_ray.commands.annotate.report import ANNOTATE_REPORT
from zelo_ray.commands.batches import batches_table, list_batches
from zelo_ray.commands.explain import explain
from zelo_ray.commands.fit.comparisons import read_comparisons
from zelo_ray.engine.batch.parts import BatchPart, Parts
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.lock import claim_folder
from zelo_ray.engine.write_results import Summary
from zelo_ray.errors import InputError, LedgerError, LockError
from zelo_ray.files.collections import read_texts
from zelo_ray.files.inputs import InputOptions, convert_inputs
from zelo_ray.files.judges import read_all_judgments
from zelo_ray.files.judgments import read_qrels, read_runs
from zelo_ray.files.labels import read_labels
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.files.storage import find_shards, open_for_writing, write_text
from zelo_ray.files.tables import table_of
from zelo_ray.files.wording import printable
from zelo_ray.reasons import Disabled, StopReason, Unscored, UnscoredReason
from zelo_ray.records import Rater
from zelo_ray.reports.terminal import render_lines

CASES = Path(__file__).parent / "golden" / "cases"
POOL = {
    "query": {"id": "q1", "query": "tick"},
    "documents": [{"id": "a", "content": "A tick."}, {"id": "b", "content": "A clock."}],
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pools.jsonl").write_text(json.dumps(POOL) + "\n")
    Path("labels.qrels").write_text("q1 0 a 1\nq1 0 b 0\n")
    Path("mine.run").write_text("q1 Q0 a 1 2.0 mine\nq1 Q0 b 2 1.0 mine\n")
    Path("games.csv").write_text("winner,loser\na,b\nb,a\na,b\n")


def said(capsys, *words):
    """The exit status, and the one line on stderr that is the last."""
    status = cli.main([*map(str, words)])
    told = capsys.readouterr().err.splitlines()
    return status, told[-1] if told else ""


# What is no file, and what is not there


READING = {
    "annotate": ("annotate", "{}", "--out", "o", "--judges", "offline:bm25"),
    "bakeoff": ("bakeoff", "--truth", "{}", "--runs", "mine.run", "--out", "o"),
    "runs": ("bakeoff", "--truth", "labels.qrels", "--runs", "{}", "--out", "o"),
    "fit": ("fit", "{}"),
    "convert": ("convert", "qrels", "{}", "--out", "o.txt"),
    "agree": ("agree", "{}", "--human", "labels.qrels"),
}


def test_a_pipe_is_refused_though_nobody_writes_to_it(capsys):
    Path("folder").mkdir()
    os.mkfifo("folder/pipe.jsonl")
    before = {*Path().rglob("*")}
    for command, words in READING.items():
        place = "folder" if command == "annotate" else "folder/pipe.jsonl"
        given, done = [word.format(place) for word in words], []
        running = threading.Thread(
            target=lambda given, done: done.append(said(capsys, *given)),
            args=(given, done),
            daemon=True,
        )
        running.start()
        running.join(60)
        assert done, "it waits for the pipe"
        status, line = done[0]
        assert status in (1, 2)
        assert "is a pipe or a device" in line
    assert {*Path().rglob("*")} == before


def test_what_is_piped_into_a_command_is_refused():
    command = [sys.executable, "-m", "zelo_ray", *READING["annotate"]]
    words = [word.format("/dev/stdin") for word in command]
    ran = subprocess.run(
        words, input=Path("pools.jsonl").read_text(), capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert ran.stderr.startswith("zelo-ray: /dev/stdin: is a pipe or a device")


REFUSED = (
    "annotate pools.jsonl --show-metadata brand --judges offline",
    "annotate pools.jsonl --show-metadata x --judges offline --ledger new/l",
    "annotate labels.qrels --judges offline",
    "annotate empty.jsonl --judges offline",
    "annotate nothing --judges offline",
    "bakeoff --truth none.qrels --runs mine.run",
    "bakeoff --truth labels.qrels --runs mine.run --measures nDGC@10",
    "bakeoff --truth labels.qrels --rerankers bm25",
    "label --contest none --labels 2",
    "agree labels.qrels --human none.qrels",
    "compare-labels none labels.qrels",
    "drift none none",
    "compare-protocols pools.jsonl --human none.csv --judges offline",
)


def test_a_command_that_is_refused_leaves_nothing(capsys):
    Path("empty.jsonl").touch()
    Path("nothing").mkdir()
    Path("nothing/page.html").touch()
    before = {*Path().rglob("*")}
    for words in REFUSED:
        status, line = said(capsys, *words.split(), "--out", "new/deep/o")
        assert status in (1, 2), line
        assert {*Path().rglob("*")} == before, words
    Path("o").mkdir()
    Path("o/mine.txt").write_text("x")
    assert said(capsys, *REFUSED[0].split(), "--out", "o")[0] == 2
    assert Path("o/mine.txt").read_text() == "x"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("fit games.csv --out disk/ratings.csv", "ratings.csv"),
        ("convert qrels labels.qrels --out disk/qrels.txt", "qrels.txt"),
        ("bakeoff --truth labels.qrels --runs mine.run --out disk", ""),
    ],
)
def test_a_full_disk_is_told_with_its_file(tmp_path, capsys, words, name):
    with small_disk(tmp_path / "disk"):
        (tmp_path / "disk/fill").write_bytes(bytes(64 * 1024))
        status, line = said(capsys, *words.split())
        left = [each.name for each in (tmp_path / "disk").rglob("*.partial*")]
    assert (status, left) == (1, [])
    assert f"disk/{name}" in line
    assert "the disk is full" in line


# Results that are damaged


GARBAGE = {
    "cut": lambda data: data[: len(data) // 2],
    "a byte": lambda data: data[:1],
    "empty": lambda _: b"",
    "chance": lambda data: random.Random(0).randbytes(len(data)),
    "chance in the middle": lambda data: data[:4] + random.Random(0).randbytes(99) + data[103:],
    "other columns": None,
}


def spoil(path, how):
    """Put garbage in the place of a file."""
    if how != "other columns":
        path.write_bytes(GARBAGE[how](path.read_bytes()))
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({"query_id": [1.5], "doc_id": ["x"]}), path)
    else:
        path.write_bytes(b'{"documents": 5}' if path.suffix == ".jsonl" else b"[1]")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """What each of several commands leaves."""
    root = tmp_path_factory.mktemp("places")
    pools = [pool_of(), pool_of((3, 1, 2), query_id="q2")]
    write_run(root / "zelo", results_of(root / "zelo", pools))
    for name, write in {"hill": write_contests, "debate": write_verdicts}.items():
        (root / name).mkdir()
        write(root / name)
    runs = []
    for name, ranks in {"one": (0, 1, 2), "two": (2, 0, 1)}.items():
        rows = [f"q{q} Q0 d{d} {n} {9 - n} {name}" for q in (1, 2) for n, d in enumerate(ranks, 1)]
        (root / f"{name}.run").write_text("\n".join(rows) + "\n")
        runs.append(str(root / f"{name}.run"))
    labels, few = str(root / "zelo"), set_in_file(resamples=100)
    for words in (
        ["bakeoff", "--truth", labels, "--runs", *runs],
        ["compare-labels", "--old", labels, "--new", labels, "--runs", *runs],
        ["agree", labels],
    ):
        assert cli.main([*words, *few, "--out", str(root / words[0].partition("-")[0])]) == 0
    return root


COMMANDS = {
    "report": "report {}",
    "explain": "explain {} --query q1",
    "convert": "convert qrels {} --out {}/x.qrels",
    "train": "convert train {} --out {}/x.jsonl",
    "agree": "agree {} --human {}/scores.parquet",
    "truth": "bakeoff --truth {} --runs {}/../one.run --out {}/../o",
    "compare-labels": "compare-labels --old {} --new {} --bakeoff {}/../bakeoff",
    "fit": "fit {}/votes.parquet",
    "runs": "convert run {}/runs.parquet --out {}/x.run",
}
READ = {
    ("report", "zelo"): "run.json annotated.jsonl scores.parquet votes.parquet",
    ("report", "bakeoff"): "run.json means.parquet metrics.parquet comparisons.parquet "
    "runs.parquet unjudged.parquet failures.parquet slices.parquet",
    ("report", "compare"): "compare.json leaderboards.parquet siblings.parquet",
    ("report", "agree"): "agree.json agreement.parquet voting.parquet pairs.parquet",
    ("explain", "zelo"): "run.json scores.parquet votes.parquet failures.parquet",
    ("explain", "hill"): "contests.parquet winners.parquet scores.parquet",
    ("explain", "debate"): "verdicts.parquet",
    ("convert", "zelo"): "scores.parquet",
    ("train", "zelo"): "annotated.jsonl",
    ("agree", "zelo"): "votes.parquet scores.parquet",
    ("fit", "zelo"): "votes.parquet",
    ("truth", "zelo"): "scores.parquet",
    ("compare-labels", "zelo"): "scores.parquet",
    ("compare-labels", "bakeoff"): "runs.parquet",
    ("runs", "bakeoff"): "runs.parquet",
}


@pytest.mark.parametrize(("command", "place"), READ)
def test_garbage_is_one_line_that_names_the_file(places, tmp_path, capsys, command, place):
    root = tmp_path / "results"
    shutil.copytree(places, root)
    out = root / ("zelo" if command == "compare-labels" else place)
    words = [word.replace("{}", str(out)) for word in COMMANDS[command].split()]
    for file in READ[command, place].split():
        for how in GARBAGE:
            if how == "empty" and file.endswith(".jsonl"):
                continue  # it holds no line, and no wrong one
            spoil(root / place / file, how)
            status = cli.main(words)
            told = capsys.readouterr().err
            assert (status, told.count("\n")) == (1, 1), (file, how, told)
            assert file in told, how
            shutil.copy(places / place / file, root / place / file)


@pytest.mark.parametrize("text", ['{"finished": tr', "[1]", '{"options": 7}', "\xff"])
def test_a_broken_record_is_one_line_in_every_command(places, tmp_path, capsys, text):
    shutil.copytree(places / "zelo", "out")
    Path("out/run.json").write_bytes(text.encode("latin-1"))
    for words in (
        "annotate pools.jsonl --out out --judges offline:bm25",
        "explain out --query q1",
        "report out",
        "agree out --human labels.qrels",
        "bakeoff --truth out --runs mine.run --out contest",
        "drift out out",
    ):
        status, line = said(capsys, *words.split())
        assert status in (1, 2), words
        assert "out/run.json: " in line, words
    if text == "\xff":
        with pytest.raises(InputError, match=r"run\.json: "), claim_folder("out"):
            pass
    Path("out/run.json").unlink()
    Path("out/.run.lock").write_bytes(b"\xff\0")
    with claim_folder("out"), pytest.raises(LockError, match="in use"), claim_folder("out"):
        pass


PART = BatchPart("m", "openai:gpt-6-luna", "Preference", ["a" * 32], 10, 20, 0.1, 0.0)


def test_a_damaged_record_of_a_batch_stops_everything(tmp_path, capsys):
    Parts(str(tmp_path)).keep(PART)
    (record,) = (tmp_path / "batches").iterdir()
    for data in (b"", b"{", b"[]", b"{}", b"\xff", b"null", b'{"mark": 5}'):
        record.write_bytes(data)
        with pytest.raises(LedgerError, match=r"batches/m\.json: this record .* is damaged"):
            list(Parts(str(tmp_path)))
        assert cli.main(["batches", str(tmp_path)]) == 1
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o002, 0o664)])
def test_all_that_is_written_follows_the_umask(tmp_path, umask, mode):
    before, out = os.umask(umask), tmp_path / "written"
    try:
        with claim_folder(str(out)):
            ledger = Ledger(str(out), "run")
            ledger.append([reply_to(1)])
            Parts(str(out)).keep(PART)
            write_run(out, results_of(out, [pool_of()]))
            with open_for_writing(str(out / "packed.jsonl.gz")) as file:
                file.write(b"x")
            write_text(str(out), "report.html", "x")
            modes = {p: stat.S_IMODE(p.stat().st_mode) for p in out.rglob("*") if p.is_file()}
            ledger.close()
    finally:
        os.umask(before)
    assert len(modes) >= 10
    assert {path.name: each for path, each in modes.items() if each != mode} == {}


# Bytes that are not UTF-8


ODD = os.fsdecode(b"b\xffd")
NOT_UTF_8 = r"b\\xffd.*: holds bytes that are not UTF-8"


def test_an_argument_of_other_bytes_is_refused_in_one_line(tmp_path, monkeypatch, capsys):
    for command in ("annotate", "fit", "no-such-command"):
        for words in ([ODD], ["--out", ODD], [f"--{ODD}"], ["x", f"{ODD}=y"]):
            assert cli.main([command, *words]) == 2
            out, err = capsys.readouterr()
            assert (out, err.count("\n")) == ("", 1)
            assert r"b\xffd" in err
    place = tmp_path / ODD
    place.mkdir()
    monkeypatch.chdir(place)
    status, line = said(capsys, "annotate", "a.jsonl", "--out", "o")
    assert status == 2
    assert r"b\xffd: holds bytes that are not UTF-8" in line
    assert cli.main(["--help"]) == 0


def test_files_whose_names_are_other_bytes_are_named(tmp_path):
    texts = {
        "in": (".csv", "query,text\nq,d\n"),
        "set/corpus": (".jsonl", '{"_id": "d", "text": "x"}\n'),
        "labels": (".qrels", "q 0 d 1\n"),
    }
    for folder, (end, text) in texts.items():
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / f"{ODD}{end}").write_text(text, encoding="utf-8")
    place = put(tmp_path / "in/a.jsonl", lines(POOLS))
    found = convert_inputs([str(tmp_path / "in")], str(tmp_path / "out"), InputOptions())
    assert len(found.notes) == 1
    assert found.notes[0].endswith(r"b\xffd.csv")
    Path(place).unlink()
    for call in (
        lambda: brought(tmp_path, str(tmp_path / "in")),
        lambda: find_shards([str(tmp_path / "in" / "*")]),
        lambda: [*read_texts(str(tmp_path / "set"), "corpus")],
        lambda: read_all_judgments([str(tmp_path / "labels")]),
        lambda: read_qrels(str(tmp_path / "labels" / f"{ODD}.qrels")),
    ):
        with pytest.raises(InputError, match=NOT_UTF_8):
            call()


def parquet_with(path, **columns):
    """A Parquet file whose texts may be no UTF-8, which Arrow does not look at."""
    made = {}
    for name, values in columns.items():
        made[name] = pa.array(values)
        if isinstance(values[0], bytes):
            buffers = pa.array(values, pa.binary()).buffers()
            made[name] = pa.Array.from_buffers(pa.string(), len(values), buffers)
    pq.write_table(pa.table(made), path)


BAD = {
    "scores.parquet": "scores.parquet: is not Parquet, or damaged",
    "grades.parquet": "grades.parquet: is not Parquet, or damaged",
    "first.jsonl": "first.jsonl: ",
    "second.qrels": "second.qrels:2: is not UTF-8",
    "cut.qrels.gz": "cut.qrels.gz: cannot be read",
    "none.qrels.zst": "none.qrels.zst: cannot be read",
}


def test_files_of_other_bytes_are_named_in_one_line(tmp_path, capsys):
    two, good = {"query_id": [b"q1", b"q1"], "doc_id": [b"d1", b"d\xff"]}, b"q1 0 d1 1\nq1 0 d2 0\n"
    parquet_with(tmp_path / "scores.parquet", **two, score=[1.0, 2.0])
    parquet_with(tmp_path / "grades.parquet", **two, judge=[b"j", b"j"], grade=[1, 2])
    Path("first.jsonl").write_bytes(b'{"query_id":"q\xff","doc_id":"d1","grade":1}\n')
    Path("second.qrels").write_bytes(good.replace(b"d2", b"d\xff"))
    Path("cut.qrels.gz").write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")
    Path("none.qrels.zst").write_bytes(good)
    Path("good.qrels").write_bytes(good)
    commands = [(f"agree {name} good.qrels", says) for name, says in BAD.items()]
    commands += [(f"agree good.qrels --human {name}", says) for name, says in BAD.items()]
    commands += [("compare-labels --old good.qrels --new good.qrels --runs scores.parquet",
                  BAD["scores.parquet"])]  # fmt: skip
    for words, says in commands:
        status, line = said(capsys, *words.split())
        assert status == 1
        assert says in line
    Path("anchors.yaml").write_bytes(b"- \xff")
    words = "annotate pools.jsonl --out o --judges offline --protocol graded --anchors anchors.yaml"
    status, line = said(capsys, *words.split())
    assert status == 2
    assert "anchors.yaml: is not UTF-8 text" in line


# Ids that a float may have changed


BIG = 1234567890123456789.0
ROWS = {"query_id": ["q", "q"], "query": ["w", "w"], "doc_id": [BIG, 5.0], "text": ["a", "b"]}


def lost(call, *given):
    with pytest.raises(InputError, match="may have lost digits") as error:
        call(*given)
    return str(error.value)


def test_ids_that_were_floats_are_refused_in_tables(tmp_path):
    def pools(place):
        return convert_inputs([place], str(tmp_path), InputOptions())

    def texts(place):
        return [*read_texts(place, "corpus")]

    case = str(CASES / "float-ids.parquet")
    assert lost(pools, case).startswith(f"{case}: row 1: doc_id 1.2345678901234568e+18 ")
    narrow = pa.array([2.0**24], pa.float32())
    for read, table in (
        (read_qrels, {"query_id": [2.0**53], "doc_id": ["d"], "relevance": [1.0]}),
        (texts, {"_id": [BIG], "text": ["x"]}),
        (lambda place: read_runs([place]), {"query_id": ["q"], "doc_id": [BIG], "score": [1.0]}),
        (read_labels, {"query_id": ["q"], "doc_id": narrow, "grade": [1.0]}),
    ):
        pq.write_table(pa.table(table), tmp_path / "a.parquet")
        lost(read, str(tmp_path / "a.parquet"))
    for text in ("1.23457E+18", "9007199254740992.0", "2E+15"):
        for read, name, content in (
            (pools, "a.csv", f"query,doc_id,text\nq,{text},x\n"),
            (read_labels, "b.csv", f"query_id,doc_id,relevance\nq,d,1\n{text},d,1\n"),
            (read_qrels, "c.qrels", f"q 0 d 1\nq 0 {text} 1\n"),
            (lambda place: read_runs([place]), "d.run", f"{text} Q0 d 1 2.5 r\n"),
            (read_qrels, "e.tsv", f"query-id\tcorpus-id\tscore\nq\t{text}\t1\n"),
            (texts, "f.tsv", f"doc_id\ttext\n{text}\tx\n"),
            (lambda place: read_comparisons(place, {}), "g.csv",
             f"query_id,doc_id_a,doc_id_b,preference\nq,{text},b,1\n"),
        ):  # fmt: skip
            assert text in lost(read, put(tmp_path / name, content))
    for number in ("1e18", "123456789012345678901234"):
        for read, name, content in (
            (pools, "a.jsonl", f'{{"query": "w", "doc_id": {number}, "text": "x"}}\n'),
            (pools, "b.json", f'[{{"query": "w", "passages": [{{"id": {number}, "text": "x"}}]}}]'),
            (read_qrels, "c.json", f'[{{"query_id": "q", "doc_id": {number}, "relevance": 1}}]'),
            (texts, "d.jsonl", f'{{"_id": {number}, "text": "x"}}\n'),
        ):
            lost(read, put(tmp_path / name, content))
    pool = {"query": {"id": "q", "query": "w"}, "documents": [{"id": 1e18, "content": "x"}]}
    [line] = read_lines(put(tmp_path / "h.jsonl", lines([pool])), LineLimits())
    assert "must be a text; " in line.reason


def test_ids_that_were_floats_are_refused_in_memory(tmp_path):
    frame = pd.DataFrame(ROWS)
    missing = pd.DataFrame({**ROWS, "doc_id": [1234567890123456789, None]})
    for given in (frame, pa.table(ROWS), frame.to_dict("records"), missing):
        lost(in_memory, tmp_path, given)
    truth = pd.DataFrame({"query_id": ["q"], "doc_id": [BIG], "relevance": [1]})
    lost(measure, {"q": {"d": 1}}, truth)
    lost(measure, {"q": {"d": 1}}, {"q": {BIG: 1}})
    lost(measure, truth.rename(columns={"relevance": "score"}), {"q": {"d": 1}})
    exact = pd.DataFrame({**ROWS, "doc_id": [2.0**53 - 1, 12.0]})
    exact.to_parquet(tmp_path / "a.parquet")
    (pool,), _ = brought(tmp_path, str(tmp_path / "a.parquet"))
    for found in (in_memory(tmp_path, exact)[0][0], pool):
        assert [d["id"] for d in found["documents"]] == ["9007199254740991", "12"]
    nullable = pd.array([1234567890123456789, None], dtype="Int64")
    (found,), _ = in_memory(tmp_path, pd.DataFrame({**ROWS, "doc_id": nullable})[:1])
    assert found["documents"][0]["id"] == "1234567890123456789"


# Names that steer a terminal


HOSTILE = "q\x1b]0;x\x07\x9b2J\u202e\u2066\u200b\r\nzelo-ray: all is well 日é"
"""Sets a title, clears the screen, turns the writing, forges a line."""
SEEN = r"q\x1b]0;x\x07\x9b2J\u202e\u2066\u200b\r\nzelo-ray: all is well 日é"
STEERING = set("\x1b\x07\x9b\u202e\u2066\u200b\r\n")


def test_what_steers_is_escaped_and_letters_are_not():
    for text, seen in (
        (HOSTILE, SEEN),
        ("日本語\u3000 naïve e\u0301 👍🏽", None),
        ("a\u200db \ufeff\u00ad\u2028", r"a\u200db \ufeff\xad\u2028"),
        ("\udc80\ud800 \t", r"\udc80\ud800 \t"),
        ("", None),
    ):
        assert printable(text) == (text if seen is None else seen)
        assert printable(printable(text)) == printable(text)
        printable(text).encode()


def judged(line):
    """Whether a line of a terminal shows the name whole, and nothing steers."""
    return SEEN in line and not set(line) & STEERING


def test_what_a_run_and_a_contest_print_does_not_steer(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    nan, out = float("nan"), tmp_path / "run"
    out.mkdir()
    summary = Summary(
        str(out),
        2,
        unscored={HOSTILE: Unscored(UnscoredReason.OTHER, HOSTILE)},
        reasons={HOSTILE: 2},
        notes=[HOSTILE],
        disabled={HOSTILE: Disabled(StopReason.FATAL, HOSTILE)},
    )
    write_run(out, summary, HOSTILE, protocol="graded")
    raters = table_of([Rater(HOSTILE, nan, nan, nan, nan, nan, 1)] * 2, Rater)
    pq.write_table(raters, out / "raters.parquet")
    arms = (entry_of(HOSTILE, all_like("abcd"), note=HOSTILE), entry_of(":cat: [b]", {}))
    (tmp_path / "contest").mkdir()
    for report in (
        ANNOTATE_REPORT.read(str(out)),
        report_of(contest_of(*arms), tmp_path / "contest"),
    ):
        print_lines(*render_lines(report, 300, with_warnings=False))
        told = capsys.readouterr().out
        assert SEEN.replace(" ", "") in "".join(told.split())
        assert not set(told) & (STEERING - {"\n"})
        assert "\nzelo-ray: all" not in told


def test_what_other_commands_print_does_not_steer(tmp_path, capsys):
    Parts(str(tmp_path)).keep(BatchPart("a", f"openai:{HOSTILE}", "V", ["k"], 1, 1, 0.0, 0.0))
    console = Console(width=300, record=True)
    console.print(batches_table(list_batches(str(tmp_path), {})))
    assert judged(console.export_text().splitlines()[1])
    pool = pool_of()
    first, *others = pool.documents
    results_of(tmp_path, [replace(pool, documents=(replace(first, id=HOSTILE), *others))])
    for doc_id in (HOSTILE, "d3"):
        told = explain(str(tmp_path), "q1", doc_id).split("\n")
        assert any(map(judged, told))
        assert not any(set(line) & STEERING for line in told)
    rows = {"query_id": ["q1", "q1"], "doc_id": ["d1", HOSTILE], "score": [3.0, 0.0]}
    pq.write_table(pa.table(rows), "old.parquet")
    pq.write_table(pa.table(rows | {"score": [0.0, 3.0]}), "new.parquet")
    assert cli.main(["compare-labels", "--old", "old.parquet", "--new", "new.parquet"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert any(r"q\x1b]0;x\x07\x9b2J" in line for line in told)
    assert not any(set(line) & STEERING for line in told)
    error = InputError(f"{HOSTILE}: no such file")
    assert cli.Output(["batches"]).fail(error, error.code()) == 1
    assert judged(capsys.readouterr().err.removesuffix("\n"))
    assert cli.main(["batches", "out", f"--{HOSTILE}"]) == 2
    assert judged(capsys.readouterr().err.removesuffix("\n"))
