"""The one command that each command ends with: real paths, quoted, and one that parses."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.builders import PANEL, options_of, pool_of, results_of, write_run
from zelo_ray import cli
from zelo_ray.cli import looked
from zelo_ray.cli.arguments import parse
from zelo_ray.engine.bookkeeping import over_budget
from zelo_ray.engine.write_results import Summary
from zelo_ray.formats.record import begin
from zelo_ray.options import (
    AgreeOptions,
    BakeoffOptions,
    CompareLabelsOptions,
    ConvertOptions,
    DriftOptions,
    ExplainOptions,
    FitOptions,
    SizeOptions,
)
from zelo_ray.present.terminal import next as follow
from zelo_ray.reasons import Disabled, StopReason

WORDS = ["annotate", "my pools/*.jsonl", "--judges", "offline", "--out", "o"]
DONE = {"out": "o", "queries": 1, "documents": 4, "scored": 4}


def after(words=WORDS, crowned="", fruitless=(), **found):
    options: dict = {"retry_failures": "--retry-failures" in words}
    if "--max-usd" in words:
        options["max_usd"] = 0.5
    options = options_of(out="my run", judges=("offline",), **options)
    more = {"crowned": crowned, "fruitless": fruitless}
    return follow.after_annotate(Summary(**DONE | found), options, words, **more)


def test_a_complete_run_leads_to_rerankers():
    assert after() == (
        "zelo-ray bakeoff --truth 'my run' --rerankers original bm25 --out 'my run-bakeoff'"
    )


def test_what_failed_is_asked_again_first_and_only_once():
    again = after(failures=3)
    assert again == f"{shlex.join(['zelo-ray', *WORDS])} --retry-failures"
    assert after([*WORDS, "--retry-failures"], failures=3).startswith("zelo-ray bakeoff")


def test_a_judge_that_had_to_stop_is_looked_at():
    told = after(failures=3, disabled={"openai:x": Disabled(StopReason.FATAL, "a wrong key")})
    assert told == "zelo-ray doctor --judges openai:x --out 'my run'"


def test_what_fails_always_is_not_asked_again():
    told = after(failures=336, fruitless=["openai:x"])
    assert told == "zelo-ray doctor --judges openai:x --out 'my run'"


def test_judges_that_never_gave_a_judgment_are_known_by_their_results(tmp_path):
    first = PANEL[0].name

    def fruitless(name, say, documents):
        out = tmp_path / name
        results_of(out, [pool_of(range(documents))], say)
        begin(str(out), "run.json", {"judgments": ["votes"]})
        return looked.fruitless_judges(str(out))

    def never(request):
        return "refused" if request.judge.name == first else None

    def mostly(request):
        return never(request) if "worth=7" not in request.user else None

    assert fruitless("never", never, 8) == [first]
    assert fruitless("mostly", mostly, 8) == []
    assert fruitless("few", never, 3) == []
    assert looked.fruitless_judges(str(tmp_path / "nowhere")) == []


def test_a_budget_that_is_used_up_is_raised():
    words = [*WORDS, "--max-usd", "0.5"]
    told = after(words, failures=3, disabled={"openai:x": over_budget(0.5)})
    assert told == f"{shlex.join(['zelo-ray', *WORDS])} --max-usd 1"


@pytest.mark.parametrize("pilot", [["--pilot", "20"], ["--pilot=20"]])
def test_after_a_pilot_comes_the_same_without_it(pilot):
    assert after([*WORDS[:4], *pilot, *WORDS[4:]], pilot_of=99) == shlex.join(["zelo-ray", *WORDS])


def test_tournaments_are_looked_at():
    assert after(crowned="q 1") == "zelo-ray explain 'my run' --query 'q 1'"


def test_an_estimate_leads_to_the_run_under_a_cap_that_is_enough():
    words = [*WORDS, "--dry-run"]
    capped = f"{shlex.join(['zelo-ray', *WORDS])} --max-usd 1.24"
    assert follow.after_estimate(words, 1.231, None) == capped
    assert follow.after_estimate(words, 0.0, None) == shlex.join(["zelo-ray", *WORDS])
    given = follow.after_estimate([*words, "--max-usd", "5"], 1.23, 5.0)
    assert given.endswith("--max-usd 5")


def bakeoff(**fields):
    return BakeoffOptions(truth="t", rerankers=("bm25",), out="c", **fields)


def texts(place):
    return "texts"


NEXT = {
    "contest": lambda: follow.after_bakeoff(bakeoff(), [], again=False, people="begin"),
    "people": lambda: follow.after_bakeoff(bakeoff(human="l"), [], again=False, people="more"),
    "protocols": lambda: follow.after_compare_protocols(
        "w", options_of(inputs=("a b.jsonl",), protocol="lean", ledger="w"), []
    ),
    "agree": lambda: follow.after_agree(AgreeOptions(sources=("panel=g/scores.parquet",)), texts),
    "held": lambda: follow.after_agree(
        AgreeOptions(sources=("g",), human="h.txt", runs=("r",)), texts
    ),
    "labels": lambda: follow.after_compare_labels(CompareLabelsOptions(old="a", new="b"), texts),
    "board": lambda: follow.after_compare_labels(
        CompareLabelsOptions(old="a", new="b", bakeoff="c", out="d"), texts
    ),
    "drift": lambda: follow.after_drift(DriftOptions(old="a/votes.parquet", new="b"), texts),
    "fit": lambda: follow.after_fit(FitOptions(source="g.csv"), ["fit", "g.csv"]),
    "rated": lambda: follow.after_fit(
        FitOptions(source="g.csv", out="r.csv"), ["fit", "g.csv", "--out", "r.csv"]
    ),
    "pool": lambda: follow.after_convert(
        ConvertOptions(what="pool", source="beir", out="p.jsonl.gz")
    ),
    "qrels": lambda: follow.after_convert(
        ConvertOptions(what="qrels", source="g", out="q.txt"), texts="g/a.jsonl"
    ),
    "train": lambda: follow.after_convert(
        ConvertOptions(what="train", source="g", out="t.jsonl"), texts="g/a.jsonl"
    ),
    "size": lambda: follow.after_size(SizeOptions(), "zelo --cycles 3 --votes one", ("p.jsonl",)),
    "lean": lambda: follow.after_size(SizeOptions(), "lean --calls-per-document 4 --rings 2", ()),
    "batches": lambda: follow.after_batches(
        "o", options_of(inputs=("p",), mode="batch", cycles=2, max_usd=2.5)
    ),
    "compact": lambda: follow.after_compact("s3://bucket/run"),
    "document": lambda: follow.after_explain(ExplainOptions(dir="o", query="q"), "d '1'"),
    "doctor": lambda: follow.after_doctor(("offline",), wrong=False, asked=True, pools="p"),
}


@pytest.mark.parametrize("name", NEXT)
def test_every_next_command_is_one_that_parses(name):
    _, *words = shlex.split(NEXT[name]())
    command, _ = parse(words)
    assert command == words[0]


def test_paths_are_those_of_the_user():
    assert NEXT["agree"]().startswith("zelo-ray bakeoff --truth g ")
    assert NEXT["held"]() == "zelo-ray compare-labels --old h.txt --new g --runs r"
    assert NEXT["pool"]() == "zelo-ray annotate p.jsonl.gz --out p-judged --dry-run"
    assert NEXT["drift"]() == "zelo-ray compare-labels --old a --new b"
    assert NEXT["document"]() == """zelo-ray explain o --query q --doc 'd '"'"'1'"'"''"""
    assert "--mode batch" in NEXT["batches"]()


@pytest.mark.parametrize(
    ("typed", "told"), [("--instructions=our words.md", "our words.md"), ("--seed=1", "For us.")]
)
def test_the_best_protocol_is_asked_as_it_was_compared(typed, told):
    """Out of the same ledger, and not under the cap that each protocol had."""
    given = {"instructions": "For us.", "passages": 512, "max_usd": 5, "ledger": "w"}
    best = options_of(inputs=("p",), protocol="lean", rings=3, **given)
    words = shlex.split(follow.after_compare_protocols("w", best, ["compare-protocols", typed]))
    flags = ["--ledger", "w", "--instructions", told, "--passages", "512", "--dry-run"]
    assert words == [
        *("zelo-ray", "annotate", "p", "--out", "w-lean", *flags, "--protocol", "lean"),
        *("--rings", "3"),
    ]


def holes(**fields):
    options = ConvertOptions(what="holes", truth="t/", runs=("r",), out="h.jsonl", **fields)
    return options_of(inputs=("p",), out="/x/t", ledger="/x/t", cycles=2), options


def test_holes_are_judged_as_the_truth_was_and_no_paid_reply_is_lost():
    truth, options = holes(all=True)
    told = follow.after_convert(options, truth)
    assert told.startswith("zelo-ray annotate h.jsonl --out t/ ")
    assert "--cycles 2" in told
    truth, options = holes()  # the file lacks most queries of the truth, which keeps its results
    told = follow.after_convert(options, truth)
    assert "--out h-judged" in told
    assert "--ledger t/" in told
    assert parse(shlex.split(told)[1:])[0] == "annotate"
    priced = truth.model_copy(update={"api_key_env": {"openai:x": "MINE"}})
    assert "--config THE-FILE-OF-THAT-RUN.yaml" in follow.after_convert(options, priced)
    assert follow.after_convert(options).endswith("annotate h.jsonl --out h-judged --dry-run")


def test_runs_that_were_judged_meet():
    options = options_of(out="o")
    told = follow.after_annotate(Summary(**DONE), options, WORDS, runs=["my.run"])
    assert told == "zelo-ray bakeoff --truth o --runs my.run --rerankers words=bm25 --out o-bakeoff"
    told = follow.after_annotate(Summary(**DONE), options, WORDS, runs=["a", "b"])
    assert told == "zelo-ray bakeoff --truth o --runs a b --out o-bakeoff"


def test_texts_are_asked_for_where_runs_have_documents_that_nobody_judged(tmp_path):
    truth, out = tmp_path / "truth.jsonl", tmp_path / "c"
    documents = [{"id": "d", "content": "x", "score": 1}]
    line = {"query": {"id": "q", "query": "?"}, "documents": documents}
    truth.write_text(f"{json.dumps(line)}\n")
    for doc_id, people in (("d", "begin"), ("other", "texts")):
        (tmp_path / "a.run").write_text(f"q Q0 {doc_id} 1 1.0 mine\n")
        words = ["--truth", str(truth), "--runs", str(tmp_path / "a.run"), "--out", str(out)]
        assert cli.main(["bakeoff", *words]) == 0
        assert looked.people_for(looked.contest_at(str(out))) == people


def test_runs_among_inputs_are_seen(tmp_path):
    (tmp_path / "a.run").write_text("q Q0 d 1 1.0 mine\n")
    inputs = (str(tmp_path / "a.run"), str(tmp_path / "no*.jsonl"), str(tmp_path))
    assert looked.runs_among(options_of(inputs=inputs)) == [inputs[0]]


def test_people_are_asked_only_where_they_have_not_said_it(tmp_path):
    (tmp_path / "x.qrels").write_text("q 0 d 1\n")
    (tmp_path / "scores.csv").write_text("query_id,doc_id,score\nq,d,1\n")
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "label.json").write_text("{}")
    qrels, scores = str(tmp_path / "x.qrels"), str(tmp_path / "scores.csv")

    def people(truth, **fields):
        return looked.people_for(BakeoffOptions(truth=truth, runs=("r",), out="c", **fields))

    assert people(qrels) == people(qrels, human=qrels) == "none"
    assert people(qrels, families={"truth": "gpt"}, pools=("p",)) == "begin"
    assert people(scores) == "texts"
    assert people(scores, human=str(tmp_path / "labels")) == "more"
    assert people(scores, human=qrels, pools=("p",)) == "begin"


@pytest.mark.parametrize(
    ("people", "then"),
    [
        ("texts", "label --contest c --pools POOLS --labels 200 --out c-labels"),
        ("none", "report c"),
    ],
)
def test_a_contest_leads_to_what_people_can_add(people, then):
    assert follow.after_bakeoff(bakeoff(), [], again=False, people=people) == f"zelo-ray {then}"


def test_without_a_judge_the_free_ones_begin():
    given = {"wrong": False, "asked": False, "none": True}
    told = follow.after_doctor((), pools="data/sample", **given)
    assert told == "zelo-ray annotate data/sample --out out --judges offline"
    assert follow.after_doctor((), pools="", **given) == "zelo-ray annotate --help"


def test_it_is_the_last_line_and_the_only_one(tmp_path, capsys):
    write_run(tmp_path, results_of(tmp_path, [pool_of()]))
    for words in (["explain", str(tmp_path), "--query", "q1"], ["report", str(tmp_path)]):
        assert cli.main(words) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.startswith("next: zelo-ray ") for line in lines].index(True) == len(lines) - 1


def test_hostile_names_cannot_steer_the_terminal(capsys):
    cli.runs.show(follow.line(follow.after_compact("o\x1b[2J")))
    assert capsys.readouterr().out == "next: zelo-ray report $'o\\x1b[2J'\n"


@pytest.mark.parametrize("name", ["o\x1b[2J", "it's\\n\n", "\u202e\u00a0é漢", "a b"])
def test_a_shell_reads_what_was_meant(name):
    command = follow.after_compact(name).replace("zelo-ray", "printf %s", 1)
    told = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert told.stdout == f"report{name}"


def test_a_flag_without_a_value_leaves_the_input_where_it_is():
    words = ["annotate", "--dry-run", "a.json", "--judges", "x:y", "--out", "o"]
    assert follow.after_estimate(words, 0.0, None) == (
        "zelo-ray annotate a.json --judges x:y --out o"
    )
    assert after(["annotate", "--pilot", "5", "data", "--out", "o"], pilot_of=9) == (
        "zelo-ray annotate data --out o"
    )


def test_batches_are_not_collected_by_another_question():
    run = options_of(judge_options={"openai:gpt-6-luna": {"reasoning_effort": "high"}})
    assert follow.after_batches("o", run).endswith(" --config THE-FILE-OF-THAT-RUN.yaml")


def test_a_password_of_a_url_is_not_shown():
    told = follow.line(follow.again(["annotate", "https://me:s3cret@host/p.jsonl", "--out", "o"]))
    assert told == "next: zelo-ray annotate https://…@host/p.jsonl --out o"


def test_ratings_do_not_replace_what_they_were_made_of():
    told = follow.after_fit(FitOptions(source="ratings.csv"), ["fit", "ratings.csv"])
    assert told == "zelo-ray fit ratings.csv --out ratings-ratings.csv"
    with pytest.raises(ValidationError, match="would replace what it is made of"):
        FitOptions(source="ratings.csv", out="ratings.csv")


PLACES = ("inputs", "truth", "pools", "runs", "source", "sources", "old", "new", "dir", "contest")


def next_of(capsys, *words, status=0):
    """The command that a command ends with: each place in it is there, or made by it."""
    assert cli.main([*map(str, words)]) == status
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("next: zelo-ray ")
    told = shlex.split(last.removeprefix("next: zelo-ray "))
    if "--help" not in told:
        _, options = parse(told)
        named = (getattr(options, name, None) or () for name in PLACES)
        for place in (p for found in named for p in ([found] if isinstance(found, str) else found)):
            assert place == "POOLS" or Path(place).exists(), last
    return told


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Judgments, votes and a run that have no texts beside them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.qrels").write_text("q 0 d 1\nq 0 e 0\nr 0 d 2\nr 0 e 1\n")
    (tmp_path / "b.qrels").write_text("q 0 d 0\nq 0 e 1\nr 0 d 2\nr 0 e 1\n")
    (tmp_path / "noted.tsv").write_text("query_id\tdoc_id\tgrade\tnote\nq\td\t1\tx\nq\te\t0\ty\n")
    votes = "judge,query_id,doc_id_a,doc_id_b,preference\n"
    rows = [f"{judge},{q},d,e,{p}\n" for judge in "jk" for q, p in (("q", 1), ("r", -1))]
    (tmp_path / "votes.csv").write_text(votes + "".join(rows))
    (tmp_path / "one.run").write_text("q Q0 d 1 2 one\nq Q0 e 2 1 one\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "then"),
    [
        (["convert", "qrels", "noted.tsv", "--out", "x.qrels"], ["bakeoff", "--help"]),
        (["convert", "run", "a.qrels", "--out", "x.run"], ["bakeoff", "--help"]),
        (["agree", "votes.csv"], ["bakeoff", "--help"]),
        (["agree", "a.qrels", "--human", "b.qrels"], ["compare-labels", "--old", "b.qrels"]),
        (["compare-labels", "--old", "a.qrels", "--new", "b.qrels"], ["agree", "b.qrels"]),
        (["fit", "votes.csv"], ["fit", "votes.csv"]),
        (["size"], ["annotate", "POOLS"]),
    ],
)
def test_it_names_only_what_is_there(files, capsys, words, then):
    told = next_of(capsys, *words)
    assert told[: len(then)] == then


def test_what_the_file_of_a_run_lacks_is_not_asked_again(files, capsys):
    words = ["bakeoff", "--truth", "a.qrels", "--runs", "one.run", "--out", "c"]
    assert next_of(capsys, *words, status=3) == ["report", "c"]


def test_texts_of_a_collection_are_named_where_they_lie(files, capsys):
    folder = Path(__file__).parent / "golden" / "cases" / "arguana"
    told = next_of(capsys, "convert", "qrels", folder, "--out", "x.qrels")
    assert told[:5] == ["bakeoff", "--truth", "x.qrels", "--pools", str(folder)]
    told = next_of(capsys, "convert", "beir", folder, "--out", "again")
    assert told[:5] == ["bakeoff", "--truth", "again", "--pools", str(folder)]


def test_batches_of_inputs_that_are_gone_are_looked_at(files):
    assert looked.there(["a.qrels", "*.run"]) == ("a.qrels", "*.run")
    assert looked.there(["gone.jsonl"]) == ()
    assert looked.some_pools() == ""
    (files / "pools.jsonl").write_text("")
    assert looked.some_pools() == "pools.jsonl"
