"""List the providers, and parse the names of judges."""

from collections.abc import Iterable
from importlib import import_module

from zelo_ray.errors import PanelError
from zelo_ray.names import did_you_mean
from zelo_ray.plugins import find_installed, is_plugin_name, load_installed, load_plugin
from zelo_ray.providers.provider import Provider
from zelo_ray.records import Judge

PROVIDERS = {
    "openai": "zelo_ray.providers.openai",
    "anthropic": "zelo_ray.providers.anthropic",
    "gemini": "zelo_ray.providers.gemini",
    "vertex": "zelo_ray.providers.vertex",
    "azure": "zelo_ray.providers.azure",
    "offline": "zelo_ray.providers.offline",
    "simulated": "zelo_ray.providers.simulated",
    "recorded": "zelo_ray.providers.recorded",
}

ENCODERS = frozenset({"cross-encoder", "bi-encoder"})
"""Providers of rerankers that can be on a panel, too: they compare documents by their scores."""

PROMPTLESS_PROVIDERS = frozenset({"offline", "simulated", "recorded", *ENCODERS})
"""Providers whose judges get query and documents, and do not read the prompt."""

RERANKERS = {
    **dict.fromkeys(
        ("zeroentropy", "cohere", "voyage", "jina", "rerank"), "zelo_ray.rerankers.hosted"
    ),
    "cross-encoder": "zelo_ray.rerankers.local",
    "bi-encoder": "zelo_ray.rerankers.local",
    "custom": "zelo_ray.rerankers.custom",
}
"""Modules with the providers of rerankers; of these only `ENCODERS` can be on a panel, too."""


def is_own_provider(name: str) -> bool:
    """Return whether a provider is none of this package's; it may not exist."""
    return name not in PROVIDERS and name not in RERANKERS


def is_reranker(name: str) -> bool:
    """Return whether this is the name of a reranker, or of a provider of rerankers."""
    return name in RERANKERS or (name not in PROVIDERS and name in find_installed("rerankers"))


def is_provider_of_judges(name: str) -> bool:
    """Return whether this is the plain name of a provider of judges."""
    return name in PROVIDERS or (name not in RERANKERS and name in find_installed("providers"))


def judges_without_prompt(judges: Iterable[str]) -> list[str]:
    """Return the names of the judges that do not read the prompt."""
    return [name for name in judges if name.partition(":")[0] in PROMPTLESS_PROVIDERS]


def parse_judge(text: str) -> Judge:
    """Read ``provider:model`` or ``provider:model@URL``; a missing model is an empty string.

    The name of a provider of the user's own has a colon in it: ``my_module:PROVIDER:model``.
    """
    name, at, url = text.partition("@http")
    provider, _, model = name.partition(":")
    if model and not (is_provider_of_judges(provider) or is_reranker(provider)):
        what, _, model = model.partition(":")
        provider = f"{provider}:{what}"
    return Judge(provider, model, at[1:] + url if at else None)


def load_provider(name: str) -> Provider:
    """Import a provider of judges or of rerankers by its name, or a plug-in."""
    provider: Provider
    if name in PROVIDERS or name in RERANKERS:
        module = import_module(PROVIDERS.get(name) or RERANKERS[name])
        provider = module.PROVIDER if name in PROVIDERS else module.PROVIDERS[name]
        return provider
    for group in ("providers", "rerankers"):
        if installed := load_installed(group, name, Provider, PanelError):
            return installed
    place = name.partition(":")[0]
    names = [*dict.fromkeys((*PROVIDERS, *find_installed("providers")))]
    unknown = (
        f"unknown provider {place!r}{did_you_mean(place, names)}; there are {', '.join(names)}, "
        "openai:MODEL@URL for a server that speaks OpenAI's protocol (vLLM, Ollama, OpenRouter), "
        "and your own as my_module:PROVIDER"
    )
    if not is_plugin_name(name):
        raise PanelError(unknown)
    return load_plugin(name, Provider, PanelError, unknown)
