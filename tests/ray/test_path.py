"""No file of the working directory or the script's folder stands in for a library, anywhere."""

import importlib.metadata
import json
import shutil
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from tests.helpers import crash

JUDGE = "my_judge:PROVIDER:m"
_COMMAND = Path(sys.executable).parent / "zelo-ray"
_LOUD = """
import os, sys
open({folder!r} + "/ran-" + __name__.replace("/", "_") + "-" + str(os.getpid()), "w").close()
raise ImportError("this is no library")
"""
_MINE = """
import my_words
from zelo_ray import Provider
from zelo_ray.records import Answer, Usage


class Mine:
    async def send(self, request):
        return Answer("ok", my_words.ANSWER, Usage())

    async def aclose(self):
        pass


PROVIDER = Provider(connect=lambda settings: Mine(), models=("m",), free=True)
"""
_WORDS = """ANSWER = '{"reasoning": "The first.", "preference": -1.0}'"""
_SCRIPT = """
from zelo_ray import annotate

if __name__ == "__main__":
    places = {"out": "out", "executor": "ray"}
    run = annotate("in.jsonl", judges="my_judge:PROVIDER:m", progress=None, **places)
    print(run)
"""


@pytest.fixture
def folder(tmp_path):
    """Data, a judge of the user's, and a file by the name of everything that can be imported."""
    crash.write_pools(tmp_path / "in.jsonl", 2, 3)
    (tmp_path / "my_judge.py").write_text(_MINE)
    (tmp_path / "my_words.py").write_text(_WORDS)
    plant(tmp_path, tmp_path)
    return tmp_path


def plant(folder, marks):
    """Put modules into a folder that leave a mark when they are imported."""
    libraries = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions()}
    names = {"sitecustomize", "usercustomize"}
    specs = {name: PathFinder.find_spec(name) for name in libraries - {"zelo_ray", "tests"}}
    # A package without an __init__.py, such as google, comes after a module, wherever that lies.
    names |= {name for name, spec in specs.items() if spec and spec.origin}
    for name in names:
        if name.isidentifier():
            (folder / f"{name}.py").write_text(_LOUD.format(folder=str(marks)))


def environment(**more):
    """As of a shell: nothing but what a test names is on Python's path."""
    environ = {name: text for name, text in crash.environment({}).items() if "LIMITS" not in name}
    environ.pop("PYTHONPATH", None)
    return {**environ, **more}


def imported_at_start():
    """Name what Python may import before any program: its own, and what `.pth` files ask for."""
    words = [sys.executable, "-c", "import sys; print(*sys.modules)"]
    printed = subprocess.run(words, check=True, capture_output=True, text=True, env=environment())
    names = {name.partition(".")[0] for name in printed.stdout.split()}
    return {"sitecustomize", "usercustomize", *sys.stdlib_module_names, *names}


def run(command, folder, environ):
    """Run it where the data is; nothing there was taken for a library."""
    status, printed = crash.finish(crash.start([str(word) for word in command], environ, folder))
    ran = sorted({path.name.rpartition("-")[0] for path in folder.glob("ran-*")})
    assert (status, ran) == (0, []), printed
    scores = json.loads((folder / "out/run.json").read_text())["summary"]["scored"]
    assert scores == 6


WORDS = ("annotate", "in.jsonl", "--out", "out", "--judges", JUDGE)
ON_RAY = (*WORDS, "--executor", "ray")


@pytest.mark.ray
@pytest.mark.parametrize("words", [WORDS, ON_RAY], ids=["here", "ray"])
def test_the_command_and_its_actors_import_libraries_alone(folder, words):
    (folder / "zelo_ray.py").write_text(_LOUD.format(folder=str(folder)))
    run([_COMMAND, *words], folder, environment())


@pytest.mark.nightly
@pytest.mark.ray
def test_a_program_of_the_users_imports_none_from_its_folder_with_this_package(folder):
    program = folder / "programs"
    program.mkdir()
    (program / "mine.py").write_text(_SCRIPT)
    for name in ("my_judge.py", "my_words.py"):  # beside the program, and not where it starts
        (folder / name).rename(program / name)
    plant(program, folder)
    run([sys.executable, program / "mine.py"], folder, environment())


@pytest.mark.nightly
@pytest.mark.ray
def test_as_a_module_it_imports_none_from_where_it_starts(folder):
    begin = [
        sys.executable,
        "-c",
        "import sys, runpy, pkgutil, importlib.util; print(*sys.modules)",
    ]
    for name in subprocess.check_output(begin, text=True).split():
        (folder / f"{name}.py").unlink(missing_ok=True)  # Python needs these to find the package
    run([sys.executable, "-m", "zelo_ray", *ON_RAY], folder, environment())


@pytest.mark.ray
def test_a_path_with_an_empty_entry_leads_no_worker_to_them(folder):
    for name in imported_at_start():  # Python itself would import those first
        (folder / f"{name}.py").unlink(missing_ok=True)
    run([_COMMAND, *ON_RAY], folder, environment(PYTHONPATH=f":{crash.ROOT}"))


@pytest.mark.nightly
@pytest.mark.ray
def test_a_job_script_imports_none_from_its_folder_nor_from_where_it_starts(folder):
    jobs = folder / "jobs"
    shutil.copytree(crash.ROOT / "jobs", jobs)
    plant(jobs, folder)
    for name in ("annotate", "zelo_ray"):
        (jobs / f"{name}.py").write_text(_LOUD.format(folder=str(folder)))
    shutil.copy(crash.ROOT / "jobs/run.py", jobs)
    run([sys.executable, jobs / "run.py", *ON_RAY], folder, environment())
