"""What lies in batches, listed and cancelled."""

import asyncio
import json
import os

import pytest

from tests.fakes import Fakes
from tests.helpers import builders
from tests.helpers.builders import pool_of, send_away
from zelo_ray.cli import main
from zelo_ray.commands.batches import list_batches
from zelo_ray.engine.batch import BatchClient
from zelo_ray.engine.batch.parts import BatchPart, Parts

POOLS = [pool_of(range(6))]


@pytest.fixture
def slow(monkeypatch):
    """Providers whose batches take long, and runs that are stopped once theirs lie there."""
    with Fakes(batch_seconds=60) as fakes:
        names = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL")
        for name, url in zip(names, fakes.urls.values(), strict=True):
            monkeypatch.setenv(name, url)
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
            monkeypatch.setenv(name, fakes.key)

        class Hurried(BatchClient):
            async def run(self, pools):
                async def stop():
                    while not any(tally.batched for tally in self.tallies.values()):
                        await asyncio.sleep(0.05)
                    self.stop("enough")

                await asyncio.gather(super().run(pools), stop())

        monkeypatch.setattr(builders, "BatchClient", Hurried)
        yield fakes


def test_batches_are_listed_and_cancelled(slow, tmp_path, capsys):
    send_away(POOLS, tmp_path, os.environ)
    listed = str(list_batches(str(tmp_path), os.environ))
    for part in Parts(str(tmp_path)):
        assert part.batch in listed
    assert main(["batches", str(tmp_path), "--cancel"]) == 0
    printed = capsys.readouterr().out.lower()
    assert printed.count("asked to cancel") == 3
    assert all(part.cancelled for part in Parts(str(tmp_path))), "the next run asks for the rest"
    assert slow.key not in listed + printed


@pytest.mark.parametrize("ledger", ["ledger", "out"])
def test_the_batches_of_a_run_lie_in_its_ledger_once(tmp_path, capsys, monkeypatch, ledger):
    monkeypatch.chdir(tmp_path)
    Parts(ledger).keep(BatchPart("a", "openai:m", "V", ["k"], 1, 1, 0.0, 0.0))
    options = {"out": str(tmp_path / "out"), "ledger": str(tmp_path / ledger)}
    (tmp_path / "out").mkdir(exist_ok=True)
    (tmp_path / "out/run.json").write_text(json.dumps({"finished": False, "options": options}))
    assert [len(list_batches(place, {})) for place in ("out/", ledger)] == [1, 1]
    assert main(["batches", "out"]) == 0
    assert "openai:m" in capsys.readouterr().out


def test_without_batches_it_says_how_to_make_some(tmp_path, capsys):
    assert main(["batches", str(tmp_path)]) == 1
    assert "--mode batch" in capsys.readouterr().err
