"""Decide whether a judge may be called now, and when it is to be given up.

A circuit breaker (M. Nygard, *Release It!*, 2nd edition, 2018, chapter 5): when call after call
comes to nothing, new ones wait, and one at a time goes as a probe, at growing intervals, until
something comes back. So an outage costs few calls, and no request its attempts. A server that is
named by its URL begins so: its first call is a probe. A trial goes before all: until one of a
judge's first requests gives a judgment, no more are asked than tell that none will.

Time is passed in, in seconds of any clock.
"""

import math
from collections import Counter
from collections.abc import Sequence

from zelo_ray.engine.ledger import Ledger
from zelo_ray.providers import Retry, RetryKind
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Answer, Judge, Status

FIRST = 20
"""First requests of a judge: where none of them gives a judgment, the others will not either."""
_UNREACHED = 3  # calls in a row that made no connection: no prompt is at fault there
_REQUESTS = 5  # different ones in a row without an answer; a few prompts may be at fault themselves
_FEWEST = 3  # calls of a request that got a 502 or 503; requests whose prompts are not at fault
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0  # seconds before a probe
_LONG_DELAY = 120.0  # seconds: a server that asks for more is away, whatever it is asked
_FIRST_SECONDS = 180.0
"""For a judge that was never heard of: its server, its URL or its key may be wrong, and a person
who has just started a run is there to mend them."""
_UNREACHED_SECONDS = 15.0  # in which no connection to a provider can be made
_SHARE = 0.1  # of an attempt: of a 429, and of a probe where few requests wait

_CHECK = "check the network, the server and its URL, then run the same command again"
_FORM = (
    "in judge_options, raise max_output_tokens (or lower what sets its reasoning), or set "
    "response_format to json_object, none or json_schema, where it has that"
)
_ADVICE: dict[Status, str] = {
    **dict.fromkeys(("truncated", "invalid"), _FORM),
    "blank": "in judge_options, set response_format to json_object or none; or take another model",
    **dict.fromkeys(("refused", "filtered"), "such texts are declined; choose another model"),
    "failed": "it takes no such request; correct what it complains of, and run again",
}


class JudgeHealth:
    """Health of one judge, from which nothing may come back for so many seconds.

    ``reached``: it was asked before, in the same run. ``on_trial``: it has to show first that it
    gives judgments.
    """

    def __init__(
        self,
        judge: Judge,
        silence_limit: float,
        *,
        reached: bool = False,
        on_trial: bool = True,
    ) -> None:
        self._is_own, self._silence_limit = bool(judge.base_url), silence_limit
        self.on_trial = on_trial
        self.given_up: Disabled | None = None
        self.is_open = self._is_own and not reached
        """whether calls are held back, but for one at a time"""
        self._reached = self._replied = reached
        self._trying, self._fruitless = set[str](), list[Answer]()
        self._waiting = dict[str, None]()  # requests that wait for a probe, in their order
        self._probe, self._probe_at, self._wait = "", -math.inf, _FIRST_WAIT
        self._answers, self._failing = 0, Counter[str]()  # the latter since the last answer
        self._answers_before = dict[str, int]()  # before the first failed call of a request
        self._unreached = 0  # calls since the last answer
        self._silent_since = self._unreached_since = self._throttled_since = math.inf

    def seconds_to_wait(self, key: str, now: float) -> float:
        """Return 0 if a request may go now, else in how many seconds it is to ask again.

        Those that wait ask again after each change, too.
        """
        if self.given_up:
            return 0.0
        if self.on_trial and key not in self._trying:
            if len(self._trying) >= FIRST:
                return _LONGEST_WAIT
            self._trying.add(key)
        if not self.is_open:
            return 0.0
        self._waiting.setdefault(key)
        if self._probe or key != next(iter(self._waiting)):
            return _LONGEST_WAIT
        if now < self._probe_at:
            return self._probe_at - now
        del self._waiting[key]
        self._probe = key
        return 0.0

    def may_go(self, key: str) -> bool:
        """Return whether a request that had its turn may still go, perhaps as a probe."""
        return not self.is_open or key == self._probe

    def record_call(self, now: float) -> None:
        """Note a call: silence counts from the first one since the judge replied."""
        self._silent_since = min(self._silent_since, now)

    def record_answer(self) -> None:
        """Let all calls go: the judge replied, be it with a refusal."""
        self._replied, self._silent_since, self._throttled_since = True, math.inf, math.inf
        self._close()

    def record_failure(self, trouble: Retry, key: str, now: float) -> float:
        """Count a failed call, and hold calls back after too many in a row.

        Returns:
            How much of an attempt of its request it is. It is none where it was not billed and says
            nothing of the request: nothing comes back from the judge, whatever it is asked.
        """
        throttled = trouble.kind is RetryKind.THROTTLED
        longest = _LONG_DELAY if throttled else max(_LONG_DELAY, self._longest_silence)
        if trouble.delay and trouble.delay > longest:
            wait = f"{trouble.delay / 60:.0f} minutes"
            self._give_up(
                StopReason.THROTTLED if throttled else StopReason.SILENT,
                f"{trouble.detail}; the server asks us to wait {wait}; run again later",
            )
        if throttled or trouble.status != "failed":  # something came back
            self._close()
            return _SHARE if throttled else 1.0
        is_suspect = self._answers > self._answers_before.setdefault(key, self._answers)
        self._failing[key] += 1
        is_probe = key == self._probe
        self._hold_back(trouble, key, now, is_probe=is_probe)
        self._judge_silence(trouble, now)
        if trouble.billed is not None:
            return 1.0
        if trouble.kind is RetryKind.UNREACHED or (self.is_open and not is_probe):
            return 0.0
        if is_suspect or not self.is_open:  # a bad prompt is not to hold up the run
            return 1.0
        innocent = [k for k in self._failing if self._answers_before.get(k) == self._answers]
        return 0.0 if len(innocent) >= _FEWEST else _SHARE

    def record_throttling(self, lasting: float, now: float) -> None:
        """Note a 429, where the account has answered nothing else to anybody for so long."""
        self._throttled_since = min(self._throttled_since, now)
        if (alike := min(lasting, now - self._throttled_since)) > self._longest_silence:
            self._give_up(
                StopReason.THROTTLED,
                f"nothing but 429 (rate limit) for {_in_words(alike)}; check the account's limits "
                "and who else uses it; raise patience, or run the same command later: nothing is "
                "lost",
            )

    def end_request(self, key: str, answer: Answer | None, *, in_doubt: bool = False) -> None:
        """Take in how a request ended, with the server's last answer to it, if it gave any.

        In doubt whether it has read the whole prompt, more requests have to tell.
        """
        self._answers_before.pop(key, None)
        self._waiting.pop(key, None)
        self._probe = "" if key == self._probe else self._probe
        if not self.on_trial:
            return
        if answer is None or (answer.status == "ok" and in_doubt):
            self._trying.discard(key)
        elif answer.status == "ok":
            self.on_trial = False
        else:
            self._fruitless.append(answer)
            self.given_up = self.given_up or gives_no_judgment(self._fruitless)

    @property
    def _longest_silence(self) -> float:
        return self._silence_limit if self._replied else min(self._silence_limit, _FIRST_SECONDS)

    def _give_up(self, code: StopReason, message: str) -> None:
        self.given_up = self.given_up or Disabled(code, message)

    def _close(self) -> None:
        self._reached, self.is_open, self._probe = True, False, ""
        self._answers += 1
        self._failing.clear()
        self._waiting.clear()
        self._unreached, self._wait = 0, _FIRST_WAIT

    def _hold_back(self, trouble: Retry, key: str, now: float, *, is_probe: bool) -> None:
        """Hold calls back if too many failed, and set the moment of the next probe."""
        was_open, delay = self.is_open, trouble.delay or 0.0
        self._unreached += trouble.kind is RetryKind.UNREACHED
        is_away = trouble.kind is RetryKind.UNAVAILABLE and self._failing[key] >= _FEWEST
        is_away |= self._unreached >= _UNREACHED or len(self._failing) >= _REQUESTS
        self.is_open |= is_away or delay > _LONG_DELAY
        self._probe = "" if is_probe else self._probe
        if self.is_open and (is_probe or not was_open):
            self._probe_at = now + self._wait
            self._wait = min(2 * self._wait, _LONGEST_WAIT)
        self._probe_at = max(self._probe_at, now + delay)

    def _judge_silence(self, trouble: Retry, now: float) -> None:
        """Give the judge up that was never reached, or from which nothing came back for long."""
        self._reached |= trouble.kind is not RetryKind.UNREACHED
        if not self._reached:
            self._unreached_since = min(self._unreached_since, now)
            seconds = now - self._unreached_since
            enough = (
                self._unreached >= _UNREACHED if self._is_own else seconds >= _UNREACHED_SECONDS
            )
            if enough:
                often = f"{self._unreached} times in {_in_words(seconds)}"
                self._give_up(StopReason.UNREACHED, f"{trouble.detail}, {often}; {_CHECK}")
        silence = now - self._silent_since
        if self.is_open and silence > self._longest_silence:
            message = f"{trouble.detail}; nothing else for {_in_words(silence)}; {_CHECK}"
            self._give_up(StopReason.SILENT, message)


def has_judged(ledger: Ledger, keys: Sequence[str]) -> bool:
    """Return whether the ledger has a judgment among the replies to these requests."""
    recorded = [key for key, hit in zip(keys, ledger.contains(keys), strict=True) if hit]
    return any(reply.status == "ok" for reply in ledger.read(recorded))


def gives_no_judgment(answers: Sequence[Answer]) -> Disabled | None:
    """Return the reason to give up a judge if all its first answers are these, and no judgment."""
    if len(answers) < FIRST:
        return None
    ((status, _),) = Counter(answer.status for answer in answers).most_common(1)
    reasons = Counter(answer.reason or status for answer in answers if answer.status == status)
    ((reason, times),) = reasons.most_common(1)
    return Disabled(
        StopReason.NO_JUDGMENT,
        f"none of its first {len(answers)} requests gave a judgment; {times} times: {reason}. Try "
        f"this: {_ADVICE.get(status, '')}; or ask on all the same with keep_asking: true in the "
        "file of --config",
    )


def _in_words(seconds: float) -> str:
    if seconds >= 7200:
        return f"{seconds / 3600:.0f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"
