"""Providers send requests to models and read the answers. They know nothing of relevance.

A provider is one object in one module, ``PROVIDER = Provider(...)``, and a line in ``PROVIDERS``;
or one of the user's own, ``my_module:PROVIDER`` or ``path/to/file.py:PROVIDER``; or one that an
installed package declares in ``zelo_ray.providers``. So is a provider of rerankers, in
``RERANKERS`` or ``zelo_ray.rerankers``: judges that answer with scores only. A provider raises one
of three errors; `zelo_ray.engine.calling` decides what to do about each.
"""

from zelo_ray.providers.panel import (
    build_panel,
    connect,
    find_key,
    fingerprint,
    panel_of,
    refuse_unconnected,
    refuse_unknown_names,
    refuse_unlimited,
    refuse_without_probabilities,
    server_chooses_sampling,
    with_options,
)
from zelo_ray.providers.provider import (
    Batch,
    Batches,
    BatchLimits,
    Connection,
    Fatal,
    Outcome,
    Provider,
    Refused,
    Retry,
    RetryKind,
    Settings,
)
from zelo_ray.providers.registry import (
    PROVIDERS,
    RERANKERS,
    is_own_provider,
    is_provider_of_judges,
    is_reranker,
    load_provider,
    parse_judge,
)

__all__ = [
    "PROVIDERS",
    "RERANKERS",
    "Batch",
    "BatchLimits",
    "Batches",
    "Connection",
    "Fatal",
    "Outcome",
    "Provider",
    "Refused",
    "Retry",
    "RetryKind",
    "Settings",
    "build_panel",
    "connect",
    "find_key",
    "fingerprint",
    "is_own_provider",
    "is_provider_of_judges",
    "is_reranker",
    "load_provider",
    "panel_of",
    "parse_judge",
    "refuse_unconnected",
    "refuse_unknown_names",
    "refuse_unlimited",
    "refuse_without_probabilities",
    "server_chooses_sampling",
    "with_options",
]
