"""Poll the open batches, ever less often, and keep the results of those that have ended."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace

from pydantic import BaseModel

from zelo_ray.engine.batch.parts import BatchPart
from zelo_ray.engine.batch.state import JudgeInBatches
from zelo_ray.engine.budget import NOTHING
from zelo_ray.engine.durable import FULL
from zelo_ray.engine.health import gives_no_judgment
from zelo_ray.engine.replies import (
    CUT_OFF,
    check_answer,
    cuts_prompts,
    name_error,
    overcharged,
)
from zelo_ray.errors import LedgerError
from zelo_ray.protocols import PROTOCOLS, RANKERS, find_protocol
from zelo_ray.protocols.server_figures import ServerFigures
from zelo_ray.providers import Batch, Fatal, Outcome, Refused, Retry
from zelo_ray.reasons import Disabled, StopReason, strip_name
from zelo_ray.records import Answer, Usage, response_model_name

_FIRST_POLL = 2.0  # seconds; each further wait is half as long again
AT_ONCE = 500  # results that are kept together
_FULL_TRIES, _LONGEST_FULL = 2, 600.0  # refusals at one size, and seconds between them
_CANCELLED = (
    "somebody cancelled its batch {}, so that {:,} requests have no answer; run the same command "
    "again to ask for them"
)
_TWICE = "two different answers to this request came in its batch"
_FRUITLESS = 3  # batches in a row without any result: a fourth would have none either


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
        self._spent, self._prompts = (
            defaultdict[str, float](float),
            defaultdict[str, list[int]](list),
        )
        self._tries, self._reasks = Counter[str](), Counter[str]()
        self._server = ServerFigures()
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
                return True
        except Retry as trouble:
            client.tally.count_retry(trouble.detail, client.clock.date())
        except (Refused, Fatal) as error:
            client.open.pop(part.mark)  # its record stays open for a later run
            advice = f"if the batch is gone for good, remove batches/{part.mark}.json and run again"
            client.disable(Disabled(StopReason.FATAL, f"{error.detail}; {advice}"))
        except LedgerError as error:
            client.stop(str(error))
        except Exception as error:  # noqa: BLE001 - it may hold a key or a prompt: name it only
            client.stop(f"{client.judge.name}: unexpected {name_error(error)}")
        return False

    async def _harvest(self, part: BatchPart, batch: Batch) -> None:
        """Keep all that a batch that has ended holds, and close its part.

        Raises:
            Retry: the results broke off; what came is kept, and the rest fetched again.
        """
        client, keys = self._client, set(part.keys)
        recorded = client.recorded[batch.id]
        is_first, answers = not self._server.prompts, len(recorded)
        fatal, others, why = "", False, f"the batch ended ({batch.state}) without an answer"
        try:
            async for results in _in_blocks(client.api.results(batch.id)):
                new = {
                    key: result
                    for key, result in results.items()
                    if key in keys and key not in recorded
                }
                others = others or bool(results.keys() - keys)
                await self._take(part, new)
                recorded.update(new)
                answers += sum(isinstance(result, Answer) for result in new.values())
                fatals = (result.detail for result in new.values() if isinstance(result, Fatal))
                fatal = next(fatals, fatal)
                if client.ledger.storage_full:
                    client.stop(FULL)
                    return
        except Refused as gone:  # the provider dropped results that were paid for
            why = str(gone)
            part.lost = part.dollars * len(keys - recorded) / part.requests
        if not recorded and (others or part.candidates):  # it is another program's
            if part.candidates:
                await client.enter(part, part.candidates.pop(0))
            else:
                await client.close(part, "void")
            return
        if batch.full:
            self._make_room(part)
        else:
            if recorded and client.room is not None:
                self._full, client.room = (
                    0,
                    min(client.given_room or 2 * client.room, 2 * client.room),
                )
            why = f"{why}: {batch.reason}" if batch.reason else why
            await self._take(part, dict.fromkeys(keys - recorded, Retry(why)))
            self._fruitless = 0 if recorded else self._fruitless + 1
        spent, prompts = self._spent.pop(batch.id, 0.0), self._prompts.pop(batch.id, [])
        client.estimates.learn_prompts(prompts, part.bound * len(prompts) / part.requests)
        await client.close(part, "harvested", spent)
        del client.recorded[batch.id]
        lost = 0 if part.cancelled or not batch.cancelled else part.requests - answers
        keep_asking = client.options.keep_asking or not is_first
        fruitless = self._fruitless >= _FRUITLESS
        reasons = (
            Disabled(StopReason.FATAL, fatal) if fatal else None,
            None if client.has_judged else gives_no_judgment(client.without_judgment),
            Disabled(StopReason.NO_BATCH, _CANCELLED.format(batch.id, lost)) if lost else None,
            cuts_prompts(self._server.cut_to) if self._server.cut_to and not keep_asking else None,
            Disabled(StopReason.NO_BATCH, f"{_FRUITLESS} batches gave no result: {why}")
            if fruitless
            else None,
            overcharged("a batch", spent, part.dollars)
            if client.permits.capped and spent > part.dollars + NOTHING
            else None,
        )
        if reason := next(filter(None, reasons), None):
            client.disable(reason)

    def _make_room(self, part: BatchPart) -> None:
        """Make room after a batch was refused because too many tokens are enqueued, by anyone."""
        client = self._client
        others = sum(each.tokens for each in client.open.values()) - part.tokens
        if others:
            client.room = others
            return
        self._full += 1
        if self._full % _FULL_TRIES == 0:
            client.room = max(1, part.tokens // 2)
        wait = min(_LONGEST_FULL, client.options.batch_poll * 2.0 ** min(self._full - 1, 10))
        client.full_until = client.clock.now() + wait

    async def _take(self, part: BatchPart, results: dict[str, Outcome]) -> None:
        """Keep results, together."""
        characters = dict(zip(part.keys, part.characters, strict=False))
        await asyncio.gather(
            *(
                self._take_one(part, key, result, characters.get(key, 0))
                for key, result in results.items()
            )
        )

    async def _take_one(self, part: BatchPart, key: str, outcome: Outcome, characters: int) -> None:
        """Keep one result; if a retry may succeed, keep it only where it was billed."""
        client, options = self._client, self._client.options
        judge_limit = client.judge.options.get("max_output_tokens") or 0
        limit_is_ours = 0 < part.limit < judge_limit
        self._tries[key] += 1
        final, billed, error = True, True, ""
        if isinstance(outcome, Answer):
            try:
                verdict = self._model_named(part.verdict)
                checked = check_answer(verdict, outcome, None, limit_is_ours=limit_is_ours)
                outcome, error = checked.answer, checked.error
            except Retry as trouble:
                outcome = trouble
        if isinstance(outcome, Answer):
            answer = outcome
            final = answer.status != "invalid" or self._reasks[key] >= options.reasks
            self._reasks[key] += not final
            cut = answer.status in CUT_OFF
            if cut and limit_is_ours:
                final = False  # cut off at our own limit: it is asked again with the judge's
            client.estimates.learn(part.size / part.requests, answer.usage, part.verdict, cut=cut)
            self._prompts[part.batch].append(answer.usage.input_tokens)
        elif isinstance(outcome, Refused):
            answer = Answer(outcome.status, "", Usage(), reason=str(outcome))
        elif isinstance(outcome, Fatal):  # the judge is stopped, and the request asked again
            return
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
                characters=characters,
            )
            self._server.take(answer.model, answer.usage, characters)
            likely = part.dollars / part.requests
            # not in one statement with the await: others add to it meanwhile
            self._spent[part.batch] += likely if spent is None else spent
        if error:
            client.disable(Disabled(StopReason.ERROR, error))
        if final:
            reason = strip_name(answer.reason, client.judge.name, client.judge.provider)
            client.tally.count_ended(answer.status, reason, client.clock.date())


async def _in_blocks(
    results: AsyncIterator[tuple[str, Outcome]],
) -> AsyncIterator[dict[str, Outcome]]:
    """Yield the results of a batch, once each by key, in blocks that are kept together.

    Of two different answers to one request it is not known which is its own, so none is.

    Raises:
        Retry, Refused, Fatal: the results broke off; raised after what came.
    """
    outcomes, broken_off = dict[str, Outcome](), None
    try:
        async for key, outcome in results:
            outcomes[key] = _merge(outcomes.get(key, outcome), outcome)
    except (Retry, Refused, Fatal) as error:
        broken_off = error
    rows = [*outcomes.items()]
    for at in range(0, len(rows), AT_ONCE):
        yield dict(rows[at : at + AT_ONCE])
    if broken_off:
        raise broken_off


def _merge(before: Outcome, outcome: Outcome) -> Outcome:
    """Return what two results of one request come to: two different answers are none."""
    if not isinstance(before, Answer):
        return outcome
    if not isinstance(outcome, Answer):
        return before
    if (outcome.status, outcome.text) == (before.status, before.text):
        return before
    names = [f"{name}_tokens" for name in ("input", "output", "cached", "cache_write", "thinking")]
    sums = {name: getattr(before.usage, name) + getattr(outcome.usage, name) for name in names}
    usage = replace(before.usage, **sums)
    return replace(before, status="failed", text="", usage=usage, reason=_TWICE)
