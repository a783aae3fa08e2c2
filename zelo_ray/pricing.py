"""Tokens to dollars, from the price table that the `genai-prices` package carries."""

from functools import cache
from importlib.metadata import version

from zelo_ray.records import Judge, Usage

_FREE = {"offline"}
_PROVIDER_IDS = {"openai": "openai", "anthropic": "anthropic", "gemini": "google"}


def price(judge: Judge, usage: Usage) -> float | None:
    """What one online call costs, in US dollars; None where that is unknown.

    Judges that run in this process cost nothing; what a server named by its URL costs is unknown.
    """
    if judge.provider in _FREE:
        return 0.0
    if judge.base_url or judge.provider not in _PROVIDER_IDS:
        return None
    from genai_prices import Usage as PricedUsage  # noqa: PLC0415 - half a second, paid when needed
    from genai_prices import calc_price  # noqa: PLC0415

    try:
        priced = PricedUsage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cached_tokens or None,
            cache_write_tokens=usage.cache_write_tokens or None,
        )
        found = calc_price(priced, judge.model, provider_id=_PROVIDER_IDS[judge.provider])
    except (LookupError, ValueError):  # an unknown model, or counts that cannot be
        return None
    return float(found.total_price)


@cache
def table_version() -> str:
    """The price table that was used, for the record of a run."""
    return f"genai-prices {version('genai-prices')}"
