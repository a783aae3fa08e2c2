"""Providers send requests to models and read the answers. They know nothing of relevance.

A provider is one object in one module, ``PROVIDER = Provider(...)``, and a line in ``PROVIDERS``;
or one of the user's own, ``my_module:PROVIDER`` or ``path/to/file.py:PROVIDER``; or one that an
installed package declares in ``zelo_ray.providers``. So is a provider of rerankers, in
``RERANKERS`` or ``zelo_ray.rerankers``: judges that answer with scores only. A provider raises one
of three errors; `zelo_ray.engine.calling` decides what to do about each.
"""

from zelo_ray.providers.batches import Batches as Batches
from zelo_ray.providers.panel import build_panel as build_panel
from zelo_ray.providers.panel import connect as connect
from zelo_ray.providers.panel import find_key as find_key
from zelo_ray.providers.panel import fingerprint as fingerprint
from zelo_ray.providers.panel import panel_of as panel_of
from zelo_ray.providers.panel import refuse_unconnected as refuse_unconnected
from zelo_ray.providers.panel import refuse_unknown_names as refuse_unknown_names
from zelo_ray.providers.panel import refuse_unlimited as refuse_unlimited
from zelo_ray.providers.panel import refuse_without_probabilities as refuse_without_probabilities
from zelo_ray.providers.panel import server_chooses_sampling as server_chooses_sampling
from zelo_ray.providers.panel import with_options as with_options
from zelo_ray.providers.provider import Batch as Batch
from zelo_ray.providers.provider import BatchLimits as BatchLimits
from zelo_ray.providers.provider import Connection as Connection
from zelo_ray.providers.provider import Fatal as Fatal
from zelo_ray.providers.provider import Outcome as Outcome
from zelo_ray.providers.provider import Provider as Provider
from zelo_ray.providers.provider import Refused as Refused
from zelo_ray.providers.provider import Retry as Retry
from zelo_ray.providers.provider import RetryKind as RetryKind
from zelo_ray.providers.provider import Settings as Settings
from zelo_ray.providers.registry import PROVIDERS as PROVIDERS
from zelo_ray.providers.registry import RERANKERS as RERANKERS
from zelo_ray.providers.registry import is_own_provider as is_own_provider
from zelo_ray.providers.registry import is_provider_of_judges as is_provider_of_judges
from zelo_ray.providers.registry import is_reranker as is_reranker
from zelo_ray.providers.registry import load_provider as load_provider
from zelo_ray.providers.registry import parse_judge as parse_judge
