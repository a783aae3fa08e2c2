"""Call a judge until a request has its last answer: admit, send, judge, keep, settle."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from zelo_ray.engine.asker import Asker
from zelo_ray.engine.budget import NOTHING
from zelo_ray.engine.coordinator import CallCost
from zelo_ray.engine.durable import FULL
from zelo_ray.engine.exposure import Exposure
from zelo_ray.engine.health import FIRST, JudgeHealth, has_judged
from zelo_ray.engine.limiter import Account
from zelo_ray.engine.permits import PermitClient
from zelo_ray.engine.replies import (
    CUT_OFF,
    CheckedAnswer,
    budget_used_up,
    check_answer,
    cuts_prompts,
    overcharged,
    unexpected,
)
from zelo_ray.engine.tally import Tally
from zelo_ray.engine.tokens import (
    Estimates,
    RequestSize,
    bound_tokens,
    measure_request,
    prompt_characters,
)
from zelo_ray.errors import LedgerError
from zelo_ray.options import AnnotateOptions, Limit
from zelo_ray.protocols.server_figures import ServerFigures
from zelo_ray.providers import (
    Connection,
    Fatal,
    Refused,
    Retry,
    RetryKind,
    Settings,
    fingerprint,
    load_provider,
)
from zelo_ray.providers.pricing import highest_price
from zelo_ray.reasons import Disabled, StopReason, strip_name
from zelo_ray.records import Answer, CallTiming, Judge, Request, Usage, response_model_name

_COMPATIBLE_CONCURRENCY = 32  # of a server named by its URL, which may have one GPU
_FIRST_BACKOFF, _LONGEST_BACKOFF = 1.0, 60.0


@dataclass(slots=True)
class Tries:
    """The calls made for one request so far."""

    size: RequestSize
    bound: int  # of its prompt's tokens, where money is capped
    calls: int = 0
    attempts: float = 0.0  # some calls count in part
    reasks: int = 0
    cut: bool = False  # whether an answer was cut off below the judge's own limit


@dataclass(frozen=True, slots=True)
class Permit:
    """A call that may go: the request with its limit of output, and what is reserved for it."""

    request: Request
    cost: CallCost
    limit_is_ours: bool  # whether it is below the judge's own


Outcome = CheckedAnswer | Retry | Refused | Fatal | Exception


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call came to: by this alone an answer is kept, and money given back."""

    answer: Answer | None = None  # to keep
    is_last: bool = False  # whether the request is asked no more
    is_answered: bool = False
    possibly_billed: bool = False  # although no response confirmed it
    stop: Disabled | None = None  # why the judge is to be asked nothing more


def judge_outcome(
    outcome: Outcome, tries: Tries, permit: Permit, options: AnnotateOptions, health: JudgeHealth
) -> CallResult:
    """Decide what becomes of a request after a call.

    Where a person has to act first, no answer is the last: a later run asks again.
    """
    match outcome:
        case CheckedAnswer(answer, error):
            fault = answer.judge_fault if health.on_trial else ""
            is_again = answer.status == "truncated" and permit.limit_is_ours
            is_again |= answer.status == "invalid" and tries.reasks < options.reasks
            stop = Disabled(StopReason.FATAL, fault) if fault else None
            stop = Disabled(StopReason.ERROR, error) if error else stop
            return CallResult(answer, not (fault or is_again), is_answered=True, stop=stop)
        case Refused():
            answer = Answer(outcome.status, "", Usage(), reason=str(outcome))
            return CallResult(answer, is_last=True, is_answered=True)
        case Retry(billed=billed):
            is_last = tries.attempts >= options.attempts
            status = outcome.status if is_last else "failed"
            answer = Answer(status, "", billed or Usage(), reason=str(outcome))
            is_kept = billed is not None or (is_last and not health.given_up)
            return CallResult(
                answer if is_kept else None,
                is_last,
                is_answered=outcome.status != "failed",
                possibly_billed=outcome.unsettled,
                stop=health.given_up,
            )
        case Fatal():
            return CallResult(is_last=True, stop=Disabled(StopReason.FATAL, outcome.detail))
    return CallResult(is_last=True, possibly_billed=True, stop=unexpected(outcome))


class JudgeOnline:
    """One judge that is asked online: its connection, and all that holds its calls back."""

    def __init__(
        self,
        judge: Judge,
        settings: Settings,
        connection: Connection,
        asker: Asker,
        exposure: Exposure,
        *,
        again: bool,
    ) -> None:
        options, provider, own = asker.options, load_provider(judge.provider), bool(judge.base_url)
        limit = options.limits.get(judge.name, Limit())
        usual = _COMPATIBLE_CONCURRENCY if own else provider.concurrency
        self.slots = max(1, (limit.concurrency or usual) // options.actors)
        """calls that may be in flight"""
        name, cautious = f"{judge.name} {fingerprint(settings.key)}", {} if own else provider.rates
        account = Account(name, limit.rates, cautious)
        self.permits = PermitClient(account, asker.coordinator, clock=asker.clock)
        on_trial = not (options.keep_asking or again)
        self.health = JudgeHealth(judge, options.patience, reached=again, on_trial=on_trial)
        self.judge, self.tally = judge, Tally()
        self._provider, self._connection = provider, connection
        self._asker, self._exposure, self._ledger = asker, exposure, asker.ledger
        self._options, self._clock = options, asker.clock
        self._estimates, self._server = Estimates(judge), ServerFigures()
        self._judge_limit = int(judge.options.get("max_output_tokens") or 0)
        self._free_slots, self._health_changed = asyncio.Semaphore(self.slots), asyncio.Event()

    def close(self) -> None:
        """Release all waiting calls: no call is made after this."""
        self.permits.close()
        self._tell_change()

    async def recall(self, keys: Sequence[str]) -> None:
        """Skip the trial if a judgment is recorded among the replies to these requests."""
        if self.health.on_trial and await asyncio.to_thread(has_judged, self._ledger, keys):
            self.health.on_trial = False
            self._tell_change()

    @property
    def _is_closed(self) -> bool:
        return bool(self._asker.stopped) or self.judge.name in self._asker.disabled

    def _disable(self, reason: Disabled | None) -> None:
        if reason:
            self._asker.disable_judge(self.judge.name, reason)

    async def call(self, request: Request, release: Callable[[bool], None]) -> None:
        """Ask until the last reply is kept; an unforeseen error ends the judge or the run.

        When a call has ended, ``release`` is called with whether it was answered.
        """
        result = CallResult()
        try:
            request = request.with_codes(self._ledger.salt)
            bound = bound_tokens(request) if self.permits.capped else 0
            tries = Tries(measure_request(request), bound)
            while not result.is_last:
                async with self._free_slots:  # until its reply is kept: so a kill costs no more
                    if (permit := await self._admit(request, tries)) is None:
                        break
                    outcome, result = await self._make_call(permit, tries)
                release(result.is_answered)
                is_again = not result.is_last and self.judge.name not in self._asker.disabled
                if isinstance(outcome, Retry) and is_again:
                    await self._back_off(outcome, request.key, tries.calls)
        except LedgerError as error:
            self._asker.stop(str(error))
        except Exception as error:  # noqa: BLE001 - it may hold a key or a prompt: name it only
            self._disable(unexpected(error))
        finally:
            last = result.answer if result.is_last and result.is_answered else None
            in_doubt = self._server.is_in_doubt and not self._options.keep_asking
            self.health.end_request(request.key, last, in_doubt=in_doubt)
            self._tell_change()
            self._disable(self.health.given_up)

    async def _admit(self, request: Request, tries: Tries) -> Permit | None:
        """Wait until a call may go; return None where none may any more.

        Asked are, in this order: the judge's health; the limits of its account, and the money, in
        one lease; and whether it is durable that the call may cost so much.
        """
        self.tally.waiting += 1
        try:
            while not self._is_closed:
                await self._wait_for_health(request.key)
                permit = self._price(request, tries)
                if not await self.permits.acquire(permit.cost):
                    if self.permits.exhausted:  # this is no fault, and no stop
                        self._disable(budget_used_up(self._options.max_usd or 0.0))
                    break
                try:
                    if not self._is_closed and self.health.may_go(request.key):
                        await self._exposure.add(permit.cost.dollars)
                        return permit
                except BaseException:
                    self.permits.cancel(permit.cost)
                    raise
                self.permits.cancel(permit.cost)  # the judge went away meanwhile
            return None
        finally:
            self.tally.waiting -= 1

    async def _wait_for_health(self, key: str) -> None:
        """Wait until the judge's health lets a request go.

        The slot is left to others meanwhile: where there is but one, it is still another request
        that goes as the next probe, and no prompt alone decides whether the judge is there.
        """
        if not (wait := self.health.seconds_to_wait(key, self._clock.now())):
            return
        self._free_slots.release()
        try:
            while wait and not self._is_closed:
                await self._clock.wait_for(self._health_changed.wait(), wait)
                wait = self.health.seconds_to_wait(key, self._clock.now())
        finally:
            await self._free_slots.acquire()

    def _tell_change(self) -> None:
        self._health_changed.set()
        self._health_changed = asyncio.Event()

    def _price(self, request: Request, tries: Tries) -> Permit:
        """Return the call with the most that it may cost, and the likely amounts of the limits.

        Where money is capped, an answer may have as many tokens as those of its kind keep to, for
        so much is reserved. One that was cut off is asked again with the judge's own limit, or
        twice that if it was so then.
        """
        limit = self._judge_limit
        if request.choices or not limit:
            limit = request.output_limit or 0
        elif not tries.cut:
            cut_at = self._ledger.cut_at(request.key)
            if cut_at or self.permits.capped:
                kind = response_model_name(request.response_model)
                limit = self._estimates.limit_for(kind, cut_at)
        if tries.bound and limit:
            usage = self._estimates.tight_upper_bound(tries.size, tries.bound, limit)
        else:
            usage = self._estimates.upper_bound(tries.size, limit or None)
        likely = self._provider.limit_tokens(self._estimates.expected(tries.size))
        cost = CallCost(
            {"rpm": 1, **likely}, highest_price(self.judge, usage, self._options.prices)
        )
        if limit and limit != request.output_limit:
            request = replace(request, limit=limit)
        return Permit(request, cost, limit_is_ours=1 < limit < self._judge_limit)

    async def _make_call(self, permit: Permit, tries: Tries) -> tuple[Outcome, CallResult]:
        """Make one call, keep its answer, and give back what it did not cost."""
        tries.calls += 1
        self.tally.in_flight += 1
        result, spent, possibly_billed = CallResult(), None, True  # until its answer is kept
        try:
            outcome = await self._send(permit)
            result = self._judge(outcome, permit, tries)
            self._disable(result.stop)
            spent = 0.0
            if answer := result.answer:
                spent = await self._keep(answer, permit, tries, is_last=result.is_last)
            possibly_billed = result.possibly_billed or (spent is None and self.permits.capped)
        finally:
            self.tally.in_flight -= 1
            self._settle(permit, result.answer, spent, possibly_billed=possibly_billed)
            self._tell_change()
        return outcome, result

    async def _send(self, permit: Permit) -> Outcome:
        """Send a request; of an answer it is noted how long it took, with how many in flight."""
        request, begun, others = permit.request, self._clock.now(), self.tally.in_flight
        self.health.record_call(begun)
        try:
            answer = await self._connection.send(request)
            timing = answer.timing or CallTiming(self._clock.now() - begun)
            together = timing.in_flight or max(others, self.tally.in_flight)
            answer = replace(answer, timing=replace(timing, in_flight=together))
            verdict, is_ours = request.response_model, permit.limit_is_ours
            return check_answer(verdict, answer, request.user, limit_is_ours=is_ours)
        except Exception as error:  # noqa: BLE001 - `judge_outcome` tells what becomes of it
            return error

    def _judge(self, outcome: Outcome, permit: Permit, tries: Tries) -> CallResult:
        """Tell all who go by it what came of a call, and return what it came to."""
        if isinstance(outcome, CheckedAnswer | Refused):
            self.health.record_answer()
            self.permits.answered = True
        if isinstance(outcome, Retry):
            now, key = self._clock.now(), permit.request.key
            tries.attempts += self.health.record_failure(outcome, key, now)
        result = judge_outcome(outcome, tries, permit, self._options, self.health)
        if isinstance(outcome, CheckedAnswer) and not result.is_last:
            tries.reasks += outcome.answer.status == "invalid"
            tries.cut |= outcome.answer.status == "truncated"
        return result

    async def _keep(
        self, answer: Answer, permit: Permit, tries: Tries, *, is_last: bool
    ) -> float | None:
        """Keep an answer, and learn from it; return what it cost, None if that is unknown."""
        request = permit.request
        self.permits.learn_limits(answer.rates)
        if answer.usage.input_tokens:
            kind, cut = response_model_name(request.response_model), answer.status in CUT_OFF
            self._estimates.learn(tries.size, answer.usage, kind, cut=cut)
            self._estimates.learn_prompts([answer.usage.input_tokens], tries.bound)
        characters = prompt_characters(request)
        spent = await self._asker.writer.keep(
            *(request.key, self.judge, answer, self.tally),
            attempts=tries.calls,
            final=is_last,
            limit=request.output_limit or 0,
            characters=characters,
        )
        self._server.take(answer.model, answer.usage, characters)
        tokens = 0 if self._options.keep_asking else self._server.cut_to
        if tokens and self._server.prompts <= FIRST:
            self._disable(cuts_prompts(tokens))
        if is_last:
            reason = strip_name(answer.reason, self.judge.name)
            self.tally.count_ended(answer.status, reason, self._clock.date())
        if self._asker.writer.storage_full:
            self._asker.stop(FULL)
        return spent

    def _settle(
        self, permit: Permit, answer: Answer | None, spent: float | None, *, possibly_billed: bool
    ) -> None:
        """Give back what was reserved for a call, but for what it has cost, or may have.

        A judge that costs more than was reserved is asked nothing more, since no cap can be kept.
        """
        usage, reserved = answer.usage if answer else Usage(), permit.cost.dollars
        if possibly_billed:
            self.tally.unsettled += reserved
        self._exposure.remove(reserved, possibly_billed=possibly_billed)
        charged = reserved if possibly_billed or spent is None else spent
        used = self._provider.limit_tokens(usage) if usage.input_tokens else None
        self.permits.settle(permit.cost, charged, used)
        if self.permits.capped and spent is not None and spent > reserved + NOTHING:
            limit = permit.request.output_limit or 0
            what = f"an answer of {usage.output_tokens:,} tokens (limit {limit:,})"
            self._disable(overcharged(what, spent, reserved))

    async def _back_off(self, trouble: Retry, key: str, calls: int) -> None:
        """Wait before a request's next call: the server's delay, or a random one.

        After a 429 the rate limiter holds it back, and in an outage the judge's health.
        """
        throttled, is_away = trouble.kind is RetryKind.THROTTLED, self.health.is_open
        waits = "; its calls wait until it answers" if is_away else ""
        self.tally.count_retry(f"{trouble.detail}{waits}", self._clock.date())
        jitter = random.Random(f"{key}:{calls}").random()
        backoff = jitter * min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2 ** (calls - 1))
        delay = trouble.delay * (1 + 0.1 * jitter) if trouble.delay else backoff
        if throttled:
            self.tally.throttled += 1
            lasting = await self.permits.pause(delay)
            self.health.record_throttling(lasting, self._clock.now())
            self._disable(self.health.given_up)
        elif not is_away:
            await self._asker.sleep(delay)
