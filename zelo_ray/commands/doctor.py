"""Check what a run needs before it starts: versions, keys, judges, their prices and servers."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

import aiohttp

from zelo_ray.command_options import DoctorOptions
from zelo_ray.engine.estimate import NoReplies
from zelo_ray.engine.job import Watch
from zelo_ray.engine.replies import check_answer, format_dollars
from zelo_ray.engine.tokens import Estimates, measure_request, prompt_characters
from zelo_ray.errors import ExitStatus, PanelError
from zelo_ray.files.tables import table_of
from zelo_ray.files.wording import counted
from zelo_ray.names import did_you_mean
from zelo_ray.protocols import advance, zelo
from zelo_ray.protocols.options import ZeloOptions
from zelo_ray.protocols.server_figures import ServerFigures
from zelo_ray.providers import (
    PROVIDERS,
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
from zelo_ray.providers.addresses import foreign_address
from zelo_ray.providers.dotenv import DotenvFile
from zelo_ray.providers.outcome import redact
from zelo_ray.providers.pricing import find_unpriced, highest_price, price
from zelo_ray.records import Document, Judge, Pool, Request
from zelo_ray.report.command_lines import command_of
from zelo_ray.report.model import Report, Section, name_some, table
from zelo_ray.report.results import Results

State = Literal["ok", "warn", "wrong", "-"]
_PACKAGES = ("zelo-ray", "ray", "openai", "anthropic", "google-genai", "genai-prices")
_CALL_SECONDS, _SERVER_SECONDS = 60.0, 5.0
_MOST = 2**16  # bytes that are read of a server's list of models
_FREE = ("--judges", "offline")
_START = "start the server, or correct its URL; is the port open from here?"
_POOL = Pool(
    "doctor",
    "how to remove a tick",
    (
        Document("a", "Remove a tick with tweezers. " * 500),  # long: a server may cut prompts
        Document("b", "The clock ticks. " * 900),
    ),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of a check, and what to do about it; state ``-`` is not set up and not needed."""

    check: str
    state: State
    finding: str
    advice: str = ""


def run(options: DoctorOptions, watch: Watch) -> Results:
    """Check what a run would need; no call is made unless ``options.ask``."""
    findings = [*_check(options, dict(os.environ), watch.say)]
    states = {finding.state for finding in findings}
    judges = ["--judges", *options.judges] if options.judges else []
    step = ["annotate", "POOLS", *(judges or _FREE), "--out", "judged", "--dry-run"]
    if "wrong" in states or (judges and not options.ask):
        step = ["doctor", *judges, *(["--ask"] if options.ask or "wrong" not in states else [])]
    elif not judges and all(finding.check != "judges" for finding in findings):
        step = [word for word in step if word not in _FREE]  # there is a key for a default panel
    return Results(
        {"kind": "doctor"},
        {"findings": table_of(findings, Finding)},
        build=build_report,
        status=ExitStatus.FAILED if "wrong" in states else ExitStatus.COMPLETE,
        next_command=command_of(*step),
    )


def build_report(results: Results) -> Report:
    """Build the table of findings, the worst first."""
    findings = results.rows("findings")
    order = ("wrong", "warn", "ok", "-")
    wrong, warned = (sum(row["state"] == state for row in findings) for state in order[:2])
    title = f"{counted(len(findings), 'check')}: {wrong} wrong, {warned} to look at"
    columns: dict[str, str | Callable[[Mapping[str, str]], str]] = {
        "state": "state",
        "check": "check",
        "finding": lambda row: "; ".join(filter(None, [row["finding"], row["advice"]])),
    }
    rows = sorted(findings, key=lambda row: order.index(row["state"]))
    return Report(
        title, sections=[Section("findings", "Findings", [table(rows, columns, open_rows=99)])]
    )


def _check(
    options: DoctorOptions, environ: dict[str, str], say: Callable[[str], None]
) -> Iterator[Finding]:
    """Run all checks."""
    yield _check_packages()
    yield from _check_keys(options, environ)
    panel, wrong = list[Judge](), list[Finding]()
    for name in options.judges or ("",):
        names = [name] if name else []
        try:
            on_panel = {judge.name for judge in build_panel(names, {}, environ)}
            settings = {n: own for n, own in options.judge_options.items() if n in on_panel}
            panel += build_panel(names, settings, environ)
        except PanelError as error:
            state: State = "wrong" if name else "warn"
            do = "correct the name" if name else "set a key, or name judges: --judges offline"
            wrong.append(Finding(name or "judges", state, str(error), do))
    yield from wrong
    for option in () if wrong else ("judge_options", "prices", "api_key_env"):
        try:
            by_judge = {option: getattr(options, option)}
            refuse_unknown_names("judge", [judge.name for judge in panel], by_judge)
        except PanelError as error:
            yield Finding(option, "warn", str(error), "correct the name, or name this judge, too")
    ready = dict[str, tuple[Judge, str]]()
    for judge in panel:
        try:
            key = find_key(judge, options.api_key_env, environ)
            refuse_unconnected(judge, key)
        except PanelError as error:
            yield Finding(judge.name, "wrong", str(error), "do so, or leave this judge out")
            continue
        ready[judge.name] = judge, key
        if find_unpriced([judge], options.prices):
            do = "give prices: in a --config file; --max-usd needs them"
            yield Finding(judge.name, "warn", "its price is unknown", do)
        else:
            yield Finding(judge.name, "ok", "its price is known, and its key if it needs one")
        if judge.base_url:
            yield _check_server(judge, key, options.api_key_env.get(judge.name, ""))
    if options.ask and ready:
        most = sum(_highest_cost(judge, options) for judge, _ in ready.values())
        unknown = " + ?" if find_unpriced([j for j, _ in ready.values()], options.prices) else ""
        say(f"--ask makes one call to each judge, for at most {format_dollars(most)}{unknown}")
        for judge, key in ready.values():
            yield asyncio.run(ask_judge(judge, key, options))


def _check_packages() -> Finding:
    """Check Python and the packages; none is imported."""
    try:
        versions = [f"{name} {version(name)}" for name in _PACKAGES]
    except PackageNotFoundError as error:
        return Finding("packages", "wrong", f"{error.name} is missing", f"pip install {error.name}")
    python = ".".join(map(str, sys.version_info[:3]))
    return Finding("packages", "ok", ", ".join([f"python {python}", *versions]))


def _check_keys(options: DoctorOptions, environ: dict[str, str]) -> Iterator[Finding]:
    """Say which providers have a key, and take those of ``.env``; none is shown."""
    dotenv = DotenvFile(environ)
    for line in dotenv.take(options):
        yield Finding(".env", "warn", line, "remove it from .env, or set it in the shell")
    for name, provider in ((name, load_provider(name)) for name in PROVIDERS):
        variable = next((each for each in provider.key_variables if environ.get(each)), "")
        if variable:
            key = environ[variable]
            source = dotenv.path if dotenv.has_value(variable, key) else "the environment"
            if url := foreign_address(Judge(name, ""), provider, key, environ):
                source += f", and goes to {url}"
            yield Finding(f"key of {name}", "ok", f"{variable} is set, from {source}")
        elif provider.key_variables:
            do = f"set {' or '.join(provider.key_variables)} to use this provider"
            yield Finding(f"key of {name}", "-", "not set", do)


def _check_server(judge: Judge, key: str, variable: str) -> Finding:
    """Check whether a server given by URL is reached with the key of a variable, and its models."""
    what = f"server of {judge.name}"
    url = f"{(judge.base_url or '').rstrip('/')}/models"
    try:
        with ThreadPoolExecutor(1) as thread:  # a notebook runs a loop of its own in this one
            status, body = thread.submit(asyncio.run, _fetch(url, key.strip())).result()
    except TimeoutError:
        late = f"no complete answer within {_SERVER_SECONDS:g} seconds"
        return Finding(what, "wrong", late, _START)
    except (aiohttp.ClientError, OSError) as error:  # whose text may hold the key
        number = getattr(error, "errno", None) or 0  # negative: the name has no address
        why = os.strerror(number) if number > 0 else type(error).__name__
        return Finding(what, "wrong", f"not reached, or broken off: {why}", _START)
    except ValueError:
        problem = "not asked: the key has a character that no header can carry (a line break?)"
        return Finding(what, "wrong", problem, f"set {variable} to the key alone")
    if status in (401, 403):
        do = "name the variable with this server's key: api_key_env in a --config file"
        return Finding(what, "wrong", f"it requires a key, or another one ({status})", do)
    try:
        models = [redact(str(model["id"]), (), [key]) for model in json.loads(body)["data"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        models = []  # none, or too many
    if models and judge.model not in models:
        problem = f"reached, but has no model {judge.model!r}{did_you_mean(judge.model, models)}"
        return Finding(what, "wrong", problem, f"name one that it has: {name_some(models, 5)}")
    has = "has the model" if models else "its models cannot be read"
    return Finding(what, "ok", f"reached ({status}); {has}")


async def _fetch(url: str, key: str) -> tuple[int, bytes]:
    """Return the status of an answer and its beginning; no key follows a redirection."""
    limit = aiohttp.ClientTimeout(total=_SERVER_SECONDS)
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        aiohttp.ClientSession(timeout=limit, trust_env=True) as session,
        session.get(url, headers=headers, allow_redirects=False) as response,
    ):
        try:
            return response.status, await response.content.readexactly(_MOST)
        except asyncio.IncompleteReadError as whole:
            return response.status, whole.partial


def _request(judge: Judge) -> Request:
    options = ZeloOptions.model_validate({"inputs": ["-"], "out": "-"})
    (request,) = advance(zelo.rounds(_POOL, [judge], options), NoReplies()).missing
    return request


def _highest_cost(judge: Judge, options: DoctorOptions) -> float:
    request = _request(judge)
    usage = Estimates(judge).upper_bound(measure_request(request), request.output_limit)
    return highest_price(judge, usage, options.prices)


async def ask_judge(judge: Judge, key: str, options: DoctorOptions) -> Finding:
    """Make one call as annotate does, and check its answer and what it reports of tokens."""
    request, what = _request(judge), f"call to {judge.name}"
    variable = options.api_key_env.get(judge.name, "")
    began = time.monotonic()
    try:
        connection = connect(judge, Settings(key, judge.base_url, _CALL_SECONDS, variable))
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
        status, wrong = checked.answer.status, checked.error or checked.answer.reason
    except Retry as error:  # an unknown finish reason
        status, wrong = "failed", str(error)
    dollars = price(judge, used, options.prices)
    cost = "unknown dollars" if dollars is None else f"${dollars:.5f}"
    tokens = f"{used.input_tokens:,} tokens in, {used.output_tokens:,} out, {cost}"
    if not (used.has_tokens or load_provider(judge.provider).free):
        tokens = "it reports no tokens: under --max-usd each call counts at its limit"
    summary = f"{status} in {took:.1f} s, {tokens}"
    figures = ServerFigures()
    figures.take(reply.model, used, prompt_characters(request))
    if status != "ok":
        do = "try other judge_options, or another model"
        return Finding(what, "wrong", f"{summary}: {wrong}", do)
    if figures.is_in_doubt:
        short = f"{summary}: so few tokens of a long prompt that the server seems to cut prompts"
        do = "give it a larger context (of Ollama: OLLAMA_CONTEXT_LENGTH, num_ctx)"
        return Finding(what, "wrong", short, do)
    return Finding(what, "ok", summary)
