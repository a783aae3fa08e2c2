"""The one command that each command ends with: real paths, quoted, and one that parses."""

import shlex
import subprocess
from pathlib import Path

from tests.builders import options_of
from zelo_ray import cli
from zelo_ray.cli import parse_command, print_lines
from zelo_ray.command_options import (
    BakeoffOptions,
    ConvertOptions,
    DoctorOptions,
    FitOptions,
)
from zelo_ray.commands.annotate.run import next_command
from zelo_ray.engine.bookkeeping import budget_used_up
from zelo_ray.engine.write_results import Summary
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.reports import next_step

KEY, MONEY = Disabled(StopReason.FATAL, "a wrong key"), budget_used_up(0.5)
AGAIN = "zelo-ray annotate 'my pools/*.jsonl' --out 'my run'"


def annotate(found, **fields):
    given = {"inputs": ("my pools/*.jsonl",), "judges": ("offline",), "ledger": None}
    options = options_of(out="my run", **given, **fields)
    return next_command(Summary("o", 1, 4, 4, **found), options)


def bakeoff(grows=False, **fields):
    options = BakeoffOptions(truth="t", rerankers=("bm25",), out="c", **fields)
    return next_step.after_bakeoff(options, [], failed=False, grows=grows)


def convert(**fields):
    return next_step.after_convert(ConvertOptions(**fields))


def doctor(wrong=False, no_judge=False, **fields):
    options = DoctorOptions(**{"judges": ("offline",), **fields})
    return next_step.after_doctor(options, wrong=wrong, no_judge=no_judge)


def fit(*words, **fields):
    return next_step.after_fit(FitOptions(source="g.csv", **fields), list(words))


def test_every_next_command_parses_and_names_its_places():
    bakeoff_next = "zelo-ray bakeoff --truth 'my run' --rerankers original bm25 --out"
    doctor_next = "zelo-ray doctor --judges openai:x --out 'my run'"
    for told, expected in (
        (annotate({}), bakeoff_next),
        (annotate({"failures": 3}), AGAIN),
        (annotate({"failures": 3}, retry_failures=True), bakeoff_next),
        (annotate({"failures": 3, "disabled": {"openai:x": KEY}}), doctor_next),
        (annotate({"disabled": {"openai:x": MONEY}}, max_usd=0.5), f"{AGAIN} --max-usd 1"),
        (annotate({"pilot_of": 99}, pilot=20), AGAIN),
        (annotate({}, protocol="best-of"), "zelo-ray explain 'my run'"),
        *((bakeoff(), ""), (bakeoff(grows=True, human="l"), "")),
        (fit("fit", "g.csv"), "zelo-ray fit g.csv --out g-ratings.csv"),
        (
            convert(what="pool", source="beir", out="p.jsonl.gz"),
            "zelo-ray annotate p.jsonl.gz --out p-judged --dry-run",
        ),
        (convert(what="unjudged", truth="t", runs=("r",), out="h.jsonl"), ""),
        (convert(what="qrels", source="g", out="q.txt"), ""),
        (convert(what="beir", source="g", out="b"), ""),
        (doctor(), "zelo-ray doctor --judges offline --ask"),
        (doctor(wrong=True), "zelo-ray doctor --judges offline"),
        (doctor(ask=True), "zelo-ray annotate POOLS --judges offline --out judged --dry-run"),
        (doctor(judges=(), no_judge=True), "zelo-ray annotate POOLS --judges"),
    ):
        assert told.startswith(expected)
        _, *words = shlex.split(told)
        assert parse_command(words)[0] == words[0]
    for nothing in (
        fit(out="r.csv"),
        convert(what="train", source="g", out="t.jsonl"),
    ):
        assert nothing is None, "other tools go on"


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
