"""The one command that each command ends with: real paths, quoted, and one that parses."""

import shlex
import subprocess
from pathlib import Path

from zelo_ray import cli
from zelo_ray.cli import parse_command, print_lines
from zelo_ray.commands.running import next_line
from zelo_ray.report.command_lines import command_of
from zelo_ray.report.results import Results


def test_names_steer_neither_a_terminal_nor_a_shell(capsys):
    for name in ("o\x1b[2J", "it's\\n\n", "\u202e\u00a0é漢", "a b"):
        command = command_of("report", name)
        print_lines(next_line(Results({}, next_command=command)))
        printed = capsys.readouterr().out
        assert printed.removesuffix("\n").isprintable()
        said = ["bash", "-c", command.replace("zelo-ray", "printf %s", 1)]
        assert subprocess.check_output(said, text=True) == f"report{name}"
    command = command_of("annotate", "https://me:s3cret@host/p.jsonl", "--out", "o")
    shown = next_line(Results({}, next_command=command))
    assert shown.split()[-4:] == ["annotate", "https://…@host/p.jsonl", "--out", "o"]


PLACES = ("inputs", "truth", "pools", "runs", "source", "sources", "run", "contest")
FILES = {
    "a.qrels": "q 0 d 1\nq 0 e 0\nr 0 d 2\nr 0 e 1\n",
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
        ("sample data", "annotate data/sample"),
        ("doctor --judges offline", "doctor --judges offline --ask"),
    ):
        assert cli.main(typed.split()) in (0, 3)
        last = capsys.readouterr().out.splitlines()[-1]
        assert last.startswith(f"Next step: zelo-ray {then}")
        _, options = parse_command(shlex.split(last.removeprefix("Next step: zelo-ray ")))
        for found in (getattr(options, name, None) or () for name in PLACES):
            places = [found] if isinstance(found, str) else found
            assert all(place == "POOLS" or Path(place).exists() for place in places), last
