"""Loopback fakes of the three providers' servers, for tests, kill tests and benchmarks.

In a test::

    with Fakes(faults=[Fault("429", rate=0.1)]) as fakes:
        Settings(key=fakes.key, base_url=fakes.urls["openai"])
        ...
        fakes.journal  # one dict for each request, and each line of a batch
        fakes.books()  # what was billed

As a process of its own: ``python -m tests.fakes --help``.
"""

from tests.fakes.core import Fakes, Fault
from tests.fakes.lengths import Lengths

__all__ = ["Fakes", "Fault", "Lengths"]
