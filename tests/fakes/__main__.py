"""Run the fakes as a process: prints their URLs as one line of JSON, and serves until ended."""

import argparse
import asyncio
import json
import signal
from functools import partial
from importlib import import_module

from tests.fakes.core import PROVIDERS, Fakes, Fault


def main() -> None:
    """Read the flags and serve."""
    parser = argparse.ArgumentParser(prog="python -m tests.fakes", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--provider", nargs="+", default=["all"], choices=["all", *PROVIDERS])
    parser.add_argument("--key", default="a-key-for-tests-only", help="accepted key; '': any")
    parser.add_argument("--journal", metavar="FILE", help="append a line of JSON a request to it")
    parser.add_argument("--bodies", action="store_true", help="put whole bodies into the journal")
    parser.add_argument("--judge", default="tests.fakes.knowing:judge", metavar="MODULE:FUNCTION")
    parser.add_argument("--judge-options", type=json.loads, default={}, metavar="JSON")
    parser.add_argument(
        "--fault",
        type=Fault.parse,
        action="append",
        default=[],
        metavar="NAME[:rate=R,times=N,total=N,provider=P,retry_after=S]",
    )
    parser.add_argument("--seed", type=int, default=0)
    for name in ("--latency", "--jitter", "--rpm", "--tpm", "--burst", "--cached"):
        parser.add_argument(name, type=float, default=argparse.SUPPRESS)
    parser.add_argument("--thinking", type=int, default=argparse.SUPPRESS)
    flags = vars(parser.parse_args())
    module, _, function = flags.pop("judge").partition(":")
    judge = partial(getattr(import_module(module), function), **flags.pop("judge_options"))
    providers = flags.pop("provider")
    fakes = Fakes(
        PROVIDERS if "all" in providers else providers,
        judge=judge,
        key=flags.pop("key") or None,
        faults=flags.pop("fault"),
        keep=False,
        **flags,
    )
    asyncio.run(serve(fakes))


async def serve(fakes: Fakes) -> None:
    """Serve until SIGINT or SIGTERM."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    runner = await fakes.start()
    print(json.dumps({"url": fakes.url, **fakes.urls}), flush=True)
    await ended.wait()
    await runner.cleanup()


if __name__ == "__main__":
    main()
