"""The whole job, run as a user runs it: a process of its own, Ray and all."""

import contextlib
import json
import shutil
import stat
import subprocess
import tempfile
import time
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import fsspec
import psutil
import pyarrow.parquet as pq
import pytest
import yaml
from jsonschema.exceptions import ValidationError
from moto.server import ThreadedMotoServer
from ray.autoscaler._private.util import prepare_config, validate_config

from tests.helpers import crash
from tests.helpers.builders import set_in_file, small_disk
from tests.helpers.jobs import annotate
from zelo_ray.engine.batch.parts import BatchPart, Parts
from zelo_ray.engine.ledger import read_rows

SAMPLE = crash.ROOT / "data" / "sample"
POOLS = 8  # of the run with failures; 40 requests to each judge


@dataclass(frozen=True)
class Seen:
    """What could be seen of a run's own Ray while it worked."""

    addresses: set[str]
    """On which its processes listened."""
    servers: set[int]
    """Its processes that hold Ray's state."""
    modes: set[int]
    """Of the folders in its temporary directory."""
    left: list[str]
    """In that directory, when it had ended."""


@pytest.fixture(scope="module")
def watched_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Seen]:
    """The sample, and what was seen while it was judged."""
    out = tmp_path_factory.mktemp("sample") / "out"
    seen = Seen(set(), set(), set(), [])
    with tempfile.TemporaryDirectory(prefix="t-") as place:  # short: Ray makes sockets in it
        environ = {**crash.bare_environment(), "TMPDIR": place}
        run = crash.annotate(SAMPLE, out, environ, "--judges", "offline", "--executor", "ray")
        while run.poll() is None:
            _look(run.pid, Path(place), seen)
            time.sleep(0.3)
        status, printed = crash.finish(run)
        seen.left.extend(each.name for each in Path(place).iterdir())
    assert status == 0, printed
    return out, printed, seen


def _look(pid: int, place: Path, seen: Seen) -> None:
    with contextlib.suppress(psutil.Error, OSError):
        run = psutil.Process(pid)
        seen.modes.update(stat.S_IMODE(each.stat().st_mode) for each in place.glob("zelo-*"))
        for process in (run, *run.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                open_ = [c for c in process.net_connections() if c.status == psutil.CONN_LISTEN]
                seen.addresses.update(each.laddr.ip for each in open_)
                if process.name() == "gcs_server" and open_:
                    seen.servers.add(process.pid)


@pytest.fixture(scope="module")
def sample_run(watched_run: tuple[Path, str, Seen]) -> tuple[Path, str]:
    return watched_run[:2]


@pytest.mark.ray
def test_a_ray_of_its_own_listens_on_loopback_alone_and_leaves_nothing(
    watched_run: tuple[Path, str, Seen],
) -> None:
    seen = watched_run[2]
    assert len(seen.addresses) > 0
    assert all(ip_address(each.removeprefix("::ffff:")).is_loopback for each in seen.addresses)
    assert seen.modes == {0o700}
    assert not [name for name in seen.left if name.startswith("zelo-")]
    assert len(seen.servers) == 1
    assert not [server for server in seen.servers if psutil.pid_exists(server)]


def test_the_sample_is_scored_whole_and_quietly(sample_run: tuple[Path, str]) -> None:
    out, printed = sample_run
    scores = pq.read_table(out / "scores.parquet").to_pylist()
    lines = [json.loads(line) for line in (out / "annotated.jsonl").read_text().splitlines()]
    documents = [d for line in lines for d in line["documents"]]
    assert len(lines) == 29
    assert {(d["id"], d["score"]) for d in documents} == {(s["doc_id"], s["score"]) for s in scores}
    first, where, *rest = printed.splitlines()
    assert where == "Running on Ray: executor is ray."
    end = next(at for at, line in enumerate(rest) if not line.startswith("done: "))
    title, scored, error, *_, last, follow = rest[end:]
    assert first == (
        "29 queries, 329 documents: 3,948 requests to "
        "offline:bm25, offline:chargram, offline:likelihood"
    )
    assert title == "Relevance scores of 29 queries"
    assert scored.startswith("documents scored 329 · comparisons 3,948 · standard error 0.")
    assert error.endswith("spent nothing")
    assert last.startswith("results: ")
    assert follow.startswith(f"Next step: zelo-ray bakeoff --truth {out} ")


FAULTS = (
    *("429", "500", "503", "529", "408", "drop", "malformed", "not_json", "timeout"),
    *("refusal", "filtered", "truncated", "out_of_range", "prose", "missing_field", "bad_request"),
)


@dataclass(frozen=True)
class Troubled:
    """A run of bad lines and good ones, whose servers fail in every way; then one without both."""

    pools: Path
    out: Path
    """A copy of what the first left."""
    first: tuple[int, str]
    second: tuple[int, str]
    votes: int
    """In the end."""


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Troubled:
    folder = tmp_path_factory.mktemp("troubled")
    pools, given, out = folder / "pools.jsonl", folder / "in.jsonl", folder / "out"
    crash.write_pools(pools, queries=POOLS, documents=10)
    first, second, *others = pools.read_text().splitlines()
    alone = {"query": {"id": "alone", "query": "?"}, "documents": [{"id": "a", "content": "a"}]}
    rows = [first, "{bad", "", json.dumps(alone), second, first, *others]
    given.write_text("\n".join(rows))
    faults = [flag for name in FAULTS for flag in ("--fault", f"{name}:rate=0.02")]
    patience = set_in_file(attempts=2, reasks=0, timeout=2)
    with crash.fakes(folder, *faults) as environ:
        before = annotate(given, out, environ, *patience)
    shutil.copytree(out, folder / "first")
    segment = max((out / "replies").glob("*.jsonl"), key=lambda path: path.stat().st_size)
    segment.write_bytes(segment.read_bytes().replace(b'"ok"', b'"oj"', 1))
    with crash.fakes(folder) as environ:
        again = (*patience, "--retry-failures")
        after = annotate(pools, out, environ, *again)
    votes = len(pq.read_table(out / "votes.parquet"))
    return Troubled(pools, folder / "first", before, after, votes)


def test_failures_of_every_kind_are_listed_and_none_becomes_a_vote(troubled: Troubled) -> None:
    status, printed = troubled.first
    assert status == 3, printed
    votes = pq.read_table(troubled.out / "votes.parquet").to_pylist()
    failures = pq.read_table(troubled.out / "failures.parquet").to_pylist()
    assert len(votes) + len(failures) == POOLS * 40 * 3
    assert {f["status"] for f in failures} == {
        *("refused", "filtered", "truncated", "invalid", "failed")
    }
    assert all(f["reason"] for f in failures)
    assert f"failed requests {len(failures):,}" in " ".join(printed.split())
    worth = _worths(troubled.pools)
    for vote in votes:
        gap = worth[vote["query_id"], vote["doc_id_b"]] - worth[vote["query_id"], vote["doc_id_a"]]
        assert vote["preference"] * gap > 0 or abs(gap) < 0.02


def test_failures_are_asked_for_again(troubled: Troubled) -> None:
    status, printed = troubled.second
    assert status == 0, printed
    assert troubled.votes == POOLS * 40 * 3


def test_a_damaged_line_of_the_ledger_is_told_before_and_after_and_asked_again(
    troubled: Troubled,
) -> None:
    _, printed = troubled.second
    assert printed.count("the ledger holds 1 damaged line, set aside") == 2
    run = json.loads((troubled.out.parent / "out" / "run.json").read_text())
    assert run["summary"]["damaged"] == 1


def test_bad_lines_are_set_aside_and_the_rest_goes_on(troubled: Troubled) -> None:
    status, printed = troubled.first
    assert status == 3
    rejected = pq.read_table(troubled.out / "rejected.parquet").to_pylist()
    assert [row["line"] for row in rejected] == [2, 6]
    assert "has come before" in rejected[1]["reason"]
    assert "Queries without scores\n" in printed
    lines = (troubled.out / "annotated.jsonl").read_text().splitlines()
    assert [json.loads(line)["query"]["id"] for line in lines] == [
        *("q0", "alone", *(f"q{number}" for number in range(1, POOLS)))
    ]


def _worths(pools: Path) -> dict[tuple[str, str], float]:
    found = {}
    for line in pools.read_text().splitlines():
        pool = json.loads(line)
        for document in pool["documents"]:
            worth = document["content"].partition("worth=")[2].rstrip("]")
            found[pool["query"]["id"], document["id"]] = float(worth)
    return found


def test_a_full_disk_loses_no_answer(tmp_path: Path) -> None:
    pools, disk = tmp_path / "pools.jsonl", tmp_path / "disk"
    crash.write_pools(pools, queries=20, documents=12)
    judge, alone = ("--judges", "openai"), crash.limits(crash.DEFAULT_JUDGES[:1])
    with (
        small_disk(disk, "4400k"),
        crash.fakes(tmp_path, "--latency", "0.1") as environ,
    ):
        status, printed = annotate(pools, disk / "out", environ | alone, *judge)
        assert status == 1, printed
        assert "make room" in printed
        paid = len(crash.journal(tmp_path))
        assert 0 < paid < 20 * 48
        assert len(list(read_rows(str(disk / "out")))) == paid
        subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True)
        status, printed = annotate(pools, disk / "out", environ | alone, *judge)
        assert status == 0, printed
        assert crash.paid_twice(tmp_path, disk / "out") == (0, 0)


@dataclass(frozen=True)
class Stored:
    """What one of the runs on an object store left there."""

    status: int
    printed: str
    outputs: dict[str, bytes]
    replies: dict[str, int]
    """Sizes of the ledger's objects."""
    judges: dict[str, dict[str, int]]
    seconds: dict[str, float]
    locked: bool


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> list[Stored]:
    """The sample in an object store, run there twice."""
    (port,) = crash.free_ports(1)
    server = ThreadedMotoServer("127.0.0.1", port)
    server.start()
    variables = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    found = []
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            store = fsspec.filesystem("s3", skip_instance_cache=True)
            store.mkdir("bucket")
            store.put(str(SAMPLE), "bucket/pools", recursive=True)
            for _ in range(2):
                place = ("s3://bucket/pools", "s3://bucket/out")
                environ = {**crash.bare_environment(), **variables}
                ended = annotate(*place, environ, "--judges", "offline", where="process")
                results = {name: store.cat_file(f"bucket/out/{name}") for name in crash.OUTPUTS}
                sizes = store.du("bucket/out/replies", total=False)
                record = json.loads(store.cat_file("bucket/out/run.json"))
                assert record["finished"]
                judges, seconds = record["judges"], record["summary"]["seconds"]
                locked = store.exists("bucket/out/.run.lock")
                found.append(Stored(*ended, results, sizes, judges, seconds, locked))
    finally:
        server.stop()
    return found


def test_shards_and_results_may_lie_in_an_object_store(
    sample_run: tuple[Path, str], stored: list[Stored]
) -> None:
    for run in stored:
        assert run.status == 0, run.printed
        assert run.outputs == crash.outputs(sample_run[0])
        assert not run.locked


def test_a_second_run_asks_nothing_and_changes_no_byte(stored: list[Stored]) -> None:
    first, second = stored
    assert "Running in this process: nothing to ask." in second.printed
    assert second.outputs == first.outputs
    assert second.replies == first.replies
    assert len(first.replies) > 0
    assert {(j["known"], j["answered"]) for j in first.judges.values()} == {(0, 1316)}
    assert {(j["known"], j["answered"]) for j in second.judges.values()} == {(1316, 0)}


def test_the_cluster_file_is_one_that_ray_accepts() -> None:
    config = prepare_config(yaml.safe_load((crash.ROOT / "cluster.yaml").read_text()))
    validate_config(config)
    with pytest.raises(ValidationError):
        validate_config({**config, "of_no_meaning": 1})


def test_what_lies_in_batches_is_not_asked_online(tmp_path: Path) -> None:
    """A run of another mode would pay for it again."""
    pools, out = tmp_path / "pools.jsonl", tmp_path / "out"
    crash.write_pools(pools, queries=1, documents=4)
    part = BatchPart("m", "openai:gpt-6-luna", "Preference", ["a" * 32], requests=1)
    Parts(str(out)).keep(part)
    with crash.fakes(tmp_path) as environ:
        alone = environ | crash.limits(crash.DEFAULT_JUDGES[:1])
        status, printed = annotate(pools, out, alone, "--judges", "openai")
        assert status == 2, printed
        assert "--mode batch" in printed
        assert crash.journal(tmp_path) == []
