"""The one command that each command ends with: real paths, quoted, and one that parses."""

import shlex
import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.builders import PANEL, options_of, pool_of, results_of, write_run
from zelo_ray import cli
from zelo_ray.cli.arguments import parse_command
from zelo_ray.engine.bookkeeping import budget_used_up
from zelo_ray.engine.trial import find_fruitless_judges
from zelo_ray.engine.write_results import Summary
from zelo_ray.formats.run_record import record_start
from zelo_ray.options import (
    AgreeOptions,
    BakeoffOptions,
    CompareLabelsOptions,
    ConvertOptions,
    DoctorOptions,
    DriftOptions,
    FitOptions,
    ProbeOptions,
)
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.reports import next_step

WORDS = ["annotate", "my pools/*.jsonl", "--judges", "offline", "--out", "o"]
DONE = {"out": "o", "queries": 1, "documents": 4, "scored": 4}


def after(words=WORDS, crowned=False, fruitless=(), **found):
    options: dict = {"retry_failures": "--retry-failures" in words}
    if "--max-usd" in words:
        options["max_usd"] = 0.5
    options = options_of(out="my run", judges=("offline",), **options)
    more = {"crowned": crowned, "fruitless": fruitless}
    return next_step.after_annotate(Summary(**DONE | found), options, words, **more)


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
        record_start(str(out), "run.json", {"judgments": ["votes"]})
        return find_fruitless_judges(str(out))

    def never(request):
        return "refused" if request.judge.name == first else None

    def mostly(request):
        return never(request) if "worth=7" not in request.user else None

    assert fruitless("never", never, 8) == [first]
    assert fruitless("mostly", mostly, 8) == []
    assert fruitless("few", never, 3) == []
    assert find_fruitless_judges(str(tmp_path / "nowhere")) == []


def test_a_budget_that_is_used_up_is_raised():
    words = [*WORDS, "--max-usd", "0.5"]
    told = after(words, failures=3, disabled={"openai:x": budget_used_up(0.5)})
    assert told == f"{shlex.join(['zelo-ray', *WORDS])} --max-usd 1"


@pytest.mark.parametrize("pilot", [["--pilot", "20"], ["--pilot=20"]])
def test_after_a_pilot_comes_the_same_without_it(pilot):
    assert after([*WORDS[:4], *pilot, *WORDS[4:]], pilot_of=99) == shlex.join(["zelo-ray", *WORDS])


def test_tournaments_are_looked_at():
    assert after(crowned=True) == "zelo-ray explain 'my run'"


def test_an_estimate_leads_to_the_run_under_a_cap_that_is_enough():
    words = [*WORDS, "--dry-run"]
    capped = f"{shlex.join(['zelo-ray', *WORDS])} --max-usd 1.24"
    assert next_step.after_estimate(words, 1.231, None) == capped
    assert next_step.after_estimate(words, 0.0, None) == shlex.join(["zelo-ray", *WORDS])
    given = next_step.after_estimate([*words, "--max-usd", "5"], 1.23, 5.0)
    assert given.endswith("--max-usd 5")


def bakeoff(**fields):
    return BakeoffOptions(truth="t", rerankers=("bm25",), out="c", **fields)


PROBE = ProbeOptions(
    inputs=("p",), out="o", judges=("offline:bm25",), corpus="c.jsonl", documents=9, max_usd=2
)
DOCTOR = DoctorOptions(judges=("offline",))
NEXT = {
    "contest": lambda: next_step.after_bakeoff(bakeoff(), [], failed=False),
    "people": lambda: next_step.after_bakeoff(bakeoff(human="l"), [], failed=False, grows=True),
    "protocols": lambda: next_step.after_compare_protocols(
        "w", options_of(inputs=("a b.jsonl",), protocol="lean", ledger="w"), []
    ),
    "agree": lambda: next_step.after_agree(
        AgreeOptions(sources=("panel=g/scores.parquet",), human="h.txt"), grades=True
    ),
    "labels": lambda: next_step.after_compare_labels(CompareLabelsOptions(old="a", new="b")),
    "board": lambda: next_step.after_compare_labels(
        CompareLabelsOptions(old="a", new="b", bakeoff="c", out="d")
    ),
    "probe": lambda: next_step.after_probe(PROBE, ["probe", "p"], failing=[]),
    "bias": lambda: next_step.after_probe(
        PROBE, ["probe", "p", "--out", "o", "--documents", "9"], failing=["offline:bm25"]
    ),
    "drift": lambda: next_step.after_drift(DriftOptions(old="a/votes.parquet", new="b")),
    "fit": lambda: next_step.after_fit(FitOptions(source="g.csv"), ["fit", "g.csv"]),
    "pool": lambda: next_step.after_convert(
        ConvertOptions(what="pool", source="beir", out="p.jsonl.gz")
    ),
    "unjudged": lambda: next_step.after_convert(
        ConvertOptions(what="unjudged", truth="t", runs=("r",), out="h.jsonl")
    ),
    "qrels": lambda: next_step.after_convert(ConvertOptions(what="qrels", source="g", out="q.txt")),
    "beir": lambda: next_step.after_convert(ConvertOptions(what="beir", source="g", out="b")),
    "document": lambda: next_step.after_explain("o", "q", "d '1'"),
    "doctor": lambda: next_step.after_doctor(DOCTOR, wrong=False, no_judge=False),
}


@pytest.mark.parametrize("name", NEXT)
def test_every_next_command_is_one_that_parses(name):
    _, *words = shlex.split(NEXT[name]())
    command, _ = parse_command(words)
    assert command == words[0]


def test_paths_are_those_of_the_user():
    assert NEXT["agree"]() == "zelo-ray compare-labels --old h.txt --new g/scores.parquet"
    assert NEXT["pool"]() == "zelo-ray annotate p.jsonl.gz --out p-judged --dry-run"
    assert NEXT["probe"]() == (
        "zelo-ray annotate p --out o-judged --corpus c.jsonl --judges offline:bm25 --dry-run "
        "--protocol graded"
    )
    words = shlex.split(NEXT["bias"]())
    assert words[1:6] == ["probe", "p", "--documents", "9", "--instructions"]
    assert words[7:] == ["--out", "o-instructed"]
    assert NEXT["drift"]() == "zelo-ray agree a/votes.parquet b"
    assert NEXT["document"]() == """zelo-ray explain o --query q --doc 'd '"'"'1'"'"''"""


def test_nothing_comes_next_where_other_tools_go_on():
    votes = AgreeOptions(sources=("v",), human="h.txt")
    assert next_step.after_agree(votes, grades=False) is None
    assert next_step.after_agree(AgreeOptions(sources=("g",)), grades=True) is None
    train = ConvertOptions(what="train", source="g", out="t.jsonl")
    assert next_step.after_convert(train) is None
    assert next_step.after_fit(FitOptions(source="g.csv", out="r.csv"), []) is None


@pytest.mark.parametrize(
    ("typed", "told"), [("--instructions=our words.md", "our words.md"), ("--seed=1", "For us.")]
)
def test_the_best_protocol_is_asked_as_it_was_compared(typed, told):
    """Out of the same ledger, and not under the cap that each protocol had."""
    given = {"instructions": "For us.", "max_usd": 5, "ledger": "w"}
    best = options_of(inputs=("p",), protocol="lean", rings=3, **given)
    words = shlex.split(next_step.after_compare_protocols("w", best, ["compare-protocols", typed]))
    flags = ["--ledger", "w", "--instructions", told, "--dry-run"]
    assert words == [
        *("zelo-ray", "annotate", "p", "--out", "w-lean", *flags, "--protocol", "lean"),
        *("--rings", "3"),
    ]


def test_a_judge_is_asked_once_before_a_run():
    asked = DOCTOR.model_copy(update={"ask": True})

    def step(options, **found):
        state = {"wrong": False, "no_judge": False} | found
        return next_step.after_doctor(options, **state).removeprefix("zelo-ray ")

    assert step(DOCTOR) == "doctor --judges offline --ask"
    assert step(DOCTOR, wrong=True) == "doctor --judges offline"
    assert step(asked, wrong=True) == "doctor --judges offline --ask"
    assert step(asked) == "annotate POOLS --judges offline --out judged --dry-run"
    free = "annotate POOLS --judges offline --out judged --dry-run"
    assert step(DoctorOptions(), no_judge=True) == free


def test_it_is_the_last_line_and_the_only_one(tmp_path, capsys):
    write_run(tmp_path, results_of(tmp_path, [pool_of()]))
    assert cli.main(["explain", str(tmp_path), "--query", "q1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith("Next step: zelo-ray ") for line in lines].index(True) == len(lines) - 1


def test_hostile_names_cannot_steer_the_terminal(capsys):
    cli.printing.print_lines(next_step.next_line(next_step.command_of("report", "o\x1b[2J")))
    assert capsys.readouterr().out == "Next step: zelo-ray report $'o\\x1b[2J'\n"


@pytest.mark.parametrize("name", ["o\x1b[2J", "it's\\n\n", "\u202e\u00a0é漢", "a b"])
def test_a_shell_reads_what_was_meant(name):
    command = next_step.command_of("report", name).replace("zelo-ray", "printf %s", 1)
    told = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert told.stdout == f"report{name}"


def test_a_flag_without_a_value_leaves_the_input_where_it_is():
    words = ["annotate", "--dry-run", "a.json", "--judges", "x:y", "--out", "o"]
    assert next_step.after_estimate(words, 0.0, None) == (
        "zelo-ray annotate a.json --judges x:y --out o"
    )
    assert after(["annotate", "--pilot", "5", "data", "--out", "o"], pilot_of=9) == (
        "zelo-ray annotate data --out o"
    )


def test_options_that_no_flag_holds_are_in_the_file_of_that_run():
    options = options_of(judge_options={"openai:gpt-6-luna": {"reasoning_effort": "high"}})
    step = next_step.after_compare_protocols("w", options, [])
    assert step.endswith(" --config THE-FILE-OF-THAT-RUN.yaml")


def test_a_password_of_a_url_is_not_shown():
    told = next_step.next_line(
        next_step.repeat_command(["annotate", "https://me:s3cret@host/p.jsonl", "--out", "o"])
    )
    assert told.split()[-4:] == ["annotate", "https://…@host/p.jsonl", "--out", "o"]
    assert "s3cret" not in told


def test_ratings_do_not_replace_what_they_were_made_of():
    told = next_step.after_fit(FitOptions(source="ratings.csv"), ["fit", "ratings.csv"])
    assert told == "zelo-ray fit ratings.csv --out ratings-ratings.csv"
    with pytest.raises(ValidationError, match="would overwrite the input"):
        FitOptions(source="ratings.csv", out="ratings.csv")


PLACES = ("inputs", "truth", "pools", "runs", "source", "sources", "old", "new", "dir", "contest")


def next_of(capsys, *words, status=0):
    """The command that a command ends with: each place in it is there, or made by it."""
    assert cli.main([*map(str, words)]) == status
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("Next step: zelo-ray ")
    told = shlex.split(last.removeprefix("Next step: zelo-ray "))
    if "--help" not in told:
        _, options = parse_command(told)
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
        (["convert", "qrels", "noted.tsv", "--out", "x.qrels"], ["bakeoff", "--truth", "x.qrels"]),
        (["agree", "a.qrels", "--human", "b.qrels"], ["compare-labels", "--old", "b.qrels"]),
        (["compare-labels", "--old", "a.qrels", "--new", "b.qrels"], ["agree", "b.qrels"]),
        (["fit", "votes.csv"], ["fit", "votes.csv"]),
    ],
)
def test_it_names_only_what_is_there(files, capsys, words, then):
    told = next_of(capsys, *words)
    assert told[: len(then)] == then


def test_what_the_file_of_a_run_lacks_is_not_asked_again(files, capsys):
    words = ["bakeoff", "--truth", "a.qrels", "--runs", "one.run", "--out", "c"]
    assert next_of(capsys, *words, status=3)[:3] == ["label", "--contest", "c"]
