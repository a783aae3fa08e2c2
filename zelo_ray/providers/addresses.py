"""Decide to which address a provider's key is sent.

A base URL from a file ``.env`` is not put into the variable that the SDK reads. It is stored with a
digest of the key from the same file, so that no other key is ever sent there.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from urllib.parse import urlsplit

from zelo_ray.providers.provider import Provider
from zelo_ray.records import Judge

_WITH_DIGEST = "ZELO_DOTENV_"
_ENDPOINT = re.compile(r"/((chat/)?completions|responses|messages|rerank)/?$")
_NO_SCHEME = re.compile(r"@(localhost(?![\w.-])|[\w.-]+:\d+(?=/|$))")


def find_url_error(url: str) -> str:
    """Return what is wrong with a base URL, without what may hold a key; "" if it is right."""
    place = urlsplit(url)
    if place.query or place.fragment:  # the path of a request follows the base URL
        azure = "openai:DEPLOYMENT@https://RESOURCE.openai.azure.com/openai/v1"
        return f"a base URL ends before any ? or #; Azure's, without api-version, is {azure}"
    if endpoint := _ENDPOINT.search(place.path):
        return f"a base URL ends before {endpoint.group().rstrip('/')}"
    return ""


def lacks_scheme(model: str) -> bool:
    """Return whether a model's name continues with a server's address without ``http://``."""
    return bool(_NO_SCHEME.search(model))


def public_address(address: str) -> str:
    """Return an address without what may be secret in it: a password, a query."""
    url = urlsplit(address)
    return url._replace(netloc=url.netloc.rpartition("@")[2], query="", fragment="").geturl()


def store_url_for_key(variable: str, url: str, key: str) -> tuple[str, str]:
    """Return the variable and its value that store a base URL for one key only."""
    return _WITH_DIGEST + variable, f"{_digest(key)} {url}"


def url_for(variable: str, key: str, environ: Mapping[str, str]) -> str:
    """Return the base URL of a variable to use with a key; empty for the provider's own."""
    digest, _, url = environ.get(_WITH_DIGEST + variable, "").partition(" ")
    return environ.get(variable) or (url if digest == _digest(key) else "")


def foreign_address(judge: Judge, provider: Provider, key: str, environ: Mapping[str, str]) -> str:
    """Return the address that a judge's key is sent to; empty for the provider's own."""
    variable = provider.url_variable
    return public_address(judge.base_url or (url_for(variable, key, environ) if variable else ""))


def _digest(key: str) -> str:
    return sha256(key.strip().encode(errors="surrogateescape")).hexdigest()
