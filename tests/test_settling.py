"""Workers that read, settle and write parts leave what the driver writes of the same pools."""

import gzip

import pyarrow as pa
import pytest

from tests.builders import PANEL, answers, line_of, options_of, pool_of
from zelo_ray.engine import write_parts
from zelo_ray.engine.build_results import build_results
from zelo_ray.engine.count_input import count_input
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.write_parts import collect_parts, plan_parts
from zelo_ray.engine.write_results import write_results
from zelo_ray.formats.files import read_placed_lines
from zelo_ray.formats.pools import LineLimits, read_lines
from zelo_ray.formats.stored import StoredTable
from zelo_ray.ray import building_results
from zelo_ray.ray.building_results import ResultPartsActor
from zelo_ray.ray.dataset import Job

POOLS = [pool_of(query_id=f"q{n}", query=f"which? é{'x' * n}") for n in range(23)]
BAD = (b"\xef\xbb\xbf", b"{no json}\n", b"\r\n", b'{"query": {"id": "q0", "query": "again"}}\r\n')


def shards_in(folder, *, packed):
    """Some pools in two files, with a byte order mark, bad lines and blank ones between."""
    written = []
    for number, some in enumerate((POOLS[:17], POOLS[17:])):
        said = b"".join(line_of(pool) + b"\n" + BAD[1 + n % 3] for n, pool in enumerate(some))
        path = folder / f"{number}.jsonl{'.gz' * packed}"
        path.write_bytes(gzip.compress(BAD[0] + said) if packed else BAD[0] + said)
        written.append(str(path))
    return written


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("most", [1, 5, 100])
def test_parts_of_workers_are_the_results_of_the_driver(tmp_path, monkeypatch, most, packed):
    for module in (write_parts, building_results):
        monkeypatch.setattr(module, "PART_POOLS", most)
    shards = shards_in(tmp_path, packed=packed)
    one = options_of(out=str(tmp_path / "one"))
    many = options_of(out=str(tmp_path / "many"), ledger=one.out)
    census = count_input(shards, {}, many.out)
    assert census.pools == len(POOLS)
    ledger = Ledger(one.out, "run")
    ledger.append([*answers(POOLS, one).replies.values()])
    found = [line for shard in shards for line in read_lines(shard, LineLimits())]
    job = Job(many, PANEL, "run", frozenset(census.repeated))
    good = [line for line in found if job.includes(line)]
    summary = write_results([build_results(good, PANEL, one, ledger)], one)
    groups = plan_parts(census)
    worker = ResultPartsActor(job, None, groups)
    turned = reversed(range(len(groups)))
    rows = [row for number in turned for row in worker(pa.table({"group": [number]}))]
    told = collect_parts(rows, many, sum(group.parts for group in groups))
    assert (told.queries, told.judgments, told.scored) == (
        summary.queries,
        summary.judgments,
        summary.scored,
    )
    for name in ("votes", "scores", "failures"):
        both = [
            StoredTable(f"{out}/{name}.parquet").read().to_pylist() for out in (one.out, many.out)
        ]
        assert both[0] == both[1]
    both = [
        [line for _, line in read_placed_lines(f"{o.out}/annotated.jsonl")] for o in (one, many)
    ]
    assert both[0] == both[1]
