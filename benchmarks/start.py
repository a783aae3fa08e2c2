"""Seconds until a command answers: help, a first result, the same again, and a bake-off.

    python -m benchmarks.start COMMIT

Runs each command here and at another commit, which is checked out into a temporary folder, in turn
and three times, and shows the least seconds of the clock and of CPU (child processes too). A first
round compiles the modules, as an installation does, and does not count. Two minutes.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 3
HERE = Path(__file__).resolve().parents[1]
ZELO = [sys.executable, "-m", "zelo_ray"]
ANNOTATE = [*ZELO, "annotate", "data/sample", "--judges", "recorded:data/recordings", "--out"]
COMMANDS = {
    "`import zelo_ray`": [sys.executable, "-c", "import zelo_ray"],
    "`annotate --help`": [*ZELO, "annotate", "--help"],
    "`bakeoff --help`": [*ZELO, "bakeoff", "--help"],
    "first result on the sample": [*ANNOTATE, "OUT"],
    "the same again": [*ANNOTATE, "OUT"],
    "`bakeoff` of a run, original and bm25": [
        *(*ZELO, "bakeoff", "--truth", "OUT", "--runs", "run=data/bm25.run"),
        *("--rerankers", "original", "bm25", "--out", "OUT-contest"),
    ],
}


def measure(command: list[str], tree: Path, folder: Path) -> tuple[float, float]:
    """Run a command of a tree; return its seconds, and those of CPU."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environ |= {"PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": str(folder.parent / "compiled")}
    words = [word.replace("OUT", str(folder / "out")) for word in command]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(words, cwd=tree, env=environ, check=True, capture_output=True)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu


def compare(trees: tuple[Path, Path], folder: Path) -> None:
    """Show the least seconds of each command in both trees."""
    took = {name: ([], []) for name in COMMANDS}
    for number in range(ROUNDS + 1):
        for name, command in COMMANDS.items():
            for of_tree, tree in enumerate(trees):
                place = folder / f"{of_tree}-{number}"
                seconds = measure(command, tree, place)
                took[name][of_tree].append(seconds)
    print("| command | before, s | now, s | ratio | CPU before, s | CPU now, s | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, sides in took.items():
        cells = ""
        for kind in (0, 1):
            was, new = (min(seconds[kind] for seconds in side[1:]) for side in sides)
            cells += f" {was:.2f} | {new:.2f} | {new / was:.2f} |"
        print(f"| {name} |{cells}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        other = Path(made, "tree")
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", str(other), *sys.argv[1:]], check=True)
        try:
            compare((other, HERE), Path(made))
        finally:
            subprocess.run([*git, "remove", "--force", str(other)], check=True)
