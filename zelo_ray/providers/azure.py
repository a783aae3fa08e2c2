"""Azure OpenAI: the deployments of a resource, by its v1 API or by one with a date.

Azure's own variables say where and how: ``AZURE_OPENAI_ENDPOINT``, ``AZURE_OPENAI_API_KEY``, and
``OPENAI_API_VERSION`` for a dated API, whose addresses hold the deployment and whose key travels in
a header of its own. Without the latter the v1 API is called, which speaks plain OpenAI.
"""

import os
from dataclasses import replace
from typing import Any

from zelo_ray.providers import Fatal, Provider, Settings
from zelo_ray.providers import openai as dialects
from zelo_ray.providers.addresses import url_for
from zelo_ray.providers.dialect import DialectConnection, StainlessClient, sdk_options

_API = "/openai"
_V1 = f"{_API}/v1"


def _connect(settings: Settings) -> DialectConnection:
    """Connect to the resource that the settings or the environment name."""
    url = settings.base_url or url_for(DIALECT.url_variable, settings.key, os.environ)
    if not url:
        what = "no address; set AZURE_OPENAI_ENDPOINT to https://RESOURCE.openai.azure.com"
        raise Fatal(what, name=DIALECT.name)
    resource = url.partition(f"{_API}/")[0].rstrip("/").removesuffix(_API)
    return DialectConnection(
        DIALECT, DIALECT.resolve(replace(settings, base_url=f"{resource}{_V1}"))
    )


def _open(settings: Settings, seconds: float) -> StainlessClient:
    """Open the SDK's client for the v1 API, or for the API of a date, such as ``2024-10-21``."""
    import openai  # noqa: PLC0415 - a second of import, paid where it is used

    date = os.environ.get("OPENAI_API_VERSION")
    if not date:
        return dialects.open_client(settings, seconds)
    options: dict[str, Any] = sdk_options(settings, seconds)
    options["base_url"] = f"{(settings.base_url or '').removesuffix(_V1)}{_API}"
    http_client = openai.DefaultAioHttpClient(follow_redirects=False)
    sdk = openai.AsyncAzureOpenAI(**options, api_version=date, http_client=http_client)
    return StainlessClient(sdk, openai.APIStatusError, "/chat/completions")


DIALECT = replace(
    dialects.DIALECT,
    name="azure",
    key_variables=("AZURE_OPENAI_API_KEY",),
    base_url="",
    url_variable="AZURE_OPENAI_ENDPOINT",
    open=_open,
    body=lambda request, _: dialects.build_body(request),
    batch=None,
)
PROVIDER = Provider(
    build_body=dialects.build_body,
    connect=_connect,
    key_variables=DIALECT.key_variables,
    url_variable=DIALECT.url_variable,
    options=dialects.OPTIONS,
    transport=dialects.PROVIDER.transport,
    concurrency=256,  # the pace follows from rates; this only caps calls in flight
    rates={"rpm": 300},  # a small deployment; responses report the limit of tokens
    gives_probabilities=True,
)
"""Deployments, whose names are their owner's; so is their price unknown without ``prices``."""
