"""Figures of a run as Ray metrics, as Prometheus reads them from the port of a node."""

import re
import subprocess
import sys

import pytest

from tests.helpers.crash import free_ports

pytestmark = [pytest.mark.ray, pytest.mark.nightly]

SERVE = """
import sys, tempfile, time, urllib.request
import ray
from zelo_ray.engine.tally import Tally
from zelo_ray.ray.coordinator import _Gauges

port = int(sys.argv[1])
where = {"_metrics_export_port": port, "_temp_dir": sys.argv[2], "include_dashboard": False}
ray.init(address="local", num_cpus=1, object_store_memory=100 * 2**20, **where)
tally = Tally(
    known=1, queries=2, answered=4, dollars=0.5, output_tokens=70, limits={"rpm": 60.0},
    statuses={"ok": 3, "refused": 1},
)
gauges = _Gauges()
text = ""
while "ray_zelo_limit" not in text or "ray_zelo_queries" not in text:
    gauges.set("a-run", {"openai:m": tally}, {"openai:m": 12})
    time.sleep(1)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response:
            text = response.read().decode()
    except OSError:
        pass
print(text)
"""


def test_a_node_serves_the_figures_of_a_run_by_judge(tmp_path_factory):
    (port,) = free_ports(1)
    folder = tmp_path_factory.mktemp("r")
    command = [sys.executable, "-c", SERVE, str(port), str(folder)]
    served = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    figures, labels = {}, set()
    for line in served.stdout.splitlines():
        if found := re.fullmatch(r"ray_zelo_(\w+)\{(.*)\} (\S+)", line):
            tags = dict(re.findall(r'(\w+)="([^"]*)"', found[2]))
            assert (tags["run"], tags["judge"]) == ("a-run", "openai:m")
            figures[found[1], tags.get("status") or tags.get("limit")] = float(found[3])
            labels |= tags.keys()
    assert figures["answered", None] == 4
    assert figures["missing", None] == 7
    assert figures["queries", None] == 2
    assert figures["dollars", None] == 0.5
    assert figures["output_tokens", None] == 70
    assert figures["ended", "ok"] == 3
    assert figures["ended", "refused"] == 1
    assert figures["limit", "rpm"] == 60
    ours = {"run", "judge", "status", "limit"}
    rays = {"Component", "NodeAddress", "SessionName", "Version", "WorkerId"}
    assert {name for name in labels if not name.startswith("otel_")} == ours | rays
