"""Fill the ledger by calls that are answered at once: many in flight, each reply kept before use.

An `Asker` holds the connections of some judges. It drives each pool's protocol as far as its judges
can carry it, retries what can be retried, and lets a reply be seen only when it is durable.
"""

import asyncio
import contextlib
import random
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from zelo_ray.engine.bookkeeping import (
    LedgerWriter,
    Tally,
    check_answer,
    excess,
    name_of,
    over_budget,
)
from zelo_ray.engine.breaker import CircuitBreaker
from zelo_ray.engine.budget import NOTHING, SharedBudget
from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.durable import FULL
from zelo_ray.engine.exposure import Exposure
from zelo_ray.engine.filler import Filler
from zelo_ray.engine.gate import LimiterClient
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.limiter import Account
from zelo_ray.engine.openings import GoOn, Openings
from zelo_ray.engine.patience import Patience
from zelo_ray.engine.purse import BudgetClient
from zelo_ray.engine.quota import OwnQuota, Quota
from zelo_ray.engine.tokens import Bound, Estimates, Size, bound_of, longer, size_of
from zelo_ray.engine.trial import Trial, has_judged
from zelo_ray.engine.turnstile import Turnstile
from zelo_ray.errors import LedgerError
from zelo_ray.options import AnnotateOptions, Limit
from zelo_ray.protocols import Progress, Step, find
from zelo_ray.providers import (
    Connection,
    Fatal,
    Provider,
    Refused,
    Retry,
    RetryKind,
    Settings,
    connect,
    find_key,
    fingerprint,
    load_provider,
)
from zelo_ray.providers.added import seconds_for
from zelo_ray.providers.pricing import dearest
from zelo_ray.reasons import Disabled, StopReason, without_name
from zelo_ray.records import Answer, Judge, Pool, Request, Usage, model_name

_LONGEST_WAIT = 120.0
_THROTTLED_COST = 0.1  # of an attempt: waiting for one's turn is no trouble with the request
_DOUBTFUL_COST = 0.1
"""The same of a probe where few requests wait: it may be about them, or the judge may be away."""
_SPENT_DAY = Disabled(
    StopReason.DAY_QUOTA,
    "the requests of the day are used up (limits: rpd); run again tomorrow",
)
_PLANNERS = 4
_ROOM = 4  # times what may be in flight: requests that wait, some for others that begin alike
_COMPATIBLE_CONCURRENCY = 32  # of a server named by its URL, which may have one GPU
_FIRST_BACKOFF, _LONGEST_BACKOFF = 1.0, 60.0
NO_BOUND = Bound(0, 0, 0)
_STARTING_BACKOFF = 4.0  # the longest while a judge was never reached


@dataclass(slots=True)
class _Line:
    """One judge's connection: the calls that share it, and what holds them back."""

    judge: Judge
    provider: Provider
    connection: Connection
    concurrency: int
    slots: asyncio.Semaphore
    gate: LimiterClient
    estimates: Estimates
    patience: Patience
    breaker: CircuitBreaker
    trial: Trial
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    """held by a first call that goes alone"""
    tally: Tally = field(default_factory=Tally)
    disabled: Disabled | None = None
    """why this judge is asked nothing more; None while it is"""

    def close(self) -> None:
        """Hold no call back any more, for none is made."""
        self.gate.close()
        self.breaker.close()
        self.trial.skip()


@dataclass(slots=True)
class _Effort:
    """What has been done for one request, and what is reserved for its next call."""

    calls: int = 0
    reasks: int = 0
    troubles: float = 0.0
    ended: bool = False
    size: Size | None = None
    bound: Bound = NO_BOUND
    """of its prompt's tokens, where money is capped"""
    cost: Mapping[str, float] = field(default_factory=dict)
    dollars: float = 0.0
    limit: int = 0
    """tokens that the next answer may have; 0 for a judge without such a limit"""
    cut: bool = False
    """whether an answer was cut off at a limit that was lower than the judge's own"""
    is_probe: bool = False
    """whether the next call goes alone, to find out whether the judge answers again"""
    answered: bool = False
    """whether the last call was"""
    missed_after: int | None = None
    """answers to any request of the judge before the first call of this one that got none"""
    wraps: tuple[str, ...] = ()
    """what had to be taken off the last answer before it could be read"""
    last: Answer | None = None
    """what the server answered last"""
    unsettled: bool = False
    """whether the last call may have been billed though nothing tells so"""
    uncounted: bool = False
    """whether its answer came, and reported no tokens"""


class Asker(Filler[_Line]):
    """Asks some of a panel's judges, on the event loop that it was made on.

    Args:
        options: the job's options.
        panel: the whole panel, as protocols must know it.
        judges: those of the panel to ask.
        ledger: open for writing.
        environ: where keys are found.
        run_id: the run that pays.
        quota: who shares out the accounts' limits; else this process alone uses them.
        till: who keeps the budget, if there is one.
        disabled: judges of the panel that are asked nothing more, with the reason.
        again: the same run has been over all pools before; what is known is counted anew.
        clock: the time; a quota goes by the same.

    Raises:
        PanelError: a judge cannot be reached at all.
    """

    def __init__(
        self,
        options: AnnotateOptions,
        panel: Sequence[Judge],
        judges: Sequence[Judge],
        *,
        ledger: Ledger,
        environ: Mapping[str, str],
        run_id: str,
        quota: Quota | None = None,
        till: SharedBudget | None = None,
        disabled: Mapping[str, Disabled] | None = None,
        again: bool = False,
        clock: Clock = CLOCK,
    ) -> None:
        self._disabled, self._again = disabled or {}, again
        self._ledger, self._quota = ledger, quota or OwnQuota(clock)
        self._connections: dict[tuple[str, Settings], Connection] = {}
        books = LedgerWriter(ledger, run_id, options.prices, clock)
        purse = BudgetClient(uuid.uuid4().hex, till, clock=clock)
        lines = [self._connect(judge, options, environ, clock) for judge in judges]
        super().__init__(options, lines, books, purse, clock)
        self._exposure = Exposure(options.books, options.out, run_id, clock)
        self._protocol = find(options.protocol)
        self._panel = self._protocol.heeded(judges, panel, options)
        self._asked: dict[str, asyncio.Future[None]] = {}
        self._planners, self._finishers = asyncio.Semaphore(_PLANNERS), asyncio.Semaphore(_PLANNERS)
        self._roomy, self._turnstile = asyncio.Event(), Turnstile()
        self._roomy.set()
        self._slots = sum(line.concurrency for line in self.lines.values())
        self._begun, self._pending = set[Progress](), 0  # pools on their way, and their requests

    def _connect(
        self, judge: Judge, options: AnnotateOptions, environ: Mapping[str, str], clock: Clock
    ) -> _Line:
        known = load_provider(judge.provider)
        key = find_key(judge, options.api_key_env, environ)
        settings = Settings(key, judge.base_url, seconds_for(judge.options, options.timeout))
        at = (judge.provider, settings)
        if at not in self._connections:
            self._connections[at] = connect(judge, settings)
        limit = options.limits.get(judge.name, Limit())
        usual = _COMPATIBLE_CONCURRENCY if judge.base_url else known.concurrency
        slots = max(1, (limit.concurrency or usual) // options.actors)
        account = Account(
            f"{judge.name} {fingerprint(key)}",
            limits=limit.rates,
            cautious={} if judge.base_url else known.rates,
        )
        return _Line(
            *(judge, known, self._connections[at], slots, asyncio.Semaphore(slots)),
            gate=LimiterClient(account, self._quota, clock),
            estimates=Estimates(judge),
            patience=Patience(judge, options.patience, reached=self._again),
            breaker=CircuitBreaker(slots, clock),
            trial=Trial(judge, passed=options.keep_asking or self._again),
        )

    @property
    def tallies(self) -> dict[str, Tally]:
        """Each judge's figures so far."""
        for line in self.lines.values():
            if line.gate.lease:
                line.tally.limits = dict(line.gate.lease.rates)
        return {name: line.tally for name, line in self.lines.items()}

    def stop(self, reason: str) -> None:
        """Make no new call. What is in flight is still kept."""
        super().stop(reason)
        self._roomy.set()
        for line in self.lines.values():
            line.close()

    def disable_judge(self, name: str, reason: Disabled) -> None:
        """Ask a judge nothing more. The run stops, unless it may go on without one."""
        super().disable_judge(name, reason)
        if name in self.disabled:
            self.lines[name].close()

    async def fill(self, pool: Pool) -> None:
        """Ask about one pool until nothing is missing that these judges can answer, or stopped."""
        seen, asked, steps = set[str](), Counter[str](), list[Step]()
        progress = Progress(self._protocol.rounds(pool, self._panel, self.options))
        try:
            while mine := await self._plan(progress, seen, steps):
                seen.update(request.key for request in mine)
                openings = Openings(mine, self.clock)
                own = await asyncio.gather(*(self._ask_once(request, openings) for request in mine))
                asked.update(r.judge.name for r, was in zip(mine, own, strict=True) if was)
        finally:  # also where a protocol of a user's own raises
            self._begun.discard(progress)
            self._make_room()
        if not self.stopped:
            planned = self._protocol.count(pool, self._panel, self.options)
            if self._again:  # others have asked for this run, too
                heard = progress.heard()
                asked = Counter({n: sum(map(self._ledger.own, set(heard[n]))) for n in heard})
            for name, line in ((n, each) for n, each in self.lines.items() if not each.disabled):
                line.tally.pass_over(name, planned[name], asked[name], steps[-1])

    async def _plan(self, progress: Progress, seen: set[str], steps: list[Step]) -> list[Request]:
        """What these judges have to answer now, and have not yet been asked; tell how far it got.

        Prompts are long, so only some times as many requests wait as can be in flight. A pool that
        was begun waits for no other, and only so many are begun as keep all slots busy: a budget is
        to buy whole tournaments, not the first contest of each.
        """
        async with self._finishers if steps else self._planners:
            while not (steps or self._has_room or self.halt.is_set()):
                self._roomy.clear()
                await self._roomy.wait()
            if self.stopped:
                return []
            self._begun.add(progress)
            step = await asyncio.to_thread(progress.step, self._ledger, self._disabled)
            steps[1:] = [step]
            for line in (each for each in self.lines.values() if not each.trial.passed):
                keys = progress.heard().get(line.judge.name, ())
                if await asyncio.to_thread(has_judged, self._ledger, keys):
                    line.trial.skip()
            open_to = {name for name, line in self.lines.items() if not line.disabled}
            mine = [r for r in step.missing if r.judge.name in open_to and r.key not in seen]
            self._pending += len(mine)
            return mine

    async def _ask_once(self, request: Request, openings: Openings) -> bool:
        """Ask, unless another pool is asking the very same thing or just did; tell which."""
        try:
            if request.key in self._asked:
                await self._asked[request.key]
                return False
            if self._ledger.has(request.key):
                return False
            self._asked[request.key] = asyncio.get_running_loop().create_future()
            try:
                async with openings.turn(request) as go_on:
                    await self._ask(openings.worth(request), go_on)
            finally:
                self._asked.pop(request.key).set_result(None)
            return True
        finally:
            self._pending -= 1
            self._make_room()

    @property
    def _has_room(self) -> bool:
        """Whether another pool may begin."""
        return len(self._begun) <= self._slots and self._pending < _ROOM * self._slots

    def _make_room(self) -> None:
        if self._has_room:
            self._roomy.set()

    async def _ask(self, request: Request, go_on: GoOn) -> None:
        """Ask until the last reply is kept; an unforeseen error ends the judge or the run."""
        line = self.lines[request.judge.name]
        try:
            await self._in_turn(request, line, go_on)
        except LedgerError as error:
            self.stop(str(error))
        except Exception as error:  # noqa: BLE001 - it may hold a key or a prompt: name it only
            self._disable(line, StopReason.ERROR, f"unexpected {name_of(error)}")

    async def _in_turn(self, request: Request, line: _Line, go_on: GoOn) -> None:
        """Call; but what the first call to a server named by its URL tells may spare the others."""
        if line.patience.alone:
            async with line.opening:
                if line.patience.alone:
                    await self._call(request, line, go_on)
                    line.patience.alone = False
                    return
        await self._call(request, line, go_on)

    async def _call(self, request: Request, line: _Line, go_on: GoOn) -> None:
        """Call until there is a last answer; keep it, and every billed one before it.

        One of the judge's slots is held until it is kept: so a kill costs no more.
        """
        await line.trial.begin()  # without a slot: who has one goes on
        effort, request = _Effort(), request.marked(self._ledger.salt)
        try:
            async with line.slots:
                while not effort.ended and await self._turn(request, line, effort):
                    request = _limited(request, effort)
                    line.tally.in_flight += 1
                    try:
                        wait = await self._once(request, line, effort)
                    finally:
                        line.tally.in_flight -= 1
                    go_on(effort.answered)
                    if wait:
                        await self.rest(wait)
        finally:
            self._give_up(line, line.trial.end(effort.last))

    def _limit_of(self, request: Request, line: _Line, effort: _Effort) -> int:
        """Tokens that an answer may have.

        Where money is capped it is what answers of this kind keep to, for so much is reserved. One
        that was cut off is asked again with the judge's own limit, or twice that if it was so then.
        """
        own = line.judge.options.get("max_output_tokens")
        if own is None:
            return request.output_limit or 0
        if effort.cut:
            return int(own)
        cut_at = self._ledger.cut_at(request.key)
        if self.purse.capped:
            return line.estimates.limit_for(model_name(request.response_model), cut_at)
        return longer(int(own), cut_at) if cut_at else int(own)

    async def _turn(self, request: Request, line: _Line, effort: _Effort) -> bool:
        """Wait until judge, budget and limits allow a call; false when none may be made any more.

        Nothing is reserved while nothing comes back from the judge.
        """
        line.tally.waiting += 1
        try:
            while not (self.stopped or line.disabled):
                effort.is_probe = await self._admit(line)
                if self.stopped or line.disabled:
                    break
                if not await self._reserve(request, line, effort):
                    return False
                if effort.is_probe or not line.breaker.is_open:
                    await self._exposure.send(effort.dollars)
                    return True
                self.purse.give_back(effort.dollars, 0.0)  # it went away meanwhile
                line.gate.settle(effort.cost, dict.fromkeys(effort.cost, 0.0))
            return False
        finally:
            line.tally.waiting -= 1

    async def _admit(self, line: _Line) -> bool:
        """Wait until something comes back from a judge; whether a call goes to find that out.

        The slot is left to others meanwhile: where there is but one, it is still another request
        that goes as the next probe, and no prompt alone decides whether the judge is there.
        """
        if not line.breaker.is_open:
            return False
        line.slots.release()
        try:
            return await line.breaker.admit()
        finally:
            await line.slots.acquire()

    async def _reserve(self, request: Request, line: _Line, effort: _Effort) -> bool:
        """Take money and leave for a call; false when none may be made any more."""
        effort.size = size = effort.size or size_of(request)
        effort.limit = self._limit_of(request, line, effort)
        if self.purse.capped and effort.limit:
            effort.bound = bound_of(request) if effort.bound is NO_BOUND else effort.bound
            most = line.estimates.most_known(size, effort.bound, effort.limit)
        else:
            most = line.estimates.most(size, effort.limit or None)
        effort.dollars = dearest(line.judge, most, self.options.prices)
        if not await self.purse.take(effort.dollars):
            self._run_dry(line)
            return False
        expected = line.provider.limit_tokens(line.estimates.expected(size))
        effort.cost = {"rpm": 1, "rpd": 1, **expected}
        if await line.gate.admit(effort.cost):
            await self._turnstile.step()
            if line.gate.spent_day or not (self.stopped or line.disabled):
                return True
        self.purse.give_back(effort.dollars, 0.0)
        if line.gate.spent_day:
            self.disable_judge(line.judge.name, _SPENT_DAY)
        return False

    async def _once(self, request: Request, line: _Line, effort: _Effort) -> float:
        """Make one call; the seconds to wait before another, if it takes one."""
        effort.calls += 1
        line.patience.asked(self.clock.now())
        wait, billed = 0.0, True
        spent: float | None = 0.0
        effort.unsettled = effort.answered = effort.uncounted = False
        error = ""
        try:
            if effort.reasks:
                request = replace(request, reask=effort.reasks, known_as=request.key)
            said = await line.connection.send(request)
            effort.answered = True
            checked = check_answer(request.response_model, said, request.user)
            answer, error, effort.wraps = checked.answer, checked.error, checked.wraps
            self._hear(line)
            self._end_or_ask_again(line, answer, effort)
        except Retry as trouble:
            self._count(request, line, trouble, effort)
            status = trouble.status if effort.ended else "failed"
            answer = Answer(status, "", trouble.billed or Usage(), reason=str(trouble))
            effort.last = None if status == "failed" else answer
            billed, effort.unsettled = trouble.billed is not None, trouble.unsettled
            if not (effort.ended or line.disabled):
                wait = await self._back_off(request, line, trouble, effort)
        except Refused as refusal:
            effort.ended = effort.answered = True
            answer = effort.last = Answer(refusal.status, "", Usage(), reason=str(refusal))
            self._hear(line)
        except Fatal as fatal:
            self._disable(line, StopReason.FATAL, fatal.detail)
            answer, effort.ended, billed = Answer("failed", "", Usage()), True, False
        except Exception:  # whatever it is, the call may have been billed
            effort.unsettled = True
            self._let_go(line, effort, None)
            raise
        try:
            if billed or (effort.ended and not line.disabled):
                spent = await self._keep(request, line, answer, effort)
                effort.unsettled |= spent is None and self.purse.capped
                effort.uncounted = spent is None and not answer.usage.told
        except Exception:  # a billed answer that is not kept still counts as spent
            effort.unsettled = True
            raise
        finally:
            self._let_go(line, effort, spent)
        self._refuse_excess(request, line, answer, effort, spent)
        if error:
            self._disable(line, StopReason.ERROR, error)
        return wait

    def _end_or_ask_again(self, line: _Line, answer: Answer, effort: _Effort) -> None:
        """Decide whether an answer is the last one to its request."""
        own = line.judge.options.get("max_output_tokens") or 0
        if answer.status == "truncated" and 0 < effort.limit < own:
            effort.cut = True  # the limit was ours
        elif answer.status == "invalid" and effort.reasks < self.options.reasks:
            effort.reasks += 1
        else:
            effort.ended, effort.last = True, answer

    def _count(self, request: Request, line: _Line, trouble: Retry, effort: _Effort) -> None:
        """Count a call that came to nothing, for its request and for its judge.

        It is no attempt of its request where it says nothing of it: its judge was never reached,
        or nothing comes back from it, whatever it is asked.
        """
        breaker = line.breaker
        throttled = trouble.kind is RetryKind.THROTTLED
        if throttled or trouble.status != "failed":  # something came back
            breaker.record_answer()
            effort.troubles += _THROTTLED_COST if throttled else 1
        else:
            if effort.missed_after is None:
                effort.missed_after = breaker.answers
            suspect = breaker.answers > effort.missed_after
            breaker.record_failure(trouble, request.key, is_probe=effort.is_probe, suspect=suspect)
            effort.troubles += self._cost(line, trouble, effort, suspect=suspect)
        effort.ended = effort.troubles >= self.options.attempts
        now = self.clock.now()
        self._give_up(line, line.patience.missed(trouble, now, away=breaker.is_open))

    def _cost(self, line: _Line, trouble: Retry, effort: _Effort, *, suspect: bool) -> float:
        """Count as how many attempts of its request a call stands that nothing came of.

        A prompt that is `suspect`, as others were answered meanwhile, never holds up the run.
        """
        breaker = line.breaker
        unreached = trouble.kind is RetryKind.UNREACHED
        away = unreached or (breaker.is_open and not effort.is_probe)
        if away or line.patience.is_starting(trouble):
            return 0.0
        if suspect or trouble.kind is not RetryKind.UNAVAILABLE:
            return 1.0
        if line.patience.alone or (breaker.is_open and breaker.is_sure):
            return 0.0
        return _DOUBTFUL_COST if breaker.is_open else 1.0

    def _let_go(self, line: _Line, effort: _Effort, spent: float | None) -> None:
        """Give back what was reserved for a call, but for what it may have cost."""
        if effort.unsettled:
            line.tally.unsettled += effort.dollars
            self._exposure.lose(effort.dollars, line.judge.name if effort.uncounted else "")
        else:
            self._exposure.settle(effort.dollars)
        unknown = spent is None or effort.unsettled
        self.purse.give_back(effort.dollars, effort.dollars if unknown else spent or 0.0)

    def _refuse_excess(
        self, request: Request, line: _Line, answer: Answer, effort: _Effort, spent: float | None
    ) -> None:
        """Without knowing what a call can cost at most, no cap can be kept."""
        if self.purse.capped and spent is not None and spent > effort.dollars + NOTHING:
            tokens, limit = answer.usage.output_tokens, request.output_limit or 0
            what = f"an answer of {tokens:,} tokens (limit {limit:,})"
            self.disable_judge(line.judge.name, excess(what, spent, effort.dollars))

    async def _keep(
        self, request: Request, line: _Line, answer: Answer, effort: _Effort
    ) -> float | None:
        """Keep an answer, and learn from it; what it cost."""
        line.gate.learn(answer.rates)
        if answer.usage.input_tokens:
            line.gate.settle(effort.cost, line.provider.limit_tokens(answer.usage))
            kind, cut = model_name(request.response_model), answer.status == "truncated"
            line.estimates.learn(effort.size or size_of(request), answer.usage, kind, cut=cut)
            if effort.bound.tokens:
                line.estimates.learn_prompt(answer.usage.input_tokens, effort.bound)
        spent = await self.books.keep(
            *(request.key, line.judge, answer, line.tally),
            attempts=effort.calls,
            final=effort.ended,
            limit=request.output_limit or 0,
        )
        if effort.ended:
            reason = without_name(answer.reason, line.judge.name)
            line.tally.end(answer.status, reason, self.clock.date(), effort.wraps)
        if self.books.exhausted:
            self.stop(FULL)
        return spent

    def _hear(self, line: _Line) -> None:
        """A judge replied: so its server is there, and its account alive."""
        line.patience.replied()
        line.breaker.record_answer()
        line.gate.hear()

    def _disable(self, line: _Line, code: StopReason, message: str) -> None:
        """Ask a judge nothing more, for this reason."""
        self.disable_judge(line.judge.name, Disabled(code, message))

    def _give_up(self, line: _Line, reason: Disabled | None) -> None:
        """Ask a judge nothing more, if there is a reason for it."""
        if reason:
            self.disable_judge(line.judge.name, reason)

    def _run_dry(self, line: _Line) -> None:
        """Ask a judge nothing more, for the budget is used up. This is no fault, and no stop."""
        if self.purse.over:
            self.disable_judge(line.judge.name, over_budget(self.options.max_usd or 0.0))

    async def _back_off(
        self, request: Request, line: _Line, trouble: Retry, effort: _Effort
    ) -> float:
        """The seconds to wait; after a 429 everybody waits, in the gate."""
        jitter = random.Random(f"{request.key}:{effort.calls}").random()
        throttled = trouble.kind is RetryKind.THROTTLED
        most = _LONGEST_WAIT if throttled else max(_LONGEST_WAIT, line.patience.most)
        if trouble.delay is not None and trouble.delay > most:
            wait = f"{trouble.delay / 60:.0f} minutes"
            what = f"{trouble.detail}; the server asks to wait {wait}: go on later"
            self._disable(line, StopReason.THROTTLED if throttled else StopReason.SILENT, what)
            return 0.0
        if line.breaker.is_open and not throttled:
            line.tally.retry(
                f"{trouble.detail}; its calls wait until it answers", self.clock.date()
            )
            return 0.0  # the breaker holds it back
        line.tally.retry(trouble.detail, self.clock.date())
        if line.patience.is_starting(trouble):
            return min(_STARTING_BACKOFF, _FIRST_BACKOFF * 2.0 ** (effort.calls - 1))
        backoff = jitter * min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2 ** (effort.calls - 1))
        delay = trouble.delay * (1 + 0.1 * jitter) if trouble.delay else backoff
        if not throttled:
            return delay
        line.tally.throttled += 1
        lasting = await line.gate.pause(delay)
        self._give_up(line, line.patience.throttled(lasting, self.clock.now()))
        return 0.0

    async def tell(self) -> None:
        """Tell the till what is spent and held, and a later run what may still be billed."""
        await self._ease()
        await self.purse.tell()

    async def _ease(self) -> None:
        with contextlib.suppress(LedgerError):  # what stands there is more than enough
            await self._exposure.ease()

    async def aclose(self) -> None:
        """Close connections; the ledger is the caller's."""
        await self._ease()
        for provider in self._connections.values():
            await provider.aclose()


def _limited(request: Request, effort: _Effort) -> Request:
    """The request with the output limit that money was taken for."""
    if not effort.limit or effort.limit == request.output_limit:
        return request
    return replace(request, limit=effort.limit)
