"""One page that lists several runs: what it holds, where it goes, and what is no run."""

import json
import re
import shutil

import fsspec
import pytest

import zelo_ray
from tests.builders import pool_of, results_of, write_run
from tests.test_bakeoff_report import write_bakeoff
from zelo_ray import cli
from zelo_ray.commands.report import write_report
from zelo_ray.commands.report.index import write_index
from zelo_ray.errors import NothingToReport, OptionError


@pytest.fixture(scope="module")
def _runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    out = folder / "one"
    out.mkdir()
    write_run(out, results_of(out, [pool_of(query_id="one")]))
    (folder / "three").mkdir()
    write_bakeoff(folder / "three", queries=20)
    write_report(str(folder / "three"))
    return folder


@pytest.fixture
def runs(_runs, tmp_path):
    return shutil.copytree(_runs, tmp_path / "runs")


def listed(page):
    """The texts of the cells, row by row."""
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in page.split("<tr>")]
    return [[re.sub(r"<[^>]*>", "", cell).strip() for cell in row] for row in rows if row]


def test_several_runs_are_listed_with_their_pages(runs, capsys):
    assert cli.main(["report", str(runs / "one"), f"{runs}/three/"]) == 0
    assert capsys.readouterr().out == f"index over 2 runs: {runs}/index.html\n"
    page = (runs / "index.html").read_text()
    assert '<a href="three/report.html">three</a>' in page
    one, three = listed(page)
    assert one[:2] == ["one (no report.html yet)", "annotate"]
    assert three == ["three", "bakeoff", "2026-11-01 00:00", "finished"]
    write_index([str(runs / "one"), str(runs / "three")])  # ours is written anew


def test_python_reports_a_run_or_several(runs):
    assert zelo_ray.report(runs / "one") == f"{runs}/one/report.html"
    assert zelo_ray.report(runs / "one", runs / "three") == f"{runs}/index.html"


def test_a_run_that_has_not_ended_says_so(runs):
    place = runs / "one" / "run.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), "finished": False}))
    page = write_index([str(runs / "one")], str(runs / "sub" / "all.html"))
    assert listed((runs / "sub" / "all.html").read_text())[0][3] == "not finished"
    assert page == f"{runs}/sub/all.html"


def test_what_is_no_run_is_refused(runs):
    with pytest.raises(NothingToReport, match="gone is not a run"):
        write_index([str(runs / "one"), str(runs / "gone")])


def test_an_index_of_somebody_else_is_left_alone(runs):
    (runs / "index.html").write_text("<title>My site</title>")
    with pytest.raises(OptionError, match="name another page with --index"):
        write_index([str(runs / "one")])
    assert "My site" in (runs / "index.html").read_text()


def test_runs_may_lie_behind_urls(runs):
    memory = fsspec.filesystem("memory")
    memory.put(str(runs), "/kept/runs", recursive=True)
    place = write_index(["memory://kept/runs/one", "memory://kept/runs/three"])
    assert memory.cat_file("/kept/runs/index.html").count(b'href="three/report.html"') == 1
    assert fsspec.filesystem("memory").exists(place)
    with pytest.raises(OptionError, match="no directory is above all"):
        write_index(["memory://kept/runs/one", str(runs / "one")])
    memory.rm("/kept", recursive=True)


def test_a_name_is_text_and_leads_nowhere_else(runs):
    name = "javascript:alert(1)&\"'<script>window.pwned=1<"
    shutil.move(runs / "three", runs / name)
    write_index([str(runs / name)])
    page = (runs / "index.html").read_text()
    assert "<script>window" not in page
    (address,) = re.findall(r'href="([^#"][^"]*)"', page)
    assert address.startswith("javascript%3Aalert")
