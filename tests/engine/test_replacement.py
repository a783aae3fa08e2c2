"""Results of a finished run are replaced where the user says so, and who goes by them knows."""

import json
from dataclasses import asdict

import pytest

from tests.helpers.builders import options_of, pool_of, results_of
from zelo_ray import load_run
from zelo_ray.cli import main
from zelo_ray.engine.replacement import refuse_fewer_queries, refuse_other_options
from zelo_ray.errors import OptionError
from zelo_ray.files.storage import write_json
from zelo_ray.providers import build_panel

JUDGES = ("simulated:a", "simulated:b")
POOLS = [pool_of(query_id=f"q{i}") for i in range(3)]


def job(out, **fields):
    """Options and panel of a run."""
    options = options_of(out=str(out), **({"judges": JUDGES} | fields))
    return options, build_panel(options.judges, options.judge_options, {})


def record(out, *, finished=True, before=None, judgments=None, **fields):
    """Leave the record of a run."""
    options, panel = job(out, **fields)
    summary = asdict(results_of(out, POOLS))
    summary["judgments"] = summary["judgments"] if judgments is None else judgments
    told = {
        "kind": "annotate",
        "options": options.model_dump(mode="json"),
        "panel": [{"judge": judge.name, "options": judge.options} for judge in panel],
        "finished": finished,
        **({"summary": summary} if finished else {"before": before}),
    }
    write_json(str(out), "run.json", told)
    return json.loads((out / "run.json").read_text())


OTHERS = {
    "--protocol": {"protocol": "graded"},
    "judges": {"judges": JUDGES[:1]},
    "options of simulated:a": {"judge_options": {"simulated:a": {"noise": 2.0}}},
    "--cycles": {"cycles": 2},
    "--seed": {"seed": 7},
    "--document-limit": {"document_limit": 3},
    "--min-coverage": {"min_coverage": 0.1},
    "--instructions": {"instructions": "newer is better"},
}


@pytest.mark.parametrize(("says", "fields"), OTHERS.items())
def test_other_results_are_not_written_over_those_of_a_finished_run(tmp_path, says, fields):
    record(tmp_path)
    options, panel = job(tmp_path, **fields)
    with pytest.raises(OptionError, match="add --replace, or name another --out") as caught:
        refuse_other_options(options, panel)
    assert says in str(caught.value)
    replacing, panel = job(tmp_path, replace=True, **fields)
    refuse_other_options(replacing, panel)


def test_a_judge_of_a_module_that_left_is_another(tmp_path):
    told = record(tmp_path)
    told["panel"][0]["judge"] = "module_that_left:PROVIDER:model"
    write_json(str(tmp_path), "run.json", told)
    with pytest.raises(OptionError, match="holds the results of a finished run with other judges"):
        refuse_other_options(*job(tmp_path))


SAME = [
    {},
    {"max_usd": 5.0, "prices": {name: {"input": 1, "output": 1} for name in JUDGES}},
    {"actors": 2, "timeout": 5.0, "patience": 9.0, "attempts": 1, "retry_failures": True},
    {"pilot": 2},
    {"allow_missing_judges": True, "mode": "batch", "keep_asking": True, "verbose": True},
]


@pytest.mark.parametrize("fields", SAME)
def test_how_a_run_asks_is_not_what_it_comes_to(tmp_path, fields):
    record(tmp_path)
    refuse_other_options(*job(tmp_path, **fields))


def test_a_run_that_never_ended_or_came_to_nothing_is_in_nobodys_way(tmp_path):
    for told in ({"finished": False}, {"judgments": 0}):
        record(tmp_path, **told)
        refuse_other_options(*job(tmp_path, cycles=2))
        refuse_fewer_queries(job(tmp_path)[0], ["q0"])
    finished = record(tmp_path)
    record(tmp_path, finished=False, before=finished, cycles=2)  # and others were begun in between
    with pytest.raises(OptionError, match="--cycles"):
        refuse_other_options(*job(tmp_path, cycles=2))


def test_queries_may_come_and_do_not_go_in_silence(tmp_path):
    record(tmp_path)
    options, _ = job(tmp_path)
    refuse_fewer_queries(options, ["q0", "q1", "q2", "q3"])
    with pytest.raises(OptionError, match=r"on 3 queries, of which .* drop 2, such as 'q1'"):
        refuse_fewer_queries(options, ["q0"])
    refuse_fewer_queries(job(tmp_path, replace=True)[0], ["q0"])


# Those who go by them


@pytest.fixture
def contest(tmp_path, monkeypatch, capsys):
    """A contest of two runs, and how its command is typed; it needs no Ray."""
    monkeypatch.chdir(tmp_path)
    queries = [f"q{n}" for n in range(12)]
    lines = [f"{q} 0 d{d} {d % 3}\n" for q in queries for d in range(6)]
    (tmp_path / "truth.qrels").write_text("".join(lines))
    for name, sign in (("up", 1), ("down", -1)):
        ranks = range(1, 7) if sign < 0 else range(6, 0, -1)
        rows = [f"{q} Q0 d{d} {ranks[d]} {sign * d} {name}\n" for q in queries for d in range(6)]
        (tmp_path / f"{name}.run").write_text("".join(rows))
    documents = [{"id": f"d{d}", "content": f"text {d}"} for d in range(6)]
    pools = [{"query": {"id": q, "query": q}, "documents": documents} for q in queries]
    (tmp_path / "pools.jsonl").write_text("".join(json.dumps(pool) + "\n" for pool in pools))

    def run(*words):
        status = main([*map(str, words)])
        printed = capsys.readouterr()
        return status, " ".join((printed.out + printed.err).split())

    measure = ["bakeoff", "--truth", "truth.qrels", "--runs", "up.run", "down.run"]
    return run, [*measure, "--pools", "pools.jsonl", "--out", "contest"]


def change(tmp_path):
    path = tmp_path / "truth.qrels"
    path.write_text(path.read_text().replace("q3 0 d5 2", "q3 0 d5 0"))


def warnings(tmp_path):
    return [warn.code for warn in load_run(tmp_path / "contest").report.warnings]


def test_labels_say_that_the_truth_has_changed(contest, tmp_path):
    run, measure = contest
    run(*measure)
    label = ["label", "--out", "labels", "--csv", "sheet.csv", "--person", "me"]
    run(*label, "--contest", "contest", "--labels", "9")
    assert "changed" not in run(*label)[1]
    change(tmp_path)
    assert "truth.qrels has changed since the sample " in run(*label)[1]
    again = ["label", "--out", "new", "--csv", "new.csv", "--person", "me", "--contest", "contest"]
    assert "truth.qrels has changed since contest was measured" in run(*again)[1]
