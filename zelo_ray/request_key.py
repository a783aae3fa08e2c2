"""Compute the key of a request: a hash of everything that can change its answer.

One JSON list is hashed, as ``json.dumps(list, sort_keys=True)`` writes it: provider, model, base
URL and options of the judge; then system prompt, user prompt, schema and repeat. Parts that many
requests share are serialised and hashed once.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any

import orjson

KEY_LENGTH = 32
_written = json.JSONEncoder(sort_keys=True).encode  # json.dumps would make one for each request


def judge_prefix(
    provider: str, model: str, base_url: str | None, options: Mapping[str, Any]
) -> bytes:
    """Return the beginning of the list, which names the judge; unset options are left out."""
    settings = {name: value for name, value in options.items() if value not in (None, {})}
    return json.dumps([provider, model, base_url, settings], sort_keys=True)[:-1].encode()


def hash_request(head: bytes, system: str, user: str, *rest: Any) -> str:
    """Return the key: 32 hexadecimal digits; ``head`` is the `judge_prefix`.

    ``rest`` are the other elements of the list; bytes are JSON already.
    """
    digest = _hash_prefix(head, system).copy()
    digest.update(_json_string(user))
    for part in rest:
        written = part if isinstance(part, bytes) else _written(part).encode()
        digest.update(b", " + written)
    digest.update(b"]")
    key: str = digest.hexdigest()
    return key[:KEY_LENGTH]


@lru_cache(64)
def _hash_prefix(head: bytes, system: str) -> Any:
    """Return the hash of the part that requests to one judge with one system prompt share."""
    return hashlib.sha256(head + b", " + _json_string(system) + b", ")


@lru_cache(16)  # a prompt goes to several judges, one after another
def _json_string(text: str) -> bytes:
    """Return a text as `json.dumps` writes it, by orjson where both agree, which is faster."""
    if text.isascii() and "\x7f" not in text:
        return orjson.dumps(text)
    return encode_basestring_ascii(text).encode()
