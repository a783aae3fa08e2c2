"""OpenAI's client, and the form of its requests and responses, single or in a batch."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from zelo_ray.providers import Settings
from zelo_ray.providers.choices import (
    NO_PROBABILITIES,
    NONE_HERE,
    REASONED,
    TOP_TOKENS,
    letter_probabilities,
)
from zelo_ray.providers.endings import classify_ending
from zelo_ray.providers.faults import Fault, fault_in, read_fault
from zelo_ray.providers.no_response import CONNECT_SECONDS
from zelo_ray.providers.outcome import Reading, merge_fields
from zelo_ray.records import Answer, Request, Status, Usage, nested_object, response_schema

if TYPE_CHECKING:
    import openai

KEY_VARIABLES = ("OPENAI_API_KEY",)
BASE_URL = "https://api.openai.com/v1"
URL_VARIABLE = "OPENAI_BASE_URL"
_REASON_LENGTH = 200
_NO_ANSWER = (
    "thoughts and no content: raise max_output_tokens, turn thinking off, or mend the server's "
    "reasoning parser"
)
_TOOL_CALL = (
    "a tool call and no content: leave tools out of extra_body, or turn off the server's automatic "
    "tool choice"
)
FIELDS: Mapping[str, str] = {
    "max_completion_tokens": "set token_limit_field: max_tokens in judge_options",
    "max_tokens": "set token_limit_field: max_completion_tokens in judge_options, or a smaller "
    "max_output_tokens",
    "response_format": "set response_format: json_object, or none, in judge_options",
    "temperature": "leave temperature out of judge_options",
    "reasoning_effort": "leave reasoning_effort out of judge_options",
    "logprobs": f"{REASONED}, or set reasoning_effort: none in judge_options if the model takes it",
    "top_logprobs": f"set top_logprobs to fewer in extra_body, or {REASONED}",
    "prompt_cache_key": "name the server as openai:MODEL@URL, and it is not sent",
}
"""Fields that a server may not accept, each with advice."""


def build_body(request: Request, *, cached: bool) -> dict[str, Any]:
    """Build the request's body for Chat Completions, alone or as a line of a batch.

    Args:
        request: the request.
        cached: whether the server is OpenAI's own, with its prompt cache: others may refuse a field
            that they do not know.
    """
    options = request.judge.options
    fields: dict[str, Any] = {
        "model": request.judge.model,
        "messages": [
            {"role": "system", "content": request.system},
            {"role": "user", "content": request.user},
        ],
        options["token_limit_field"]: request.output_limit,
    }
    schema = response_schema(request.response_model)
    if schema and options["response_format"] == "json_schema":
        json_schema = {"name": request.response_model.__name__, "strict": True, "schema": schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": json_schema}
    elif schema and options["response_format"] == "json_object":
        fields["response_format"] = {"type": "json_object"}
    for name in ("temperature", "reasoning_effort"):
        if options[name] is not None:
            fields[name] = options[name]
    if request.choices:
        fields |= {"logprobs": True, "top_logprobs": TOP_TOKENS}
    if (
        cached and request.prefix_ends
    ):  # routes prompts with the same beginning to the machine that has it cached
        begin = f"{request.judge.model}\0{request.user[: request.prefix_ends[-1]]}"
        fields["prompt_cache_key"] = sha256(begin.encode(errors="replace")).hexdigest()[:32]
    return merge_fields(fields, options["extra_body"])


def read_answer(completion: Any) -> Answer | Fault:
    """Read the answer in a completion's JSON; raise an error if it has another form."""
    choice, usage = completion["choices"][0], read_usage(completion)
    finish = choice.get("finish_reason") or choice.get("native_finish_reason") or "stop"
    ending, why = classify_ending(finish), f"finish_reason: {finish}"[:_REASON_LENGTH]
    if fault := fault_in({"error": choice.get("error")}):
        return fault
    if ending == "failed":
        return Fault(0, why)
    message, model = choice["message"], completion.get("model") or ""
    text = _text(message.get("content"))
    if refusal := message.get("refusal"):
        return Answer("refused", text, usage, model, f"refusal: {refusal[:_REASON_LENGTH]}")
    status: Status = ending or "ok"
    reasons = [] if ending == "ok" else [why]
    if not text.strip() and (lack := _explain_no_text(message)):
        status = "invalid" if ending == "ok" else status
        reasons.append(lack)
    reason = "; ".join(reasons)
    return Answer(status, text, usage, model, reason, has_unknown_ending=ending is None)


def read_choice(completion: Any, choices: tuple[str, ...]) -> Answer | Fault:
    """Read the probabilities of an answer's letters; raise an error if it has another form.

    An answer that breaks off after its one token is complete. One without log-probabilities shows
    that the server gives none, whatever it is asked, unless it has given some before.
    """
    answer = read_answer(completion)
    if isinstance(answer, Fault) or answer.status in ("refused", "filtered"):
        return answer
    tokens = (completion["choices"][0].get("logprobs") or {}).get("content")
    if not tokens or not tokens[0].get("top_logprobs"):
        return replace(answer, status="invalid", reason=NONE_HERE, judge_fault=NO_PROBABILITIES)
    text = letter_probabilities(_log_probabilities(tokens[0]["top_logprobs"]), choices)
    return replace(answer, status="ok", text=text, reason="", has_unknown_ending=False)


def _log_probabilities(rows: Any) -> Iterator[tuple[str, float]]:
    for row in rows:
        yield str(row["token"]), float(row["logprob"])


def _explain_no_text(message: Mapping[str, Any]) -> str:
    """Return what a message without content has instead; empty for nothing."""
    if message.get("tool_calls") or message.get("function_call"):
        return _TOOL_CALL
    return _NO_ANSWER if message.get("reasoning_content") or message.get("reasoning") else ""


def _text(content: Any) -> str:
    """Return a message's text, from a string or from parts; leave thoughts out."""
    if isinstance(content, list):
        content = "".join(part.get("text") for part in content if part.get("type") == "text")
    if not isinstance(content or "", str):
        raise TypeError("content must be text")
    return content or ""


def read_usage(completion: Any) -> Usage:
    """Read the usage in a completion's JSON, zero if it gives none."""
    counts = nested_object(completion, "usage")
    input_details = nested_object(counts, "prompt_tokens_details")
    output_details = nested_object(counts, "completion_tokens_details")
    return Usage(
        input_tokens=counts.get("prompt_tokens") or 0,
        output_tokens=counts.get("completion_tokens") or 0,
        cached_tokens=input_details.get("cached_tokens") or 0,
        cache_write_tokens=input_details.get("cache_write_tokens") or 0,
        thinking_tokens=output_details.get("reasoning_tokens") or 0,
        tier=str(nested_object(completion).get("service_tier") or ""),
        reported_dollars=_dollars(counts.get("cost")),
    )


def _dollars(cost: Any) -> float | None:
    """Return the cost of a call as OpenRouter reports it; None for anything else."""
    is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
    return float(cost) if is_number and 0 <= cost < math.inf else None


READING = Reading(read_answer, read_usage)


def reading_of(request: Request) -> Reading:
    """Return how the answer to a request is read."""
    if not request.choices:
        return READING
    return Reading(partial(read_choice, choices=request.choices), read_usage)


def open_client(settings: Settings, timeout: float) -> "openai.AsyncOpenAI":
    """Open the SDK's client, without its retries. ``timeout``: seconds without any byte."""
    import httpx2  # noqa: PLC0415 - paid where it is used
    import openai  # noqa: PLC0415 - a second of import, paid where it is used

    import_httpx()
    return openai.AsyncOpenAI(
        api_key=settings.key or "none",  # never empty: the SDK would look for another
        base_url=settings.base_url,
        timeout=httpx2.Timeout(timeout, connect=CONNECT_SECONDS),
        max_retries=0,
        http_client=openai.DefaultAioHttpClient(follow_redirects=False),
    )


def import_httpx() -> None:
    """Import httpx whole, if it is installed, since the SDK looks into it.

    The SDK takes one that another thread is just importing, as other SDKs do, for a whole one.
    """
    if find_spec("httpx"):
        import_module("httpx")


def find_fault(error: Exception) -> Fault | None:
    """Turn the SDK's exception about a response's status into a `Fault`; None for others."""
    import openai  # noqa: PLC0415 - paid where it is used

    if isinstance(error, openai.APIStatusError):
        return read_fault(error.body, error.status_code, error.response.headers)
    return None
