"""Files that do not hold what they should: a command says so in a line that names the file."""

import os
import random
import shutil
import stat

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders import pool_of, reply_to, results_of, set_in_file, write_run
from tests.hills import write_contests, write_verdicts
from zelo_ray.cli import main
from zelo_ray.engine.batch.parts import BatchPart, Parts
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.lock import claim_folder
from zelo_ray.errors import InputError, LedgerError, LockError
from zelo_ray.formats.files import open_for_writing
from zelo_ray.formats.results import write_text

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
        lines = [f"q{q} Q0 d{d} {n} {9 - n} {name}" for q in (1, 2) for n, d in enumerate(ranks, 1)]
        (root / f"{name}.run").write_text("\n".join(lines) + "\n")
        runs.append(str(root / f"{name}.run"))
    labels = str(root / "zelo")
    flags = ["--runs", *runs, *set_in_file(resamples=100)]
    contest = ["bakeoff", "--truth", labels, "--runs", *runs, *set_in_file(resamples=100)]
    assert main([*contest, "--out", str(root / "bakeoff")]) == 0
    compared = ["compare-labels", "--old", labels, "--new", labels, *flags]
    assert main([*compared, "--out", str(root / "compare")]) == 0
    agreed = ["agree", labels, *set_in_file(resamples=100), "--out", str(root / "agree")]
    assert main(agreed) == 0
    return root


REPORTED = {
    "zelo": ("run.json", "annotated.jsonl", "scores.parquet", "votes.parquet", "failures.parquet"),
    "bakeoff": (
        *("run.json", "means.parquet", "metrics.parquet", "comparisons.parquet"),
        *("runs.parquet", "unjudged.parquet", "failures.parquet", "slices.parquet"),
    ),
    "compare": ("compare.json", "leaderboards.parquet", "siblings.parquet"),
    "agree": ("agree.json", "agreement.parquet", "voting.parquet", "pairs.parquet"),
}


COMMANDS = {
    "explain": ("explain", "{}", "--query", "q1"),
    "convert": ("convert", "qrels", "{}", "--out", "{}/x.qrels"),
    "train": ("convert", "train", "{}", "--out", "{}/x.jsonl"),
    "agree": ("agree", "{}", "--human", "{}/scores.parquet"),
    "truth": ("bakeoff", "--truth", "{}", "--runs", "{}/../one.run", "--out", "{}/../o"),
    "compare-labels": (
        "compare-labels",
        "--old",
        "{}",
        "--new",
        "{}",
        "--bakeoff",
        "{}/../bakeoff",
    ),
    "fit": ("fit", "{}/votes.parquet"),
    "runs": ("convert", "run", "{}/runs.parquet", "--out", "{}/x.run"),
}
READ = [
    *(("report", place, file) for place, files in REPORTED.items() for file in files),
    *(("explain", "zelo", file) for file in REPORTED["zelo"] if file != "annotated.jsonl"),
    *(("explain", "hill", f"{name}.parquet") for name in ("contests", "winners", "scores")),
    ("explain", "debate", "verdicts.parquet"),
    ("convert", "zelo", "scores.parquet"),
    ("train", "zelo", "annotated.jsonl"),
    *(("agree", "zelo", file) for file in ("votes.parquet", "scores.parquet")),
    ("fit", "zelo", "votes.parquet"),
    ("truth", "zelo", "scores.parquet"),
    ("compare-labels", "zelo", "scores.parquet"),
    ("compare-labels", "bakeoff", "runs.parquet"),
    ("runs", "bakeoff", "runs.parquet"),
]


@pytest.mark.parametrize(("command", "place", "file"), READ)
def test_garbage_is_one_line_that_names_the_file(places, tmp_path, capsys, command, place, file):
    for number, how in enumerate(GARBAGE):
        if how == "empty" and file.endswith(".jsonl"):
            continue  # it holds no line, and no wrong one
        root = tmp_path / str(number)
        shutil.copytree(places, root)
        spoil(root / place / file, how)
        out = root / ("zelo" if command == "compare-labels" else place)
        words = COMMANDS.get(command, (command, "{}"))
        status = main([word.replace("{}", str(out)) for word in words])
        said = capsys.readouterr().err
        assert (status, said.count("\n")) == (1, 1), (how, said)
        assert file in said, how
        shutil.rmtree(root)


def test_a_run_does_not_begin_where_it_cannot_tell_whose_results_lie(tmp_path, capsys):
    (tmp_path / "run.json").write_bytes(b"\xff{")
    with (
        pytest.raises(InputError, match=r"run\.json: is not valid JSON"),
        claim_folder(str(tmp_path)),
    ):
        pass
    (tmp_path / "run.json").unlink()
    (tmp_path / ".run.lock").write_bytes(b"\xff\0")
    with (
        claim_folder(str(tmp_path)),
        pytest.raises(LockError, match="in use"),
        claim_folder(str(tmp_path)),
    ):
        pass


PART = BatchPart("m", "openai:gpt-6-luna", "Preference", ["a" * 32], 10, 20, 0.1, 0.0)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b"\xff", b"null", b'{"mark": 5}'],
)
def test_a_record_of_a_batch_that_is_damaged_stops_everything(tmp_path, capsys, data):
    Parts(str(tmp_path)).keep(PART)
    (record,) = (tmp_path / "batches").iterdir()
    record.write_bytes(data)
    with pytest.raises(LedgerError, match=r"batches/m\.json: this record of a batch is damaged"):
        list(Parts(str(tmp_path)))
    assert main(["batches", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o002, 0o664), (0o022, 0o644)])
def test_all_that_is_written_follows_the_umask(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        with claim_folder(str(tmp_path)):
            ledger = Ledger(str(tmp_path), "run")
            ledger.append([reply_to(1)])
            Parts(str(tmp_path)).keep(PART)
            write_run(tmp_path, results_of(tmp_path, [pool_of()]))
            with open_for_writing(str(tmp_path / "packed.jsonl.gz")) as file:
                file.write(b"x")
            write_text(str(tmp_path), "report.html", "x")
            modes = {p: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.rglob("*") if p.is_file()}
            ledger.close()
    finally:
        os.umask(before)
    assert len(modes) >= 10
    assert {path.name: each for path, each in modes.items() if each != mode} == {}
