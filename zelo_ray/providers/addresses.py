"""Know to which address a provider's key goes, and where both are from.

A base URL from a file ``.env`` is kept apart from the variables that SDKs read, beside a digest of
the key that it may be used with: no other key is ever sent there.
"""

from collections.abc import Mapping
from hashlib import sha256
from urllib.parse import urlsplit

from zelo_ray.providers.provider import Provider
from zelo_ray.records import Judge

_KEPT_APART = "ZELO_DOTENV_"


def keep_apart(variable: str, url: str, key: str) -> tuple[str, str]:
    """Make the variable, and its value, that allow a base URL for one key alone."""
    return _KEPT_APART + variable, f"{_digest(key)} {url}"


def url_for(variable: str, key: str, environ: Mapping[str, str]) -> str:
    """Find the base URL that a key is used with; empty where it is the provider's own.

    Args:
        variable: the one that the provider's SDK reads.
        key: what is sent there.
        environ: where variables are found.
    """
    digest, _, url = environ.get(_KEPT_APART + variable, "").partition(" ")
    return environ.get(variable) or (url if digest == _digest(key) else "")


def key_variable(
    judge: Judge, provider: Provider, named: Mapping[str, str], environ: Mapping[str, str]
) -> str:
    """Name the variable that holds a judge's key; empty where it needs none, or has none."""
    if judge.name in named:
        return named[judge.name]
    names = () if judge.base_url else provider.key_variables
    return next((name for name in names if environ.get(name)), "")


def elsewhere(judge: Judge, provider: Provider, key: str, environ: Mapping[str, str]) -> str:
    """Show the address that a judge's key goes to, where it is not the provider's own."""
    variable = provider.url_variable
    found = judge.base_url or (url_for(variable, key, environ) if variable else "")
    url = urlsplit(found)
    return url._replace(netloc=url.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _digest(key: str) -> str:
    return sha256(key.strip().encode(errors="surrogateescape")).hexdigest()
