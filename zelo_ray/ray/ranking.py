"""Turn the replies of rerankers into rankings, pool by pool, in actors of Ray."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import ray.data

from zelo_ray.engine.job import POOLS_AT_ONCE
from zelo_ray.engine.ledger import Ledger
from zelo_ray.errors import LedgerError
from zelo_ray.options import AnnotateOptions
from zelo_ray.ray.dataset import Job, lines_dataset, parse_lines
from zelo_ray.reasons import Disabled
from zelo_ray.rerankers import BakeoffRanker
from zelo_ray.rerankers.ranking import rank_lines

RankersByName = Mapping[str, tuple[BakeoffRanker, AnnotateOptions]]
_ACTORS = 4  # each holds the ledger's index


class RankingActor:
    """Turns replies into rankings, for whole pools."""

    def __init__(
        self,
        rankers: RankersByName,
        out: str,
        disabled: Mapping[str, Disabled],
    ) -> None:
        self._rankers, self._out, self._disabled = rankers, out, disabled
        self._ledger = Ledger(out)

    def __call__(self, block: pa.Table) -> pa.Table:
        """Rank the pools of a block."""
        lines = parse_lines(block)
        try:
            return rank_lines(lines, self._rankers, self._ledger, self._disabled)
        except LedgerError:  # what was damaged since then counts as missing
            self._ledger = Ledger(self._out)
            return rank_lines(lines, self._rankers, self._ledger, self._disabled)


def rank_pools(
    job: Job, shards: Sequence[str], rankers: RankersByName, disabled: Mapping[str, Disabled]
) -> Iterator[pa.Table]:
    """Yield blocks of rows, one for each pool and reranker: see `rank_lines`.

    Args:
        job: of one of the rerankers; the others have the same pools and ledger.
        shards: the files of the pools.
        rankers: the rerankers that were asked, with their options.
        disabled: rerankers that are asked nothing more, with the reason.
    """
    dataset = lines_dataset(job, shards).map_batches(
        RankingActor,
        fn_constructor_args=(rankers, job.options.ledger_dir, disabled),
        batch_size=POOLS_AT_ONCE,
        batch_format="pyarrow",
        num_cpus=0,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=_ACTORS),
    )
    yield from dataset.iter_batches(batch_size=None, batch_format="pyarrow")
