"""Say what requests cost, by the ledger: calls, tokens and US dollars."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Progress, Replies, load_protocol
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Judge, Reply

Cost = NDArray[np.float64]
COST = ("calls", "tokens", "dollars", "unpriced")
"""What a cost is made of: tokens of input and output, and answers without a price."""


def find_requests(
    options: AnnotateOptions, panel: Sequence[Judge], replies: Replies
) -> dict[str, list[str]]:
    """Return the keys of all answered requests of a run about files of pools, by query id.

    Missing replies count as failed, so that requests of interrupted runs, and of runs that went on
    without some judges, are found too.
    """
    protocol, missing = load_protocol(options.protocol), Disabled(StopReason.MISSING, "not there")
    disabled, asked = {judge.name: missing for judge in panel}, dict[str, list[str]]()
    for line in (line for file in options.inputs for line in read_lines(file, LineLimits())):
        if line.pool:
            progress = Progress(protocol.rounds(line.pool, panel, options))
            progress.step(replies, disabled)
            keys = progress.answered_keys().values()
            asked[line.pool.query_id] = [key for each in keys for key in each]
    return asked


def cost_requests(rows: Iterable[Reply]) -> dict[str, Cost]:
    """Return the cost of each request by its key: of all billed answers, used or not."""
    costs = defaultdict[str, Cost](lambda: np.zeros(len(COST)))
    attempts = dict[tuple[str, str], int]()  # by run, too, because each run counts from 1
    for row in rows:
        before = attempts.get((row.key, row.run_id), 0)
        attempts[row.key, row.run_id] = after = max(before, row.attempts)
        tokens, dollars = row.input_tokens + row.output_tokens, row.dollars
        costs[row.key] += (after - before, tokens, dollars or 0.0, dollars is None)
    return dict(costs)


def cost_queries(asked: Mapping[str, Sequence[str]], costs: Mapping[str, Cost]) -> dict[str, Cost]:
    """Return the cost of each query. A request of two queries counts for the first."""
    counted, totals = set[str](), dict[str, Cost]()
    for query_id, keys in asked.items():
        new = [costs[key] for key in dict.fromkeys(keys) if key in costs and key not in counted]
        totals[query_id] = sum(new, np.zeros(len(COST)))
        counted |= {*keys}
    return totals
