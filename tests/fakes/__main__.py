"""Run the fakes as a process: prints their URLs as one line of JSON, and serves until ended."""

import argparse
import asyncio
import json
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from tests.fakes.core import PROVIDERS, Fakes, Fault
from tests.fakes.lengths import Lengths
from tests.fakes.rates import Limit


def main() -> None:
    """Read the flags and serve."""
    parser = argparse.ArgumentParser(prog="python -m tests.fakes", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--provider", nargs="+", default=["all"], choices=["all", *PROVIDERS])
    parser.add_argument("--key", default="a-key-for-tests-only", help="accepted key; '': any")
    parser.add_argument("--journal", metavar="FILE", help="append a line of JSON a request to it")
    parser.add_argument("--bodies", action="store_true", help="put whole bodies into the journal")
    parser.add_argument("--judge", default="tests.fakes.knowing:judge", metavar="MODULE:FUNCTION")
    parser.add_argument(
        "--fault",
        type=Fault.parse,
        action="append",
        default=[],
        metavar="NAME[:rate=R,times=N,total=N,provider=P,endpoint=E,retry_after=S,code=C]",
    )
    parser.add_argument(
        "--kill",
        action="append",
        default=[],
        metavar="EVENT:COUNT:PIDFILE",
        help="at that event of batches, kill the process of that id and all that it started",
    )
    parser.add_argument("--seed", type=int, default=0)
    for name in ("--latency", "--jitter", "--burst", "--cached", "--batch-seconds"):
        parser.add_argument(name, type=float, default=argparse.SUPPRESS)
    for name in ("--rpm", "--tpm"):
        parser.add_argument(name, type=limit, default=argparse.SUPPRESS, metavar="N|PROVIDER=N,…")
    parser.add_argument("--thinking", type=int, default=argparse.SUPPRESS)
    _add_lengths(parser.add_argument_group("lengths of texts, in tokens: see Lengths"))
    flags = vars(parser.parse_args())
    module, _, function = flags.pop("judge").partition(":")
    providers = flags.pop("provider")
    lengths = {each.name: flags.pop(each.name) for each in fields(Lengths) if each.name in flags}
    fakes = Fakes(
        PROVIDERS if "all" in providers else providers,
        judge=getattr(import_module(module), function),
        key=flags.pop("key") or None,
        faults=flags.pop("fault"),
        on_event=Killer(flags.pop("kill")),
        keep=False,
        lengths=Lengths(**lengths),
        **flags,
    )
    asyncio.run(serve(fakes))


def _add_lengths(group: Any) -> None:
    for flag, name, kind in (
        ("--output", "output", int),
        ("--output-later", "later", int),
        ("--output-turn", "turn", int),
        ("--output-sd", "sd", float),
        ("--output-of", "fields", json.loads),
        ("--bytes-per-token", "bytes_per_token", float),
    ):
        group.add_argument(flag, dest=name, type=kind, default=argparse.SUPPRESS)
    shown: dict[str, Any] = {"action": "store_true", "default": argparse.SUPPRESS}
    group.add_argument("--tokens-by-text", dest="by_text", **shown)
    group.add_argument("--ignore-limits", **shown)


def limit(text: str) -> Limit:
    """Read a figure for all providers, or one for each that is named."""
    if "=" not in text:
        return float(text)
    pairs = (pair.split("=", 1) for pair in text.split(","))
    return {name: float(figure) for name, figure in pairs}


async def serve(fakes: Fakes) -> None:
    """Serve until SIGINT or SIGTERM."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    runner = await fakes.start()
    print(json.dumps({"url": fakes.url, **fakes.urls}), flush=True)
    await ended.wait()
    await runner.cleanup()


class Killer:
    """Kills a client at the moments that ``EVENT:COUNT:PIDFILE`` name."""

    def __init__(self, moments: list[str]) -> None:
        self._moments = {}
        for moment in moments:
            event, count, file = moment.split(":", 2)
            self._moments[event, int(count)] = Path(file)
        self._counts: Counter[str] = Counter()

    def __call__(self, provider: str, event: str, details: dict[str, Any]) -> None:
        """Count the event; return when what is to be killed is dead."""
        self._counts[event] += 1
        file = self._moments.get((event, self._counts[event]))
        if file is not None:
            kill_tree(int(file.read_text()))


def kill_tree(pid: int) -> None:
    """Kill a process and all that it started, children first: so none is lost to be found."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        root.suspend()
        dead: list[psutil.Process] = []
        while living := [p for p in root.children(recursive=True) if p not in dead]:
            for process in living:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            dead += living
        root.kill()
        deadline = time.monotonic() + 5
        while any(_runs(process) for process in [root, *dead]) and time.monotonic() < deadline:
            time.sleep(0.005)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    main()
