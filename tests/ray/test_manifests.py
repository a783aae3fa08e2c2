"""What users hand to Kubernetes and `ray up`: fields that exist, no key, a token, room to ask."""

import fnmatch
import os
import runpy
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.helpers import crash
from zelo_ray.cli import parse_command
from zelo_ray.ray.pipeline import ASKING_BYTES, ASKING_CPUS

FOLDER = crash.ROOT / "jobs" / "kubernetes"
GIGABYTES = 2**30


@pytest.fixture(params=["raycluster", "rayjob"])
def manifest(request):
    return yaml.safe_load((FOLDER / f"{request.param}.yaml").read_text())


def cluster_of(manifest):
    return manifest["spec"].get("rayClusterSpec", manifest["spec"])


def pods_of(manifest):
    cluster = cluster_of(manifest)
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [container for group in groups for container in group["template"]["spec"]["containers"]]


def test_callers_show_a_token_and_keys_come_from_a_secret(manifest):
    assert cluster_of(manifest)["authOptions"] == {"mode": "token"}
    for pod in pods_of(manifest):
        assert pod["envFrom"] == [{"secretRef": {"name": "zelo-ray-keys"}}]
    told = yaml.safe_load(manifest["spec"].get("runtimeEnvYAML", "{}"))
    assert set(told.get("env_vars", ())) <= {"RAY_JOB_STOP_WAIT_TIME_S"}


def test_a_pod_has_room_for_the_actors_that_are_said_to_fit(manifest):
    """Ray counts a pod's limits as its processors and memory; its objects take their part."""
    for pod in pods_of(manifest):
        limits = pod["resources"]["limits"]
        assert pod["resources"]["requests"] == limits
        cpus, memory = int(limits["cpu"]), int(limits["memory"].removesuffix("Gi")) * GIGABYTES
        memory -= int(
            cluster_of(manifest)["headGroupSpec"]["rayStartParams"]["object-store-memory"]
        )
        assert cpus - 1 >= 12 * ASKING_CPUS
        assert memory * 0.9 >= 12 * ASKING_BYTES


@pytest.fixture
def shell(tmp_path):
    """What runs the job's script by a command of our own that stands for `zelo-ray`."""

    def start(program, *words):
        (tmp_path / "zelo-ray").write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / "zelo-ray").chmod(0o755)
        environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        told = {"env": environ, "stdout": subprocess.PIPE, "text": True, "start_new_session": True}
        return subprocess.Popen(["sh", str(FOLDER / "run.sh"), *words], **told)

    return start


def test_a_command_that_finished_with_gaps_is_no_failure_to_kubernetes(shell):
    for exits, seen in ((0, 0), (3, 0), (1, 1), (2, 2), (4, 4), (137, 137)):
        with shell(f'echo "$@"\nexit {exits}', "annotate", "a b") as run:
            assert run.stdout.read() == "annotate a b\n"
        assert run.returncode == seen


def test_a_command_that_is_stopped_is_waited_for(shell):
    """Ray sends SIGTERM to the shell as well, whose end would be the job's."""
    trap = "trap 'sleep 1; echo calls came home; exit 3' TERM"
    with shell(f"{trap}\necho at work\nwhile :; do sleep .1; done", "annotate") as run:
        assert run.stdout.readline() == "at work\n"
        os.killpg(run.pid, signal.SIGTERM)
        assert run.stdout.read().endswith("calls came home\n")
    assert run.returncode == 0


def test_the_job_of_the_manifest_runs_by_that_script_which_the_image_has():
    """KubeRay writes it into a shell's line, and Ray into another: it has nothing to quote."""
    spec = yaml.safe_load((FOLDER / "rayjob.yaml").read_text())["spec"]
    words = spec["entrypoint"].split()
    assert words == shlex.split(subprocess.list2cmdline(words))
    assert f"jobs/kubernetes/run.sh {words[1]}\n" in (FOLDER / "Dockerfile").read_text()
    assert (words[0], parse_command(words[2:])[0]) == ("sh", "annotate")


def test_no_file_of_keys_and_no_result_reaches_a_build():
    """What Docker leaves out by its own rules: the last line that fits decides."""
    rules = (crash.ROOT / ".dockerignore").read_text().splitlines()
    rules = [rule for rule in rules if rule and not rule.startswith("#")]

    def reaches(path):
        kept = True
        for rule in rules:
            pattern = rule.removeprefix("!")
            parts = [path, *map(str, Path(path).parents)][:-1]
            fits = any(fnmatch.fnmatch(f"/{each}", f"/{pattern}") for each in parts)
            fits |= any(fnmatch.fnmatch(f"/{each}", pattern) for each in parts)
            kept = rule.startswith("!") if fits else kept
        return kept

    for path in (".env", "zelo_ray/.env", "keys.env", "zelo_ray/a/keys.env", "out/run.json"):
        assert not reaches(path), path
    for path in (".env.local", "zelo_ray/.env.prod", ".git/config", ".venv/bin/python", "x/.env"):
        assert not reaches(path), path
    package = ("zelo_ray/cli/__init__.py", "zelo_ray/protocols/prompts/pairwise.txt")
    for path in (*copied_files(), *package):
        assert reaches(path), path


def copied_files():
    """The paths of the checkout that the Dockerfile copies."""
    lines = (FOLDER / "Dockerfile").read_text().splitlines()
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ")]
    own = [words for words in copies if not any(word.startswith("--from=") for word in words)]
    return [word for words in own for word in words if not word.startswith("--")]


def test_the_clusters_of_ray_up_ask_for_a_token_too():
    config = yaml.safe_load((crash.ROOT / "cluster.yaml").read_text())
    for node in ("head", "worker"):
        *_, start = config[f"{node}_start_ray_commands"]
        assert "RAY_AUTH_MODE=token" in start.split("ray start")[0]
    assert config["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"


@pytest.mark.parametrize(("script", "words"), [("run", ["annotate"]), ("train_reranker", [])])
def test_a_job_is_a_command_or_the_trainer(monkeypatch, capsys, script, words):
    """The trainer is a program by itself, for libraries that are an extra."""
    if script == "train_reranker":
        pytest.importorskip("torch")
    path = crash.ROOT / "jobs" / f"{script}.py"
    monkeypatch.setattr(sys, "argv", [str(path), *words, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert not ended.value.code
    called = " ".join(["zelo-ray", *words] if words else [path.name])
    assert f"usage: {called} " in capsys.readouterr().out
