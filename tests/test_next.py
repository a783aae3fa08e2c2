"""The one command that each command ends with: real paths, quoted, and one that parses."""

import shlex
import subprocess
from pathlib import Path

from tests.builders import PANEL, options_of, pool_of, results_of
from zelo_ray import cli
from zelo_ray.cli import parse_command, print_lines
from zelo_ray.command_options import (
    AgreeOptions,
    CompareLabelsOptions,
    ConvertOptions,
    DoctorOptions,
    DriftOptions,
    FitOptions,
    ProbeOptions,
)
from zelo_ray.engine.bookkeeping import budget_used_up
from zelo_ray.engine.trial import find_fruitless_judges
from zelo_ray.engine.write_results import Summary
from zelo_ray.files.run_record import record_start
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.reports import next_step

WORDS = ["annotate", "my pools/*.jsonl", "--judges", "offline", "--out", "o"]
AGAIN = shlex.join(["zelo-ray", *WORDS])
KEY, MONEY = Disabled(StopReason.FATAL, "a wrong key"), budget_used_up(0.5)


def annotate(*more, crowned=False, fruitless=(), **found):
    own = {"max_usd": 0.5} if "--max-usd" in more else {}
    again = "--retry-failures" in more
    options = options_of(out="my run", judges=("offline",), retry_failures=again, **own)
    summary = Summary("o", 1, 4, 4, **found)
    how = {"crowned": crowned, "fruitless": fruitless}
    return next_step.after_annotate(summary, options, [*WORDS, *more], **how)


def estimate(*more, dollars, cap=None):
    return next_step.after_estimate([*WORDS, "--dry-run", *more], dollars, cap)


def convert(**fields):
    return next_step.after_convert(ConvertOptions(**fields))


def labels(**fields):
    return next_step.after_compare_labels(CompareLabelsOptions(old="a", new="b", **fields))


def agree(source, grades, **fields):
    return next_step.after_agree(AgreeOptions(sources=(source,), **fields), grades=grades)


def probe(*more, failing=()):
    own = {"corpus": "c.jsonl", "documents": 9, "max_usd": 2}
    options = ProbeOptions(inputs=("p",), out="o", judges=("offline:bm25",), **own)
    return next_step.after_probe(options, ["probe", "p", *more], failing=failing)


def doctor(wrong=False, no_judge=False, **fields):
    options = DoctorOptions(**{"judges": ("offline",), **fields})
    return next_step.after_doctor(options, wrong=wrong, no_judge=no_judge)


def fit(*words, **fields):
    return next_step.after_fit(FitOptions(source="g.csv", **fields), list(words))


def test_every_next_command_parses_and_names_its_places():
    bakeoff_next = "zelo-ray bakeoff --truth 'my run' --rerankers original bm25 --out"
    doctor_next = "zelo-ray doctor --judges openai:x --out 'my run'"
    for told, expected in (
        (annotate(), bakeoff_next),
        (annotate(failures=3), f"{AGAIN} --retry-failures"),
        (annotate("--retry-failures", failures=3), bakeoff_next),
        (annotate(failures=3, disabled={"openai:x": KEY}), doctor_next),
        (annotate(failures=336, fruitless=["openai:x"]), doctor_next),
        (
            annotate("--max-usd", "0.5", failures=3, disabled={"openai:x": MONEY}),
            f"{AGAIN} --max-usd 1",
        ),
        (annotate("--pilot", "20", pilot_of=99), AGAIN),
        (annotate("--pilot=20", pilot_of=99), AGAIN),
        (annotate(crowned=True), "zelo-ray explain 'my run'"),
        (estimate(dollars=1.231), f"{AGAIN} --max-usd 1.24"),
        (estimate(dollars=0.0), AGAIN),
        (estimate("--max-usd", "5", dollars=1.23, cap=5.0), f"{AGAIN} --max-usd 5"),
        (
            next_step.after_estimate(["annotate", "--dry-run", "a.json", "--out", "o"], 0.0, None),
            "zelo-ray annotate a.json --out o",
        ),
        *((labels(), ""), (labels(bakeoff="c", out="d"), "")),
        (
            agree("panel=g/scores.parquet", True, human="h.txt"),
            "zelo-ray compare-labels --old h.txt --new g/scores.parquet",
        ),
        (probe(), "zelo-ray annotate p --out o-judged --corpus c.jsonl --judges offline:bm25 "),
        (
            probe("--documents", "9", failing=["offline:bm25"]),
            "zelo-ray probe p --documents 9 --instructions ",
        ),
        (
            next_step.after_drift(DriftOptions(old="a/votes.parquet", new="b")),
            "zelo-ray agree a/votes.parquet b",
        ),
        (fit("fit", "g.csv"), "zelo-ray fit g.csv --out g-ratings.csv"),
        (
            convert(what="pool", source="beir", out="p.jsonl.gz"),
            "zelo-ray annotate p.jsonl.gz --out p-judged --dry-run",
        ),
        (convert(what="unjudged", truth="t", runs=("r",), out="h.jsonl"), ""),
        (convert(what="qrels", source="g", out="q.txt"), ""),
        (convert(what="beir", source="g", out="b"), ""),
        (
            next_step.after_explain("o", "q", "d '1'"),
            """zelo-ray explain o --query q --doc 'd '"'"'1'"'"''""",
        ),
        (doctor(), "zelo-ray doctor --judges offline --ask"),
        (doctor(wrong=True), "zelo-ray doctor --judges offline"),
        (doctor(ask=True), "zelo-ray annotate POOLS --judges offline --out judged --dry-run"),
        (doctor(judges=(), no_judge=True), "zelo-ray annotate POOLS --judges"),
    ):
        assert told.startswith(expected)
        _, *words = shlex.split(told)
        assert parse_command(words)[0] == words[0]
    for nothing in (
        *(agree("v", False, human="h.txt"), agree("g", True), fit(out="r.csv")),
        convert(what="train", source="g", out="t.jsonl"),
    ):
        assert nothing is None, "other tools go on"


def test_judges_that_gave_nothing_are_known_by_results(tmp_path):
    first = PANEL[0].name

    def never(request):
        return "refused" if request.judge.name == first else None

    def mostly(request):
        return never(request) if "worth=7" not in request.user else None

    for say, documents, found in ((never, 8, [first]), (mostly, 8, []), (never, 3, [])):
        out = tmp_path / f"{say.__name__}-{documents}"
        results_of(out, [pool_of(range(documents))], say)
        record_start(str(out), "run.json", {"judgments": ["votes"]})
        assert find_fruitless_judges(str(out)) == found
    assert find_fruitless_judges(str(tmp_path / "nowhere")) == []


def test_the_best_protocol_is_asked_as_it_was_compared():
    """Out of the same ledger, and not under the cap that each protocol had."""
    own = {"protocol": "zelo", "cycles": 3, "instructions": "For us.", "max_usd": 5, "ledger": "w"}
    best = options_of(inputs=("p",), **own)
    for typed, told in (("--instructions=our words.md", "our words.md"), ("--seed=1", "For us.")):
        words = next_step.after_compare_protocols("w", best, ["compare-protocols", typed])
        assert shlex.split(words) == [
            *("zelo-ray", "annotate", "p", "--out", "w-zelo", "--ledger", "w"),
            *("--instructions", told, "--dry-run", "--cycles", "3"),
        ]


def test_names_steer_neither_a_terminal_nor_a_shell(capsys):
    for name in ("o\x1b[2J", "it's\\n\n", "\u202e\u00a0é漢", "a b"):
        command = next_step.command_of("report", name)
        print_lines(next_step.next_line(command))
        printed = capsys.readouterr().out
        assert printed.removesuffix("\n").isprintable()
        said = ["bash", "-c", command.replace("zelo-ray", "printf %s", 1)]
        assert subprocess.check_output(said, text=True) == f"report{name}"
    words = ["annotate", "https://me:s3cret@host/p.jsonl", "--out", "o"]
    told = next_step.next_line(next_step.repeat_command(words))
    assert told.split()[-4:] == ["annotate", "https://…@host/p.jsonl", "--out", "o"]


PLACES = ("inputs", "truth", "pools", "runs", "source", "sources", "old", "new", "run", "contest")
FILES = {
    "a.qrels": "q 0 d 1\nq 0 e 0\nr 0 d 2\nr 0 e 1\n",
    "b.qrels": "q 0 d 0\nq 0 e 1\nr 0 d 2\nr 0 e 1\n",
    "noted.tsv": "query_id\tdoc_id\tgrade\tnote\nq\td\t1\tx\nq\te\t0\ty\n",
    "votes.csv": "judge,query_id,doc_id_a,doc_id_b,preference\n"
    + "".join(f"{judge},{q},d,e,{p}\n" for judge in "jk" for q, p in (("q", 1), ("r", -1))),
    "one.run": "q Q0 d 1 2 one\nq Q0 e 2 1 one\n",
}


def test_the_last_line_names_only_what_is_there(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    for typed, then in (
        ("convert qrels noted.tsv --out x.qrels", "bakeoff --truth x.qrels"),
        ("agree a.qrels --human b.qrels", "compare-labels --old b.qrels"),
        ("compare-labels --old a.qrels --new b.qrels", "agree b.qrels"),
        ("fit votes.csv", "fit votes.csv"),
        ("bakeoff --truth a.qrels --runs one.run --out c", "label --contest c"),
    ):
        assert cli.main(typed.split()) in (0, 3)
        last = capsys.readouterr().out.splitlines()[-1]
        assert last.startswith(f"Next step: zelo-ray {then}")
        _, options = parse_command(shlex.split(last.removeprefix("Next step: zelo-ray ")))
        for found in (getattr(options, name, None) or () for name in PLACES):
            places = [found] if isinstance(found, str) else found
            assert all(place == "POOLS" or Path(place).exists() for place in places), last
