"""The package that people install: a wheel and a source archive, used outside the clone."""

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import zelo_ray
from tests.helpers import crash
from zelo_ray.cli import main
from zelo_ray.files.storage import read_placed_lines
from zelo_ray.providers.offline import bm25

VERSION = zelo_ray.__version__
PLACES = {
    "CHANGELOG.md": r"^## (\S+)",
    "CITATION.cff": r"^version: (\S+)",
    "docs/images/version.svg": r"<title>version: (\S+)</title>",
    "docs/cluster.md": r"zelo-ray:(\d\S*)",
    "jobs/kubernetes/Dockerfile": r"zelo-ray:(\d\S*)",
    "jobs/kubernetes/raycluster.yaml": r"zelo-ray:(\d\S*)",
    "jobs/kubernetes/rayjob.yaml": r"zelo-ray:(\d\S*)",
}


def _run(*words, cwd, environ=None):
    ended = subprocess.run(
        [*map(str, words)],
        check=False,
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel, built from the source archive as an installer would, and that archive."""
    out = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--no-isolation", "-o", out, crash.ROOT, cwd=out)
    [wheel], [archive] = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, archive


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A folder with what the wheel installs, and an environment that imports from it first."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(built[0]) as wheel:
        wheel.extractall(folder)
    return folder, {**crash.bare_environment(), "PYTHONPATH": str(folder)}


@pytest.mark.parametrize("place", PLACES)
def test_every_place_that_names_the_version_names_this_one(place):
    found = re.findall(PLACES[place], (crash.ROOT / place).read_text(), re.MULTILINE)
    assert found, f"{place} names no version"
    assert set(found if place != "CHANGELOG.md" else found[:1]) == {VERSION}


@pytest.mark.nightly
def test_the_archives_hold_the_package_and_no_more_than_it_needs(built):
    wheel, archive = built
    assert f"zelo_ray-{VERSION}-" in wheel.name
    assert archive.name == f"zelo_ray-{VERSION}.tar.gz"
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
    source = crash.ROOT / "zelo_ray"
    wanted = {
        str(path.relative_to(crash.ROOT))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    wanted |= {
        f"zelo_ray/{path.relative_to(crash.ROOT)}"
        for path in (crash.ROOT / "data").rglob("*")
        if path.is_file()
    }
    assert {name for name in names if ".dist-info/" not in name} == wanted
    with tarfile.open(archive) as files:
        tops = {Path(name).parts[1] for name in files.getnames()}
    assert {"zelo_ray", "data", "docs", "tests", "README.md", "pyproject.toml"} <= tops
    assert not {".venv", "out", ".git"} & tops


@pytest.mark.ray
@pytest.mark.nightly
def test_the_wheel_runs_the_first_job_outside_the_clone(installed, tmp_path):
    folder, environ = installed
    base = (sys.executable, "-P", "-m", "zelo_ray")
    where = _run(
        sys.executable,
        "-c",
        "print(__import__('zelo_ray').__file__)",
        cwd=tmp_path,
        environ=environ,
    )
    assert Path(where.strip()).is_relative_to(folder)
    wrote = _run(*base, "sample", "data", cwd=tmp_path, environ=environ)
    first = re.search(r"^Next step: zelo-ray (.*)$", wrote, re.MULTILINE)[1]
    assert "recorded:data/recordings" in first
    assert "documents scored 329" in _run(*base, *first.split(), cwd=tmp_path, environ=environ)
    words = ("bakeoff", "--truth", "out", "--pools", "data/sample", "--rerankers", "original")
    words = (*words, "--runs", "data/bm25.run", "--out", "contest")
    assert "bm25" in _run(*base, *words, cwd=tmp_path, environ=environ)
    assert (tmp_path / "contest" / "report.html").exists()


def test_the_sample_is_written_once_and_never_over_another_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["sample"]) == 0
    assert main(["sample", "data"]) == 0
    kept = {str(path.relative_to(tmp_path / "data")) for path in (tmp_path / "data").rglob("*.*")}
    assert {"qrels.txt", "bm25.run", "sample/part-0.jsonl"} <= kept
    for name in kept:
        assert (tmp_path / "data" / name).read_bytes() == (crash.ROOT / "data" / name).read_bytes()
    (tmp_path / "data" / "qrels.txt").write_text("mine")
    capsys.readouterr()
    assert main(["sample", "data"]) == 2
    assert "data/qrels.txt is another file; name another directory" in capsys.readouterr().err
    assert (tmp_path / "data" / "qrels.txt").read_text() == "mine"
    (tmp_path / "taken").write_text("a file")
    assert main(["sample", "taken"]) == 1
    assert "taken" in capsys.readouterr().err


def test_the_run_of_the_sample_is_that_of_bm25():
    """The run needs no extra; the reranker ``bm25``, which orders alike, needs one."""
    lines = [line.split() for line in (crash.ROOT / "data" / "bm25.run").read_text().splitlines()]
    run = {doc: float(score) for _, _, doc, _, score, _ in lines}
    for part in (crash.ROOT / "data" / "sample").iterdir():
        for _, line in read_placed_lines(str(part)):
            pool = json.loads(line)
            ids = [document["id"] for document in pool["documents"]]
            scores = bm25(pool["query"]["query"], [each["content"] for each in pool["documents"]])
            assert [run.pop(doc) for doc in ids] == pytest.approx(scores, rel=1e-5)
    assert not run
