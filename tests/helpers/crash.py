"""A run that is killed again and again, and the books that say what was paid twice."""

import atexit
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import yaml

from tests.fakes.core import PROVIDERS
from zelo_ray.commands import COMMANDS, options_of
from zelo_ray.engine.ledger import read_rows

OUTPUTS = (
    "annotated.jsonl",
    "scores.parquet",
    "votes.parquet",
    "failures.parquet",
    "rejected.parquet",
)
URLS = {
    "openai": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
}
DEFAULT_JUDGES = (
    "openai:gpt-6-luna",
    "anthropic:claude-haiku-5-5",
    "gemini:gemini-3.1-flash-lite",
)
COMMAND = (sys.executable, "-m", "zelo_ray")
ROOT = Path(__file__).parents[2]
# US dollars for a million tokens in November 2026: input, output, read from a cache, written to it
PRICES = {
    "openai": (0.10, 0.50, 0.01, 0.10),
    "anthropic": (0.10, 0.50, 0.01, 0.125),
    "gemini": (0.25, 1.50, 0.025, 0.25),
}


PATIENCE = 900.0
"""Seconds for what is waited for to happen, on a machine of any speed."""
TRIES, _NO_RAY = 4, "timed out during startup"
_OPTION = "TEST_OPTION_"
_started: list["subprocess.Popen[str]"] = []
_given = set[int]()


def bare_environment() -> dict[str, str]:
    """The environment without what this project, the SDKs and storage read from it.

    Processes may keep bytecode: a run on Ray starts a dozen that would compile the same files.
    """
    spoken_for = (
        *("OPENAI_", "ANTHROPIC_", "GEMINI_", "GOOGLE_", "TEST_OPTION_", "RAY_"),
        *("ZEROENTROPY_", "COHERE_", "CO_API_", "VOYAGE_", "JINA_", "HF_"),
        *("AWS_", "FSSPEC_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        "PYTHONDONTWRITEBYTECODE",
    )
    kept = {n: v for n, v in os.environ.items() if not n.upper().startswith(spoken_for)}
    return {**kept, "PYTHON_DOTENV_DISABLED": "1"}


def write_pools(
    path: Path, queries: int, documents: int, text: Callable[[int], str] = lambda query: ""
) -> None:
    """Pools whose documents tell their worth to the judge that knows, and go on with a text."""
    rng = random.Random(1)
    with path.open("w") as file:
        for q in range(queries):
            pool = {
                "query": {"id": f"q{q}", "query": f"What is the matter with {q}?"},
                "documents": [
                    {
                        "id": f"d{d}",
                        "content": f"{q}, {d}: [[worth={rng.gauss(0, 1.5):.3f}]]{text(q)}",
                    }
                    for d in range(documents)
                ],
            }
            file.write(json.dumps(pool) + "\n")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, of those that Linux gives to nobody who names none.

    Of the others each may be another's by the time that a server takes it: Ray takes dozens. None
    is given twice, and two processes of tests share none.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    first = 20_000 + 3_000 * (worker % 4)
    found = list[int]()
    while len(found) < count:
        port = random.SystemRandom().randrange(first, first + 3_000)
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                found.append(port)
    return found


@contextmanager
def fakes(
    folder: Path, *flags: str, judges: Sequence[str] = DEFAULT_JUDGES, port: int = 0
) -> Iterator[dict[str, str]]:
    """The fakes as a process of their own, and the environment that leads these judges to them."""
    places = ("--journal", str(folder / "journal.jsonl"), "--port", str(port))
    command = [sys.executable, "-m", "tests.fakes", *places, *flags]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        urls = json.loads(server.stdout.readline())
        try:
            yield environment(urls, judges)
        finally:
            server.terminate()


def environment(urls: Mapping[str, str], judges: Sequence[str] = DEFAULT_JUDGES) -> dict[str, str]:
    """The environment that leads this panel to the fakes at these URLs, unhurried by limits."""
    keys = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
    return {
        **bare_environment(),
        **{variable: urls[name] for name, variable in URLS.items() if name in urls},
        **dict.fromkeys(keys, "a-key-for-tests-only"),
        **limits(judges),
    }


def environment_at(port: int) -> dict[str, str]:
    """The environment that leads the default panel to the fakes at this port."""
    server = f"http://127.0.0.1:{port}"
    return environment({name: server + PROVIDERS[name].BASE for name in URLS})


def limits(judges: Sequence[str], **more: float) -> dict[str, str]:
    """The variable that gives judges such limits, and as many calls a minute as they can make.

    See `with_config`.
    """
    return {"TEST_OPTION_LIMITS": json.dumps({judge: {"rpm": 1e6, **more} for judge in judges})}


def billed(environ: Mapping[str, str]) -> dict[bool, float]:
    """What the servers have billed for calls (False) and in batches (True), in US dollars."""
    sums = {False: 0.0, True: 0.0}
    for row in _told(environ, "books"):
        read, written = row.get("cached", 0), row.get("cache_write", 0)
        plain, out = row.get("input", 0) - read - written, row.get("output", 0)
        amounts = zip((plain, out, read, written), PRICES[row["provider"]], strict=True)
        dollars = sum(amount * price for amount, price in amounts) / 1e6
        sums[row["batch"]] += dollars * (0.5 if row["batch"] else 1.0)
    return sums


def stats(environ: Mapping[str, str]) -> dict[str, Any]:
    """What the servers count: outcomes, calls in flight, batches on their way."""
    return _told(environ, "stats")


@contextmanager
def held(environ: Mapping[str, str], after: int = 0) -> Iterator[None]:
    """The servers take calls meanwhile, and answer none, or none after some more.

    So what is done to a run is done to one at work, however slow the machine that does it.
    """
    _told(environ, f"hold?after={after}")
    try:
        yield
    finally:
        _told(environ, "release")


def _told(environ: Mapping[str, str], what: str) -> Any:
    server = environ["OPENAI_BASE_URL"].partition("/openai")[0]
    with urlopen(f"{server}/{what}") as response:
        return json.load(response)


def with_config(words: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The words of a command that asks, with a file of the options that tests give by variables.

    ``TEST_OPTION_LIMITS`` holds limits as JSON, and so on; what words or their own file say wins.
    Servers of tests take more calls a minute than any account, so nearly every run has limits.
    """
    given = {
        name.removeprefix(_OPTION).lower(): json.loads(text)
        for name, text in environ.items()
        if name.startswith(_OPTION)
    }
    kind = options_of(words[0]) if words and words[0] in COMMANDS else None
    told = {name: value for name, value in given.items() if kind and name in kind.model_fields}
    if not told:
        return [*words]
    words = [*words]
    if "--config" in words:
        at = words.index("--config")
        told |= yaml.safe_load(Path(words[at + 1]).read_text()) or {}
        del words[at : at + 2]
    path = Path(_files(), f"{uuid.uuid4().hex}.yaml")
    path.write_text(yaml.safe_dump(told))
    return [*words, "--config", str(path)]


@cache
def _files() -> str:
    folder = tempfile.mkdtemp(prefix="zelo-test-options-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def start(
    command: Sequence[str], environ: dict[str, str], cwd: Path = ROOT, *, own_group: bool = False
) -> "subprocess.Popen[str]":
    """Start a command, if need be in a process group of its own, as a shell does."""
    ours = len(COMMAND) if tuple(command[: len(COMMAND)]) == COMMAND else len(command)
    run = subprocess.Popen(
        [*command[:ours], *with_config(command[ours:], environ)],
        cwd=cwd,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0 if own_group else None,
    )
    _started.append(run)
    return run


def annotate(
    pools: Path | str,
    out: Path | str,
    environ: dict[str, str],
    *flags: str,
    own_group: bool = False,
) -> "subprocess.Popen[str]":
    """Start a run."""
    return start(annotating(pools, out, *flags), environ, own_group=own_group)


def annotating(pools: Path | str, out: Path | str, *flags: str) -> list[str]:
    """The command that annotates."""
    return [*COMMAND, "annotate", str(pools), "--out", str(out), *flags]


def end_left() -> None:
    """End what a test that failed has left running."""
    while _started:
        run = _started.pop()
        if run.poll() is None:
            kill_tree(run)
        if run.stdout:
            run.stdout.close()


def finish(run: "subprocess.Popen[str]") -> tuple[int, str]:
    """Wait for a run; its exit status and all that it printed."""
    try:
        printed, _ = run.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired as late:
        said = (late.output or b"").decode(errors="replace")
        raise AssertionError(f"it has not ended within {PATIENCE:.0f} s:\n{said}") from None
    return run.returncode, printed


def completed(command: Sequence[str], environ: dict[str, str], cwd: Path = ROOT) -> tuple[int, str]:
    """Run a command to its end: again where Ray did not start, as on a machine that is busy."""
    for _ in range(TRIES):
        status, printed = finish(start(command, environ, cwd))
        if _NO_RAY not in printed:
            break
    return status, printed


def answers(folder: Path) -> list[dict[str, Any]]:
    """What the fakes answered well, by calls and in batches."""
    asked = (entry for entry in journal(folder) if entry["endpoint"] in ("answer", "line"))
    return [entry for entry in asked if entry["status"] == 200]


def killed(
    command: Sequence[str],
    environ: dict[str, str],
    folder: Path,
    moments: Iterable[int],
    *,
    batch: bool = False,
) -> tuple[int, int]:
    """Start a command again and again, and kill it at work.

    Args:
        command: what to run.
        environ: its environment.
        folder: where the fakes' journal is.
        moments: for each kill, after how many more answers.
        batch: whether batches have to be on their way then, else calls.

    Returns:
        How often it was killed, and how many calls or batches were on their way then in all.
    """
    kills, flying, tries = 0, 0, TRIES
    left = list(moments)
    while left and tries:
        run = start(command, environ)
        if found := await_work(folder, environ, run, left[0], batch=batch):
            kill_tree(run)
            kills, flying, left = kills + 1, flying + found, left[1:]
        elif _NO_RAY in finish(run)[1]:
            tries -= 1
        else:
            break
    return kills, flying


def await_work(
    folder: Path, environ: dict[str, str], run: "subprocess.Popen[str]", more: int, *, batch: bool
) -> int:
    """Return after so many more answers, once calls or batches are on their way; how many."""
    aim, what = len(answers(folder)) + more, "open_batches" if batch else "in_flight"
    while run.poll() is None:
        if len(answers(folder)) >= aim and (found := int(stats(environ)[what])):
            return found
        time.sleep(0.02)
    return 0


def kill_tree(process: "subprocess.Popen[str]") -> None:
    """Kill a run and all its processes with SIGKILL.

    To find them all takes a moment, in which those that are still alive go on calling.
    """
    whole = psutil.Process(process.pid)
    tree = [whole, *whole.children(recursive=True)]
    for each in tree:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()
    if process.stdout:
        process.stdout.close()
    psutil.wait_procs(tree, timeout=10)


def end_and_describe(process: "subprocess.Popen[str]") -> str:
    """Kill a run; return the command lines of its processes, and what it had printed."""
    assert process.stdout
    whole, lines = psutil.Process(process.pid), list[str]()
    for each in (*whole.children(recursive=True), whole):
        with suppress(psutil.NoSuchProcess):
            lines.append(f"{each.pid} {' '.join(each.cmdline())[:100]}")
            each.kill()
    return "\n".join([*lines, process.stdout.read()])


def journal(folder: Path) -> list[dict[str, Any]]:
    """What the fakes were asked, one entry a request; the last line may still be being written."""
    path = folder / "journal.jsonl"
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
    return [json.loads(line) for line in whole.splitlines()]


def await_requests(folder: Path, count: int, run: "subprocess.Popen[str]") -> None:
    """Return once the fakes have answered so many requests."""
    while run.poll() is None and len(journal(folder)) < count:
        time.sleep(0.05)


def paid_twice(folder: Path, out: Path) -> tuple[int, int]:
    """How many requests were sent again: those whose reply was not kept, and those whose was.

    A kill may cost what is in flight: what was sent, and whose reply is not in the ledger.
    """
    endpoints = ("answer", "line")  # to look again at a batch costs nothing
    sent = [entry["sha"] for entry in journal(folder) if entry["endpoint"] in endpoints]
    kept = [row for row in read_rows(str(out)) if not row.judge.startswith("offline:")]
    lost = len(sent) - len(kept)
    return lost, len(sent) - len(set(sent)) - lost


def outputs(out: Path) -> dict[str, bytes]:
    """The result files, byte by byte."""
    return {name: (out / name).read_bytes() for name in OUTPUTS}
