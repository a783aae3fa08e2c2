"""Azure OpenAI: the deployments of a resource, by its v1 API, which speaks plain OpenAI.

Azure's own variables say where and how: ``AZURE_OPENAI_ENDPOINT`` and ``AZURE_OPENAI_API_KEY``.
"""

import os
from dataclasses import replace

from zelo_ray.providers import Fatal, Provider, Settings
from zelo_ray.providers import openai as dialects
from zelo_ray.providers.addresses import url_for
from zelo_ray.providers.dialect import DialectConnection

_API = "/openai"


def _connect(settings: Settings) -> DialectConnection:
    """Connect to the resource that the settings or the environment name."""
    url = settings.base_url or url_for(DIALECT.url_variable, settings.key, os.environ)
    if not url:
        what = "no address; set AZURE_OPENAI_ENDPOINT to https://RESOURCE.openai.azure.com"
        raise Fatal(what, name=DIALECT.name)
    resource = url.partition(f"{_API}/")[0].rstrip("/").removesuffix(_API)
    at = replace(settings, base_url=f"{resource}{_API}/v1")
    return DialectConnection(DIALECT, DIALECT.resolve(at))


DIALECT = replace(
    dialects.DIALECT,
    name="azure",
    key_variables=("AZURE_OPENAI_API_KEY",),
    base_url="",
    url_variable="AZURE_OPENAI_ENDPOINT",
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
