"""Check the fields that a user adds to requests (`extra_body`), and how they affect the price."""

from collections.abc import Iterator, Mapping
from typing import Any

from zelo_ray.errors import PanelError

TIERS = ("service_tier", "serviceTier")
"""Fields that set the speed and price of an answer, and not its content."""

_FLEX_SECONDS = 900.0  # OpenAI's recommended timeout, and Gemini's longest wait
_USUAL = ("", "auto", "default", "standard", "standard_only", "unspecified")

# Names are compared as `_plain` makes them: servers take some in camel and in snake case.
_QUESTION = {
    *("model", "messages", "input", "prompt", "stream"),  # OpenAI's, and Anthropic's with
    *("system", "contents", "systeminstruction", "cachedcontent"),  # Gemini's
}
_FORM = {
    *("responseformat", "outputformat", "outputconfig.format"),
    *(f"generationconfig.response{name}" for name in ("schema", "jsonschema", "mimetype")),
    "generationconfig.responseformat",
}
_DEARER = {
    *("n", "bestof", "candidatecount", "maxtokens", "maxcompletiontokens", "maxoutputtokens"),
    *("tools", "functions", "websearchoptions", "plugins", "mcpservers", "container"),
    *("prediction", "audio", "modalities", "responsemodalities", "inferencegeo"),
}
"""Fields for longer or several answers, or for features charged besides tokens."""
_LABELS = {"metadata", "labels"}
_CACHED = "5m"  # how long a cache keeps a prompt's beginning at the usual price
_PARTS = {"generationconfig": "generationConfig", "outputconfig": "output_config"}
"""Fields in which this package sets values, too: another spelling would be a second field."""


def tier_of(*tiers: object) -> str:
    """Return the first of some service tiers that is not the usual one, else empty."""
    plain = (str(tier or "").lower().removeprefix("service_tier_") for tier in tiers)
    return next((tier for tier in plain if tier not in _USUAL), "")


def asked_tier(options: Mapping[str, Any]) -> str:
    """Return the service tier that a judge's options ask for; empty for the usual one."""
    body = options.get("extra_body") or {}
    return tier_of(*(body.get(name) for name in (*TIERS, "speed")))  # Anthropic's speed: fast


def call_timeout(options: Mapping[str, Any], seconds: float) -> float:
    """Return the timeout of a call: longer for flex, which waits for capacity."""
    return max(seconds, _FLEX_SECONDS) if asked_tier(options) == "flex" else seconds


def thinking_budget(options: Mapping[str, Any]) -> int:
    """Return Claude's budget of thinking tokens, which its output limit must exceed."""
    thinking = (options.get("extra_body") or {}).get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else 0
    return budget if isinstance(budget, int) else 0


def refuse_reserved(name: str, body: Mapping[str, Any]) -> None:
    """Refuse fields that set the question, the model or the form of a judge's answer."""
    for field, value in _fields(body):
        plain = _plain(field)
        if plain in _QUESTION | _FORM:
            raise PanelError(
                f"{name}: extra_body cannot hold {field}: models are judges, words --instructions, "
                "and the form of an answer is the option response_format"
            )
        spelled = _PARTS.get(plain, field)
        if plain in _PARTS and not (field == spelled and isinstance(value, Mapping)):
            raise PanelError(f"{name}: extra_body: spell it {spelled}, with fields inside")


def find_costly_field(body: Mapping[str, Any]) -> str:
    """Return a field, at any depth, that may make a call cost more than estimated; else empty."""
    fields = ((name, _plain(name), value) for name, value in _last_names(body))
    dear = (n for n, plain, v in fields if plain in _DEARER or (plain == "ttl" and v != _CACHED))
    return min(dear, default="")


def sets_temperature(body: Mapping[str, Any]) -> bool:
    """Return whether a temperature is among the fields, at any depth."""
    return any(name == "temperature" and value is not None for name, value in _last_names(body))


def _last_names(body: Any) -> Iterator[tuple[str, Any]]:
    return ((path.rpartition(".")[2], value) for path, value in _fields(body))


def _fields(body: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all fields by paths as ``outer.inner``, but for those inside a request's metadata."""
    if isinstance(body, Mapping):
        for name, value in body.items():
            yield f"{path}{name}", value
            yield from _fields(value, f"{path}{name}.") if name not in _LABELS else ()
    elif isinstance(body, list | tuple):
        for item in body:
            yield from _fields(item, path)


def _plain(name: str) -> str:
    """Return a name in lower case and without underscores."""
    return name.replace("_", "").lower()
