"""Convert tokens to dollars, by the user's own prices, else by the table of `genai-prices`."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from zelo_ray.options import Price
from zelo_ray.providers.extra_body import asked_tier, tier_of
from zelo_ray.providers.registry import load_provider
from zelo_ray.records import Judge, Usage

_PROVIDER_IDS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "google",
    "vertex": "google",
}
# Not in that table: list prices of rerankers in November 2026, dollars for a million
# tokens of input. Cohere and Jina publish none for a token.
_RERANKERS = {
    "zeroentropy": dict.fromkeys(("zerank-2", "zerank-1", "zerank-1-small"), 0.025),
    "voyage": dict.fromkeys(("rerank-3", "rerank-2.5", "rerank-2"), 0.05)
    | dict.fromkeys(("rerank-3-lite", "rerank-2.5-lite", "rerank-2-lite"), 0.02),
}
_LISTED_FOR = 900  # seconds for which a price of the table is cached: some change by time of day
# Half price, where the table has no rate: batches of all three, and Gemini's flex, by the price
# lists of November 2026. The table has OpenAI's rates of tiers.
_HALF = {("google", "flex"), *((provider, "batch") for provider in _PROVIDER_IDS.values())}
_WRITES = {"anthropic": 1.25}  # price of cache writes, in multiples of the input price; else 1
_CONDITIONS = ("processing", "service_tier", "speed")  # conditions with rates of their own
_PROBE = Usage(1000, 100)


@dataclass(frozen=True, slots=True)
class _Rates:
    """Dollars a token, for prompts of more than ``over`` tokens, and dollars a search."""

    over: int
    input: float
    output: float
    cached: float
    cache_write: float
    search: float = 0.0


def price(
    judge: Judge,
    usage: Usage,
    prices: Mapping[str, Price] = {},
    *,
    batch: bool = False,
    at: float | None = None,
) -> float | None:
    """Return what one call costs, in US dollars; None if unknown.

    Judges of a free provider cost nothing. Without an entry in ``prices``, the price of a server
    named by its URL is what it reports of the call, or else unknown; and so is that of a service
    tier that the table lacks. The tier is the one that served, else the one asked for. Usage is in
    inclusive totals: hidden thinking is part of the output. At least one search is charged where
    searches have a price. ``at``, in seconds since 1970, is for prices that change; None: now.
    """
    user_price = prices.get(judge.name)
    if user_price is None and load_provider(judge.provider).free:
        return 0.0
    plain = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
    if plain < 0:  # impossible counts
        return None
    listed = _RERANKERS.get(judge.provider, {}).get(judge.model)
    if user_price is not None:
        rates = _own(user_price, _WRITES.get(judge.provider, 1.0), batch=batch)
    elif listed is not None and not judge.base_url:
        rates = _own(Price(input=listed, output=0), 1.0, batch=False)
    elif judge.base_url or judge.provider not in _PROVIDER_IDS:
        return usage.reported_dollars
    else:
        span = int((time.time() if at is None else at) // _LISTED_FOR)
        tier = tier_of(usage.tier) if usage.tier else asked_tier(judge.options)
        if batch and tier in ("", "flex"):  # a more expensive tier is an upper bound of a batch
            tier = "batch"
        table = _listed(_PROVIDER_IDS[judge.provider], judge.model, span, tier)
        if not table:
            return None
        rates = next((row for row in table if usage.input_tokens > row.over), table[-1])
    return (
        plain * rates.input
        + usage.cached_tokens * rates.cached
        + usage.cache_write_tokens * rates.cache_write
        + usage.output_tokens * rates.output
        + max(1, usage.searches) * rates.search
    )


def highest_price(
    judge: Judge, most: Usage, prices: Mapping[str, Price] = {}, *, batch: bool = False
) -> float:
    """Return an upper bound of the cost of a call, in US dollars; 0 if unknown."""
    if not price(judge, most, prices, batch=batch):
        return 0.0
    written = replace(most, cache_write_tokens=most.input_tokens)
    tiers = ("", "standard") if asked_tier(judge.options) else ("",)
    usages = (replace(usage, tier=tier) for usage in (most, written) for tier in tiers)
    return max(price(judge, usage, prices, batch=batch) or 0.0 for usage in usages)


def find_unpriced(panel: Sequence[Judge], prices: Mapping[str, Price] = {}) -> list[str]:
    """Return the names of the judges whose price is unknown."""
    return [judge.name for judge in panel if price(judge, _PROBE, prices) is None]


def table_version(prices: Mapping[str, Price] = {}) -> str:
    """Return the price table's version, and the judges priced by the user, for a run's record."""
    table = f"genai-prices {version('genai-prices')}"
    return f"{table}; the job's own for {', '.join(sorted(prices))}" if prices else table


def _own(price: Price, writes: float, *, batch: bool) -> _Rates:
    scale = 1e-6 * (price.batch if batch else 1.0)
    cached = price.input if price.cached is None else price.cached
    cache_write = writes * price.input if price.cache_write is None else price.cache_write
    tokens = (price.input * scale, price.output * scale, cached * scale, cache_write * scale)
    return _Rates(-1, *tokens, search=price.search / 1000)


@lru_cache(1024)
def _listed(provider: str, model: str, span: int, tier: str) -> tuple[_Rates, ...]:
    """Return the table's rates for a span of time, longest prompts first; empty if unknown.

    ``tier`` is "batch", a service tier, or empty for the standard one. The package computes a price
    in 45 to 95 µs, this module in 2: it looks a model up every quarter of an hour.
    """
    from genai_prices import Usage as PricedUsage  # noqa: PLC0415 - half a second, paid when needed
    from genai_prices import calc_price  # noqa: PLC0415 - paid where it is used
    from genai_prices.types import ModelPrice  # noqa: PLC0415 - paid where it is used

    def look(tier: str) -> Any:
        moment = datetime.fromtimestamp(span * _LISTED_FOR, UTC)
        return calc_price(
            PricedUsage(input_tokens=0),
            model,
            provider_id=provider,
            genai_request_timestamp=moment,
            price_context=dict.fromkeys(_CONDITIONS, tier) if tier else None,
        ).model_price

    try:
        standard = look("")
        entry = look(tier) if tier else standard
    except (LookupError, ValueError):
        return ()
    if entry == ModelPrice():  # free of charge, as Gemma is at Gemini's API
        return (_Rates(-1, 0.0, 0.0, 0.0, 0.0),)
    if entry.input_mtok is None or entry.output_mtok is None:  # not charged by tokens
        return ()
    lacking = bool(tier) and entry == standard
    if lacking and (provider, tier) not in _HALF:
        return ()
    scale = 0.5e-6 if lacking else 1e-6
    prices = [
        *(entry.input_mtok, entry.output_mtok),
        entry.input_mtok if entry.cache_read_mtok is None else entry.cache_read_mtok,
        entry.input_mtok if entry.cache_write_mtok is None else entry.cache_write_mtok,
    ]
    starts = {-1, *(tier.start for amount in prices for tier in getattr(amount, "tiers", ()))}
    return tuple(
        _Rates(start, *(_beyond(amount, start) * scale for amount in prices))
        for start in sorted(starts, reverse=True)
    )


def _beyond(listed: Any, start: int) -> float:
    """Return a price, which may have tiers, for prompts of more than ``start`` tokens."""
    if not hasattr(listed, "tiers"):
        return float(listed)
    reached = [tier.price for tier in listed.tiers if tier.start <= start]
    return float(reached[-1] if reached else listed.base)
