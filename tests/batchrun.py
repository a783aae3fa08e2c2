"""One judge's batches in a process of its own, without Ray, to be killed at a named point.

``python -m tests.batchrun POOLS OUT JUDGE PIDFILE [POINT]``; points between the calls are:

* ``before intent``, ``after intent``: the record of a part is to be written, is written;
* ``before id``, ``after id``: the same for the id of its batch;
* ``mid ledger``: some of the results are in the ledger, the next are about to be;
* ``before end``, ``after end``: all results are in; the part's record does not say so yet, does.

Those within a call the fakes bring about, with ``--kill``.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.builders import Limits, options_of, parse_line
from zelo_ray.batch import Batcher, harvest, submit
from zelo_ray.batch.parts import Parts
from zelo_ray.ledger import Ledger
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

    def append_or_die(self, replies):
        if len(self):
            die()
        append(self, replies)

    if what == "ledger":
        Ledger.append = append_or_die
    else:
        Parts.keep = keep_and_die


def main(pools, out, judge, pidfile, point=""):
    submit.GRACE, harvest.AT_ONCE = 0.5, 20
    if point:
        arm(point)
    Path(pidfile).write_text(str(os.getpid()))
    options = options_of(out=out, judges=(judge,), mode="batch", batch_poll=0.05)
    panel = build_panel((judge,), {}, os.environ)
    lines = Path(pools).read_bytes().splitlines()
    held = [parse_line("in", n, line, Limits()).pool for n, line in enumerate(lines, 1)]

    async def run():
        ledger = Ledger(out, f"run-{os.getpid()}", ("failed",))
        batcher = Batcher(
            *(options, panel, panel),
            ledger=ledger,
            environ=os.environ,
            run_id=f"run-{os.getpid()}",
        )
        await batcher.run(lambda: iter(held))
        ledger.close()
        return batcher.stopped

    sys.exit(asyncio.run(run()) or 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
