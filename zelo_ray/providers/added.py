"""Fields that a user adds to requests (`extra_body`): which may be, and what they do to a price."""

from collections.abc import Iterator, Mapping
from typing import Any

from zelo_ray.errors import PanelError

TIERS = ("service_tier", "serviceTier")
"""Fields that say how soon and at what price an answer comes, and nothing of what it says."""

_FLEX_SECONDS = 900.0  # how long OpenAI's guide would have a call wait, and Gemini's says at most
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
"""What makes answers longer, or several, or is charged for beside the tokens."""
_LABELS = {"metadata", "labels"}
_CACHED = "5m"  # how long prices take a beginning to be kept, as long as no ``ttl`` says otherwise
_PARTS = {"generationconfig": "generationConfig", "outputconfig": "output_config"}
"""Fields that hold some of ours, as the APIs spell them: others would stand beside ours."""


def tier_of(*tiers: object) -> str:
    """Return the first of some service tiers that is not the usual one, else empty."""
    plain = (str(tier or "").lower().removeprefix("service_tier_") for tier in tiers)
    return next((tier for tier in plain if tier not in _USUAL), "")


def asked_tier(options: Mapping[str, Any]) -> str:
    """Return the service tier that a judge's options ask for; empty for the usual one."""
    body = options.get("extra_body") or {}
    return tier_of(*(body.get(name) for name in (*TIERS, "speed")))  # Anthropic's speed: fast


def seconds_for(options: Mapping[str, Any], seconds: float) -> float:
    """Return how many seconds a call may take: flex waits for room, and a retry costs again."""
    return max(seconds, _FLEX_SECONDS) if asked_tier(options) == "flex" else seconds


def thinking_budget(options: Mapping[str, Any]) -> int:
    """Return the tokens that Claude may think for, which its output limit must exceed."""
    thinking = (options.get("extra_body") or {}).get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else 0
    return budget if isinstance(budget, int) else 0


def refuse_ours(name: str, body: Mapping[str, Any], *, form: str = "") -> None:
    """Refuse added fields that set the question, the model or the form of the answer.

    Args:
        name: of whom they are sent to.
        body: the fields.
        form: what to do about the form of the answer, if there is something.

    Raises:
        PanelError: one of them is ours.
    """
    for field, value in _two_deep(body):
        plain = _plain(field)
        if plain in _QUESTION:
            raise PanelError(
                f"{name}: extra_body cannot hold {field}, which is the question itself; leave it "
                "out (another model is another judge, words of your own are --instructions)"
            )
        if plain in _FORM:
            raise PanelError(
                f"{name}: extra_body cannot hold {field}: the form of the answer follows from what "
                f"is asked; leave it out{form}"
            )
        spelled = _PARTS.get(plain, field)
        if plain in _PARTS and not (field == spelled and isinstance(value, Mapping)):
            raise PanelError(f"{name}: extra_body: write {spelled} with fields in it, so spelled")


def dearer_in(body: Mapping[str, Any]) -> str:
    """Return a field, at any depth, that may make a call cost more than estimated; else empty."""
    fields = ((name, _plain(name), value) for name, value in _all(body))
    dear = (n for n, plain, v in fields if plain in _DEARER or (plain == "ttl" and v != _CACHED))
    return min(dear, default="")


def sets_temperature(body: Mapping[str, Any]) -> bool:
    """Return whether a temperature is among the fields, at any depth."""
    return any(name == "temperature" and value is not None for name, value in _all(body))


def _all(body: Any) -> Iterator[tuple[str, Any]]:
    """Yield all fields, also nested ones, except those inside mere labels of a request."""
    if isinstance(body, Mapping):
        for name, value in body.items():
            yield str(name), value
            yield from _all(value) if name not in _LABELS else ()
    elif isinstance(body, list | tuple):
        for item in body:
            yield from _all(item)


def _two_deep(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield fields, and those inside them by both names, as ``outer.inner``."""
    for outer, value in body.items():
        yield outer, value
        if isinstance(value, Mapping):
            yield from ((f"{outer}.{inner}", setting) for inner, setting in value.items())


def _plain(name: str) -> str:
    """Return a name in lower case and without underscores."""
    return str(name).replace("_", "").lower()
