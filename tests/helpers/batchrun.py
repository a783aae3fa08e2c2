"""One judge's batches in a process of its own, without Ray, to be killed at a named point.

Processes are forked from one that has imported all that they need. Points between the calls are:

* ``before intent``, ``after intent``: the record of a part is to be written, is written;
* ``before id``, ``after id``: the same for the id of its batch;
* ``mid ledger``: some of the results are in the ledger, the next are about to be;
* ``before end``, ``after end``: all results are in; the part's record does not say so yet, does.

Those within a call the fakes bring about, by the process's id in ``pid``.
"""

import asyncio
import multiprocessing
import os
import signal
import sys
from dataclasses import dataclass

from tests.helpers.builders import LineLimits, options_of, parse_line
from zelo_ray.engine.batch import BatchClient, harvest
from zelo_ray.engine.batch.parts import Parts
from zelo_ray.engine.clock import Clock
from zelo_ray.engine.ledger import Ledger
from zelo_ray.providers import build_panel

STATES = {"intent": "intended", "id": "submitted", "end": "harvested"}
POINTS = (
    "before intent",
    "after intent",
    "before id",
    "after id",
    "mid ledger",
    "before end",
    "after end",
)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point):
    """Let this process be killed at a point."""
    when, _, what = point.partition(" ")
    keep, append = Parts.keep, Ledger.append

    def keep_and_die(self, part):
        mine = part.state == STATES.get(what)
        if mine and when == "before":
            die()
        keep(self, part)
        if mine and when == "after":
            die()

    appended = []

    def append_or_die(self, replies):
        if appended:
            die()
        append(self, replies)
        appended.append(len(replies))

    if what == "ledger":
        Ledger.append = append_or_die
    else:
        Parts.keep = keep_and_die


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit status, or the negative number of a signal; what it said."""

    status: int
    said: str


def run(folder, environ, judge, point=""):
    """Let a process go through the batches of ``pools.jsonl`` to its end, or to its death."""
    said = folder / "said"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "openai", "anthropic", "google.genai"])
    process = context.Process(target=_child, args=(folder, environ, judge, point, said))
    process.start()
    try:
        process.join(120)
        return Ended(process.exitcode, said.read_text())
    finally:
        process.kill()
        process.join()
        process.close()


def _child(folder, environ, judge, point, said):
    os.environ.clear()
    os.environ.update(environ)
    with said.open("w") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    (folder / "pid").write_text(str(os.getpid()))
    if point:
        arm(point)
    sys.exit(asyncio.run(_go(folder / "pools.jsonl", str(folder / "out"), judge)) or 0)


async def _go(pools, out, judge):
    harvest.AT_ONCE = 20
    options = options_of(out=out, judges=(judge,), mode="batch", batch_poll=6.0)
    panel = build_panel((judge,), {}, os.environ)
    lines = pools.read_bytes().splitlines()
    held = [parse_line("in", n, line, LineLimits()).pool for n, line in enumerate(lines, 1)]
    run_id = f"run-{os.getpid()}"
    ledger = Ledger(out, run_id, ("failed",))
    given = {"ledger": ledger, "environ": os.environ, "run_id": run_id}
    batcher = BatchClient(options, panel, panel[0], clock=Clock(speed=120.0), **given)
    await batcher.run(lambda: iter(held))
    ledger.close()
    return batcher.stopped
