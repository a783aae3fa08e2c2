"""Few pools take a short way on Ray, and leave the bytes that many do."""

import json

import pytest

from tests import crash

pytestmark = pytest.mark.ray
ANNOTATE = """
from zelo_ray import cli
from zelo_ray.commands.annotate import recorded_replies
from zelo_ray.ray import small_jobs
usual = small_jobs._MOST, recorded_replies._MOST
{}
try:
    status = cli.main({})
finally:  # other tests run in this process
    small_jobs._MOST, recorded_replies._MOST = usual
assert status == {}, status
"""
ALL_TAKE_THE_LONG_WAY = "small_jobs._MOST = recorded_replies._MOST = 0"


def ways(one_ray, tmp_path, *flags, status=0):
    """The results of both ways, by name, and what was said."""
    pools, found = tmp_path / "pools.jsonl", {}
    crash.write_pools(pools, 70, 4)  # which are three blocks
    for way, change in (("short", ""), ("long", ALL_TAKE_THE_LONG_WAY)):
        out = tmp_path / way
        words = ["annotate", str(pools), "--out", str(out), "--judges", "offline", *flags]
        told = one_ray.run(crash.bare_environment(), "-c", ANNOTATE.format(change, words, status))
        files = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
        found[way] = files, told[1]
    return found["short"], found["long"]


def test_no_byte_of_the_results_depends_on_the_way(one_ray, tmp_path):
    (short, said), (long, said_too) = ways(one_ray, tmp_path, "--cycles", "1", "--actors", "2")
    results = {name for name in short if name.endswith((".parquet", "annotated.jsonl"))}
    assert len(results) >= 5
    for name in results:
        assert short[name] == long[name], name
    records = [json.loads(files["run.json"]) for files in (short, long)]
    for record in records:
        for changing in ("out", "seconds"):
            del record["summary"][changing]
        assert {j["answered"] for j in record["judges"].values()} == {280}
    assert records[0]["summary"] == records[1]["summary"]
    for told in (said, said_too):
        assert "documents scored 280 · comparisons 840 · " in told
