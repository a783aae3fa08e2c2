"""Check a server that is given by URL: reachable, and has the model."""

import asyncio
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import aiohttp

from zelo_ray.commands.doctor.finding import Finding
from zelo_ray.names import did_you_mean
from zelo_ray.records import Judge

_SECONDS = 5.0  # for the whole exchange
_MOST = 2**16  # bytes that are read of an answer
_NAMED, _NAME = 5, 80  # models that are named, and characters of a name
_START = "start the server, or correct its URL; is the port open from here?"


def check_server(judge: Judge, key: str, variable: str) -> Iterator[Finding]:
    """Check whether a server given by URL is reachable, and has the model.

    Args:
        judge: with the URL.
        key: to send.
        variable: the variable that the key is from.
    """
    what = f"server of {judge.name}"
    url = f"{(judge.base_url or '').rstrip('/')}/models"
    try:
        with ThreadPoolExecutor(1) as thread:  # a notebook runs a loop of its own in this one
            status, body = thread.submit(asyncio.run, _fetch(url, key.strip())).result()
    except TimeoutError:
        yield Finding(what, "wrong", f"no complete answer within {_SECONDS:g} seconds", _START)
    except aiohttp.ClientPayloadError:
        yield Finding(what, "wrong", "its answer was cut off", "look at its log")
    except (aiohttp.ServerDisconnectedError, OSError) as error:
        number = getattr(error, "errno", None) or 0  # negative: the name has no address
        reason = os.strerror(number) if number > 0 else getattr(error, "strerror", "it hung up")
        yield Finding(what, "wrong", f"not reached: {reason}", _START)
    except aiohttp.ClientError as error:  # whose text may hold the key
        problem = f"no HTTP server answers there ({type(error).__name__})"
        do = "correct the URL; does another program listen on this port?"
        yield Finding(what, "wrong", problem, do)
    except ValueError:
        problem = "not asked: the key has a character that no header can carry (a line break?)"
        yield Finding(what, "wrong", problem, f"set {variable} to the key alone")
    else:
        yield _check_answer(judge, what, status, body)


async def _fetch(url: str, key: str) -> tuple[int, bytes]:
    """Return the status of an answer and its beginning; no key follows a redirection."""
    limit = aiohttp.ClientTimeout(total=_SECONDS)
    async with (
        aiohttp.ClientSession(timeout=limit, trust_env=True) as session,
        session.get(
            url, headers={"Authorization": f"Bearer {key}"}, allow_redirects=False
        ) as response,
    ):
        try:
            return response.status, await response.content.readexactly(_MOST)
        except asyncio.IncompleteReadError as whole:
            return response.status, whole.partial


def _check_answer(judge: Judge, what: str, status: int, body: bytes) -> Finding:
    if status in (401, 403):
        do = "name the variable with this server's key: api_key_env in a --config file"
        return Finding(what, "wrong", f"it requires a key, or another one ({status})", do)
    if len(body) >= _MOST:
        return Finding(what, "ok", f"reached ({status}); its list of models is too long to check")
    try:
        models = [str(model["id"]) for model in json.loads(body)["data"]]
    except (ValueError, TypeError, KeyError):
        return Finding(what, "ok", f"reached ({status}); it lists no models")
    if models and judge.model not in models:
        few = ", ".join(name[:_NAME] for name in models[:_NAMED])
        problem = f"reached, but has no model {judge.model!r}{did_you_mean(judge.model, models)}"
        more = " …" if len(models) > _NAMED else ""
        return Finding(what, "wrong", problem, f"name one that it has: {few}{more}")
    return Finding(what, "ok", "reached, and has the model")
