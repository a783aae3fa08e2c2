"""Turn replies into results on Ray: through the driver, or in parts that workers write."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import pyarrow as pa
import ray

from zelo_ray.engine.build_results import build_results
from zelo_ray.engine.count_input import InputCount
from zelo_ray.engine.job import POOLS_AT_ONCE
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.write_parts import PART_POOLS, InputPart, collect_parts, plan_parts, write_part
from zelo_ray.engine.write_results import Summary
from zelo_ray.errors import LedgerError
from zelo_ray.formats.pools import Line, LineLimits, read_lines
from zelo_ray.protocols import Learned, load_protocol
from zelo_ray.ray.dataset import Job, lines_dataset, parse_lines, set_up_ray_data

_RESULT_ACTORS = 4  # of a small machine; else as many as there are processors


class ResultsActor:
    """Actor that builds the results of whole pools: judgments, failures and scores."""

    def __init__(self, job: Job, learned: Learned | None) -> None:
        self._job, self._learned = job, learned
        self._ledger = Ledger(job.options.ledger_dir)
        self._plans = job.open_plans()

    def __call__(self, block: pa.Table) -> pa.Table:
        """Build the results of the pools of a block."""
        return self.build(parse_lines(block))

    def build(self, lines: Sequence[Line]) -> pa.Table:
        """Build the results of good lines."""
        pools = self._plans.find([line.pool for line in lines if line.pool], self._job.panel)
        planned = iter(pools)
        lines = [replace(line, pool=next(planned)) if line.pool else line for line in lines]
        try:
            return self._build(lines)
        except LedgerError:  # what was damaged since then counts as missing
            self._ledger = Ledger(self._job.options.ledger_dir)
            return self._build(lines)

    def _build(self, lines: Sequence[Line]) -> pa.Table:
        job = self._job
        return build_results(
            *(lines, job.panel, job.options, self._ledger),
            disabled=job.disabled,
            learned=self._learned,
        )


class ResultPartsActor:
    """Actor that reads groups of pools, and builds and writes their results; returns figures."""

    def __init__(self, job: Job, learned: Learned | None, groups: Sequence[InputPart]) -> None:
        self._job, self._groups = job, groups
        self._results = ResultsActor(job, learned)
        self._only = learns_first(job, learned)

    def __call__(self, block: pa.Table) -> Iterator[pa.Table]:
        """Write the parts of some groups, which are named by their numbers."""
        for number in block["group"].to_pylist():
            group = self._groups[number]
            lines = _lines(self._job, group)
            for part in range(group.first, group.first + group.parts):
                blocks = map(self._results.build, _at_once(islice(lines, PART_POOLS)))
                yield write_part(part, blocks, self._job.options, judgments_only=self._only)


def learns_first(job: Job, learned: Learned | None) -> bool:
    """Return whether this pass gives judgments only, as scores have to be learned from them."""
    return bool(load_protocol(job.options.protocol).learned_from(job.options)) and learned is None


def build_results_on_ray(job: Job, shards: Sequence[str], learned: Learned | None) -> Any:
    """Yield the results of pools in the order of the input, in blocks."""
    from ray.data import ActorPoolStrategy  # noqa: PLC0415 - two seconds, paid where it is used

    dataset = lines_dataset(job, shards).map_batches(
        ResultsActor,
        fn_constructor_args=(job, learned),
        batch_size=POOLS_AT_ONCE,
        batch_format="pyarrow",
        num_cpus=0,
        compute=ActorPoolStrategy(min_size=1, max_size=_RESULT_ACTORS),
    )
    return dataset.iter_batches(batch_size=None, batch_format="pyarrow")


def write_results_in_parts(job: Job, census: InputCount, learned: Learned | None) -> Summary:
    """Build and write all results in parts, where pools are many."""
    from ray.data import ActorPoolStrategy  # noqa: PLC0415 - two seconds, paid where it is used

    groups = plan_parts(census)
    numbers = [{"group": number} for number in range(len(groups))]
    cpus = int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]
    dataset: Any = set_up_ray_data(verbose=job.options.verbose).from_items(
        numbers, override_num_blocks=len(groups)
    )
    rows = dataset.map_batches(
        ResultPartsActor,
        fn_constructor_args=(job, learned, groups),
        batch_size=1,
        batch_format="pyarrow",
        num_cpus=0,
        compute=ActorPoolStrategy(min_size=1, max_size=max(_RESULT_ACTORS, cpus)),
    ).iter_batches(batch_size=None, batch_format="pyarrow")
    parts = sum(group.parts for group in groups)
    return collect_parts(rows, job.options, parts, judgments_only=learns_first(job, learned))


def _lines(job: Job, group: InputPart) -> Iterator[Line]:
    """Read the good lines of a group."""
    for stretch in group.stretches:
        lines = read_lines(stretch.file, LineLimits(), stretch.number, stretch.offset)
        yield from islice((line for line in lines if job.includes(line)), stretch.pools)


def _at_once(lines: Iterator[Line]) -> Iterator[list[Line]]:
    while some := list(islice(lines, POOLS_AT_ONCE)):
        yield some
