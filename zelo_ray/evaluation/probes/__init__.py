"""Provide the probes: changes of a document that leave its relevance as it is.

A judge that is asked about a document and about its changed copy should judge both alike. Each
probe is one object in one module, ``PROBE = ProbeKind(...)``, and a line in `PROBES`.
"""

from importlib import import_module

from zelo_ray.errors import OptionError
from zelo_ray.evaluation.probes.kind import ProbeKind, Subject
from zelo_ray.names import did_you_mean

__all__ = ["PROBES", "ProbeKind", "Subject", "load_probe"]

PROBES = {
    "length": "zelo_ray.evaluation.probes.length",
    "order": "zelo_ray.evaluation.probes.order",
    "stuffing": "zelo_ray.evaluation.probes.stuffing",
    "injection": "zelo_ray.evaluation.probes.injection",
    "popularity": "zelo_ray.evaluation.probes.popularity",
}


def load_probe(name: str) -> ProbeKind:
    """Return a probe by its name.

    Raises:
        OptionError: there is none of this name.
    """
    if name not in PROBES:
        raise OptionError(
            f"--probes: no such probe {name!r}{did_you_mean(name, PROBES)}; there are "
            f"{', '.join(PROBES)}"
        )
    kind: ProbeKind = import_module(PROBES[name]).PROBE
    return kind
