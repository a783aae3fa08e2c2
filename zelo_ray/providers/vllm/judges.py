"""Models that vLLM runs inside the job, on GPUs of the machine or of the cluster.

Each judge has an engine of its own (`vllm.v1.engine.async_llm.AsyncLLM`), started at its first
request. Answers follow the verdict's JSON schema, and what prompts begin with in common is computed
once. Written for vLLM 0.12 and later, where guided decoding is called structured outputs.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, NoReturn

from zelo_ray.errors import PanelError, in_a_line
from zelo_ray.providers import Connection, Fatal, Provider, Refused, Retry, Settings
from zelo_ray.providers.outcome import sayable
from zelo_ray.providers.vllm.engines import Home, gpus_of
from zelo_ray.providers.vllm.prompts import in_tokens, takes_parts, tokenizer_of
from zelo_ray.records import Answer, Request, Usage, response_schema

_SEEDS = 1_000_003
"""From the seed of one ask to that of the next: more than there are repeats."""
_RESAMPLED = 0.5
"""The temperature of what is asked again: at 0 the same would come, by whatever seed."""


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


class VLLM:
    """The judges' engines, by the judge's name."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._homes: dict[str, Home] = {}
        self._in_parts: dict[str, bool] = {}

    async def send(self, request: Request) -> Answer:
        """Return the engine's answer; shut a dead engine down, and the next call starts another."""
        judge = request.judge
        if judge.name not in self._homes:
            self._homes[judge.name] = Home(judge, self._timeout)
        home = self._homes[judge.name]
        engine = await home.engine()
        try:
            prompt = {"prompt_token_ids": await self._tokens(engine, request)}
            answer = await home.answer(engine, prompt, _sampling(request))
        except Exception as error:  # noqa: BLE001 - none of vLLM's may leave this module
            if engine.errored:
                await home.bury(engine)
                raise Retry("the engine died") from None
            _raise_own(error, request)
        return _read(answer, judge.model)

    async def aclose(self) -> None:
        """Stop all engines."""
        for home in self._homes.values():
            await home.bury(None)

    async def _tokens(self, engine: Any, request: Request) -> list[int]:
        judge, tokenizer = request.judge, await tokenizer_of(engine)
        if judge.name not in self._in_parts:
            self._in_parts[judge.name] = takes_parts(tokenizer, judge)
        return in_tokens(engine, tokenizer, request, in_parts=self._in_parts[judge.name])


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
            # or all repeats would be one, and what cannot be read would come again
            seed=options["seed"] + request.repeat + _SEEDS * request.reask,
            max_tokens=request.output_limit,
            structured_outputs=StructuredOutputsParams(json=schema) if schema else None,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
    except Exception as error:  # noqa: BLE001 - whatever its checks raise; they know no prompt
        what = f"vLLM does not take its options: {in_a_line(error)}"
        raise Fatal(what, name=request.judge.name) from None


def _raise_own(error: Exception, request: Request) -> NoReturn:
    """Raise what an error of vLLM or of this module means; the engine is still running."""
    if isinstance(error, Retry | Refused | Fatal):
        raise error
    kind = type(error).__name__
    if {"ValueError", "VLLMClientError"} & {base.__name__ for base in type(error).__mro__}:
        message = sayable(str(error), (request.system, request.user), ())
        raise Refused(f"the engine does not take it: {kind}{message and ': '}{message}") from None
    raise Retry(f"the engine failed: {kind}") from None


def _read(out: Any, model: str) -> Answer:
    first = out.outputs[0]
    usage = Usage(
        input_tokens=len(out.prompt_token_ids or ()),
        output_tokens=len(first.token_ids),
        cached_tokens=out.num_cached_tokens or 0,
    )
    if first.finish_reason in ("stop", None):
        return Answer("ok", first.text, usage, model)
    reason = f"finish_reason: {first.finish_reason}"
    if first.finish_reason in ("length", "repetition"):  # the text went round in circles
        return Answer("truncated", first.text, usage, model, reason)
    raise Retry(reason, billed=usage)  # abort, error


PROVIDER = Provider(
    connect=_connect,
    judges_in=_named,
    free=True,
    options={
        "max_output_tokens": 2048,
        "temperature": 0.0,  # greedy: what the model's own generation_config says is not taken
        "seed": 0,
        "dtype": "auto",
        "quantization": None,
        "revision": None,
        # Guided JSON begins with the first token, so there is no room for thinking.
        "chat_template_kwargs": {"enable_thinking": False},
        "tensor_parallel_size": 1,  # GPUs of an engine, all on one node
        "max_model_len": None,  # None: as the model says
        "gpu_memory_utilization": None,  # None: as vLLM has it
    },
    transport={
        "max_output_tokens": None,
        "tensor_parallel_size": None,
        "max_model_len": None,
        "gpu_memory_utilization": None,
    },
    concurrency=256,  # vLLM itself decides how many run side by side
    gpus=gpus_of,
)
"""Judges on own GPUs, by the name or the path of a model."""
