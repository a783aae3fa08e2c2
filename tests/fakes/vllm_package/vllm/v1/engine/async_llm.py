"""A fake engine that reads documents' worth, has a prefix cache, and goes by a plan.

``FAKE_VLLM`` is a folder. ``plan.json`` there is a list: how the first engine behaves, the second,
and so on, the rest well. ``log.jsonl`` is what engines did. As on a GPU, no engine of a model
starts while another of this process is not shut down. A plan's keys:

* ``no_start``; ``starts_in``, ``ends_in``: seconds that a start and a shutdown take;
* ``dies_at``, ``kills_at``: the request at which the engine dies, or its process by kill -9;
* ``hangs``: it answers nobody; ``one_by_one``: seconds for each answer, one after another;
* ``template``: "parts" prints texts in lists of parts only, "repr" prints any list as it stands,
  "user" leaves the system's text out, "none" takes nothing;
* ``awaited``: the tokenizer has to be waited for, as in older versions;
* ``invalid``: answers are no JSON; ``finish``: the finish reason;
* ``says``: what generate raises, by name; ``words``: its message, or "prompt" for the prompt.
"""

import asyncio
import json
import math
import os
import signal
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

from tests.fakes import knowing
from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

_BLOCK = 16
_RAISED = {e.__name__: e for e in (ValueError, VLLMValidationError, EngineGenerateError)}
_HOLDING = set()
"""The models whose engines hold their GPUs."""


def _alike(a, b):
    """How many tokens two prompts begin with in common."""
    return next(
        (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


class _Tokenizer:
    """A token is a byte of JSON, which is of plain texts only."""

    def __init__(self, template):
        self._template = template

    def apply_chat_template(
        self, messages, *, add_generation_prompt, tokenize, return_dict, **kwargs
    ):
        assert add_generation_prompt
        assert tokenize
        assert not return_dict
        if self._template == "none":
            raise LookupError("no template")
        shown = [{**each, "content": self._shown(**each)} for each in messages]
        return list(json.dumps([*shown, kwargs]).encode())

    def decode(self, tokens):
        *messages, _ = json.loads(bytes(tokens))
        return "\n".join(f"<{each['role']}> {each['content']}" for each in messages)

    def _shown(self, role, content):
        if self._template == "user" and role == "system":
            return ""
        if self._template == "parts" or (self._template == "repr" and role == "user"):
            return "".join(part["text"] for part in content if isinstance(part, dict))
        return str(content)


def _logprobs(letters, most):
    """How likely each first token is, by token id: as vLLM has it, a list with one entry."""
    rows = [(letter, math.log(chance)) for letter, chance in letters.items() if chance > 0]
    tokens = [SimpleNamespace(decoded_token=letter, logprob=log) for letter, log in rows]
    return [dict(enumerate(tokens[:most]))] if most else None


class AsyncLLM:
    def __init__(self, args):
        self._folder = Path(os.environ["FAKE_VLLM"])
        plans = json.loads((self._folder / "plan.json").read_text())
        number = self._number_of_start()
        self._plan = plans[number] if number < len(plans) else {}
        self._log(
            start=asdict(args),
            pid=os.getpid(),
            gpus=os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            untold=os.environ.get("VLLM_NO_USAGE_STATS"),
        )
        time.sleep(self._plan.get("starts_in", 0))
        if self._plan.get("no_start") or args.model in _HOLDING:
            raise RuntimeError("no memory")
        _HOLDING.add(args.model)
        self.model_config = SimpleNamespace(max_model_len=args.max_model_len or 100_000)
        self._args, self._calls, self._dead, self._seen = args, 0, asyncio.Event(), []
        self._turn, self._tokenizer = asyncio.Lock(), _Tokenizer(self._plan.get("template"))

    def _number_of_start(self):
        """How many engines started before, also where two of them start at once."""
        number = 0
        while True:
            try:
                (self._folder / f"start-{number}").touch(exist_ok=False)
            except FileExistsError:
                number += 1
            else:
                return number

    @classmethod
    def from_vllm_config(cls, vllm_config, *, disable_log_stats):
        assert disable_log_stats
        return cls(vllm_config)

    @property
    def errored(self):
        return self._dead.is_set()

    def get_tokenizer(self):
        return asyncio.sleep(0, self._tokenizer) if self._plan.get("awaited") else self._tokenizer

    def shutdown(self, timeout=None):
        time.sleep(self._plan.get("ends_in", 0))
        _HOLDING.discard(self._args.model)
        self._log(shutdown=True)

    async def generate(self, prompt, sampling_params, request_id):
        if self.errored:
            raise EngineDeadError
        self._calls += 1
        if self._calls == self._plan.get("kills_at"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._calls == self._plan.get("dies_at"):
            self._dead.set()
        tokens = prompt["prompt_token_ids"]
        if kind := self._plan.get("says"):
            words = self._plan.get("words", "")
            raise _RAISED[kind](bytes(tokens).decode() if words == "prompt" else words)
        cached = self._cached(tokens)
        try:
            await self._work()
        except asyncio.CancelledError:
            self._log(aborted=request_id)
            raise
        if self.errored:  # all that was in flight
            raise EngineDeadError
        assert sampling_params.output_kind is RequestOutputKind.FINAL_ONLY
        shaped = sampling_params.structured_outputs
        schema = shaped.json if shaped else {}
        system, user, kwargs = json.loads(bytes(tokens))
        said = knowing.judge(system["content"], user["content"], schema, self._args.model)
        letters = said if isinstance(said, dict) and not schema else {}
        said = max(letters, key=letters.get) if letters else said
        text = "no verdict" if self._plan.get("invalid") else json.dumps(said)
        short = text.encode()[: sampling_params.max_tokens]
        self._log(
            asked=user["content"],
            model=self._args.model,
            schema=schema,
            temperature=sampling_params.temperature,
            seed=sampling_params.seed,
            kwargs=kwargs,
        )
        first = SimpleNamespace(
            text=short.decode(),
            token_ids=list(short),
            logprobs=_logprobs(letters, sampling_params.logprobs) if letters else None,
            finish_reason=self._plan.get(
                "finish", "length" if len(short) < len(text.encode()) else "stop"
            ),
        )
        yield SimpleNamespace(
            prompt_token_ids=tokens, num_cached_tokens=cached, outputs=[first], finished=True
        )

    async def _work(self):
        if self._plan.get("hangs"):
            await asyncio.Event().wait()
        if seconds := self._plan.get("one_by_one"):
            async with self._turn:
                await asyncio.sleep(seconds)
        await asyncio.sleep(0.02)

    def _cached(self, tokens):
        """Tokens of whole blocks that an earlier prompt begins with as well."""
        best = max((_alike(tokens, each) for each in self._seen), default=0)
        self._seen.append(tokens)
        return best // _BLOCK * _BLOCK if self._args.enable_prefix_caching else 0

    def _log(self, **row):
        with (self._folder / "log.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
