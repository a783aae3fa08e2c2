"""Call a judge until a request has its last answer: reserve, call, keep, wait, call again."""

import random
from collections.abc import Iterable
from dataclasses import replace

from zelo_ray.engine.bookkeeping import (
    CUT_OFF,
    LedgerWriter,
    budget_used_up,
    check_answer,
    cuts_prompts,
    name_error,
    overcharged,
)
from zelo_ray.engine.budget import NOTHING
from zelo_ray.engine.clock import Clock
from zelo_ray.engine.coordinator import CallCost
from zelo_ray.engine.durable import FULL
from zelo_ray.engine.exposure import Exposure
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.prompt_cache import GoOn
from zelo_ray.engine.request_runner import RequestRunner
from zelo_ray.engine.request_state import NO_BOUND, Channel, RequestState, with_limit
from zelo_ray.engine.tokens import (
    bound_tokens,
    measure_request,
    prompt_characters,
    raise_limit,
)
from zelo_ray.engine.trial import FIRST
from zelo_ray.errors import LedgerError
from zelo_ray.options import AnnotateOptions
from zelo_ray.providers import Fatal, Refused, Retry, RetryKind
from zelo_ray.providers.pricing import highest_price
from zelo_ray.reasons import Disabled, StopReason, strip_name
from zelo_ray.records import Answer, CallTiming, Request, Usage, response_model_name

_LONGEST_WAIT = 120.0
_THROTTLED_COST = 0.1  # of an attempt: a 429 says nothing against the request
_DOUBTFUL_COST = 0.1
"""The same of a probe where few requests wait: it may be about them, or the judge may be away."""
_SPENT_DAY = Disabled(
    StopReason.DAY_QUOTA,
    "the requests of the day are used up (limits: rpd); run again tomorrow",
)
_FIRST_BACKOFF, _LONGEST_BACKOFF = 1.0, 60.0
_STARTING_BACKOFF = 4.0  # the longest while a judge was never reached


class JudgeCaller(RequestRunner[Channel]):
    """Client that calls judges until each request has its last answer.

    Args:
        options: the job's options.
        channels: a channel for each judge that it calls.
        writer: the writer that keeps replies.
        clock: the time.
        ledger: open for writing.
        exposure: what calls in flight may cost.
    """

    def __init__(
        self,
        options: AnnotateOptions,
        channels: Iterable[Channel],
        writer: LedgerWriter,
        clock: Clock,
        *,
        ledger: Ledger,
        exposure: Exposure,
    ) -> None:
        super().__init__(options, channels, writer, clock)
        self._ledger, self._exposure = ledger, exposure

    def stop(self, reason: str) -> None:
        """Make no new call. What is in flight is still kept."""
        super().stop(reason)
        for channel in self.channels.values():
            channel.close()

    def disable_judge(self, name: str, reason: Disabled) -> None:
        """Ask a judge nothing more. The run stops, unless it may go on without one."""
        super().disable_judge(name, reason)
        if name in self.disabled:
            self.channels[name].close()

    async def call(self, request: Request, go_on: GoOn) -> None:
        """Ask until the last reply is kept; an unforeseen error ends the judge or the run."""
        channel = self.channels[request.judge.name]
        try:
            await self._in_turn(request, channel, go_on)
        except LedgerError as error:
            self.stop(str(error))
        except Exception as error:  # noqa: BLE001 - it may hold a key or a prompt: name it only
            self._disable(channel, StopReason.ERROR, f"unexpected {name_error(error)}")

    async def _in_turn(self, request: Request, channel: Channel, go_on: GoOn) -> None:
        """Call in turn: the first call to a server named by its URL goes alone."""
        if channel.failure_detector.first_call_alone:
            async with channel.opening:
                if channel.failure_detector.first_call_alone:
                    await self._call(request, channel, go_on)
                    channel.failure_detector.first_call_alone = False
                    return
        await self._call(request, channel, go_on)

    async def _call(self, request: Request, channel: Channel, go_on: GoOn) -> None:
        """Call until there is a last answer; keep it, and every billed one before it.

        One of the judge's slots is held until it is kept: so a kill costs no more.
        """
        await channel.trial.begin()  # without a slot: who has one goes on
        effort, request = RequestState(), request.with_codes(self._ledger.salt)
        try:
            async with channel.slots:
                while not effort.ended and await self._prepare_call(request, channel, effort):
                    request = with_limit(request, effort)
                    channel.tally.in_flight += 1
                    try:
                        wait = await self._call_once(request, channel, effort)
                    finally:
                        channel.tally.in_flight -= 1
                    go_on(effort.answered)
                    if wait:
                        await self.sleep(wait)
        finally:
            in_doubt = channel.server.is_in_doubt and not self.options.keep_asking
            self._give_up(channel, channel.trial.end(effort.last_answer, in_doubt=in_doubt))

    def _limit_of(self, request: Request, channel: Channel, effort: RequestState) -> int:
        """Return the number of tokens that an answer may have.

        Where money is capped it is what answers of this kind keep to, for so much is reserved. One
        that was cut off is asked again with the judge's own limit, or twice that if it was so then.
        """
        if request.choices:
            return 1
        judge_limit = channel.judge.options.get("max_output_tokens")
        if judge_limit is None:
            return request.output_limit or 0
        if effort.cut:
            return int(judge_limit)
        cut_at = self._ledger.cut_at(request.key)
        if channel.permits.capped:
            return channel.estimates.limit_for(response_model_name(request.response_model), cut_at)
        return raise_limit(int(judge_limit), cut_at) if cut_at else int(judge_limit)

    async def _prepare_call(self, request: Request, channel: Channel, effort: RequestState) -> bool:
        """Wait until judge, budget and limits allow a call; return False when none may be made.

        Nothing is reserved while nothing comes back from the judge.
        """
        channel.tally.waiting += 1
        try:
            while not (self.stopped or channel.disabled):
                effort.is_probe = await self._admit(channel)
                if self.stopped or channel.disabled:
                    break
                if not await self._reserve(request, channel, effort):
                    return False
                if effort.is_probe or not channel.circuit_breaker.is_open:
                    await self._exposure.add(effort.reserved.dollars)
                    return True
                channel.permits.cancel(effort.reserved)  # it went away meanwhile
            return False
        finally:
            channel.tally.waiting -= 1

    async def _admit(self, channel: Channel) -> bool:
        """Wait until the circuit breaker lets a call go; return whether it goes as a probe.

        The slot is left to others meanwhile: where there is but one, it is still another request
        that goes as the next probe, and no prompt alone decides whether the judge is there.
        """
        if not channel.circuit_breaker.is_open:
            return False
        channel.slots.release()
        try:
            return await channel.circuit_breaker.admit()
        finally:
            await channel.slots.acquire()

    async def _reserve(self, request: Request, channel: Channel, effort: RequestState) -> bool:
        """Reserve money and a place in the rate limit; return False when no call may be made."""
        effort.size = size = effort.size or measure_request(request)
        effort.limit = self._limit_of(request, channel, effort)
        if channel.permits.capped and effort.limit:
            effort.bound = bound_tokens(request) if effort.bound is NO_BOUND else effort.bound
            usage = channel.estimates.tight_upper_bound(size, effort.bound, effort.limit)
        else:
            usage = channel.estimates.upper_bound(size, effort.limit or None)
        dollars = highest_price(channel.judge, usage, self.options.prices)
        expected = channel.provider.limit_tokens(channel.estimates.expected(size))
        effort.reserved = CallCost({"rpm": 1, "rpd": 1, **expected}, dollars)
        permits = channel.permits
        if await permits.acquire(effort.reserved):
            if permits.spent_day or not (self.stopped or channel.disabled):
                return True
            permits.cancel(effort.reserved)
        if permits.spent_day:
            self.disable_judge(channel.judge.name, _SPENT_DAY)
        elif permits.over:  # this is no fault, and no stop
            self.disable_judge(channel.judge.name, budget_used_up(self.options.max_usd or 0.0))
        return False

    async def _call_once(self, request: Request, channel: Channel, effort: RequestState) -> float:
        """Make one call; return the seconds to wait before the next, if another is needed."""
        effort.begin_call()
        channel.failure_detector.record_call(self.clock.now())
        wait, billed = 0.0, True
        spent: float | None = 0.0
        error = ""
        try:
            reply = await self._send(request, channel, effort)
            effort.answered = True
            checked = check_answer(
                *(request.response_model, reply, request.user),
                limit_is_ours=_is_limit_ours(channel, effort),
            )
            answer, error = _without_doubtful_fault(channel, checked.answer), checked.error
            self._record_reply(channel)
            self._end_or_ask_again(channel, answer, effort)
        except Retry as trouble:
            self._count_failure(request, channel, trouble, effort)
            status = trouble.status if effort.ended else "failed"
            answer = Answer(status, "", trouble.billed or Usage(), reason=str(trouble))
            effort.last_answer = None if status == "failed" else answer
            billed, effort.possibly_billed = trouble.billed is not None, trouble.unsettled
            if not (effort.ended or channel.disabled):
                wait = await self._back_off(request, channel, trouble, effort)
        except Refused as refusal:
            effort.ended = effort.answered = True
            answer = effort.last_answer = Answer(refusal.status, "", Usage(), reason=str(refusal))
            self._record_reply(channel)
        except Fatal as fatal:
            self._disable(channel, StopReason.FATAL, fatal.detail)
            answer, effort.ended, billed = Answer("failed", "", Usage()), True, False
        except Exception:  # whatever it is, the call may have been billed
            effort.possibly_billed = True
            self._settle(channel, effort, None)
            raise
        try:
            if billed or (effort.ended and not channel.disabled):
                spent = await self._keep(request, channel, answer, effort)
                effort.possibly_billed |= spent is None and channel.permits.capped
                effort.uncounted = spent is None and not answer.usage.has_tokens
        except BaseException:  # a billed answer that is not kept still counts as spent
            effort.possibly_billed = True
            raise
        finally:
            self._settle(channel, effort, spent)
        self._refuse_excess(request, channel, answer, effort, spent)
        if error or answer.judge_fault:
            code = StopReason.ERROR if error else StopReason.FATAL
            self._disable(channel, code, error or answer.judge_fault)
        return wait

    async def _send(self, request: Request, channel: Channel, effort: RequestState) -> Answer:
        """Send a request, and note how long its answer took, with how many others in flight."""
        begun, others = self.clock.now(), channel.tally.in_flight
        reply = await channel.connection.send(request)
        timing = reply.timing or CallTiming(self.clock.now() - begun)
        together = timing.in_flight or max(others, channel.tally.in_flight)
        effort.timing = replace(timing, in_flight=together)
        return reply

    def _end_or_ask_again(self, channel: Channel, answer: Answer, effort: RequestState) -> None:
        """Decide whether an answer is the last one to its request.

        Where a person has to act first, none is: a later run asks again.
        """
        if answer.judge_fault:
            return
        if answer.status == "truncated" and _is_limit_ours(channel, effort):
            effort.cut = True  # the limit was ours
        elif answer.status == "invalid" and effort.reasks < self.options.reasks:
            effort.reasks += 1
        else:
            effort.ended, effort.last_answer = True, answer

    def _count_failure(
        self, request: Request, channel: Channel, trouble: Retry, effort: RequestState
    ) -> None:
        """Count a call that came to nothing, for its request and for its judge.

        It is no attempt of its request where it says nothing of it: its judge was never reached,
        or nothing comes back from it, whatever it is asked.
        """
        breaker = channel.circuit_breaker
        throttled = trouble.kind is RetryKind.THROTTLED
        if throttled or trouble.status != "failed":  # something came back
            breaker.record_answer()
            effort.attempts_used += _THROTTLED_COST if throttled else 1
        else:
            if effort.missed_after is None:
                effort.missed_after = breaker.answers
            suspect = breaker.answers > effort.missed_after
            breaker.record_failure(trouble, request.key, is_probe=effort.is_probe, suspect=suspect)
            effort.attempts_used += self._attempts_lost(channel, trouble, effort, suspect=suspect)
        effort.ended = effort.attempts_used >= self.options.attempts
        now = self.clock.now()
        self._give_up(
            channel, channel.failure_detector.record_failure(trouble, now, away=breaker.is_open)
        )

    def _attempts_lost(
        self, channel: Channel, trouble: Retry, effort: RequestState, *, suspect: bool
    ) -> float:
        """Return how many attempts of its request a failed call counts for.

        A prompt that is `suspect`, as others were answered meanwhile, never holds up the run.
        """
        breaker = channel.circuit_breaker
        unreached = trouble.kind is RetryKind.UNREACHED
        away = unreached or (breaker.is_open and not effort.is_probe)
        if away or channel.failure_detector.is_starting(trouble):
            return 0.0
        if suspect or trouble.kind is not RetryKind.UNAVAILABLE:
            return 1.0
        if channel.failure_detector.first_call_alone or (breaker.is_open and breaker.is_sure):
            return 0.0
        return _DOUBTFUL_COST if breaker.is_open else 1.0

    def _settle(self, channel: Channel, effort: RequestState, spent: float | None) -> None:
        """Give back what was reserved for a call, but for what it may have cost."""
        dollars = effort.reserved.dollars
        if effort.possibly_billed:
            channel.tally.unsettled += dollars
            uncounted = channel.judge.name if effort.uncounted else ""
            self._exposure.keep_possibly_billed(dollars, uncounted)
        else:
            self._exposure.remove(dollars)
        unknown = spent is None or effort.possibly_billed
        channel.permits.settle(effort.reserved, dollars if unknown else spent or 0.0, effort.used)

    def _refuse_excess(
        self,
        request: Request,
        channel: Channel,
        answer: Answer,
        effort: RequestState,
        spent: float | None,
    ) -> None:
        """Disable a judge that costs more than was reserved, since no cap can be kept then."""
        reserved = effort.reserved.dollars
        if channel.permits.capped and spent is not None and spent > reserved + NOTHING:
            tokens, limit = answer.usage.output_tokens, request.output_limit or 0
            what = f"an answer of {tokens:,} tokens (limit {limit:,})"
            self.disable_judge(channel.judge.name, overcharged(what, spent, reserved))

    async def _keep(
        self, request: Request, channel: Channel, answer: Answer, effort: RequestState
    ) -> float | None:
        """Keep an answer, and learn from it; return what it cost."""
        channel.permits.learn_limits(answer.rates)
        if answer.usage.input_tokens:
            effort.used = channel.provider.limit_tokens(answer.usage)
            kind, cut = response_model_name(request.response_model), answer.status in CUT_OFF
            channel.estimates.learn(
                effort.size or measure_request(request), answer.usage, kind, cut=cut
            )
            if effort.bound.tokens:
                channel.estimates.learn_prompt(answer.usage.input_tokens, effort.bound)
        spent = await self.writer.keep(
            *(request.key, channel.judge, answer, channel.tally),
            attempts=effort.calls,
            final=effort.ended,
            limit=request.output_limit or 0,
            timing=effort.timing,
            characters=(characters := prompt_characters(request)),
        )
        channel.server.take(answer.model, answer.usage, characters)
        tokens = 0 if self.options.keep_asking else channel.server.cut_to
        if tokens and channel.server.prompts <= FIRST:
            self.disable_judge(channel.judge.name, cuts_prompts(tokens))
        if effort.ended:
            reason = strip_name(answer.reason, channel.judge.name)
            channel.tally.count_ended(answer.status, reason, self.clock.date())
        if self.writer.storage_full:
            self.stop(FULL)
        return spent

    def _record_reply(self, channel: Channel) -> None:
        """Record that a judge replied: its server is up, and its account alive."""
        channel.failure_detector.record_reply()
        channel.circuit_breaker.record_answer()
        channel.permits.record_answer()

    def _disable(self, channel: Channel, code: StopReason, message: str) -> None:
        """Ask a judge nothing more, for this reason."""
        self.disable_judge(channel.judge.name, Disabled(code, message))

    def _give_up(self, channel: Channel, reason: Disabled | None) -> None:
        """Ask a judge nothing more, if there is a reason for it."""
        if reason:
            self.disable_judge(channel.judge.name, reason)

    async def _back_off(
        self, request: Request, channel: Channel, trouble: Retry, effort: RequestState
    ) -> float:
        """Return the seconds before the request's next call: the server's delay, or a random one.

        It is 0 where the rate limiter (after a 429) or the circuit breaker (in an outage) holds the
        call back.
        """
        jitter = random.Random(f"{request.key}:{effort.calls}").random()
        throttled = trouble.kind is RetryKind.THROTTLED
        longest_wait = (
            _LONGEST_WAIT
            if throttled
            else max(_LONGEST_WAIT, channel.failure_detector.longest_silence)
        )
        if trouble.delay is not None and trouble.delay > longest_wait:
            wait = f"{trouble.delay / 60:.0f} minutes"
            what = f"{trouble.detail}; the server asks us to wait {wait}; run again later"
            self._disable(channel, StopReason.THROTTLED if throttled else StopReason.SILENT, what)
            return 0.0
        if channel.circuit_breaker.is_open and not throttled:
            channel.tally.count_retry(
                f"{trouble.detail}; its calls wait until it answers", self.clock.date()
            )
            return 0.0  # the circuit breaker holds it back
        channel.tally.count_retry(trouble.detail, self.clock.date())
        if channel.failure_detector.is_starting(trouble):
            return min(_STARTING_BACKOFF, _FIRST_BACKOFF * 2.0 ** (effort.calls - 1))
        backoff = jitter * min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2 ** (effort.calls - 1))
        delay = trouble.delay * (1 + 0.1 * jitter) if trouble.delay else backoff
        if not throttled:
            return delay
        channel.tally.throttled += 1
        lasting = await channel.permits.pause(delay)
        self._give_up(
            channel, channel.failure_detector.record_throttling(lasting, self.clock.now())
        )
        return 0.0


def _is_limit_ours(channel: Channel, effort: RequestState) -> bool:
    """Return whether the output limit of a call is below that of its judge."""
    return 1 < effort.limit < (channel.judge.options.get("max_output_tokens") or 0)


def _without_doubtful_fault(channel: Channel, answer: Answer) -> Answer:
    """Return an answer without a fault of its judge that the judge's earlier judgments belie."""
    channel.has_judged |= answer.status == "ok"
    return replace(answer, judge_fault="") if answer.judge_fault and channel.has_judged else answer
