"""Azure OpenAI: the deployments of a resource, by its v1 API or by one with a date.

Azure's own variables say where and how: ``AZURE_OPENAI_ENDPOINT``, ``AZURE_OPENAI_API_KEY``, and
``OPENAI_API_VERSION`` for a dated API, whose addresses hold the deployment and whose key travels in
a header of its own. Without the latter the v1 API is called, which speaks plain OpenAI.
"""

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from zelo_ray.providers import Fatal, Provider, Settings
from zelo_ray.providers.addresses import url_for
from zelo_ray.providers.no_response import CONNECT_SECONDS
from zelo_ray.providers.openai.chat import OPTIONS, TRANSPORT, ChatCompletions
from zelo_ray.providers.openai.connection import build_body, import_httpx, open_client
from zelo_ray.providers.outcome import resolve_settings

if TYPE_CHECKING:
    import openai

_KEY_VARIABLES = ("AZURE_OPENAI_API_KEY",)
_URL_VARIABLE = "AZURE_OPENAI_ENDPOINT"
_VERSION_VARIABLE = "OPENAI_API_VERSION"
_API = "/openai"


def _connect(settings: Settings) -> ChatCompletions:
    """Connect to the resource that the settings or the environment name.

    An address may go on with the path of an API, as Azure's pages show it.

    Raises:
        Fatal: nothing names a resource, or the key or the address is malformed.
    """
    url = settings.base_url or url_for(_URL_VARIABLE, settings.key, os.environ)
    if not url:
        what = "no address; set AZURE_OPENAI_ENDPOINT to https://RESOURCE.openai.azure.com"
        raise Fatal(what, name="azure")
    resource = url.partition(f"{_API}/")[0].rstrip("/").removesuffix(_API)
    settings = resolve_settings(
        replace(settings, base_url=f"{resource}{_API}/v1"),
        *("azure", _KEY_VARIABLES, "", _URL_VARIABLE),
    )
    version = os.environ.get(_VERSION_VARIABLE)
    if version:
        client: openai.AsyncOpenAI = _open_dated(settings, f"{resource}{_API}", version)
    else:
        client = open_client(settings, settings.timeout)
    return ChatCompletions(settings, client, _KEY_VARIABLES)


def _open_dated(settings: Settings, url: str, version: str) -> "openai.AsyncAzureOpenAI":
    """Open the SDK's client for the API of a date, such as ``2024-10-21``, without its retries."""
    import httpx2  # noqa: PLC0415 - paid where it is used
    import openai  # noqa: PLC0415 - a second of import, paid where it is used

    import_httpx()
    return openai.AsyncAzureOpenAI(
        api_key=settings.key or "none",
        api_version=version,
        base_url=url,
        timeout=httpx2.Timeout(settings.timeout, connect=CONNECT_SECONDS),
        max_retries=0,
        http_client=openai.DefaultAioHttpClient(follow_redirects=False),
    )


PROVIDER = Provider(
    build_body=lambda request: build_body(request, cached=False),
    connect=_connect,
    key_variables=_KEY_VARIABLES,
    url_variable=_URL_VARIABLE,
    options=OPTIONS,
    transport=TRANSPORT,
    concurrency=256,  # the pace follows from rates; this only caps calls in flight
    rates={"rpm": 300},  # a small deployment; responses report the limit of tokens
    gives_probabilities=True,
)
"""Deployments, whose names are their owner's; so is their price unknown without ``prices``."""
