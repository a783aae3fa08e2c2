"""A Ray cluster of processes of this machine as its nodes, and `ray job` as users have it."""

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import psutil

from tests.helpers import crash

RAY = str(Path(sys.executable).parent / "ray")
DRAIN = json.dumps({"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "60"}})
TOKEN = "a-token-for-tests-only-that-nobody-else-knows"
_TRIES = 4


def await_(what: str, happens: Callable[[], bool]) -> None:
    """Return when something is so; fail with its name if it does not come to be."""
    deadline = time.monotonic() + crash.PATIENCE
    while True:
        with contextlib.suppress(OSError):  # who is asked is not there yet
            if happens():
                return
        assert time.monotonic() < deadline, f"{what}: not within {crash.PATIENCE:.0f} s"
        time.sleep(0.1)


class Node:
    """One node: the processes that one ``ray start`` started."""

    def __init__(
        self, words: list[str], environ: Mapping[str, str], log: Path, before: tuple[str, ...] = ()
    ) -> None:
        agent, metrics = map(str, crash.free_ports(2))
        ports = ["--dashboard-agent-listen-port", agent, "--metrics-export-port", metrics]
        same = ["--num-cpus=2", f"--object-store-memory={200 * 2**20}", "--block"]
        workers = ["--min-worker-port=0", "--max-worker-port=0"]
        self._log = log
        with log.open("w") as said:
            self._process = subprocess.Popen(
                [*before, RAY, "start", *words, *ports, *same, *workers],
                env=environ,
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    def ended(self) -> bool:
        """Whether Ray gave it up."""
        return self._process.poll() is not None

    def said(self) -> str:
        """The end of what it has printed."""
        return self._log.read_text(errors="replace")[-4000:]

    def processes(self, title: str = "") -> list[psutil.Process]:
        """Those that are alive and have this in their title."""
        found = list[psutil.Process]()
        with contextlib.suppress(psutil.Error):
            found = psutil.Process(self._process.pid).children(recursive=True)
        return [each for each in found if title in _title(each) and not _dead(each)]

    def calls(self, server: str) -> bool:
        """Whether an actor of it that asks is connected to a server."""
        port = urlsplit(server).port
        for each in self.processes("ray::"):
            with contextlib.suppress(psutil.Error):
                to = [line.raddr.port for line in each.net_connections("tcp") if line.raddr]
                if "OnlineActor" in _title(each) and port in to:
                    return True
        return False

    def kill(self) -> None:
        """Kill -9 all of it."""
        while living := self.processes():
            for each in living:
                with contextlib.suppress(psutil.Error):
                    each.kill()
            time.sleep(0.05)
        self._process.kill()
        self._process.wait()


class Cluster(AbstractContextManager["Cluster"]):
    """A head, and as many workers as are added; it knows callers by their token."""

    def __init__(self, environ: Mapping[str, str], workers: int = 0) -> None:
        self._folder = tempfile.mkdtemp(prefix="t-", dir="/tmp")  # short: Ray makes sockets in it
        self.environ = {
            **environ,
            "PATH": f"{Path(RAY).parent}:{environ['PATH']}",
            "PYTHONPATH": str(crash.ROOT),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": TOKEN,
            "RAY_USAGE_STATS_ENABLED": "0",
            # So long nodes hold a run's lock after the death of their head; a minute by default.
            "RAY_gcs_rpc_server_reconnect_timeout_s": "30",
        }
        port, dashboard, client = crash.free_ports(3)
        self.address, self.jobs = f"127.0.0.1:{port}", f"http://127.0.0.1:{dashboard}"
        words = [
            *("--head", "--port", str(port), "--dashboard-port", str(dashboard)),
            *("--dashboard-host", "127.0.0.1", "--temp-dir", self._folder),
            *("--ray-client-server-port", str(client)),
        ]
        self.nodes: list[Node] = []
        try:
            self.head = self._join("a head", words, lambda: self.nodes_alive() == 1)
            for _ in range(workers):
                self.add()
        except BaseException:
            self.__exit__()
            raise

    def add(self, *before: str, **environ: str) -> Node:
        """One more worker, when it has joined; two at a time would take the same sockets.

        Args:
            before: words of the command that starts it.
            environ: what it has beside, or instead of, the environment of the others.
        """
        words, known = ["--address", self.address], self._alive()

        def joined() -> bool:
            # not by their number: the head may learn only now that another one is dead
            return bool(self._alive() - known)

        return self._join("one more node", words, joined, before, environ)

    def _join(
        self,
        what: str,
        words: list[str],
        joined: Callable[[], bool],
        before: tuple[str, ...] = (),
        environ: Mapping[str, str] | None = None,
    ) -> Node:
        """A node that has joined: again where Ray did not start, as on a machine that is busy."""
        for _ in range(_TRIES):
            log = Path(self._folder, f"node-{len(self.nodes)}.log")
            node = Node(words, {**self.environ, **(environ or {})}, log, before)
            self.nodes.append(node)
            try:
                await_(what, lambda node=node: node.ended() or joined())
            except AssertionError as missing:
                raise AssertionError(f"{missing}\n{node.said()}") from None
            if not node.ended():
                return node
            node.kill()
            self.nodes.remove(node)
            print(f"{what} is started again: {node.said()}")
        raise AssertionError(f"{what}: Ray did not start {_TRIES} times")

    def job(self, verb: str, *words: str, environ: Mapping[str, str] | None = None) -> str:
        """What ``ray job`` says."""
        told = subprocess.run(
            [RAY, "job", verb, "--address", self.jobs, *words],
            env=environ or self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=crash.PATIENCE,
            check=False,
        )
        return told.stdout

    def ask(self, path: str) -> Any:
        """What the head's own server says; ``ray job`` takes seconds only to start."""
        request = Request(self.jobs + path, headers={"Authorization": f"Bearer {TOKEN}"})
        with urlopen(request, timeout=60) as response:
            return json.load(response)

    def nodes_alive(self) -> int:
        """How many have joined and live."""
        return len(self._alive())

    def _alive(self) -> set[str]:
        rows = self.ask("/api/v0/nodes")["data"]["result"]["result"]
        return {row["node_id"] for row in rows if row["state"] == "ALIVE"}

    def status(self, job: str) -> str:
        """Of a job: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED."""
        return str(self.ask(f"/api/jobs/{job}")["status"])

    def logs(self, job: str) -> str:
        """What a job has printed."""
        return str(self.ask(f"/api/jobs/{job}/logs")["logs"])

    def submit(self, name: str, *words: str) -> None:
        """Submit a job of that name, and do not wait for it."""
        given = ("--submission-id", name, "--no-wait", "--runtime-env-json", DRAIN)
        job = str(crash.ROOT / "jobs" / words[0])
        told = self.job("submit", *given, "--", "python", job, *words[1:])
        assert "submitted successfully" in told, told

    def driver(self, job: str) -> psutil.Process:
        """The process that a job's script is."""
        return psutil.Process(int(self.ask(f"/api/jobs/{job}")["driver_info"]["pid"]))

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def _title(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _dead(process: psutil.Process) -> bool:
    """Whether it is only not yet forgotten by who started it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE
    return True
