"""Build the rankers of a bake-off, and the options with which each is asked.

A reranker is a judge that answers with scores, so limits, retries, budget, ledger and failures are
those of judges. Its provider is one line in `zelo_ray.providers.RERANKERS` and a module here; or a
class, a function or a provider that an installed package declares in ``zelo_ray.rerankers``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PositiveInt, ValidationError

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.errors import PanelError
from zelo_ray.names import did_you_mean
from zelo_ray.options import AnnotateOptions, AskingOptions
from zelo_ray.plugins import add_installed, load_installed
from zelo_ray.protocols import RANKERS
from zelo_ray.providers import (
    PROVIDERS,
    Provider,
    Settings,
    connect,
    find_key,
    is_own_provider,
    is_provider_of_judges,
    is_reranker,
    load_provider,
    parse_judge,
    refuse_unknown_names,
    refuse_unlimited,
    with_options,
)
from zelo_ray.providers.pricing import find_unpriced
from zelo_ray.records import Judge, first_error
from zelo_ray.rerankers import custom

_ORIGINAL = "original"
_LEXICAL = ("bm25", "chargram", "likelihood")
_COMPUTING = ("offline", "simulated", "recorded")  # judges that read no prompt
_BY_MODEL = tuple(name for name in RANKERS if name != "rerank")
_WHOLE = 2**40  # tokens; more than any document has
_PROMPTED = 2000  # tokens of a document in a prompt, by default
_OF_JUDGES = ("limits", "prices", "api_key_env")
"""Options that users give by the names of rankers, and judges get by their own."""
_LABEL = re.compile(r"[^:/=@]+")
_KNOWN = (
    *(_ORIGINAL, *_LEXICAL, "cross-encoder:PATH", "bi-encoder:PATH"),
    *("zeroentropy:MODEL", "cohere:MODEL", "voyage:MODEL", "jina:MODEL", "rerank:MODEL@URL"),
    *(f"{name}:JUDGE" for name in _BY_MODEL),
    "module:Class",
)


@dataclass(frozen=True, slots=True)
class BakeoffRanker:
    """A ranker of a bake-off: its name, its protocol, and the judge that the protocol asks.

    ``judge`` is None for the protocol "original", the pool's own order, which makes no calls.
    """

    name: str
    protocol: str
    judge: Judge | None


def build_rankers(
    options: BakeoffOptions, environ: Mapping[str, str], *, run_id: str
) -> tuple[BakeoffRanker, ...]:
    """Build the rankers of a job, checked as far as possible without any call.

    Scores of a reranker without a version are valid for this run (``run_id``) only. Raise
    `PanelError` for one that cannot be asked.
    """
    specs: dict[str, str] = {}
    for text in options.rerankers:
        label, is_named, spec = text.partition("=")
        if not (is_named and _LABEL.fullmatch(label)):
            label, spec = text, text
        if label in specs:
            raise PanelError(
                f"reranker {label} is named twice; write NAME={spec} to tell them apart"
            )
        specs[label] = spec
    by_name = (*_OF_JUDGES, "reranker_options", "num_gpus")
    refuse_unknown_names("reranker", specs, {name: getattr(options, name) for name in by_name})
    rankers, same = list[BakeoffRanker](), dict[str, str]()
    for name, spec in specs.items():
        ranker = _ranker(name, spec, options.reranker_options.get(name, {}))
        if ranker.judge:
            ranker = replace(ranker, judge=_prepare(ranker, ranker.judge, options, environ, run_id))
        other = same.setdefault(repr((ranker.protocol, ranker.judge)), name)
        if other != name:
            raise PanelError(f"{other} and {name} are one reranker with the same options")
        rankers.append(ranker)
    return tuple(rankers)


def asking_options(ranker: BakeoffRanker, options: BakeoffOptions) -> AnnotateOptions:
    """Return the options for asking one ranker, with the user's own under its judge's name."""
    judge = ranker.judge.name if ranker.judge else ""
    shared = {name: getattr(options, name) for name in AskingOptions.model_fields}
    for name in _OF_JUDGES:
        own = getattr(options, name).get(ranker.name)
        shared[name] = {} if own is None else {judge: own}
    shown = options.document_tokens or (_PROMPTED if ranker.protocol in _BY_MODEL else _WHOLE)
    return AnnotateOptions(
        **shared,
        inputs=("-",),
        protocol=ranker.protocol,
        judges=(judge,) if judge else (),
        document_tokens=shown,
    )


def _ranker(name: str, spec: str, options: Mapping[str, Any]) -> BakeoffRanker:
    """Build the ranker that a specification names, with its options."""
    if spec == _ORIGINAL:
        if options:
            raise PanelError(f"{name}: the original order has no options")
        return BakeoffRanker(name, _ORIGINAL, None)
    head, _, tail = spec.partition(":")
    judge = parse_judge(f"offline:{spec}" if spec in _LEXICAL else spec)
    if head in _BY_MODEL:
        judge = parse_judge(tail)
        if is_reranker(judge.provider) or judge.provider in {*_COMPUTING, ""}:
            judges = ", ".join(name for name in PROVIDERS if name not in _COMPUTING)
            raise PanelError(f"{spec}: write {head}:JUDGE, a language model of {judges}")
        return BakeoffRanker(name, head, with_options(_with_model(judge), options))
    if _is_callable(judge.provider, tail):
        target = tail if judge.provider == "custom" else spec
        try:
            judge = Judge("custom", target, options={"arguments": dict(options)})
        except (TypeError, ValueError) as error:  # not serialisable
            raise PanelError(f"{target}: reranker_options: {error}") from None
        return BakeoffRanker(name, "rerank", judge)
    if is_reranker(judge.provider) or judge.provider in {"offline", "recorded"}:
        return BakeoffRanker(name, "rerank", with_options(_with_model(judge), options))
    if is_provider_of_judges(judge.provider):
        ways = " or ".join(f"{way}:{spec}" for way in _BY_MODEL)
        raise PanelError(f"{spec} is a judge; write {ways}")
    by_name = add_installed(_KNOWN, "rerankers")
    near = did_you_mean(head, [name.partition(":")[0] for name in by_name])
    raise PanelError(f"unknown reranker {spec!r}{near}; there are {', '.join(by_name)}")


def _is_callable(provider: str, model: str) -> bool:
    """Return whether a name is that of a class, function or object, and not of a provider."""
    if not is_own_provider(provider) or is_provider_of_judges(provider):
        return provider == "custom"
    installed = load_installed("rerankers", provider, object, PanelError)
    return bool(model) if installed is None else not isinstance(installed, Provider)


def _with_model(judge: Judge) -> Judge:
    """Return the judge with a model: its provider's default, if it names none and there is one."""
    models = load_provider(judge.provider).models
    if judge.provider == "rerank" and not judge.base_url:
        raise PanelError(f"{judge.name}: write rerank:MODEL@http://host:port/path")
    if judge.model or judge.provider == "rerank":
        return judge
    if len(models) != 1:
        more = f", one of {', '.join(models)}" if models else ""
        raise PanelError(f"{judge.name} names no model; write {judge.provider}:MODEL{more}")
    return replace(judge, model=models[0])


def _prepare(
    ranker: BakeoffRanker,
    judge: Judge,
    options: BakeoffOptions,
    environ: Mapping[str, str],
    run_id: str,
) -> Judge:
    """Check that the judge can be asked, and return it with its version."""
    if judge.provider == "custom":
        scorer = custom.load_reranker(judge)
        custom.check_reranker(judge, scorer)
        return custom.with_version(judge, scorer, run_id)
    if ranker.protocol == "rerank" and not is_own_provider(judge.provider):
        try:
            _OptionValues.model_validate(judge.options)
        except ValidationError as error:
            raise PanelError(f"{ranker.name}: reranker_options: {first_error(error)}") from None
    asking = asking_options(ranker, options)
    connect(judge, Settings(find_key(judge, asking.api_key_env, environ), judge.base_url))
    if options.max_usd is not None:
        if find_unpriced([judge], asking.prices):
            raise PanelError(
                f"--max-usd needs prices, and that of {ranker.name} is unknown; give it as prices: "
                f"{{'{ranker.name}': {{input: X, output: X}}}}, dollars for a million tokens, or "
                "{search: X}, for a thousand searches"
            )
        refuse_unlimited(judge, ranker.name)
    if judge.provider == "offline":  # what it computes may change with the package
        return replace(judge, options={**judge.options, "version": version("zelo-ray")})
    fingerprint = load_provider(judge.provider).fingerprint
    if fingerprint is not None and judge.options["version"] is None:
        return replace(judge, options={**judge.options, "version": fingerprint(judge)})
    return judge


class _OptionValues(BaseModel):
    """The values of all options of built-in rerankers; each provider lists its own."""

    model_config = ConfigDict(strict=True)

    documents: PositiveInt = 1
    block_size: PositiveInt = 1
    max_length: PositiveInt | None = None
    max_tokens_per_doc: PositiveInt | None = None
    documents_field: str = Field("documents", min_length=1)
    extra_body: dict[str, JsonValue] = {}
    truncation: bool = False
    trust_remote_code: bool = False
    latency: Literal["fast", "slow"] | None = None
    device: str | None = None
    revision: str | None = None
