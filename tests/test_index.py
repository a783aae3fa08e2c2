"""One page over several runs: what it holds, where it goes, and what is no run."""

import json
import re
import shutil

import fsspec
import pytest

import zelo_ray
from tests.builders import pool_of, results_of, write_run
from tests.test_bakeoff_report import write_bakeoff
from tests.test_report import EVIL
from zelo_ray import cli
from zelo_ray.commands.report import write_report
from zelo_ray.commands.report.index import spent_in_all, write_index
from zelo_ray.commands.report.runs import PastRun
from zelo_ray.errors import NothingToReport, OptionError


@pytest.fixture(scope="module")
def _runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, cycles in (("one", 4), ("two", 6)):
        out = folder / name
        out.mkdir()
        summary = results_of(out, [pool_of(query_id=name)])
        write_run(out, summary, cycles=cycles)
    (folder / "three").mkdir()
    write_bakeoff(folder / "three", queries=20)
    write_report(str(folder / "three"))
    return folder


@pytest.fixture
def runs(_runs, tmp_path):
    return shutil.copytree(_runs, tmp_path / "runs")


def past_of(place="p", name="run.json", **record):
    return PastRun(place, name, record)


def test_a_folder_of_runs_gets_one_page(runs, capsys):
    (runs / "notes").mkdir()
    assert cli.main(["report", str(runs)]) == 0
    assert capsys.readouterr().out == f"index over 3 runs: {runs}/index.html\n"
    page = (runs / "index.html").read_text()
    assert "3 runs of annotate, bakeoff" in page.replace("bakeoff, annotate", "annotate, bakeoff")
    assert '<a href="three/report.html">three</a>' in page
    assert "one (no report.html yet)" in page
    assert "mean std_error: " in page
    assert re.search(r"nDCG@10 of \S+: 0\.\d+ \[", page)


def test_the_page_goes_into_the_folder_that_holds_the_runs(runs, monkeypatch):
    monkeypatch.chdir(runs.parent)
    index = write_index(["runs/one", "runs/two/"])
    assert (index.place, index.runs, index.others) == ("runs/index.html", 2, ())
    assert write_index(["runs/one", "runs/two"]).place == "runs/index.html"  # ours is written anew


def test_python_reports_a_run_or_several(runs):
    assert zelo_ray.report(runs / "one") == f"{runs}/one/report.html"
    assert zelo_ray.report(runs) == f"{runs}/index.html"


def test_one_run_is_reported_as_ever(runs, capsys):
    assert cli.main(["report", f"{runs / 'one'}/"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{runs}/one/report.html"]
    assert not (runs / "index.html").exists()


def test_an_index_of_one_run_is_written_where_it_is_asked_for(runs, capsys):
    assert cli.main(["report", str(runs / "one"), "--index", str(runs / "all.html")]) == 0
    assert capsys.readouterr().out == f"index over 1 run: {runs}/all.html\n"
    assert "1 run of zelo-ray" in (runs / "all.html").read_text()


def test_what_is_no_run_is_named_and_not_fatal(runs, capsys):
    (runs / "bad").mkdir()
    (runs / "bad" / "run.json").write_text("no JSON")
    given = [str(runs / name) for name in ("one", "bad", "gone", "three")]
    assert cli.main(["report", *given]) == 0
    told = capsys.readouterr().out
    assert f"left out: {runs}/bad/run.json: is not valid JSON" in told
    assert f"left out: {runs}/gone is not a run" in told
    assert "gone is not a run" in (runs / "index.html").read_text()
    with pytest.raises(NothingToReport, match=r"is it the --out of a run\?"):
        write_index([str(runs / "gone"), str(runs / "bad")])


def test_an_index_of_somebody_else_is_left_alone(runs):
    (runs / "index.html").write_text("<title>My site</title>")
    with pytest.raises(OptionError, match="name another page with --index"):
        write_index([str(runs)])
    assert write_index([str(runs)], str(runs / "sub/all.html")).place == f"{runs}/sub/all.html"
    assert 'href="../three/report.html"' in (runs / "sub/all.html").read_text()
    assert "My site" in (runs / "index.html").read_text()


def test_a_directory_as_out_holds_the_page(runs):
    assert write_index([str(runs)], f"{runs}/one/").place == f"{runs}/one/index.html"


def test_runs_may_lie_behind_urls(runs):
    memory = fsspec.filesystem("memory")
    memory.put(str(runs), "/kept/runs", recursive=True)
    index = write_index(["memory://kept/runs"])
    assert memory.cat_file("/kept/runs/index.html").count(b'href="three/report.html"') == 1
    assert index.place == "memory://kept/runs/index.html"
    with pytest.raises(OptionError, match="no directory is above all"):
        write_index(["memory://kept/runs", str(runs)])
    write_index(["memory://kept/runs/three", str(runs / "three")], str(runs / "both.html"))
    page = (runs / "both.html").read_text()
    assert page.count("href=") - page.count('href="#') == 1  # no browser opens memory://
    memory.rm("/kept", recursive=True)


def test_names_and_options_are_text_and_lead_nowhere_else(runs):
    name = "javascript:alert(1)&\"'<script>window.pwned=1<"
    shutil.move(runs / "three", runs / name)
    record = json.loads((runs / "two" / "run.json").read_text())
    record["options"]["judges"] = [EVIL]
    (runs / "two" / "run.json").write_text(json.dumps(record))
    write_index([str(runs)])
    page = (runs / "index.html").read_text()
    assert "<script>window" not in page
    (address,) = re.findall(r'href="([^#"][^"]*)"', page)
    assert address.startswith("javascript%3Aalert")


def test_what_a_ledger_holds_counts_once():
    told = {"dollars_in_all": 2.0, "unpriced": 1}
    shared = [
        past_of(f"p{i}", options={"out": f"p{i}", "ledger": "books"}, summary=told) for i in (1, 2)
    ]
    own = past_of("p3", options={"out": "x", "ledger": "x"}, summary={"dollars_in_all": 0.5})
    assert spent_in_all([*shared, own]) == (2.5, 1)


def test_a_run_that_has_not_ended_says_so(runs):
    place = runs / "one" / "run.json"
    record = json.loads(place.read_text())
    del record["summary"], record["judges"]
    panel = [{"judge": "offline:bm25", "options": {}}]
    place.write_text(json.dumps({**record, "finished": False, "panel": panel}))
    write_index([str(runs)])
    page = (runs / "index.html").read_text()
    assert "1 not finished" in page
    assert "<td>interrupted</td>" in page
    assert "offline:bm25" in page


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"options": 3, "summary": [], "judges": "x", "versions": 1},
        {"kind": "bakeoff"},
        {"kind": "protocols", "runs": None, "paid": 7},
        {"kind": "agree", "counts": {"grades": 4}},
        {"kind": "compare"},
    ],
)
def test_a_record_of_another_version_is_a_row_all_the_same(tmp_path, record):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    assert write_index([str(tmp_path)]).runs == 1


def test_when_a_run_started_is_in_its_id():
    assert past_of(run_id="20261123T131722Z-b2bfe9").started == "2026-11-23 13:17"
    assert past_of(run_id="mine").started == ""
