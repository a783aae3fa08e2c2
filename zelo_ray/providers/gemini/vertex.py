"""Gemini on Vertex AI, with Google Cloud's credentials, which the SDK renews.

``GOOGLE_CLOUD_PROJECT`` and ``GOOGLE_CLOUD_LOCATION`` (``global`` by default) say where, as for
the SDK. Credentials are the application default ones: of ``gcloud auth application-default login``,
of the file in ``GOOGLE_APPLICATION_CREDENTIALS``, or of the machine's own account.
"""

import os
from dataclasses import replace

from zelo_ray.providers import Fatal, Settings
from zelo_ray.providers.addresses import url_for
from zelo_ray.providers.gemini.connection import Client
from zelo_ray.providers.gemini.generate import PROVIDER as GEMINI
from zelo_ray.providers.gemini.generate import GenerateContent

_URL_VARIABLE = "GOOGLE_VERTEX_BASE_URL"
_CREDENTIALS = ("GOOGLE_APPLICATION_CREDENTIALS", "the application default credentials")


def _connect(settings: Settings) -> GenerateContent:
    """Connect to the project that the environment names.

    Raises:
        Fatal: it names none.
    """
    project = os.environ.get("GOOGLE_CLOUD_PROJECT")
    if not project:
        raise Fatal("no project; set GOOGLE_CLOUD_PROJECT", name="vertex")
    place = (project, os.environ.get("GOOGLE_CLOUD_LOCATION") or "global")
    settings = replace(settings, base_url=url_for(_URL_VARIABLE, "", os.environ) or None)
    return GenerateContent(settings, Client(settings, settings.timeout, place), _CREDENTIALS)


PROVIDER = replace(
    GEMINI,
    connect=_connect,
    key_variables=(),
    url_variable=_URL_VARIABLE,
    batch=None,
    connect_batches=None,
)
"""The models of Gemini in a project, which cost there what they cost elsewhere."""
