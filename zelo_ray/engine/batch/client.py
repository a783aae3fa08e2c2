"""Ask one judge in batches: plan what is missing, send it, wait, and plan anew."""

import asyncio
from collections.abc import Callable, Iterable

from zelo_ray.engine.batch.harvest import Harvester
from zelo_ray.engine.batch.send import Sender
from zelo_ray.engine.batch.state import JudgeInBatches
from zelo_ray.engine.health import has_judged
from zelo_ray.engine.tally import Tally
from zelo_ray.errors import LedgerError
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Progress
from zelo_ray.providers import load_provider
from zelo_ray.records import Judge, Pool


def goes_in_batches(judge: Judge, options: AnnotateOptions) -> bool:
    """Return whether a judge's requests go in batches; otherwise it is asked online."""
    has_batches = load_provider(judge.provider).batch is not None
    return options.mode == "batch" and has_batches and not judge.base_url


class BatchClient(JudgeInBatches):
    """Client that asks a judge in batches; arguments are as of `JudgeInBatches`."""

    async def run(self, pools: Callable[[], Iterable[Pool]]) -> None:
        """Submit and collect until nothing is missing that the judge can answer, or stopped.

        ``pools`` gives all pools anew at each call.
        """
        sender, watching = Sender(self), None
        try:
            await sender.adopt()
            watching = asyncio.create_task(Harvester(self).watch())
            while not self.stopped:
                waited = bool(self.open)
                sent = await self._plan(sender, pools())
                await self.wait_until(lambda: not self.open)
                if not (sent or waited):
                    break
        except LedgerError as error:
            self.stop(str(error))
        finally:
            if watching:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            await asyncio.to_thread(self.plans.close)
            sender.close()
            await self.api.aclose()
            self.writer.close()

    async def _plan(self, sender: Sender, pools: Iterable[Pool]) -> int:
        """Send all requests that are missing and affordable now; return how many.

        What needs no call is counted anew each time, as each gets further.
        """
        name, sent, skipped, pending = self.judge.name, 0, Tally(), iter(pools)
        # What fails meanwhile is asked again in one batch, with all else that is then missing.
        asked = frozenset(self.asked)
        while not self.stopped and (pool := await asyncio.to_thread(next, pending, None)):
            progress = Progress(self.protocol.rounds(pool, self.panel, self.options))
            step = await asyncio.to_thread(progress.step, self.ledger, self.others_disabled)
            answered = progress.answered_keys().get(name, ())
            self.has_judged = self.has_judged or has_judged(self.ledger, answered)
            missing = [request for request in step.missing if request.judge.name == name]
            for request in missing:
                known = request.key in asked or request.key in self.asked
                if not (known or sender.is_short_of_money):
                    sent += await sender.gather(request)
            if not (missing or self.disabled):
                self.plans.keep(pool, progress.plan(), [self.judge])
            planned = self.protocol.count(pool, self.panel, self.options).get(name, 0)
            own = sum(map(self.ledger.is_own, set(answered)))
            skipped.count_skipped(name, planned, own, step)
            for figure in ("known", "spared", "queries"):
                most = max(getattr(self.tally, figure), getattr(skipped, figure))
                setattr(self.tally, figure, most)
        await asyncio.to_thread(self.plans.flush)
        await sender.flush()
        return sent
