"""Poll the open batches, ever less often, and keep the results of those that have ended."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from zelo_ray.engine.batch.parts import BatchPart
from zelo_ray.engine.batch.state import JudgeInBatches
from zelo_ray.engine.budget import NOTHING
from zelo_ray.engine.durable import FULL
from zelo_ray.engine.health import gives_no_judgment
from zelo_ray.engine.replies import CUT_OFF, check_answer, overcharged, unexpected
from zelo_ray.errors import LedgerError
from zelo_ray.protocols import PROTOCOLS, RANKERS, find_protocol
from zelo_ray.providers import Batch, Fatal, Outcome, Refused, Retry
from zelo_ray.reasons import Disabled, StopReason, strip_name
from zelo_ray.records import Answer, Usage, response_model_name

_FIRST_POLL = 2.0  # seconds; each further wait is half as long again
AT_ONCE = 500  # results that are kept together
_FULL_TRIES, _LONGEST_FULL = 2, 600.0  # refusals at one size, and seconds between them
_FRUITLESS = 3  # batches in a row without any result: a fourth would have none either


@dataclass(slots=True)
class _Taken:
    """What the results of a batch have come to so far."""

    spent: float = 0.0
    prompts: list[int] = field(default_factory=list)
    """their tokens, by answer"""
    stop: Disabled | None = None
    """why the judge is to be asked nothing more, once all is kept"""


class Harvester:
    """Watches the open batches of a judge."""

    def __init__(self, client: JudgeInBatches) -> None:
        self._client = client
        # A batch that it adopts may be of any of them.
        protocols = [*map(find_protocol, (*RANKERS, *PROTOCOLS)), client.protocol]
        self._verdicts = {
            response_model_name(model): model for way in protocols for model in way.response_models
        }
        self._rebuild = {name: build for way in protocols for name, build in way.rebuild.items()}
        self._taken = defaultdict[str, _Taken](_Taken)  # by batch
        self._tries, self._reasks = Counter[str](), Counter[str]()
        self._full = 0  # refusals in a row because the queue is full of others' batches
        self._fruitless = 0  # batches in a row without any result

    def _model_named(self, verdict: str) -> type[BaseModel] | None:
        """Return the model that answers of a part must satisfy; None if it is unknown."""
        name, _, parameters = verdict.partition(":")
        if parameters and (build := self._rebuild.get(name)):
            return build(tuple(parameters.split(",")))
        return self._verdicts.get(name)

    async def watch(self) -> None:
        """Poll the batches until the run ends; harvest those that have ended."""
        client, longest = self._client, self._client.options.batch_poll
        wait = first = min(_FIRST_POLL, longest)
        while not client.stopped:  # also for a judge that is lost: a batch may be on its way
            await client.sleep(wait)
            wait = min(1.5 * wait, longest)
            for part in list(client.open.values()):
                if client.stopped:
                    return
                if await self._check(part):
                    wait = first
            await client.notify()

    async def _check(self, part: BatchPart) -> bool:
        """Check one batch, and harvest it if it has ended; return whether it had."""
        client = self._client
        try:
            batch = await client.api.look(part.batch)
            if batch.ended:
                await self._harvest(part, batch)
        except Retry as trouble:
            client.tally.count_retry(trouble.detail, client.clock.date())
        except (Refused, Fatal) as error:
            client.open.pop(part.mark, None)  # its record stays open for a later run
            advice = f"if the batch is gone for good, remove batches/{part.mark}.json and run again"
            client.disable(Disabled(StopReason.FATAL, f"{error.detail}; {advice}"))
        except LedgerError as error:
            client.stop(str(error))
        except Exception as error:  # noqa: BLE001 - it may hold a key or a prompt: name it only
            client.open.pop(part.mark, None)
            client.disable(unexpected(error))
        else:
            return batch.ended
        return False

    async def _harvest(self, part: BatchPart, batch: Batch) -> None:
        """Keep all that a batch that has ended holds, and close its part.

        Raises:
            Retry: the results broke off; what came is kept, and the rest fetched again.
        """
        client, keys, recorded = self._client, set(part.keys), self._client.recorded[batch.id]
        answers, others, why = len(recorded), False, f"the batch ended ({batch.state})"
        why += " without an answer" + (f": {batch.reason}" if batch.reason else "")
        try:
            async for results in _in_blocks(client.api.results(batch.id)):
                new = {k: results[k] for k in results.keys() & keys - recorded}
                others = others or bool(results.keys() - keys)
                await self._take(part, new)
                recorded.update(new)
                answers += sum(isinstance(result, Answer) for result in new.values())
                if client.ledger.storage_full:
                    client.stop(FULL)
                    return
        except Refused as gone:  # the provider dropped results that were paid for
            why = str(gone)
            part.lost = part.dollars * len(keys - recorded) / part.requests
        if not recorded and part.candidates:  # it is another program's
            await client.enter(part, part.candidates.pop(0))
            return
        if not recorded and others:
            await client.close(part, "void")
            return
        if batch.full:
            self._make_room(part)
        else:
            await self._take(part, dict.fromkeys(keys - recorded, Retry(why)))
            self._fruitless = 0 if recorded else self._fruitless + 1
            if recorded and client.room is not None:
                self._full, wider = 0, 2 * client.room
                client.room = min(client.given_room or wider, wider)
        taken = self._taken.pop(batch.id, _Taken())
        bound = part.bound * len(taken.prompts) / part.requests
        client.estimates.learn_prompts(taken.prompts, bound)
        await client.close(part, "harvested", taken.spent)
        del client.recorded[batch.id]
        if reason := self._find_reason(part, batch, taken, part.requests - answers, why):
            client.disable(reason)

    def _find_reason(
        self, part: BatchPart, batch: Batch, taken: _Taken, left: int, why: str
    ) -> Disabled | None:
        """Return why the judge is to be asked nothing more after a batch; None if it may be."""
        client = self._client
        if taken.stop:
            return taken.stop
        if client.permits.capped and taken.spent > part.dollars + NOTHING:
            return overcharged("a batch", taken.spent, part.dollars)
        if self._fruitless >= _FRUITLESS:
            why = f"{_FRUITLESS} batches gave no result: {why}"
            return Disabled(StopReason.NO_BATCH, why)
        if left and batch.cancelled and not part.cancelled:
            why = (
                f"somebody cancelled its batch {batch.id}, so that {left:,} requests have no "
                "answer; run the same command again to ask for them"
            )
            return Disabled(StopReason.NO_BATCH, why)
        return None if client.has_judged else gives_no_judgment(client.without_judgment)

    def _make_room(self, part: BatchPart) -> None:
        """Make room after a batch was refused because too many tokens are enqueued, by anyone."""
        client = self._client
        if others := sum(each.tokens for each in client.open.values()) - part.tokens:
            client.room = others
            return
        self._full += 1
        if self._full % _FULL_TRIES == 0:
            client.room = max(1, part.tokens // 2)
        wait = min(_LONGEST_FULL, client.options.batch_poll * 2.0 ** min(self._full - 1, 10))
        client.full_until = client.clock.now() + wait

    async def _take(self, part: BatchPart, results: Mapping[str, Outcome]) -> None:
        """Keep results, together."""
        await asyncio.gather(*(self._take_one(part, *result) for result in results.items()))

    async def _take_one(self, part: BatchPart, key: str, outcome: Outcome) -> None:
        """Keep one result; if a retry may succeed, keep it only where it was billed."""
        client, options, taken = self._client, self._client.options, self._taken[part.batch]
        limit_is_ours = 0 < part.limit < (client.judge.options.get("max_output_tokens") or 0)
        self._tries[key] += 1
        final, billed = True, True
        if isinstance(outcome, Answer):
            try:
                verdict = self._model_named(part.verdict)
                checked = check_answer(verdict, outcome, None, limit_is_ours=limit_is_ours)
                error, outcome = checked.error, checked.answer
                taken.stop = taken.stop or (Disabled(StopReason.ERROR, error) if error else None)
            except Retry as trouble:
                outcome = trouble
        if isinstance(outcome, Fatal):  # the judge is stopped, and the request asked again
            taken.stop = taken.stop or Disabled(StopReason.FATAL, outcome.detail)
            return
        if isinstance(outcome, Answer):
            answer = outcome
            final = answer.status != "invalid" or self._reasks[key] >= options.reasks
            self._reasks[key] += not final
            cut = answer.status in CUT_OFF
            if cut and limit_is_ours:
                final = False  # cut off at our own limit: it is asked again with the judge's
            client.estimates.learn(part.size / part.requests, answer.usage, part.verdict, cut=cut)
            taken.prompts.append(answer.usage.input_tokens)
        elif isinstance(outcome, Refused):
            answer = Answer(outcome.status, "", Usage(), reason=str(outcome))
        else:
            final, billed = self._tries[key] >= options.attempts, outcome.billed is not None
            status = outcome.status if final else "failed"
            answer = Answer(status, "", outcome.billed or Usage(), reason=str(outcome))
            if not final:
                client.tally.count_retry(outcome.detail, client.clock.date())
        if isinstance(outcome, Answer | Refused):
            client.has_judged |= answer.status == "ok"
            client.without_judgment += [] if client.has_judged else [answer]
        if final or billed:
            spent = await client.writer.keep(
                *(key, client.judge, answer, client.tally),
                attempts=self._tries[key],
                final=final,
                batch=part.batch,
                limit=part.limit,
            )
            taken.spent += part.dollars / part.requests if spent is None else spent
        if final:
            reason = strip_name(answer.reason, client.judge.name, client.judge.provider)
            client.tally.count_ended(answer.status, reason, client.clock.date())


async def _in_blocks(
    results: AsyncIterator[tuple[str, Outcome]],
) -> AsyncIterator[dict[str, Outcome]]:
    """Yield the results of a batch, one each by key, in blocks that are kept together.

    Raises:
        Retry, Refused, Fatal: the results broke off; raised after what came.
    """
    outcomes, broken_off = dict[str, Outcome](), None
    try:
        async for key, outcome in results:
            if not isinstance(outcomes.get(key), Answer):
                outcomes[key] = outcome
    except (Retry, Refused, Fatal) as error:
        broken_off = error
    rows = [*outcomes.items()]
    for at in range(0, len(rows), AT_ONCE):
        yield dict(rows[at : at + AT_ONCE])
    if broken_off:
        raise broken_off
