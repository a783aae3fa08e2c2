"""Finished runs in trackers of experiments, read back by the trackers' own libraries."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.helpers.builders import options_of
from zelo_ray.cli import main
from zelo_ray.engine.request_plans import RequestPlans
from zelo_ray.errors import OptionError
from zelo_ray.report import tracking
from zelo_ray.report.tracking import name_for_mlflow

pytestmark = [
    pytest.mark.nightly,
    # MLflow opens files by what Python 3.14 deprecates.
    pytest.mark.filterwarnings("ignore:codecs.open:DeprecationWarning"),
]

SECRET = "sk-a-key-that-nobody-may-see"
QRELS = "q1 0 d1 3\nq1 0 d2 1\nq1 0 d3 0\nq2 0 d1 2\nq2 0 d2 0\n"
RUNS = {"a": "d1 d2 d3", "b": "d3 d2 d1"}
GRADES = "judge,query_id,doc_id,grade\n" + "".join(
    f"{judge},q{n},d,{(n + shift) % 4}\n" for judge, shift in (("m", 0), ("n", 1)) for n in range(8)
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with qrels, runs and grades, and a key in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "WANDB_API_KEY"):
        monkeypatch.setenv(name, SECRET)
    (tmp_path / "qrels.txt").write_text(QRELS)
    (tmp_path / "grades.csv").write_text(GRADES)
    for name, order in RUNS.items():
        lines = [
            f"{query} Q0 {doc_id} {rank} {9 - rank} {name}"
            for query in ("q1", "q2")
            for rank, doc_id in enumerate(order.split(), 1)
        ]
        (tmp_path / f"{name}.run").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def store(folder, monkeypatch):
    """A store of MLflow in a folder."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (folder / "store").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return folder / "store"


BAKEOFF = ["bakeoff", "--truth", "qrels.txt", "--runs", "a.run", "b.run", "--out", "contest"]
AGREE = ["agree", "grades.csv", "--out", "agreement"]


def tracked_runs():
    from mlflow import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("zelo-ray")
    return client, client.search_runs([experiment.experiment_id])


def contents(folder):
    return b"".join(path.read_bytes() for path in Path(folder).rglob("*") if path.is_file())


def test_mlflow_gets_options_figures_tags_and_files_of_a_bakeoff(store, capsys):
    status = main(BAKEOFF)
    assert status == main([*BAKEOFF, "--track", "mlflow"])
    client, (run,) = tracked_runs()
    assert "--track mlflow: logged to MLflow, experiment zelo-ray, run" in capsys.readouterr().err
    assert (run.info.status, run.info.run_name) == ("FINISHED", "bakeoff contest")
    assert run.data.params["runs"] == '["a.run","b.run"]'
    means = pq.read_table("contest/means.parquet").to_pylist()
    figures = {
        name_for_mlflow(f"{row['measure']}/{row['run']}/panel"): row["mean"] for row in means
    }
    assert {name: run.data.metrics[name] for name in figures} == figures
    record = json.loads(Path("contest/run.json").read_text())
    assert run.data.tags["zelo_ray.run_id"] == record["run_id"]
    files = {item.path for item in client.list_artifacts(run.info.run_id)}
    assert {"report.html", "run.json", "means.parquet", "comparisons.parquet"} <= files
    assert SECRET.encode() not in contents(store)


def test_a_tracker_that_fails_changes_neither_results_nor_status(folder, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:pass-word@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    status = main(AGREE)
    before = Path("agreement/figures.parquet").read_bytes()
    capsys.readouterr()
    assert main([*AGREE, "--track", "mlflow"]) == status
    told = capsys.readouterr().err
    assert "--track mlflow: the run could not be logged (" in told
    assert "the same command logs them again" in told
    assert "pass-word" not in told
    assert Path("agreement/figures.parquet").read_bytes() == before


def test_what_a_tracker_lacks_is_told_before_the_run(folder, monkeypatch, capsys):
    for variable in ("MLFLOW_TRACKING_URI", "WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    expected = {
        "mlfow": "track: no such tracker 'mlfow' (did you mean 'mlflow'?); there are mlflow, wandb",
        "mlflow": "set MLFLOW_TRACKING_URI",
        "wandb": "set WANDB_MODE or WANDB_API_KEY",
    }
    for name, message in expected.items():
        assert main([*AGREE, "--track", name]) == 2
        assert message in capsys.readouterr().err
    assert main([*AGREE[:2], "--track", "mlflow"]) == 2
    assert "track: needs out" in capsys.readouterr().err
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"pip install 'zelo-ray\[mlflow\]'"):
        tracking.check_trackers(["mlflow"])
    assert not Path("agreement").exists()


def test_wandb_gets_the_same_without_the_network(folder, monkeypatch, capsys):
    for name in ("DIR", "DATA_DIR", "CACHE_DIR", "CONFIG_DIR"):
        (folder / "wandb-files").mkdir(exist_ok=True)
        monkeypatch.setenv(f"WANDB_{name}", str(folder / "wandb-files"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert main([*AGREE, "--track", "wandb"]) == main(AGREE)
    assert "--track wandb: logged to Weights & Biases, project zelo-ray" in capsys.readouterr().err
    (run,) = (folder / "wandb-files" / "wandb").glob("offline-run-*")
    files = {path.name for path in (run / "files").iterdir() if path.exists()}  # no dead links
    assert {"report.html", "run.json", "figures.parquet"} <= files
    config, summary, run_id, host = read_wandb(*run.glob("*.wandb"))
    assert config["sources"] == '["grades.csv"]'
    assert config["zelo_ray.id"] == run_id
    row = pq.read_table("agreement/figures.parquet").to_pylist()[0]
    path = "/".join(row[name] for name in ("what", "of", "against", "scale") if row[name])
    assert summary[path] == pytest.approx(row["value"])
    everything = contents(folder / "wandb-files")
    assert SECRET.encode() not in everything
    assert host == "-"  # nobody is told the name of this machine


def leveldb_records(log, block=2**15, head=7):
    """Yield the records of a log in LevelDB's format, after the head that W&B puts before it."""
    at, parts = head, b""
    while at < len(log):
        if block - at % block < head:  # what is left of a block holds no record
            at += block - at % block
            continue
        length, kind = int.from_bytes(log[at + 4 : at + 6], "little"), log[at + 6]
        parts += log[at + head : at + head + length]
        at += head + length
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def read_wandb(path):
    """Read configuration, summary, id and host of a run that was logged offline."""
    from wandb.proto.wandb_internal_pb2 import Record

    config, summary, run_id, host = {}, {}, "", ""
    for data in leveldb_records(path.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        run_id, host = record.run.run_id or run_id, record.run.host or host
        for item in (*record.run.config.update, *record.config.update):
            config["/".join(item.nested_key) or item.key] = json.loads(item.value_json)
        for item in record.summary.update:
            summary["/".join(item.nested_key) or item.key] = json.loads(item.value_json)
    return config, summary, run_id, host


def test_trackers_change_no_request_and_no_fingerprint():
    plain, tracked = (
        RequestPlans(options_of(track=names))._base.digest() for names in ((), ("mlflow",))
    )
    assert plain == tracked
