"""Fill the ledger through providers' batch APIs: cheaper, and hours later.

Requests are gathered into parts. A part's record is durable before its batch is created and names
the batch right after; so a run that was killed adopts what it finds at the provider, and submits
nothing twice. Results of a batch that has ended, in whatever way, go into the ledger; what is then
still missing is planned anew.
"""

from zelo_ray.engine.batch.client import BatchClient, goes_in_batches
from zelo_ray.engine.batch.state import connect

__all__ = ["BatchClient", "connect", "goes_in_batches"]
