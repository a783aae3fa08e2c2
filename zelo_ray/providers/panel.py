"""Build a panel of judges by their names, with options that were checked, and find their keys."""

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from zelo_ray.errors import PanelError, format_error
from zelo_ray.names import did_you_mean
from zelo_ray.options import AnnotateOptions, JudgingOptions
from zelo_ray.providers.addresses import find_url_error, lacks_scheme
from zelo_ray.providers.extra_body import (
    TIERS,
    find_costly_field,
    refuse_reserved,
    sets_temperature,
)
from zelo_ray.providers.pricing import find_unpriced
from zelo_ray.providers.provider import Connection, Fatal, Provider, Settings
from zelo_ray.providers.registry import (
    ENCODERS,
    PROMPTLESS_PROVIDERS,
    PROVIDERS,
    is_own_provider,
    is_reranker,
    load_provider,
    parse_judge,
)
from zelo_ray.records import Judge, first_error

_MOST_TOKENS = 10_000_000
_Words = Annotated[str, Field(min_length=1)]


class _OptionValues(BaseModel):
    """The values of all options of judges behind a dialect; each PROVIDER lists its own."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    max_output_tokens: Annotated[int, Field(ge=1, le=_MOST_TOKENS)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    reasoning_effort: _Words | None = None
    effort: _Words | None = None
    thinking_level: _Words | None = None
    response_format: Literal["json_schema", "json_object", "none"] = "none"
    token_limit_field: Annotated[str, Field(pattern=r"^(max|num|n)_[a-z_]+$")] = "max_tokens"  # noqa: S105 - of output
    extra_body: dict[str, JsonValue] = {}


def build_panel(
    names: Sequence[str],
    options: Mapping[str, Mapping[str, Any]],
    environ: Mapping[str, str] = os.environ,
) -> tuple[Judge, ...]:
    """Build the judges of a panel by name, each with all its options.

    Without names: the default model of every provider whose key is set.
    """
    judges = [parse_judge(name) for name in names] or _judges_with_keys(environ)
    if not judges:
        raise PanelError(
            "no judge: name a panel, set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY "
            "(or GOOGLE_API_KEY), or try it without any key: --judges offline"
        )
    panel: dict[str, Judge] = {}
    for judge in judges:
        if is_reranker(judge.provider) and judge.provider not in ENCODERS:
            raise PanelError(f"{judge.name} is a reranker, which judges nothing; see bakeoff")
        provider = load_provider(judge.provider)
        models = [judge.model] if judge.model else provider.models
        if provider.judges_in:
            models = tuple(provider.judges_in(judge.model))
        if not models:
            raise PanelError(f"{judge.provider}: name a model: {judge.provider}:MODEL")
        for member in (replace(judge, model=model) for model in models):
            if member.name in panel:
                raise PanelError(f"judge {member.name} is named twice")
            own = with_options(member, options.get(member.name, {}))
            if provider.fingerprint and own.options["version"] is None:
                version = provider.fingerprint(own)  # of a local model
                own = replace(own, options={**own.options, "version": version})
            panel[member.name] = own
    refuse_unknown_names("judge", list(panel), {"judge_options": options})
    return tuple(panel.values())


def _judges_with_keys(environ: Mapping[str, str]) -> list[Judge]:
    providers = {name: load_provider(name) for name in PROVIDERS}
    return [
        Judge(name, provider.models[0])
        for name, provider in providers.items()
        if provider.models and any(environ.get(name) for name in provider.key_variables)
    ]


def with_options(judge: Judge, own: Mapping[str, Any]) -> Judge:
    """Return the judge with all its options: its own, then its provider's defaults."""
    provider = load_provider(judge.provider)
    _refuse_wrong_url(judge, provider)
    if provider.closed and judge.model not in provider.models:
        there = ", ".join(provider.models)
        raise PanelError(f"unknown judge {judge.name}; there are {there}")
    if unknown := set(own) - set(provider.options):
        what = f"unknown option {min(unknown)!r}{did_you_mean(min(unknown), provider.options)}"
        allowed = ", ".join(sorted(provider.options)) or "none"
        raise PanelError(f"{judge.name}: {what}; known: {allowed}")
    recorded = provider.judges_in(judge.model) if provider.judges_in else {judge.model: {}}
    if judge.model not in recorded:
        names = ", ".join(f"{judge.provider}:{name}" for name in recorded)
        raise PanelError(f"{judge.name} stands for {len(recorded)} judges; name one: {names}")
    options = {**provider.options, **own, **recorded[judge.model]}
    transport = dict(provider.transport)
    for name in (name for name, usual in provider.options.items() if isinstance(usual, Mapping)):
        options[name] = {} if options[name] is None else options[name]
        if not isinstance(options[name], Mapping):
            raise PanelError(f"{judge.name}: {name} takes fields with values, such as {{top_p: 1}}")
    try:
        if judge.provider in PROVIDERS and judge.provider not in PROMPTLESS_PROVIDERS:
            _OptionValues.model_validate(options)
    except ValidationError as error:
        raise PanelError(f"{judge.name}: judge_options: {first_error(error)}") from None
    if body := options.get("extra_body"):
        if not is_reranker(judge.provider):
            refuse_reserved(judge.name, body)
        fields = {name: value for name, value in body.items() if name not in TIERS}
        transport |= {"extra_body": fields} if fields != body else {}
    return replace(judge, options=options, transport=transport)


def _refuse_wrong_url(judge: Judge, provider: Provider) -> None:
    url, name = urlsplit(judge.base_url or "http://none"), f"{judge.provider}:{judge.model}"
    no_scheme = provider.key_variables and not judge.base_url and lacks_scheme(judge.model)
    wrong = find_url_error(judge.base_url or "")
    if url.username or url.password:
        wrong = "no key in a URL; use api_key_env"
    elif url.scheme not in ("http", "https") or not url.hostname or no_scheme:
        wrong = "write provider:model@http://host:port/path"
    elif judge.base_url and judge.provider in PROVIDERS and not provider.key_variables:
        place = f"its address is in {provider.url_variable}" if provider.url_variable else ""
        wrong = f"takes no URL; {place or 'a server is openai:MODEL@URL'}"
    if wrong:
        raise PanelError(f"{name}: {wrong}")


def panel_of(
    options: JudgingOptions, environ: Mapping[str, str], *, keys: bool = True
) -> tuple[Judge, ...]:
    """Return a job's panel, checked as far as possible without a call; with ``keys``, for calls."""
    panel = build_panel(options.judges, options.judge_options, environ)
    by_judge = {name: getattr(options, name) for name in ("limits", "prices", "api_key_env")}
    refuse_unknown_names("judge", [judge.name for judge in panel], by_judge)
    for judge in panel if keys else ():
        refuse_unconnected(judge, find_key(judge, options.api_key_env, environ))
    if isinstance(options, AnnotateOptions):  # others have one of these for each way of judging
        refuse_without_probabilities(panel, options)
    if options.max_usd is not None:
        if unknown := find_unpriced(panel, options.prices):
            raise PanelError(
                f"--max-usd needs prices, and that of {', '.join(unknown)} is unknown; give it as "
                f"prices: {{'{unknown[0]}': {{input: X, output: X}}}}, dollars for a million tokens"
            )
        for judge in panel:
            refuse_unlimited(judge, judge.name)
    return panel


def refuse_without_probabilities(panel: Sequence[Judge], options: AnnotateOptions) -> None:
    """Refuse judges that give no probabilities of letters, where votes rest on them."""
    for judge in panel if getattr(options, "answer", "") == "token" else ():
        provider = load_provider(judge.provider)
        if not provider.gives_probabilities:
            how = "ask with --answer reasoned (servers of OpenAI's protocol have them)"
            raise PanelError(f"{judge.name} gives no log-probabilities: {how}")
        if options.mode == "batch" and provider.batch and not judge.base_url:
            raise PanelError(f"{judge.name}: --answer token is not asked in batches")


def refuse_unlimited(judge: Judge, name: str) -> None:
    """Refuse a judge whose cost per answer has no upper bound, which a budget needs."""
    if judge.options.get("max_output_tokens", 1) is None:
        raise PanelError(f"--max-usd needs a limit of output: {name}, max_output_tokens")
    if dearer := find_costly_field(judge.options.get("extra_body", {})):
        raise PanelError(f"{name}: --max-usd cannot be kept with {dearer} in extra_body")


def refuse_unknown_names(
    what: str, names: Collection[str], options: Mapping[str, Mapping[str, Any]]
) -> None:
    """Refuse options for judges that are not among the names, since one may be mistyped."""
    for option, by_judge in options.items():
        for stranger in (name for name in by_judge if name not in names):
            group = [name for name in names if name.startswith(f"{stranger}:")]
            near = "" if group else did_you_mean(stranger, names)
            suggestion = near or f"; there are {', '.join(group or names) or 'none'}"
            raise PanelError(f"{option}: no {what} {stranger!r}{suggestion}")


def server_chooses_sampling(judge: Judge) -> bool:
    """Return whether no temperature is set for a server named by its URL, so that it chooses."""
    if not judge.base_url or judge.options.get("temperature", 0) is not None:
        return False
    return not sets_temperature(judge.options.get("extra_body", {}))


def find_key(judge: Judge, variables: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """Return a judge's key from the variable that ``variables`` names, else its provider's.

    A provider's key is never sent to a server named by its URL; without a key of its own that
    server gets "none", which such servers ignore.
    """
    names = key_names(judge, variables)
    if not names:
        return "none"
    for name in names:
        if environ.get(name):
            return environ[name]
    raise PanelError(f"{judge.name}: set {' or '.join(names)} in the environment or in .env")


def key_names(judge: Judge, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that may hold a judge's key; none where it needs none."""
    if judge.name in variables:
        return (variables[judge.name],)
    return () if judge.base_url else load_provider(judge.provider).key_variables


def fingerprint(key: str) -> str:
    """Return a short hash that tells keys apart without revealing them."""
    return hashlib.sha256(key.encode()).hexdigest()[:8]


def connect(judge: Judge, settings: Settings) -> Connection:
    """Open a connection to a judge."""
    try:
        return load_provider(judge.provider).connect(settings)
    except (Fatal, PanelError) as error:
        raise PanelError(str(error)) from None
    except (Exception, SystemExit) as error:
        if not is_own_provider(judge.provider):
            raise
        raise PanelError(f"{judge.name}: cannot be connected: {format_error(error)}") from None


def refuse_unconnected(judge: Judge, key: str) -> None:
    """Refuse a judge that cannot be connected, where more than a key may be lacking.

    A provider with a key and models of its own is not tried: these are all that it takes.
    """
    provider = load_provider(judge.provider)
    if not (provider.key_variables and provider.models):
        connect(judge, Settings(key, judge.base_url))
