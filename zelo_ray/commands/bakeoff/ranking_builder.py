"""Build rankings from the replies of rerankers, where the executor of a bake-off is."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from zelo_ray.engine.ledger import Ledger
from zelo_ray.errors import LedgerError
from zelo_ray.files.pools import Line
from zelo_ray.options import AnnotateOptions
from zelo_ray.reasons import Disabled
from zelo_ray.rerankers import BakeoffRanker
from zelo_ray.rerankers.ranking import rank_lines


class RankingBuilder:
    """Turns replies into rankings, for whole pools; see `rank_lines`.

    Args:
        rankers: the rerankers that were asked, with their options.
        ledger_dir: directory or URL of the ledger.
        disabled: rerankers that are asked nothing more, with the reason.
    """

    def __init__(
        self,
        rankers: Mapping[str, tuple[BakeoffRanker, AnnotateOptions]],
        ledger_dir: str,
        disabled: Mapping[str, Disabled],
    ) -> None:
        self._rankers, self._place, self._disabled = rankers, ledger_dir, disabled
        self._ledger = Ledger(ledger_dir)

    def build(self, lines: Sequence[Line]) -> pa.Table:
        """Rank the pools of some lines."""
        try:
            return rank_lines(lines, self._rankers, self._ledger, self._disabled)
        except LedgerError:  # what was damaged since then counts as missing
            self._ledger.close()
            self._ledger = Ledger(self._place)
            return rank_lines(lines, self._rankers, self._ledger, self._disabled)

    def close(self) -> None:
        """Close the ledger."""
        self._ledger.close()
