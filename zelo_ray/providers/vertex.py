"""Gemini on Vertex AI, with Google Cloud's credentials, which the SDK renews.

``GOOGLE_CLOUD_PROJECT`` and ``GOOGLE_CLOUD_LOCATION`` (``global`` by default) say where, as for
the SDK. Credentials are the application default ones: of ``gcloud auth application-default login``,
of the file in ``GOOGLE_APPLICATION_CREDENTIALS``, or of the machine's own account.
"""

import os
from dataclasses import replace

from zelo_ray.providers import Fatal, Settings, gemini
from zelo_ray.providers.addresses import url_for
from zelo_ray.providers.dialect import DialectConnection

_PROJECT, _URL_VARIABLE = "GOOGLE_CLOUD_PROJECT", "GOOGLE_VERTEX_BASE_URL"


def _open(settings: Settings, seconds: float) -> gemini.GeminiClient:
    location = os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"
    return gemini.GeminiClient(settings, seconds, (os.environ[_PROJECT], location))


def _connect(settings: Settings) -> DialectConnection:
    """Connect to the project that the environment names."""
    if not os.environ.get(_PROJECT):
        raise Fatal(f"no project; set {_PROJECT}", name="vertex")
    url = url_for(_URL_VARIABLE, "", os.environ) or None
    return DialectConnection(DIALECT, replace(settings, base_url=url))


_CREDENTIALS = ("GOOGLE_APPLICATION_CREDENTIALS", "the application default credentials")
DIALECT = replace(gemini.DIALECT, name="vertex", key_variables=_CREDENTIALS, open=_open, batch=None)
PROVIDER = replace(
    gemini.PROVIDER,
    connect=_connect,
    key_variables=(),
    url_variable=_URL_VARIABLE,
    batch=None,
    connect_batches=None,
)
"""The models of Gemini in a project, which cost there what they cost elsewhere."""
