"""Start, stop and restart vLLM engines in the job's own processes."""

import asyncio
import contextlib
import os
import threading
import uuid
from collections.abc import Mapping
from typing import Any

from zelo_ray.errors import PanelError, format_error
from zelo_ray.providers import Fatal, Retry
from zelo_ray.records import Judge

_DEATHS = 3
"""The most engines in a row that may die without an answer."""
_WAITS = (10.0, 30.0, 60.0)
"""Seconds to wait after a failed start: a dead engine may occupy the GPU for a while."""
_SOON = 120.0
"""A start that fails within so many seconds is retried, as memory may be occupied; later it is
not."""
_SILENCE = 5
"""The longest silence of an engine, in timeouts: hundreds of prompts may arrive at once."""
_OF_ENGINE = ("max_model_len", "gpu_memory_utilization", "quantization", "revision")


def gpus_of(judge: Judge) -> int:
    """Return how many GPUs an engine takes, all on one node."""
    size = judge.options["tensor_parallel_size"]
    if type(size) is not int or size < 1:
        raise PanelError(f"{judge.name}: tensor_parallel_size must be 1 or more, not {size!r}")
    return size


class EngineOwner:
    """Owner of the engine of one judge, which restarts it when it dies.

    Args:
        judge: the judge.
        timeout: of a call, in seconds. As calls queue in the engine, it may be silent for several
            timeouts.
    """

    def __init__(self, judge: Judge, timeout: float) -> None:
        self._judge, self._patience = judge, _SILENCE * timeout
        self._engine: Any = None
        self._changing = asyncio.Lock()  # held while an engine starts, and until it is gone
        self._deaths, self._fatal_reason = 0, ""
        self._started, self._answered = False, False
        self._calls = set[asyncio.Timeout]()

    async def engine(self) -> Any:
        """Return the running engine, or start a new one.

        Raises:
            Fatal: no engine stays alive.
        """
        async with self._changing:
            if self._engine is None:
                if self._deaths >= _DEATHS:
                    self._fatal_reason = f"{self._deaths} engines died in a row without an answer"
                if self._fatal_reason:  # many calls may wait here, and none must try again
                    raise Fatal(self._fatal_reason, name=self._judge.name)
                try:
                    self._engine = await self._start()
                except Fatal as fatal:
                    self._fatal_reason = f"the engine cannot start: {fatal}"
                    raise Fatal(self._fatal_reason, name=self._judge.name) from None
                self._started, self._answered = True, False
            return self._engine

    async def shut_down(self, engine: Any) -> None:
        """Shut an engine down, unless another call has done so; None: the running one."""
        async with self._changing:
            if self._engine is None or engine not in (None, self._engine):
                return
            self._deaths = 0 if self._answered else self._deaths + 1
            gone, self._engine = self._engine, None
            with contextlib.suppress(Exception):  # it is dead
                await asyncio.to_thread(gone.shutdown)

    async def _start(self) -> Any:
        """Start an engine in a thread, which takes minutes, while all calls wait for it."""
        waits, now = iter(_WAITS), asyncio.get_running_loop().time
        while True:
            began, abandoned = now(), threading.Event()
            try:
                return await asyncio.to_thread(_start, self._judge, abandoned)
            except asyncio.CancelledError:
                abandoned.set()
                raise
            except Fatal:
                raise
            except Exception as error:  # noqa: BLE001 - drivers, memory, files: anything
                again = self._started or now() - began < _SOON
                wait = next(waits, None) if again else None
                if wait is None:
                    raise Fatal(f"{format_error(error)}; --verbose shows its log") from None
            await asyncio.sleep(wait)

    async def answer(self, engine: Any, prompt: Mapping[str, Any], sampling: Any) -> Any:
        """Return the engine's answer to a prompt; it counts as hung only if it answers no call.

        Raises:
            Retry: there was no answer.
        """
        answer, now = None, asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(self._patience) as limit:
                self._calls.add(limit)
                try:
                    async for out in engine.generate(prompt, sampling, uuid.uuid4().hex):
                        answer = out  # only one comes: FINAL_ONLY
                finally:
                    self._calls.discard(limit)
        except TimeoutError:
            raise Retry(f"no answer within {self._patience:g} s") from None
        for deadline in self._calls:  # those queue behind it in the engine
            if not deadline.expired():
                deadline.reschedule(now() + self._patience)
        if answer is None or not answer.finished:
            raise Retry("the engine gave no answer")
        self._answered = True
        return answer


def _start(judge: Judge, abandoned: threading.Event) -> Any:
    """Start an engine with all its processes on this node, on the GPUs assigned to this process.

    Raises:
        Fatal: it can never start: no GPU, no such model, or a wrong option.
    """
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")  # nothing leaves the machine unasked
    options = judge.options
    arguments = {name: options[name] for name in _OF_ENGINE if options[name] is not None}
    try:
        from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: PLC0415 - half a minute of import
        from vllm.v1.engine.async_llm import AsyncLLM  # noqa: PLC0415

        config = AsyncEngineArgs(
            model=judge.model,
            dtype=options["dtype"],
            seed=options["seed"],
            tensor_parallel_size=gpus_of(judge),
            distributed_executor_backend="mp" if gpus_of(judge) > 1 else "uni",  # never own actors
            enable_prefix_caching=True,
            generation_config="vllm",  # sampling is not inherited from the model's files
            **arguments,
        ).create_engine_config()
    except Exception as error:  # noqa: BLE001 - whatever its checks raise
        raise Fatal(format_error(error)) from None
    engine = AsyncLLM.from_vllm_config(config, disable_log_stats=True)
    if abandoned.is_set():
        engine.shutdown()
    return engine
