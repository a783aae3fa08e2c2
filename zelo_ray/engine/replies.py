"""Keep replies before use and say what they cost, for both ways of filling the ledger."""

import asyncio
import contextlib
import re
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.tally import Tally
from zelo_ray.options import AnnotateOptions, Price
from zelo_ray.providers import Retry
from zelo_ray.providers.pricing import price
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import (
    Answer,
    CallTiming,
    Judge,
    Reply,
    Usage,
    read_response_and_wraps,
    response_schema,
)
from zelo_ray.wrapping import unwrap_answer

CUT_OFF = ("truncated", "blank")
"""Statuses of answers that the output limit ended."""
_RETRIED = ("refused", "filtered", "truncated", "invalid")
_COUNTS = (
    *("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "thinking_tokens"),
    "searches",
)
_UNBILLED = ("failed", "refused", "filtered")  # unless they say what they used
_LINGER = 0.005  # seconds in which replies gather, to be synced together
_QUOTED = "talk around an object that the prompt holds, or may hold: it may be quoted"
_BLANKS = re.compile(r"(?:\s|\\[nrt]){50}\\?\Z")  # as they are, or as in a string of JSON
_ALL_BLANKS = "white space up to the limit in place of the rest of the answer"


class LedgerWriter:
    """Writer that turns answers into rows of the ledger, paid by a run, at the user's own prices.

    Replies that come in while the ledger writes go in together next.
    """

    def __init__(
        self, ledger: Ledger, run_id: str, prices: Mapping[str, Price], clock: Clock = CLOCK
    ) -> None:
        self._ledger, self._run_id, self._prices, self._clock = ledger, run_id, prices, clock
        self._waiting: list[tuple[Reply, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        # Its own thread, so that no reply waits behind a plan.
        self._executor = ThreadPoolExecutor(1)
        self.storage_full = ledger.storage_full
        """whether storage was so full at the last look that no further call may be made"""

    async def keep(
        self,
        request_key: str,
        judge: Judge,
        answer: Answer,
        tally: Tally,
        *,
        attempts: int,
        final: bool,
        batch: str = "",
        limit: int = 0,
        characters: int = 0,
    ) -> float | None:
        """Write the reply durably; return its price in US dollars, None if it is unknown."""
        usage, dollars = answer.usage, self._price(judge, answer, in_batch=bool(batch))
        timing = answer.timing or CallTiming(0.0)
        received = datetime.fromtimestamp(self._clock.date(), UTC)
        counts: dict[str, Any] = {name: getattr(usage, name) for name in _COUNTS}
        reply = Reply(
            *(request_key, judge.name, answer.status, answer.text, answer.reason, answer.model),
            **counts,
            dollars=dollars,
            attempts=attempts,
            received_at=received.isoformat(timespec="milliseconds"),
            run_id=self._run_id,
            final=final,
            batch=batch,
            limit=limit,
            parsed=answer.parsed,
            seconds=round(timing.seconds, 6),
            load_seconds=round(timing.load_seconds, 6),
            device=timing.device,
            in_flight=timing.in_flight,
            prompt_characters=characters,
        )
        receipt = asyncio.get_running_loop().create_future()
        self._waiting.append((reply, receipt))
        self._writing = self._writing or asyncio.create_task(self._write())
        await receipt
        tally.input_tokens += usage.input_tokens
        tally.cached_tokens += usage.cached_tokens
        tally.output_tokens += usage.output_tokens
        tally.dollars += dollars or 0.0
        tally.unpriced += dollars is None
        tally.uncounted += dollars is None and not usage.has_tokens
        return dollars

    def close(self) -> None:
        """End the thread that writes, once it has written: then the ledger may be closed."""
        self._executor.shutdown()

    def _price(self, judge: Judge, answer: Answer, *, in_batch: bool) -> float | None:
        """Return the price of an answer in US dollars; None if it depends on unreported tokens."""
        usage = answer.usage
        if usage == Usage() and answer.status in _UNBILLED:
            return 0.0
        dollars = price(judge, usage, self._prices, batch=in_batch)
        if usage.has_tokens:
            return dollars
        some = replace(usage, input_tokens=1000, output_tokens=1000)
        return dollars if price(judge, some, self._prices, batch=in_batch) == dollars else None

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            await self._clock.sleep(_LINGER)
            group, self._waiting = self._waiting, []
            failure: Exception | None = None
            try:
                replies = [reply for reply, _ in group]
                await loop.run_in_executor(self._executor, self._ledger.append, replies)
                self.storage_full = self._ledger.storage_full
            except Exception as error:  # noqa: BLE001 - each of those that wait must learn of it
                failure = error
            for receipt in (receipt for _, receipt in group if not receipt.done()):
                if failure:
                    receipt.set_exception(failure)
                else:
                    receipt.set_result(None)
        self._writing = None


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """An answer that was read, and why that raised: it is kept for a reader that is mended."""

    answer: Answer
    error: str = ""


def check_answer(
    verdict: type[BaseModel] | None,
    answer: Answer,
    shown: str | None,
    *,
    limit_is_ours: bool = False,
) -> CheckedAnswer:
    """Read an answer, which is invalid if it does not read as the verdict asked for.

    So is talk about an object that stands in ``shown``, the prompt: it is quoted, and not given;
    where the prompt is not at hand any more (None), talk about any. One that does not read and
    ended by a word that nobody knows may be no answer, so `Retry` is raised.
    """
    if verdict is not None and answer.status == "truncated" and response_schema(verdict):
        answer = _without_blanks(verdict, answer, limit_is_ours=limit_is_ours)
    if answer.status != "ok" or verdict is None:
        return CheckedAnswer(answer)
    try:
        outcome, wraps = read_response_and_wraps(verdict, answer.text)
    except Exception as error:  # noqa: BLE001 - a user's own reader, and the text may hold a prompt
        return CheckedAnswer(answer, f"unexpected {name_error(error)}")
    if isinstance(outcome, str) and answer.has_unknown_ending:
        raise Retry(f"{answer.reason}; {outcome}", billed=answer.usage)
    if isinstance(outcome, str):
        return CheckedAnswer(replace(answer, status="invalid", reason=outcome))
    if "talk" in wraps and _is_quoted(answer.text, shown):
        return CheckedAnswer(replace(answer, status="invalid", reason=_QUOTED))
    reasons = [f"read without its {', '.join(wraps)}" if wraps else "", answer.reason]
    return CheckedAnswer(replace(answer, reason="; ".join(filter(None, reasons)), parsed=True))


def _without_blanks(verdict: type[BaseModel], answer: Answer, *, limit_is_ours: bool) -> Answer:
    """Return an answer that a server filled with white space up to the limit.

    It is ``ok`` if the object was whole before, else ``blank``, or truncated at a limit of ours.
    """
    text = answer.text.rstrip()
    if text == answer.text and not _BLANKS.search(text):
        return answer
    with contextlib.suppress(Exception):  # a user's own reader may raise anything
        outcome, wraps = read_response_and_wraps(verdict, text)
        if not (isinstance(outcome, str) or "talk" in wraps):
            return replace(answer, status="ok", text=text)
    if limit_is_ours or not _BLANKS.search(answer.text):
        return answer
    reason = f"{answer.reason}; {_ALL_BLANKS}".removeprefix("; ")
    return replace(answer, status="blank", text=text, reason=reason)


def _is_quoted(text: str, shown: str | None) -> bool:
    """Return whether the object in a text occurs in the prompt shown, ignoring white space."""
    inner = unwrap_answer(text)
    if shown is None or inner is None:
        return shown is None
    return "".join(inner.text.split()) in "".join(shown.split())


def budget_used_up(cap: float) -> Disabled:
    """Return the reason to ask nothing more once a budget of so many US dollars is used up."""
    return Disabled(StopReason.BUDGET, f"the budget of {format_dollars(cap)} is used up")


def overcharged(what: str, spent: float, reserved: float) -> Disabled:
    """Return the reason to ask a judge nothing more that charges more than was reserved."""
    return Disabled(
        StopReason.EXCESS,
        f"{what} cost {format_dollars(spent)}, but the request allowed at most "
        f"{format_dollars(reserved)}; --max-usd cannot be kept with a server that exceeds the "
        "output limit or the service tier",
    )


def cuts_prompts(tokens: int) -> Disabled:
    """Return the reason to ask a judge nothing more whose server cuts prompts to so many tokens."""
    return Disabled(
        StopReason.CUT_PROMPTS,
        f"its server counts {tokens:,} tokens where prompts are longer, so it seems to cut them; "
        "give it a larger context (of Ollama: OLLAMA_CONTEXT_LENGTH, num_ctx), or show less of "
        "documents (--document-tokens), and judge anew with another --out, as its answers so far "
        "stay; or ask on all the same with keep_asking: true in the file of --config",
    )


def format_dollars(dollars: float) -> str:
    """Format an amount of US dollars, small ones to a hundredth of a cent."""
    return f"${dollars:,.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:,.4f}"


def describe_possibly_billed(dollars: float) -> str:
    """Describe what calls may have cost whose answer never came, or reported no tokens."""
    what = "for calls that were interrupted or whose answer reported no tokens"
    return f"up to {format_dollars(dollars)} more may have been billed {what}"


def describe_uncounted(tallies: Mapping[str, Tally]) -> list[str]:
    """Return a sentence for each judge whose calls have an unknown cost."""
    silent = [name for name, tally in tallies.items() if tally.uncounted]
    return [
        f"{name} reports no tokens: what its calls cost is not known, and under a cap each counts "
        "at its limit"
        for name in silent
    ]


def open_ledger(options: AnnotateOptions, panel: Sequence[Judge], run_id: str = "") -> Ledger:
    """Open the ledger as these judges use it: without the replies that are to be asked again."""
    limits = {judge.name: judge.options.get("max_output_tokens") or 0 for judge in panel}
    return Ledger(options.ledger_dir, run_id, statuses_to_retry(options), limits)


def statuses_to_retry(options: AnnotateOptions) -> tuple[str, ...]:
    """Return the statuses of replies of earlier runs that are asked for again."""
    return ("failed", *(_RETRIED if options.retry_failures else ()))


def unexpected(error: BaseException) -> Disabled:
    """Return the reason to ask a judge nothing more after an error that nobody foresaw."""
    return Disabled(StopReason.ERROR, f"unexpected {name_error(error)}")


def name_error(error: BaseException) -> str:
    """Return an error's type and place, without its text, which may hold a key or a prompt."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {where.filename.rpartition('/')[2]}, line {where.lineno}"
