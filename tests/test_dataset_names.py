"""Data sets of ``ir_datasets`` by their names, on the command line and from Python."""

import sys
from pathlib import Path

import pytest

import zelo_ray
from tests.builders import parsed, rows_of
from tests.crash import bare_environment
from zelo_ray import cli
from zelo_ray.commands.convert import convert
from zelo_ray.errors import InputError
from zelo_ray.formats.judgments.qrels import read_qrels

ir_datasets = pytest.importorskip("ir_datasets")
NAME = "ir_datasets:zelo-ray-tests/local"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A data set of local files that ``ir_datasets`` knows by a name."""
    monkeypatch.chdir(tmp_path)
    Path("docs.tsv").write_text("d1\tpull the tick out\nd2\tthe clock ticks\nd3\tsoap\n")
    Path("queries.tsv").write_text("q1\thow to remove a tick\nq2\tclock\n")
    Path("people.qrels").write_text("q1 0 d1 2\nq1 0 d2 0\nq2 0 d2 1\nq2 0 d3 0\n")
    known = ir_datasets.registry._registered
    name = NAME.partition(":")[2]
    monkeypatch.setitem(
        known,
        name,
        ir_datasets.create_dataset("docs.tsv", "queries.tsv", "people.qrels"),
    )
    return tmp_path


ANNOTATE = """
import ir_datasets, zelo_ray
files = [f"{folder}/{{name}}" for name in ("docs.tsv", "queries.tsv", "people.qrels")]
name = "{name}".partition(":")[2]
if name not in ir_datasets.registry:
    ir_datasets.registry.register(name, ir_datasets.create_dataset(*files))
zelo_ray.annotate("{name}", out="{folder}/out", judges="offline")
"""


@pytest.mark.ray
def test_its_pools_are_annotated_and_its_judgments_are_a_truth(place, one_ray):
    said = convert(parsed("convert", "pool", NAME, "--out", "pools.jsonl"))
    assert said.startswith("2 pools with 4 documents: pools.jsonl")
    status, said = one_ray.run(bare_environment(), "-c", ANNOTATE.format(folder=place, name=NAME))
    assert status is None, said
    assert {row["query_id"] for row in rows_of(place / "out", "scores")} == {"q1", "q2"}
    truth = read_qrels(NAME)
    assert truth["relevance"].to_pylist() == [2, 0, 1, 0]
    Path("bm25.run").write_text("q1 Q0 d1 1 2 bm25\nq2 Q0 d3 1 1 bm25\n")
    contest = zelo_ray.bakeoff(truth=NAME, pools=NAME, runs="bm25.run", out="contest")
    assert contest.means.to_arrow().num_rows


def test_a_name_that_is_none_says_so():
    with pytest.raises(InputError, match="ir_datasets:nope: ir_datasets has no such data set"):
        convert(parsed("convert", "pool", "ir_datasets:nope", "--out", "p.jsonl"))


def test_without_the_package_the_extra_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(InputError, match=r"pip install 'zelo-ray\[ir-datasets\]'"):
        read_qrels(NAME)


@pytest.mark.parametrize("words", ["annotate {} --judges offline", "convert qrels {}"])
def test_a_storage_whose_library_is_missing_names_the_extra(words, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    assert cli.main([*words.format("gs://bucket/x.jsonl").split(), "--out", "out"]) != 0
    assert "gs://bucket/x.jsonl: needs the extra gcs: pip install 'zelo-ray[gcs]'" in (
        capsys.readouterr().err
    )
