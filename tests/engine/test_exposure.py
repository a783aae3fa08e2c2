"""What calls without a reply may have cost: said before they are sent, and known after a kill."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.helpers.builders import runs
from zelo_ray.engine.exposure import Exposure, sum_exposure
from zelo_ray.errors import LedgerError


def exposure_in(folder, **fields):
    return Exposure(str(folder), "run", **fields)


def records(folder):
    return list((folder / "exposure").glob("*.json"))


def test_nothing_is_sent_before_it_is_said(tmp_path):
    async def run():
        exposure = exposure_in(tmp_path)
        sent = 0.0
        for _ in range(100):
            await exposure.add(0.25)
            sent += 0.25
            assert sum_exposure(str(tmp_path)) == sent  # and no more than was taken for them
        return exposure

    asyncio.run(run())
    assert sum_exposure(str(tmp_path)) >= 25.0  # as after a kill


@runs
async def test_what_is_settled_is_said_no_more(tmp_path):
    exposure = exposure_in(tmp_path)
    await asyncio.gather(*(exposure.add(0.1) for _ in range(20)))
    for _ in range(20):
        exposure.remove(0.1)
    await exposure.lower()
    assert sum_exposure(str(tmp_path)) == 0.0
    assert records(tmp_path) == []


@runs
async def test_what_is_lost_stays(tmp_path):
    exposure = exposure_in(tmp_path)
    for _ in range(4):
        await exposure.add(0.5)
    exposure.remove(0.5, possibly_billed=True)
    for _ in range(3):
        exposure.remove(0.5)
    await exposure.lower()
    assert sum_exposure(str(tmp_path)) == pytest.approx(0.5)
    await exposure.add(0.5)
    assert sum_exposure(str(tmp_path)) >= 1.0


@pytest.mark.parametrize(("meanwhile", "least"), [(0, 1.0), (5, 6.0)], ids=["alone", "sending"])
@runs
async def test_less_is_said_now_and_then(tmp_path, meanwhile, least):
    """Whoever sends while it is said has a line of its own, so that what it may cost stands."""
    now = [0.0]
    exposure = exposure_in(tmp_path, clock=SimpleNamespace(now=lambda: now[0]))
    for _ in range(10):
        await exposure.add(1.0)
    for _ in range(9):
        exposure.remove(1.0)
    await exposure.lower()
    assert sum_exposure(str(tmp_path)) >= 10.0  # that was a moment ago
    now[0] = 60.0
    await asyncio.gather(exposure.lower(), *(exposure.add(1.0) for _ in range(meanwhile)))
    assert sum_exposure(str(tmp_path)) >= least
    assert meanwhile or sum_exposure(str(tmp_path)) == pytest.approx(least)


def test_an_object_store_will_do(s3):
    async def run():
        exposure = Exposure(f"{s3}/books", "run")
        await exposure.add(2.0)
        assert sum_exposure(f"{s3}/books") == 2.0
        exposure.remove(2.0)
        await exposure.lower()

    asyncio.run(run())
    assert sum_exposure(f"{s3}/books") == 0.0


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / "exposure").mkdir()
    Path(tmp_path, "exposure", "x.json").write_bytes(os.urandom(20))
    with pytest.raises(LedgerError, match=r"x\.json"):
        sum_exposure(str(tmp_path))
