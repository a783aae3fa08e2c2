"""Check whether judges can be asked: name, key and price, and with ``--ask`` a call."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from zelo_ray.command_options import DoctorOptions
from zelo_ray.commands.doctor.finding import Finding, State
from zelo_ray.commands.doctor.server import check_server
from zelo_ray.engine.bookkeeping import check_answer, format_dollars
from zelo_ray.engine.sample_input import NoReplies
from zelo_ray.engine.tokens import Estimates, measure_request, prompt_characters
from zelo_ray.errors import PanelError
from zelo_ray.protocols import advance, zelo
from zelo_ray.protocols.options import ZeloOptions
from zelo_ray.protocols.server_figures import ServerFigures
from zelo_ray.providers import (
    Fatal,
    Refused,
    Retry,
    Settings,
    build_panel,
    connect,
    find_key,
    load_provider,
    refuse_unconnected,
    refuse_unknown_names,
)
from zelo_ray.providers.pricing import find_unpriced, highest_price, price
from zelo_ray.records import Document, Judge, Pool, Request

_SECONDS = 60.0
_POOL = Pool(
    "doctor",
    "how to remove a tick",
    (
        Document("a", "Remove a tick with tweezers. " * 500),  # long: a server may cut prompts
        Document("b", "The clock ticks. " * 900),
    ),
)


def build_checked_panel(
    options: DoctorOptions, environ: Mapping[str, str]
) -> tuple[list[Judge], list[Finding]]:
    """Return the judges, and findings on wrong names."""
    panel, wrong = list[Judge](), list[Finding]()
    for name in options.judges or ("",):
        names = [name] if name else []
        try:
            judge_names = {judge.name for judge in build_panel(names, {}, environ)}
            settings = {
                n: values for n, values in options.judge_options.items() if n in judge_names
            }
            panel += build_panel(names, settings, environ)
        except PanelError as error:
            state: State = "wrong" if name else "warn"
            do = "correct the name" if name else "set a key, or name judges: --judges offline"
            wrong.append(Finding(name or "judges", state, str(error), do))
    return panel, wrong or _check_options([judge.name for judge in panel], options)


def _check_options(names: Sequence[str], options: DoctorOptions) -> list[Finding]:
    """Return findings on options for judges that are not checked."""
    findings = list[Finding]()
    for option in ("judge_options", "prices", "api_key_env"):
        try:
            refuse_unknown_names("judge", names, {option: getattr(options, option)})
        except PanelError as error:
            do = "correct the name, or name this judge too: a run refuses options for others"
            findings.append(Finding(option, "warn", str(error), do))
    return findings


def check_judges(
    panel: Sequence[Judge], options: DoctorOptions, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Check key, price and server of each judge. Only servers given by URL are contacted."""
    for judge in panel:
        try:
            key = find_key(judge, options.api_key_env, environ)
            refuse_unconnected(judge, key)
        except PanelError as error:
            yield Finding(judge.name, "wrong", str(error), "do so, or leave this judge out")
            continue
        if find_unpriced([judge], options.prices):
            do = "give prices: in a --config file; --max-usd needs them"
            yield Finding(judge.name, "warn", "its price is unknown", do)
        else:
            yield Finding(
                judge.name, "ok", "its price is known, and its key is set if it needs one"
            )
        variable = options.api_key_env.get(judge.name, "")
        if variable:
            found = f"{variable} is set, from the environment"
            yield Finding(f"key of {judge.name}", "ok", found)
        if judge.base_url:
            yield from check_server(judge, key, variable)


def ask_each(
    panel: Sequence[Judge], options: DoctorOptions, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Make one call to each judge, as annotate does; all of them must have their keys."""
    for judge in panel:
        key = find_key(judge, options.api_key_env, environ)
        yield asyncio.run(_ask(judge, key, options))


def has_key(judge: Judge, options: DoctorOptions, environ: Mapping[str, str]) -> bool:
    """Return whether a judge has the key that it needs."""
    try:
        return bool(find_key(judge, options.api_key_env, environ))
    except PanelError:
        return False


def describe_highest_cost(panel: Sequence[Judge], options: DoctorOptions) -> str:
    """Say what one call to each judge costs at most."""
    dollars = 0.0
    for judge in panel:
        request = _request(judge)
        usage = Estimates(judge).upper_bound(measure_request(request), request.output_limit)
        dollars += highest_price(judge, usage, options.prices)
    unknown = " + ?" if find_unpriced(panel, options.prices) else ""
    most = f"{format_dollars(dollars)}{unknown}"
    return f"--ask makes one call to each judge, for at most {most} in total"


def _request(judge: Judge) -> Request:
    options = ZeloOptions.model_validate({"inputs": ["-"], "out": "-"})
    (request,) = advance(zelo.rounds(_POOL, [judge], options), NoReplies()).missing
    return request


async def _ask(judge: Judge, key: str, options: DoctorOptions) -> Finding:
    request, what = _request(judge), f"call to {judge.name}"
    variable = options.api_key_env.get(judge.name, "")
    began = time.monotonic()
    try:
        connection = connect(judge, Settings(key, judge.base_url, _SECONDS, variable))
        try:
            reply = await connection.send(request)
        finally:
            await connection.aclose()
    except (Retry, Refused, Fatal, PanelError) as failure:
        do = "try again in a minute" if isinstance(failure, Retry) else "fix what it reports"
        return Finding(what, "wrong", str(failure), do)
    took, used = time.monotonic() - began, reply.usage
    try:
        checked = check_answer(request.response_model, reply, request.user)
        answer, wrong = checked.answer, checked.error
    except Retry as trouble:  # an unknown finish reason
        answer, wrong = replace(reply, status="failed"), str(trouble)
    dollars = price(judge, used, options.prices)
    cost = "unknown dollars" if dollars is None else f"${dollars:.5f}"
    tokens = f"{used.input_tokens:,} tokens in, {used.output_tokens:,} out, {cost}"
    if not (used.has_tokens or load_provider(judge.provider).free):
        tokens = "it reports no tokens: under --max-usd each call counts at its limit"
    summary = f"{answer.status} in {took:.1f} s, {tokens}"
    figures = ServerFigures()
    figures.take(reply.model, used, prompt_characters(request))
    if answer.status == "ok" and figures.is_in_doubt:
        short = f"{summary}: so few tokens of a long prompt that the server seems to cut prompts"
        do = "give it a larger context (of Ollama: OLLAMA_CONTEXT_LENGTH, num_ctx)"
        return Finding(what, "wrong", short, do)
    if answer.status == "ok":
        return Finding(what, "ok", summary)
    why = wrong or answer.reason
    return Finding(what, "wrong", f"{summary}: {why}", "try other judge_options, or another model")
