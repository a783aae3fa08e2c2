"""Poll the open batches, ever less often, and keep the results of those that have ended."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace

from pydantic import BaseModel

from zelo_ray.engine.batch.parts import BatchPart
from zelo_ray.engine.batch.state import BatchedJudge, BatchState
from zelo_ray.engine.bookkeeping import (
    CUT_OFF,
    check_answer,
    cuts_prompts,
    name_error,
    overcharged,
)
from zelo_ray.engine.budget import NOTHING
from zelo_ray.engine.durable import FULL
from zelo_ray.engine.health import gives_no_judgment
from zelo_ray.engine.ledger import Ledger
from zelo_ray.errors import LedgerError
from zelo_ray.protocols import PROTOCOLS, RANKERS, Ranker, find_protocol
from zelo_ray.providers import Batch, Fatal, Outcome, Refused, Retry
from zelo_ray.reasons import Disabled, StopReason, strip_name
from zelo_ray.records import Answer, Usage, response_model_name

_FIRST_LOOK = 2.0  # seconds; each further wait is half as long again
AT_ONCE = 500  # results that are kept together
_FULL_TRIES, _LONGEST_FULL = 2, 600.0  # refusals at one size, and seconds between them
_TWICE = "two different answers to this request came in its batch"
_BARREN = 3  # batches of a judge in a row without any result: a fourth would have none either


class Harvester:
    """Watches the open batches of all judges."""

    def __init__(self, state: BatchState, ledger: Ledger, protocol: Ranker) -> None:
        self._state, self._ledger = state, ledger
        # A batch that it adopts may be of any of them.
        names = (*RANKERS, *PROTOCOLS)
        protocols = [find_protocol(name) for name in names] + [protocol]
        self._verdicts = {
            response_model_name(model): model for way in protocols for model in way.response_models
        }
        self._rebuild = {name: build for way in protocols for name, build in way.rebuild.items()}
        self._spent: dict[str, float] = defaultdict(float)
        self._prompts: dict[str, list[int]] = defaultdict(list)

    def _model_named(self, verdict: str) -> type[BaseModel] | None:
        """Return the model that answers of a part must satisfy; earlier versions told its base."""
        name, _, parameters = verdict.partition(":")
        if parameters and (build := self._rebuild.get(name)):
            return build(tuple(parameters.split(",")))
        return self._verdicts.get(name)

    async def watch(self, channel: BatchedJudge) -> None:
        """Poll the judge's batches until none is open; harvest those that have ended."""
        state, longest = self._state, self._state.options.batch_poll
        wait = first = min(_FIRST_LOOK, longest)
        while not state.stopped:  # also for a judge that is lost: a batch may be on its way
            await state.sleep(wait)
            wait = min(1.5 * wait, longest)
            for part in list(channel.open.values()):
                if state.stopped:
                    return
                if await self._check(channel, part):
                    wait = first
            await state.notify()

    async def _check(self, channel: BatchedJudge, part: BatchPart) -> bool:
        """Check one batch, and harvest it if it has ended; return whether it had."""
        try:
            batch = await channel.client.look(part.batch)
            if batch.ended:
                await self._harvest(channel, part, batch)
                return True
        except Retry as trouble:
            channel.tally.count_retry(trouble.detail, self._state.clock.date())
        except (Refused, Fatal) as error:
            channel.open.pop(part.mark)  # its record stays open for a later run
            advice = f"if the batch is gone for good, remove batches/{part.mark}.json and run again"
            reason = Disabled(StopReason.FATAL, f"{error.detail}; {advice}")
            self._state.disable_judge(channel.judge.name, reason)
        except LedgerError as error:
            self._state.stop(str(error))
        except Exception as error:  # noqa: BLE001 - it may hold a key or a prompt: name it only
            self._state.stop(f"{channel.judge.name}: unexpected {name_error(error)}")
        return False

    async def _harvest(self, channel: BatchedJudge, part: BatchPart, batch: Batch) -> None:
        """Keep all that a batch that has ended holds, and close its part.

        Raises:
            Retry: the results broke off; what came is kept, and the rest fetched again.
        """
        keys, recorded_keys = set(part.keys), self._state.recorded_parts.setdefault(batch.id, set())
        options, is_first = self._state.options, not channel.server.prompts
        characters = dict(zip(part.keys, part.characters, strict=False))
        answers = len(recorded_keys)
        fatal, foreign, why = "", 0, f"the batch ended ({batch.state}) without an answer"
        try:
            async for results in _in_blocks(channel.client.results(batch.id)):
                matches = [
                    (key, result)
                    for key, result in results
                    if key in keys and key not in recorded_keys
                ]
                foreign += sum(key not in keys for key, _ in results)
                await asyncio.gather(
                    *(
                        self._take(channel, part, key, result, characters.get(key, 0))
                        for key, result in matches
                    )
                )
                recorded_keys.update(key for key, _ in matches)
                answers += sum(isinstance(result, Answer) for _, result in matches)
                fatal = next(
                    (result.detail for _, result in matches if isinstance(result, Fatal)), fatal
                )
                if self._ledger.storage_full:
                    self._state.stop(FULL)
                    return
        except Refused as gone:  # the provider dropped results that were paid for
            why = str(gone)
            part.lost = part.dollars * len(keys - recorded_keys) / part.requests
        if not recorded_keys and (foreign or part.candidates):
            await self._give_up(channel, part)
            return
        if batch.full:
            self._make_room(channel, part)
        else:
            if recorded_keys and channel.room is not None:
                channel.full, channel.room = (
                    0,
                    min(channel.given_room or 2 * channel.room, 2 * channel.room),
                )
            lacking = Retry(f"{why}: {batch.reason}" if batch.reason else why)
            await asyncio.gather(
                *(self._take(channel, part, key, lacking) for key in keys - recorded_keys)
            )
            channel.barren = 0 if recorded_keys else channel.barren + 1
        spent, prompts = self._spent.pop(batch.id, 0.0), self._prompts.pop(batch.id, [])
        share = len(prompts) / part.requests
        channel.estimates.learn_prompts(prompts, part.bound * share)
        await self._state.close(channel, part, "harvested", spent)
        del self._state.recorded_parts[batch.id]
        reason = Disabled(StopReason.FATAL, fatal) if fatal else None
        if not (reason or channel.proven):
            reason = gives_no_judgment(channel.fruitless)
        if not reason:
            lost = 0 if part.cancelled or not batch.cancelled else part.requests - answers
            reason = _of_server(
                channel, batch, lost, keep_asking=not is_first or options.keep_asking
            )
        if not reason and channel.barren >= _BARREN:
            what = f"{_BARREN} batches gave no result: {batch.reason or why}"
            reason = Disabled(StopReason.NO_BATCH, what)
        if not reason and self._state.permits.capped and spent > part.dollars + NOTHING:
            reason = overcharged("a batch", spent, part.dollars)
        if reason:
            self._state.disable_judge(channel.judge.name, reason)

    def _make_room(self, channel: BatchedJudge, part: BatchPart) -> None:
        """Make room after a batch was refused because too many tokens are enqueued, by anyone."""
        if others := channel.enqueued - part.tokens:
            channel.room = others
            return
        channel.full += 1
        if channel.full % _FULL_TRIES == 0:
            channel.room = max(1, part.tokens // 2)
        wait = min(_LONGEST_FULL, self._state.options.batch_poll * 2.0 ** min(channel.full - 1, 10))
        channel.full_until = self._state.clock.now() + wait

    async def _give_up(self, channel: BatchedJudge, part: BatchPart) -> None:
        """Give up a batch that is another program's; try the next candidate, if any."""
        if part.candidates:
            await self._state.enter(channel, part, part.candidates.pop(0))
        else:
            await self._state.close(channel, part, "void")

    async def _take(
        self,
        channel: BatchedJudge,
        part: BatchPart,
        key: str,
        outcome: Outcome,
        characters: int = 0,
    ) -> None:
        """Keep one result; if a retry may succeed, keep it only where it was billed."""
        if isinstance(outcome, Fatal):
            return
        options = self._state.options
        judge_limit = channel.judge.options.get("max_output_tokens") or 0
        limit_is_ours = 0 < part.limit < judge_limit
        channel.tries[key] += 1
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
            final = answer.status != "invalid" or channel.reasks[key] >= options.reasks
            channel.reasks[key] += not final
            cut = answer.status in CUT_OFF
            if cut and limit_is_ours:
                final = False  # cut off at our own limit: it is asked again with the judge's
            channel.estimates.learn(part.size / part.requests, answer.usage, part.verdict, cut=cut)
            self._prompts[part.batch].append(answer.usage.input_tokens)
            channel.proven |= answer.status == "ok"
            channel.fruitless += [] if channel.proven else [answer]
        elif isinstance(outcome, Refused):
            answer = Answer(outcome.status, "", Usage(), reason=str(outcome))
            channel.fruitless += [] if channel.proven else [answer]
        else:
            final, billed = channel.tries[key] >= options.attempts, outcome.billed is not None
            status = outcome.status if final else "failed"
            answer = Answer(status, "", outcome.billed or Usage(), reason=str(outcome))
            if not final:
                channel.tally.count_retry(outcome.detail, self._state.clock.date())
        if final or billed:
            spent = await self._state.writer.keep(
                *(key, channel.judge, answer, channel.tally),
                attempts=channel.tries[key],
                final=final,
                batch=part.batch,
                limit=part.limit,
                characters=characters,
            )
            channel.server.take(answer.model, answer.usage, characters)
            likely = part.dollars / part.requests
            # not in one statement with the await: others add to it meanwhile
            self._spent[part.batch] += likely if spent is None else spent
        if error:
            self._state.disable_judge(channel.judge.name, Disabled(StopReason.ERROR, error))
        if final:
            reason = strip_name(answer.reason, channel.judge.name, channel.judge.provider)
            channel.tally.count_ended(answer.status, reason, self._state.clock.date())


def _of_server(
    channel: BatchedJudge, batch: Batch, lost: int, *, keep_asking: bool
) -> Disabled | None:
    """Return the reason in what a batch tells of its server to ask a judge nothing more, if any.

    Args:
        channel: the judge.
        batch: the batch, which has ended.
        lost: requests without an answer, as somebody else has cancelled it.
        keep_asking: whether to go on where prompts are cut.
    """
    if lost:
        return Disabled(
            StopReason.NO_BATCH,
            f"somebody cancelled its batch {batch.id}, so that {lost:,} requests have no answer; "
            "run the same command again to ask for them",
        )
    tokens = channel.server.cut_to
    return cuts_prompts(tokens) if tokens and not keep_asking else None


async def _in_blocks(
    results: AsyncIterator[tuple[str, Outcome]],
) -> AsyncIterator[list[tuple[str, Outcome]]]:
    """Yield the results of a batch, once each by key, in blocks that are kept together.

    Of two different answers to one request it is not known which is its own, so none is.

    Raises:
        Retry, Refused, Fatal: the results broke off; raised after what came.
    """
    outcomes, broken_off = dict[str, Outcome](), None
    try:
        await _gather(results, outcomes)
    except (Retry, Refused, Fatal) as error:
        broken_off = error
    rows = [*outcomes.items()]
    for at in range(0, len(rows), AT_ONCE):
        yield rows[at : at + AT_ONCE]
    if broken_off:
        raise broken_off


async def _gather(
    results: AsyncIterator[tuple[str, Outcome]], outcomes: dict[str, Outcome]
) -> None:
    async for key, outcome in results:
        before = outcomes.get(key, outcome)
        if not isinstance(before, Answer):
            outcomes[key] = outcome
        elif isinstance(outcome, Answer) and (outcome.status, outcome.text) != (
            before.status,
            before.text,
        ):
            outcomes[key] = replace(
                before,
                status="failed",
                text="",
                usage=_sum(before.usage, outcome.usage),
                reason=_TWICE,
            )
        else:
            outcomes[key] = before


def _sum(first: Usage, second: Usage) -> Usage:
    names = ("input", "output", "cached", "cache_write", "thinking")
    tokens = [f"{name}_tokens" for name in names]
    return replace(first, **{name: getattr(first, name) + getattr(second, name) for name in tokens})
