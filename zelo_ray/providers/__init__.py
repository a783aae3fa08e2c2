"""Providers carry a request to a model and bring the answer back. They know nothing of relevance.

A provider is one line in ``PROVIDERS`` and one module with the names of `Module`. So is a provider
of rerankers, in ``RERANKERS``: judges that answer with scores and nothing else. What goes wrong
leaves it as one of three errors; `zelo_ray.engine.online` decides what to do about each.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from zelo_ray.errors import PanelError
from zelo_ray.options import JudgingOptions, meant
from zelo_ray.providers.pricing import unpriced
from zelo_ray.records import Answer, Judge, Request, Status, Usage

PROVIDERS = {
    "openai": "zelo_ray.providers.openai.chat",
    "anthropic": "zelo_ray.providers.anthropic.messages",
    "gemini": "zelo_ray.providers.gemini.generate",
    "offline": "zelo_ray.providers.offline",
    "simulated": "zelo_ray.providers.simulated",
}

RERANKERS = {
    "zeroentropy": "zelo_ray.rerankers.zeroentropy",
    "cohere": "zelo_ray.rerankers.cohere",
    "voyage": "zelo_ray.rerankers.voyage",
    "jina": "zelo_ray.rerankers.jina",
    "rerank": "zelo_ray.rerankers.server",
    "cross-encoder": "zelo_ray.rerankers.cross_encoder",
    "bi-encoder": "zelo_ray.rerankers.bi_encoder",
    "custom": "zelo_ray.rerankers.custom",
}
"""No panel may have one of these."""


_TIER = "service_tier"  # a field of a request that decides how soon and at what price it is done
_DEARER = {"max_tokens", "max_completion_tokens", "n", "best_of"}  # fields that make answers longer


class Retry(Exception):  # noqa: N818 - it names what to do, as the two below
    """The call may succeed later.

    ``delay`` is the server's own wish in seconds, if it had one; ``throttled`` tells that the
    account's rate was exceeded, so that its other calls should wait as well; ``billed`` is what a
    response without an answer in it says that it used. ``unreached`` tells that not even a
    connection was made, and ``unsettled`` that the call may have come to the server and been
    billed, though no response says what it used.
    """

    def __init__(
        self,
        reason: str,
        delay: float | None = None,
        *,
        throttled: bool = False,
        billed: Usage | None = None,
        unreached: bool = False,
        unsettled: bool = False,
    ) -> None:
        super().__init__(reason)
        self.delay, self.throttled, self.billed = delay, throttled, billed
        self.unreached, self.unsettled = unreached, unsettled


class Refused(Exception):  # noqa: N818
    """This request will never succeed, others may. Nothing was billed."""

    def __init__(self, reason: str, status: Status = "failed") -> None:
        super().__init__(reason)
        self.status = status


class Fatal(Exception):  # noqa: N818
    """No request of this judge will succeed until a person acts: a wrong key, an unknown model."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where and how to connect; nothing here changes an answer. The key stays out of every repr."""

    key: str = field(default="", repr=False)
    base_url: str | None = None
    timeout: float = 120.0


class Provider(Protocol):
    """A connection that many calls share."""

    async def send(self, request: Request) -> Answer:
        """Make one call, without retries.

        Raises:
            Retry, Refused, Fatal: and nothing that belongs to an SDK.
        """

    async def aclose(self) -> None:
        """Let go of sockets."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The most that one batch may hold."""

    requests: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as its provider tells of it."""

    id: str
    state: str
    """in the provider's own word"""
    ended: bool
    """whether no more results will come"""
    mark: str = ""
    """what it was created with; empty at a provider that keeps no such thing"""
    requests: int = 0
    """how many it holds; 0 where that is not told"""
    done: int = 0
    """how many of them have come to an end, as far as that is told"""
    created_at: float = 0.0
    """seconds since 1970"""
    reason: str = ""
    """why it failed as a whole"""
    full: bool = False
    """whether it failed because too many tokens were enqueued, so that waiting helps"""


Outcome = Answer | Retry | Refused | Fatal
"""What became of one request in a batch: an answer, or one of the three errors, not raised."""


class Batches(Protocol):
    """A provider's batch API. Every method may raise Retry, Refused or Fatal, and nothing else."""

    KEEPS_MARKS: bool
    """Whether a batch that is found tells the mark that it was created with."""

    def line(self, request: Request) -> bytes:
        """The request as one line of a batch file, known by its key, with its end of line."""

    async def create(self, lines: Path, model: str, mark: str) -> Batch:
        """Submit a file of such lines for one model. It must not be retried blindly."""

    async def find(self, since: float) -> list[Batch]:
        """All batches of the account that were created since then, in seconds since 1970."""

    async def look(self, batch_id: str) -> Batch:
        """How a batch stands."""

    def results(self, batch_id: str) -> AsyncIterator[tuple[str, Outcome]]:
        """Each result that an ended batch holds, by key, good and bad, in any order."""

    async def cancel(self, batch_id: str) -> None:
        """Ask the provider to stop a batch; what it has answered is billed and can be had."""

    async def aclose(self) -> None:
        """Let go of sockets."""


class Module(Protocol):
    """What a provider's module holds."""

    KEY_VARIABLES: tuple[str, ...]
    """Environment variables, any of which holds its key; empty where none is needed."""
    MODELS: tuple[str, ...]
    """The models that the provider's bare name stands for."""
    CLOSED: bool
    """Whether there are no other models."""
    OPTIONS: Mapping[str, Any]
    """Every option that can change an answer, with its default."""
    TRANSPORT: Mapping[str, Any]
    """Options that change how an answer travels and not what it says: a key holds this value of
    them, whatever was given. May be left away where there are none."""
    CONCURRENCY: int
    """Calls in flight where the user says nothing."""
    RATES: Mapping[str, float]
    """Cautious limits to begin with where the account's own are not known: {"rpm": ...}; empty
    for judges without any."""
    BATCH: BatchLimits | None
    """The limits of its batch API; None where there is none."""

    def connect(self, settings: Settings) -> Provider:
        """Open a connection for the judges of one base URL and key."""

    def connect_batches(self, settings: Settings) -> Batches:
        """The batch API of one key. Only where there is ``BATCH``."""

    def counted(self, usage: Usage) -> Mapping[str, float]:
        """How the provider counts a call against limits by token: {"tpm": ...}, or itpm, otpm."""


def module(name: str) -> Module:
    """A provider's module, of judges or of rerankers, imported when first used.

    Raises:
        PanelError: there is none of that name.
    """
    known = {**PROVIDERS, **RERANKERS}
    if name not in known:
        raise PanelError(
            f"unknown provider {name!r}{meant(name, PROVIDERS)}; there are {', '.join(PROVIDERS)}"
        )
    return cast(Module, import_module(known[name]))


def find_key(judge: Judge, variables: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """A judge's key: from the variable that ``variables`` names for it, else its provider's.

    A server named by its URL is never sent a provider's key; without one of its own it gets the
    word that such servers ignore.

    Raises:
        PanelError: no variable holds one.
    """
    names = module(judge.provider).KEY_VARIABLES
    if judge.name in variables:
        names = (variables[judge.name],)
    elif judge.base_url or not names:
        return "none"
    for name in names:
        if environ.get(name):
            return environ[name]
    raise PanelError(f"{judge.name}: set {' or '.join(names)} in the environment or in .env")


def fingerprint(key: str) -> str:
    """What tells one key from another and gives nothing of it away."""
    return hashlib.sha256(key.encode()).hexdigest()[:8]


def build_panel(
    names: Sequence[str],
    options: Mapping[str, Mapping[str, Any]],
    environ: Mapping[str, str] = os.environ,
) -> tuple[Judge, ...]:
    """The judges that ``names`` call for, each with all its options.

    Without names: every provider that needs a key and has it, with its default model.

    Raises:
        PanelError: a name or an option is unknown, a judge is named twice, or no key is set.
    """
    asked = [Judge.parse(name) for name in names] or _with_keys(environ)
    if not asked:
        raise PanelError(
            "no judge: name a panel, set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, "
            "or try it without any key: --judges offline"
        )
    panel: dict[str, Judge] = {}
    for judge in asked:
        if judge.provider in RERANKERS:
            raise PanelError(f"{judge.name} is a reranker, which judges nothing; see bakeoff")
        known = module(judge.provider)
        models = [judge.model] if judge.model else known.MODELS
        for each in (replace(judge, model=model) for model in models):
            if each.name in panel:
                raise PanelError(f"judge {each.name} is named twice")
            panel[each.name] = with_options(each, options.get(each.name, {}))
    refuse_strangers("judge", list(panel), {"judge_options": options})
    return tuple(panel.values())


def with_options(judge: Judge, own: Mapping[str, Any]) -> Judge:
    """The judge with all its options: its own, and else the defaults of its provider.

    Raises:
        PanelError: its URL, model or an option cannot be.
    """
    known = module(judge.provider)
    _check_url(judge)
    if known.CLOSED and judge.model not in known.MODELS:
        near = meant(judge.model, known.MODELS)
        raise PanelError(f"unknown judge {judge.name}{near}; there are {', '.join(known.MODELS)}")
    if unknown := set(own) - set(known.OPTIONS):
        what = f"unknown option {min(unknown)!r}{meant(min(unknown), known.OPTIONS)}"
        allowed = ", ".join(sorted(known.OPTIONS)) or "none"
        raise PanelError(f"{judge.name}: {what}; known: {allowed}")
    transport = dict(getattr(known, "TRANSPORT", {}))
    if isinstance(body := own.get("extra_body"), Mapping):
        kept = {name: value for name, value in body.items() if name != _TIER}
        transport |= {"extra_body": kept} if kept != body else {}
    return replace(judge, options={**known.OPTIONS, **own}, transport=transport)


def panel_of(
    options: JudgingOptions, environ: Mapping[str, str], *, keys: bool = True
) -> tuple[Judge, ...]:
    """The panel that a job's options call for, checked as far as that goes without any call.

    Args:
        options: the job's.
        environ: where keys are found.
        keys: whether each judge must be ready to be asked.

    Raises:
        PanelError: a judge or one of its options is unknown, has no key, or no price for a budget;
            or an option is for a judge that is not on the panel.
    """
    panel = build_panel(options.judges, options.judge_options, environ)
    by_judge = {name: getattr(options, name) for name in ("limits", "prices", "api_key_env")}
    refuse_strangers("judge", [judge.name for judge in panel], by_judge)
    for judge in panel if keys else ():
        find_key(judge, options.api_key_env, environ)
        if not module(judge.provider).KEY_VARIABLES:
            module(judge.provider).connect(Settings())
    if options.max_usd is not None and (unknown := unpriced(panel, options.prices)):
        raise PanelError(
            f"--max-usd needs prices, and that of {', '.join(unknown)} is unknown; give it as "
            f"prices: {{'{unknown[0]}': {{input: X, output: X}}}}, dollars for a million tokens"
        )
    for judge in panel if options.max_usd is not None else ():
        refuse_unlimited(judge, judge.name)
    return panel


def refuse_unlimited(judge: Judge, name: str) -> None:
    """A cap holds only where it is known how long an answer can be.

    Raises:
        PanelError: the judge has no limit of output, or one that is hidden.
    """
    if judge.options.get("max_output_tokens", 1) is None:
        raise PanelError(f"--max-usd needs a limit of output: {name}, max_output_tokens")
    if hidden := _DEARER & set(judge.options.get("extra_body") or ()):
        raise PanelError(
            f"{name}: --max-usd cannot hold with {min(hidden)} in extra_body; use max_output_tokens"
        )


def refuse_strangers(
    what: str, names: Collection[str], options: Mapping[str, Mapping[str, Any]]
) -> None:
    """Options by judge are for judges of the panel: a mistyped price would leave one without.

    Args:
        what: what they are by, "judge" or "reranker".
        names: those that take part.
        options: by the option's name: what is given, by judge.

    Raises:
        PanelError: one is for another.
    """
    where = " on the panel" if what == "judge" else ""
    for option, given in options.items():
        for stranger in (name for name in given if name not in names):
            group = [name for name in names if name.startswith(f"{stranger}:")]
            near = "" if group else meant(stranger, names)
            there = near or f"; there are {', '.join(group or names) or 'none'}"
            raise PanelError(f"{option}: no {what} {stranger!r}{where}{there}")


def _check_url(judge: Judge) -> None:
    url = urlsplit(judge.base_url or "http://none")
    if url.username or url.password:
        raise PanelError(f"{judge.provider}:{judge.model}: no key in a URL; use api_key_env")
    if url.scheme not in ("http", "https") or not url.hostname:
        raise PanelError(f"{judge.name}: write provider:model@http://host:port/path")
    if url.query or url.fragment:  # which may hold a key, and stands where the path goes on
        raise PanelError(f"{judge.provider}:{judge.model}: a base URL ends before any ? or #")


def _with_keys(environ: Mapping[str, str]) -> list[Judge]:
    found = []
    for name in PROVIDERS:
        known = module(name)
        if any(environ.get(variable) for variable in known.KEY_VARIABLES):
            found.append(Judge(name, known.MODELS[0]))
    return found
