"""Loopback fakes of four clouds that resell models, as each documents what it takes and refuses.

They answer as the fake of OpenAI or of Anthropic does; what differs is the address, where the key
travels, names of models, errors, and what stands around an answer.
"""

import asyncio
import json
import threading
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tests.fakes import gemini, knowing, openai
from tests.fakes.parts import Asked, Said

KEY = "a-key-for-tests-only"
DEPLOYMENT = "judge-eu"
BEDROCK_MODEL = "openai.gpt-oss-120b-1:0"
ROUTED = "qwen/qwen3-32b"
COST = 0.00125
"""Dollars that OpenRouter says of each answer."""
_SAFE = {name: {"filtered": False, "severity": "safe"} for name in ("hate", "sexual", "violence")}
_FILTERED = (
    "The response was filtered due to the prompt triggering Azure OpenAI's content management "
    "policy. Please modify your prompt and retry."
)


class Clouds:
    """A context manager that serves all of them on one port of 127.0.0.1.

    Attributes:
        url: where.
        asked: of each request its path and query, its headers, and its decoded body.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, str], Any]] = []

    def __enter__(self) -> "Clouds":
        started = threading.Event()
        self._loop = asyncio.new_event_loop()

        async def serve() -> web.AppRunner:
            app = web.Application()
            post = app.router.add_post
            post("/openai/v1/chat/completions", self._azure)
            post("/bedrock/openai/v1/chat/completions", self._bedrock)
            post("/{version}/projects/p/locations/global/{rest:.*}:generateContent", self._gemini)
            post("/token", self._token)
            post("/api/v1/chat/completions", self._openrouter)
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = "http://{}:{}".format(*runner.addresses[0][:2])
            return runner

        def run() -> None:
            runner = self._loop.run_until_complete(serve())
            started.set()
            self._loop.run_forever()
            self._loop.run_until_complete(runner.cleanup())
            self._loop.close()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _read(self, request: web.Request) -> Any:
        body = await request.json()
        self.asked.append((request.path_qs, request.headers, body))
        return body

    async def _azure(self, request: web.Request) -> web.Response:
        body = await self._read(request)
        if KEY not in (request.headers.get("api-key"), _bearer(request)):
            return _azure_error(401, "401", "Access denied due to invalid subscription key.")
        return _azure_answer(body, body["model"])

    async def _bedrock(self, request: web.Request) -> web.Response:
        body = await self._read(request)
        if _bearer(request) != KEY:
            said = "The security token included in the request is invalid."
            return web.json_response({"message": said}, status=403)
        if body["model"] != BEDROCK_MODEL:
            error = {"code": "validation_error", "message": "The provided model doesn't exist."}
            return web.json_response({"error": error}, status=404)
        if "response_format" in body:
            error = {"code": "validation_error", "message": "response_format is not supported"}
            return web.json_response({"error": error}, status=400)
        completion = _completion(openai, body)
        message = completion["choices"][0]["message"]
        message["content"] = f"<reasoning>Two documents.</reasoning>{message['content']}"
        return web.json_response(completion)

    async def _token(self, request: web.Request) -> web.Response:
        """Give a service account its access token, for its signed assertion."""
        form = await request.post()
        self.asked.append((request.path_qs, request.headers, dict(form)))
        if str(form.get("assertion", "")).count(".") != 2:
            return web.json_response({"error": "invalid_grant"}, status=400)
        token = {"access_token": KEY, "expires_in": 3600, "token_type": "Bearer"}
        return web.json_response(token)

    async def _gemini(self, request: web.Request) -> web.Response:
        body = await self._read(request)
        if _bearer(request) != KEY or "x-goog-api-key" in request.headers:
            error = {"code": 401, "message": "Invalid credentials.", "status": "UNAUTHENTICATED"}
            return web.json_response({"error": error}, status=401)
        publisher, _, model = request.match_info["rest"].rpartition("/models/")
        if publisher != "publishers/google":
            error = {"code": 404, "message": "No such model.", "status": "NOT_FOUND"}
            return web.json_response({"error": error}, status=404)
        return web.json_response(_completion(gemini, body, model))

    async def _openrouter(self, request: web.Request) -> web.StreamResponse:
        """Keep the connection alive by white space, after which an error can have no status."""
        body = await self._read(request)
        text = json.dumps(body["messages"])
        if _bearer(request) != KEY:
            error: dict[str, Any] = {"code": 401, "message": "No auth credentials found"}
            return web.json_response({"error": error}, status=401)
        if "[[unpaid]]" in text:
            error = {"code": 402, "message": "Insufficient credits"}
            return web.json_response({"error": error}, status=402)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for _ in range(3):
            await response.write(b"\n         \n")
        answer = _completion(openai, body)
        answer["usage"] |= {"cost": COST, "cost_details": {"upstream_inference_cost": None}}
        answer |= {"provider": "Together", "id": "gen-1"}
        if "[[flagged]]" in text:
            metadata = {"reasons": ["violence"], "flagged_input": "…", "provider_name": "Together"}
            error = {"code": 403, "message": "Your input was flagged", "metadata": metadata}
            answer = {"error": error, "user_id": "u"}
        await response.write(json.dumps(answer).encode())
        return response


def _bearer(request: web.Request) -> str:
    return request.headers.get("Authorization", "").removeprefix("Bearer ")


def _completion(provider: Any, body: dict[str, Any], model: str = "") -> dict[str, Any]:
    """A true answer, in the form of a provider."""
    asked: Asked = provider.read({"endpoint": "answer", "model": model}, body)
    verdict = knowing.judge(asked.system, asked.user, asked.schema, asked.model)
    said = Said("1", "ok", json.dumps(verdict), 100, 20, 0, 0)
    completion: dict[str, Any] = provider.answer(asked, said)
    return completion


def _azure_error(http_status: int, code: str, message: str, **more: Any) -> web.Response:
    error = {"code": code, "message": message, **more}
    return web.json_response({"error": error}, status=http_status)


def _azure_answer(body: dict[str, Any], deployment: str) -> web.Response:
    if deployment != DEPLOYMENT:
        said = "The API deployment for this resource does not exist."
        return _azure_error(404, "DeploymentNotFound", said)
    text = json.dumps(body["messages"])
    if "[[violent]]" in text:
        violence = {"violence": {"filtered": True, "severity": "high"}}
        inner = {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": _SAFE | violence,
        }
        more = {"type": None, "param": "prompt", "status": 400, "innererror": inner}
        return _azure_error(400, "content_filter", _FILTERED, **more)
    completion = _completion(openai, body)
    prompt = {"prompt_index": 0, "content_filter_results": _SAFE}
    completion["prompt_filter_results"] = [prompt]
    choice = completion["choices"][0]
    choice["content_filter_results"] = _SAFE
    if "[[unchecked]]" in text:
        error = {"code": "content_filter_error", "message": "The contents are not filtered"}
        choice["content_filter_results"] = {"error": error}
    if "[[cut]]" in text:
        choice |= {"finish_reason": "content_filter", "message": {"role": "assistant"}}
    return web.json_response(completion)
