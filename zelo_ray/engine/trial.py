"""Find out from a judge's first requests whether it gives judgments at all."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from zelo_ray.engine.ledger import Ledger
from zelo_ray.providers import is_own_provider, load_provider
from zelo_ray.providers.registry import PROMPTLESS_PROVIDERS
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Answer, Judge, Status

FIRST = 20
"""First requests of a judge: where none of them gives a judgment, the others will not either."""
_HELP: dict[Status, dict[str, str]] = {
    "truncated": {
        "max_output_tokens": "raise max_output_tokens",
        "reasoning_effort": "lower reasoning_effort",
        "effort": "lower effort",
        "token_limit_field": "set token_limit_field to max_tokens for an older server",
    },
    "invalid": {
        "response_format": "set response_format to json_object, none or json_schema",
        "max_output_tokens": "raise max_output_tokens if it thinks for long",
    },
    "blank": {"response_format": "set response_format to json_object or none"},
}
"""What helps against answers that end so, by the option of a judge that has it."""
_ELSE: dict[Status, str] = {
    "refused": "the model declines such texts; choose another one",
    "filtered": "a filter stops such texts; choose another model",
    "failed": "its server takes no such request",
    "blank": "choose another model, or a server that does not fill answers with white space",
}


class FirstRequests:
    """Holds back all but a judge's first requests until one of these gives a judgment.

    Args:
        judge: who is asked.
        passed: whether nothing is to be held back from the start.
    """

    def __init__(self, judge: Judge, *, passed: bool) -> None:
        self._judge, self._room, self.passed = judge, asyncio.Event(), passed
        """whether nothing is held back"""
        self._asked, self._fruitless = 0, list[Answer]()

    async def begin(self) -> None:
        """Wait until one more request may be asked, which is to `end`."""
        while not self.passed and self._asked >= FIRST:
            self._room.clear()
            await self._room.wait()
        self._asked += 1

    def end(self, answer: Answer | None, *, in_doubt: bool = False) -> Disabled | None:
        """Take in how a request ended.

        Args:
            answer: the last one that the server gave to it; None where it gave none.
            in_doubt: whether it may not have read the whole prompt, so that more have to tell.

        Returns:
            The reason to ask the judge nothing more; None where there is none.
        """
        if self.passed:
            return None
        if answer is None or (answer.status == "ok" and in_doubt):
            self._asked -= 1
            self._room.set()
        elif answer.status == "ok":
            self.skip()
        else:
            self._fruitless.append(answer)
        return gives_no_judgment(self._judge, self._fruitless)

    def skip(self) -> None:
        """Skip the trial: hold nothing back any more."""
        self.passed = True
        self._room.set()


def has_judged(ledger: Ledger, keys: Sequence[str]) -> bool:
    """Return whether a judge has given a judgment before: then it needs no trial.

    Args:
        ledger: where replies are.
        keys: of its requests.
    """
    recorded = [key for key, hit in zip(keys, ledger.contains(keys), strict=True) if hit]
    return any(reply.status == "ok" for reply in ledger.read(recorded))


def gives_no_judgment(judge: Judge, answers: Sequence[Answer]) -> Disabled | None:
    """Return the reason to give up a judge none of whose first answers was a judgment; else None.

    Args:
        judge: who gave them.
        answers: to its first requests, of which no other answer was a judgment.
    """
    if len(answers) < FIRST:
        return None
    ((status, _),) = Counter(answer.status for answer in answers).most_common(1)
    reasons = Counter(answer.reason or status for answer in answers if answer.status == status)
    ((reason, times),) = reasons.most_common(1)
    options = load_provider(judge.provider).options
    help_ = [advice for option, advice in _HELP.get(status, {}).items() if option in options]
    what = f"in judge_options, {', or '.join(help_)}" if help_ else _ELSE.get(status, "")
    computes = judge.provider in {*PROMPTLESS_PROVIDERS, "custom"}
    computes |= is_own_provider(judge.provider)
    if status == "failed" and computes:  # no server is behind it, or only its own code knows one
        what = "correct what it complains of, and run the same command again"
    return Disabled(
        StopReason.NO_JUDGMENT,
        f"none of its first {len(answers)} requests gave a judgment; {times} times: "
        f"{reason}. Try this: {what}; or ask on all the same with keep_asking: true in the file of "
        "--config",
    )
