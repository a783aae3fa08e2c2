"""Whether judges can be asked: name, key and price; the server of a URL; with ``--ask`` a call."""

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

from zelo_ray.commands.doctor.finding import Finding, State
from zelo_ray.engine.bookkeeping import checked, money
from zelo_ray.engine.tokens import Estimates, size_of
from zelo_ray.errors import PanelError
from zelo_ray.options import meant
from zelo_ray.options.doctor import DoctorOptions
from zelo_ray.protocols import zelo
from zelo_ray.providers import (
    Fatal,
    Refused,
    Retry,
    Settings,
    build_panel,
    connect,
    find_key,
    load_provider,
)
from zelo_ray.providers.pricing import dearest, price, unpriced
from zelo_ray.records import Document, Judge, Pool, Request

_SECONDS, _ASK_SECONDS = 5.0, 60.0
_SKEW = 60.0  # seconds that a clock may be off
_NAMED = 5
_POOL = Pool(
    "doctor",
    "how to remove a tick",
    (Document("a", "Remove a tick with tweezers."), Document("b", "The clock ticks.")),
)


def panel_of(
    options: DoctorOptions, environ: Mapping[str, str]
) -> tuple[list[Judge], list[Finding]]:
    """The judges that there are, and what is wrong with names."""
    panel, wrong = list[Judge](), list[Finding]()
    for name in options.judges or ("",):
        own = {n: each for n, each in options.judge_options.items() if n.startswith(name)}
        try:
            panel += build_panel([name] if name else [], own, environ)
        except PanelError as error:
            state: State = "wrong" if name else "warn"
            do = "mend the name" if name else "set a key, or name judges: --judges offline"
            wrong.append(Finding(name or "judges", state, str(error), do))
    return panel, wrong


def looked_at(
    panel: Sequence[Judge], options: DoctorOptions, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Key, price and server of each judge. Only servers named by their URL hear of it."""
    for judge in panel:
        try:
            key = find_key(judge, options.api_key_env, environ)
            if not load_provider(judge.provider).key_variables:
                connect(judge, Settings())
        except PanelError as error:
            yield Finding(judge.name, "wrong", str(error), "set the key, or leave this judge out")
            continue
        if unpriced([judge], options.prices):
            do = "give prices: in a --config file, or --max-usd cannot hold"
            yield Finding(judge.name, "warn", "its price is unknown", do)
        else:
            yield Finding(judge.name, "ok", "known, with a price, and a key where it needs one")
        if judge.base_url:
            yield from _reached(judge, key)


def ask_each(
    panel: Sequence[Judge], options: DoctorOptions, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """One call to each judge, all of which have their keys, as annotate makes it."""
    for judge in panel:
        key = find_key(judge, options.api_key_env, environ)
        yield asyncio.run(_asked(judge, key, options))


def has_key(judge: Judge, options: DoctorOptions, environ: Mapping[str, str]) -> bool:
    """Whether a judge has the key that it needs."""
    try:
        return bool(find_key(judge, options.api_key_env, environ))
    except PanelError:
        return False


def most_of(panel: Sequence[Judge], options: DoctorOptions) -> str:
    """What a call to each judge costs at most, as a line."""
    dollars = 0.0
    for judge in panel:
        request = _request(judge)
        most = Estimates(judge).most(size_of(request), request.output_limit)
        dollars += dearest(judge, most, options.prices)
    unknown = " + ?" if unpriced(panel, options.prices) else ""
    return f"--ask makes one call to each judge, for at most {money(dollars)}{unknown} together"


def _request(judge: Judge) -> Request:
    options = zelo.ZeloOptions.model_validate({"inputs": ["-"], "out": "-"})
    return zelo.ballot_of(_POOL, (_POOL.documents[0], _POOL.documents[1]), judge, options).request


async def _asked(judge: Judge, key: str, options: DoctorOptions) -> Finding:
    request, what = _request(judge), f"call to {judge.name}"
    began = time.monotonic()
    try:
        connection = connect(judge, Settings(key, judge.base_url, _ASK_SECONDS))
        try:
            said = await connection.send(request)
        finally:
            await connection.aclose()
    except (Retry, Refused, Fatal, PanelError) as error:
        lasting = not isinstance(error, Retry)
        do = "mend what it says" if lasting else "try again in a minute"
        return Finding(what, "wrong", str(error), do)
    took, used = time.monotonic() - began, said.usage
    answer, broken = checked(request.response_model, said)
    dollars = price(judge, used, options.prices)
    cost = "unknown dollars" if dollars is None else f"${dollars:.5f}"
    told = (
        f"{answer.status} in {took:.1f} s, {used.input_tokens:,} tokens in, "
        f"{used.output_tokens:,} out, {cost}"
    )
    if answer.status == "ok":
        return Finding(what, "ok", told)
    why = broken or answer.reason
    return Finding(what, "wrong", f"{told}: {why}", "try other judge_options, or another model")


class _Stay(urllib.request.HTTPRedirectHandler):
    """No key follows a redirection to somebody else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _reached(judge: Judge, key: str) -> Iterator[Finding]:
    """Whether a server named by its URL is there, and has the model."""
    url, what = f"{(judge.base_url or '').rstrip('/')}/models", f"server of {judge.name}"
    asking = urllib.request.Request(url, headers={"Authorization": f"Bearer {key.strip()}"})  # noqa: S310 - the scheme was checked with the judge
    try:
        opener = urllib.request.build_opener(_Stay)
        with opener.open(asking, timeout=_SECONDS) as response:
            status, headers, body = response.status, response.headers, response.read(2**20)
    except urllib.error.HTTPError as error:
        with error:
            status, headers, body = error.code, error.headers, b""
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        do = "start the server, or mend its URL; is the port open from here?"
        yield Finding(what, "wrong", f"not reached: {why}", do)
        return
    yield _said(judge, what, status, body)
    yield from _clock(headers.get("Date", ""))


def _said(judge: Judge, what: str, status: int, body: bytes) -> Finding:
    if status in (401, 403):
        do = "name the variable with this server's key: api_key_env in a --config file"
        return Finding(what, "wrong", f"it wants a key, or another one ({status})", do)
    try:
        models = [str(each["id"]) for each in json.loads(body)["data"]]
    except (ValueError, TypeError, KeyError):
        return Finding(what, "ok", f"reached ({status}); it lists no models")
    if models and judge.model not in models:
        few = ", ".join(models[:_NAMED]) + (" …" if len(models) > _NAMED else "")
        found = f"reached, but has no model {judge.model!r}{meant(judge.model, models)}"
        return Finding(what, "wrong", found, f"name one that it has: {few}")
    return Finding(what, "ok", "reached, and has the model")


def _clock(date: str) -> Iterator[Finding]:
    try:
        off = time.time() - parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError):
        return
    if abs(off) > _SKEW:
        do = "set the clock (NTP): certificates, batches and limits go by it"
        yield Finding("clock", "wrong", f"{off:+,.0f} s from the server's", do)
    else:
        yield Finding("clock", "ok", "within a minute of the server's")
