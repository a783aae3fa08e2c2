"""Models that vLLM runs inside the job, on GPUs of the machine or of the cluster.

Each judge has an engine of its own (`vllm.v1.engine.async_llm.AsyncLLM`), started at its first
request. Answers follow the verdict's JSON schema, and common beginnings of prompts are computed
once. Written for vLLM 0.12 and later, where guided decoding is called structured outputs.
"""

import inspect
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NoReturn

from zelo_ray.errors import PanelError, format_error
from zelo_ray.providers import Connection, Fatal, Provider, Refused, Retry, Settings
from zelo_ray.providers.choices import NO_PROBABILITIES, NONE_HERE, TOP_TOKENS, letter_probabilities
from zelo_ray.providers.outcome import redact
from zelo_ray.providers.vllm.engines import EngineOwner, gpus_of
from zelo_ray.records import Answer, CallTiming, Judge, Request, Usage, response_schema

_PROBE = ("compare\ntwo documents", "which one\nanswers the question")
"""Texts with line breaks, which a template that prints a list of parts literally does not keep."""
_SEEDS = 1_000_003
"""The difference between the seeds of an attempt and the next: more than there are repeats."""
_RESAMPLED = 0.5
"""The temperature of a repeated attempt: at 0 the answer would be the same with any seed."""


class VLLM:
    """The judges' engines, by the judge's name."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._homes: dict[str, EngineOwner] = {}
        self._in_parts: dict[str, bool] = {}

    async def send(self, request: Request) -> Answer:
        """Return the engine's answer; shut a dead engine down, for the next call to restart."""
        judge = request.judge
        if judge.name not in self._homes:
            self._homes[judge.name] = EngineOwner(judge, self._timeout)
        home = self._homes[judge.name]
        engine = await home.engine()
        begun = time.perf_counter()
        try:
            prompt = {"prompt_token_ids": await self._tokens(engine, request)}
            answer = await home.answer(engine, prompt, _sampling(request))
        except Exception as error:  # noqa: BLE001 - none of vLLM's may leave this module
            if engine.errored:
                await home.shut_down(engine)
                raise Retry("the engine died") from None
            _raise_provider_error(error, request)
        timing = CallTiming(time.perf_counter() - begun)
        return replace(_read(answer, request), timing=timing)

    async def aclose(self) -> None:
        """Stop all engines."""
        for home in self._homes.values():
            await home.shut_down(None)

    async def _tokens(self, engine: Any, request: Request) -> list[int]:
        judge, tokenizer = request.judge, await tokenizer_of(engine)
        if judge.name not in self._in_parts:
            self._in_parts[judge.name] = needs_parts(tokenizer, judge)
        return tokenize_request(engine, tokenizer, request, in_parts=self._in_parts[judge.name])


def _connect(settings: Settings) -> Connection:
    if settings.base_url:
        raise PanelError("vllm judges run inside the job; a server is openai:MODEL@URL")
    if not find_spec("vllm"):
        raise PanelError("vllm judges need the extra, and GPUs: pip install 'zelo-ray[vllm]'")
    return VLLM(settings.timeout)


def _named(model: str) -> Mapping[str, Mapping[str, Any]]:
    if not model:
        raise PanelError("name a model: vllm:ORGANIZATION/MODEL, or vllm:/path/to/it")
    return {model: {}}


def _sampling(request: Request) -> Any:
    from vllm.sampling_params import (  # noqa: PLC0415 - see engines.py
        RequestOutputKind,
        SamplingParams,
        StructuredOutputsParams,
    )

    schema, options = response_schema(request.response_model), request.judge.options
    greedy = options["temperature"] == 0
    try:
        return SamplingParams(
            temperature=_RESAMPLED if greedy and request.reask else options["temperature"],
            # otherwise repeats would be the same, and an invalid answer would come again
            seed=options["seed"] + request.repeat + _SEEDS * request.reask,
            max_tokens=request.output_limit,
            logprobs=TOP_TOKENS if request.choices else None,
            structured_outputs=StructuredOutputsParams(json=schema) if schema else None,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
    except Exception as error:  # noqa: BLE001 - whatever its checks raise; they know no prompt
        what = f"vLLM does not accept its options: {format_error(error)}"
        raise Fatal(what, name=request.judge.name) from None


def _raise_provider_error(error: Exception, request: Request) -> NoReturn:
    """Raise the error of the provider for one of vLLM's; the engine is still running."""
    if isinstance(error, Retry | Refused | Fatal):
        raise error
    kind = type(error).__name__
    if {"ValueError", "VLLMClientError"} & {base.__name__ for base in type(error).__mro__}:
        message = redact(str(error), (request.system, request.user), ())
        reason = f"{kind}{message and ': '}{message}"
        raise Refused(f"the engine does not accept the prompt: {reason}") from None
    raise Retry(f"the engine failed: {kind}") from None


def _read(out: Any, request: Request) -> Answer:
    first, model = out.outputs[0], request.judge.model
    usage = Usage(
        input_tokens=len(out.prompt_token_ids or ()),
        output_tokens=len(first.token_ids),
        cached_tokens=out.num_cached_tokens or 0,
    )
    if request.choices and first.finish_reason in ("stop", "length", None):
        return _read_choice(first, request, usage)
    if first.finish_reason in ("stop", None):
        return Answer("ok", first.text, usage, model)
    reason = f"finish_reason: {first.finish_reason}"
    if first.finish_reason in ("length", "repetition"):  # the text repeated itself
        return Answer("truncated", first.text, usage, model, reason)
    raise Retry(reason, billed=usage)  # abort, error


def _read_choice(first: Any, request: Request, usage: Usage) -> Answer:
    """Read the probabilities of the letters from those of the first token."""
    model = request.judge.model
    if not first.logprobs:
        return Answer(
            *("invalid", first.text, usage, model, NONE_HERE), judge_fault=NO_PROBABILITIES
        )
    tokens = [(each.decoded_token or "", each.logprob) for each in first.logprobs[0].values()]
    return Answer("ok", letter_probabilities(tokens, request.choices), usage, model)


async def tokenizer_of(engine: Any) -> Any:
    """Return the tokenizer; some older versions must be awaited."""
    tokenizer = engine.get_tokenizer()
    return await tokenizer if inspect.isawaitable(tokenizer) else tokenizer


def tokenize_request(engine: Any, tokenizer: Any, request: Request, *, in_parts: bool) -> list[int]:
    """Return the request's prompts in tokens.

    Raises:
        Refused: they are too long for the model, or its template does not accept them.
    """
    try:
        texts = (request.system, request.user)
        tokens = _written(tokenizer, request.judge, texts, in_parts=in_parts)
    except Exception as error:  # noqa: BLE001 - whatever a template raises; it may hold the prompt
        what = f"its chat template does not accept the prompt: {type(error).__name__}"
        raise Refused(what) from None
    limit = engine.model_config.max_model_len
    if len(tokens) >= limit:
        raise Refused(f"a prompt of {len(tokens):,} tokens; max_model_len is {limit:,}")
    return tokens


def needs_parts(tokenizer: Any, judge: Judge) -> bool:
    """Return whether the model's template takes texts as lists of parts, as vision models do.

    Such templates drop plain texts, and others drop the system's text. The schema would still
    enforce a verdict on the rest, so both forms are tried with two texts that must appear in the
    prompt.

    Raises:
        Fatal: the template keeps both texts in neither form.
    """
    why = "leaves out the system's or the user's text"
    for in_parts in (False, True):
        try:
            prompt = tokenizer.decode(_written(tokenizer, judge, _PROBE, in_parts=in_parts))
        except Exception as error:  # noqa: BLE001 - whatever a template raises
            why = f"does not accept them: {type(error).__name__}"
        else:
            if all("".join(text.split()) in "".join(prompt.split()) for text in _PROBE):
                return in_parts
    what = f"its chat template, given a system's and a user's text, {why}"
    raise Fatal(f"{what}; use an instruction-tuned model that takes both", name=judge.name)


def _written(tokenizer: Any, judge: Judge, texts: tuple[str, str], *, in_parts: bool) -> list[int]:
    """Return a system and a user text in tokens, as the model's template writes them."""
    contents = [[{"type": "text", "text": text}] if in_parts else text for text in texts]
    tokens = tokenizer.apply_chat_template(
        [
            {"role": role, "content": content}
            for role, content in zip(("system", "user"), contents, strict=True)
        ],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
        **judge.options["chat_template_kwargs"],
    )
    return list(tokens)


PROVIDER = Provider(
    connect=_connect,
    judges_in=_named,
    free=True,
    options={
        "max_output_tokens": 2048,
        "temperature": 0.0,  # greedy; the model's own generation_config is ignored
        "seed": 0,
        "dtype": "auto",
        "quantization": None,
        "revision": None,
        # Guided JSON begins with the first token, so the model cannot think first.
        "chat_template_kwargs": {"enable_thinking": False},
        "tensor_parallel_size": 1,  # GPUs of an engine, all on one node
        "max_model_len": None,  # None: the model's own
        "gpu_memory_utilization": None,  # None: vLLM's default
    },
    transport={
        "max_output_tokens": None,
        "tensor_parallel_size": None,
        "max_model_len": None,
        "gpu_memory_utilization": None,
    },
    gives_probabilities=True,
    concurrency=256,  # vLLM itself decides how many run side by side
    gpus=gpus_of,
)
"""Judges on own GPUs, by the name or the path of a model."""
