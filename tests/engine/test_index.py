"""One page that lists several runs: what it holds, and what is no run."""

import json
import re

import pytest

from tests.helpers.builders import pool_of, results_of, write_run
from zelo_ray import load_run
from zelo_ray.cli import main
from zelo_ray.commands.report import write_index
from zelo_ray.errors import NotFoundError

EVIL = "javascript:alert(1)&\"'<script>window.pwned=1<"


@pytest.fixture
def runs(tmp_path):
    for name in ("one", EVIL):
        write_run(tmp_path / name, results_of(tmp_path / name, [pool_of()]))
    place = tmp_path / "one" / "run.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"finished": False}))
    load_run(tmp_path / EVIL).write_report()
    return tmp_path


def test_runs_are_listed_and_their_names_lead_nowhere_else(runs):
    place = f"{runs}/sub/all.html"
    assert main(["report", str(runs / "one"), str(runs / EVIL), "--index", place]) == 0
    page = (runs / "sub" / "all.html").read_text()
    (address,) = re.findall(r'href="([^#"][^"]*)"', page)
    assert address.startswith("../javascript%3Aalert")
    assert "<script>window" not in page
    assert "not finished" in page
    with pytest.raises(NotFoundError, match="gone is not a run"):
        write_index([str(runs / "one"), str(runs / "gone")], place)
    assert main(["report", str(runs / "one"), str(runs / EVIL)]) == 2
