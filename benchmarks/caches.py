"""Count input tokens a call, and those at full price as the beginnings of prompts are shared.

The real client asks fakes on loopback that bill prompt caches as the providers document it: exact
beginnings of 1,024 tokens and more (OpenAI) or 4,096 (Anthropic's Haiku, Gemini), to be read once
a first answer with them has begun; Anthropic's at breakpoints alone, and what is written there
counts 1.25 times. Real hits are fewer: caches fill up, and requests come to several machines.
Run: python -m benchmarks.caches [--sizes 25 100] [--tokens 500 2000 6000]
"""

import argparse
import os
import tempfile
from random import Random

from tests.fakes import Fakes
from tests.fakes.caches import Caches
from tests.helpers.builders import ask, key_for
from zelo_ray.engine.clock import Clock
from zelo_ray.engine.ledger import read_rows
from zelo_ray.records import Document, Pool

PROVIDERS = {
    "openai": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
}


def pool_of(size: int, tokens: int) -> Pool:
    """Documents of about so many tokens, no two alike."""
    rng = Random(f"{size}:{tokens}")
    documents = (
        Document(
            f"d{i}",
            f"[[worth={rng.randrange(4)}]] "
            + " ".join(f"{rng.random():.5f}" for _ in range(tokens // 2)),
        )
        for i in range(size)
    )
    return Pool("q", "how do I reset it?", tuple(documents))


def billed(provider: str, protocol: str, pool: Pool) -> tuple[float, float]:
    """Tokens a call that are counted at full price, and all of them."""
    with Fakes([provider], caches=Caches(), latency=0.05, keep=False) as fakes:
        os.environ[PROVIDERS[provider]] = fakes.urls[provider]
        keys = {f"{name.upper()}_API_KEY": fakes.key for name in PROVIDERS}
        with tempfile.TemporaryDirectory() as out:
            asker = ask(
                [pool],
                out,
                key_for(keys, provider),
                protocol=protocol,
                document_tokens=8000,
                clock=Clock(),  # who waits for a first answer waits by the fakes' time
            )
            assert not asker.stopped, asker.stopped
            rows = list(read_rows(out))
    full = sum(r.input_tokens - r.cached_tokens + 0.25 * r.cache_write_tokens for r in rows)
    return full / len(rows), sum(r.input_tokens for r in rows) / len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[25, 100])
    parser.add_argument("--tokens", type=int, nargs="+", default=[500, 2000, 6000])
    parser.add_argument("--protocols", nargs="+", default=["zelo", "graded"])
    options = parser.parse_args()
    print("provider   protocol    K  tokens       sent  full price  ratio")
    for provider in PROVIDERS:
        for protocol in options.protocols:
            for size in options.sizes:
                for tokens in options.tokens:
                    pool = pool_of(size, tokens)
                    full, sent = billed(provider, protocol, pool)
                    print(
                        f"{provider:10} {protocol:8} {size:4} {tokens:7,} {sent:10,.0f}"
                        f" {full:11,.0f}  {full / sent:5.2f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
