"""Give every kind of file to every command that may read it, and hold what comes out.

    python -m tests.input_outputs            # record it anew in tests/golden/inputs.json.xz
    python -m tests.input_outputs --diff     # print each cell that is no longer as recorded
    python -m tests.input_outputs --table    # print which command reads which file, as Markdown

Any of these may be followed by words, such as `votes` or `agree --human`: then only files and
commands whose names have one of them are tried. Nothing here starts Ray, or calls a judge.
"""

import contextlib
import hashlib
import io
import json
import lzma
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from tests import crash, input_files

RECORD = Path(__file__).parent / "golden" / "inputs.json.xz"
_SHORT = {
    "TEXTS": "--corpus base/corpus.jsonl --queries base/queries.jsonl",
    "RUNS": "--runs base/a.run base/b.run",
    "FEW": "--resamples 100",
    "NONE": "--resamples 0",
    "POOLS": "base/pools.jsonl",
    "PEOPLE": "base/people.qrels",
    "DRY": "--judges offline --dry-run",
}
"""What some words of commands stand for; FILE is what is tried, OUT where results go."""
COMMANDS: Mapping[str, str] = {
    "convert pool": "convert pool FILE --out OUT/pools.jsonl",
    "convert pool, texts": "convert pool FILE TEXTS --out OUT/pools.jsonl",
    "convert pool --runs": "convert pool --runs FILE TEXTS --out OUT/pools.jsonl",
    "convert pool --qrels": "convert pool --qrels FILE TEXTS --out OUT/pools.jsonl",
    "convert pool --corpus": (
        "convert pool --runs base/a.run --corpus FILE --queries base/queries.jsonl --out "
        "OUT/pools.jsonl"
    ),
    "convert pool --queries": (
        "convert pool --runs base/a.run --corpus base/corpus.jsonl --queries FILE --out "
        "OUT/pools.jsonl"
    ),
    "convert qrels": "convert qrels FILE --out OUT/out.qrels",
    "convert run": "convert run FILE --out OUT/out.run",
    "convert train": "convert train FILE --out OUT/train.jsonl",
    "convert train, pools": "convert train FILE --pools POOLS --out OUT/train.jsonl",
    "convert train --pools": "convert train PEOPLE --pools FILE --out OUT/train.jsonl",
    "convert beir": "convert beir FILE --out OUT/beir",
    "convert mteb": "convert mteb FILE --out OUT/mteb.jsonl",
    "convert holes --truth": (
        "convert holes --truth FILE RUNS --pools POOLS --all --out OUT/holes.jsonl"
    ),
    "convert llamahub": "convert llamahub FILE --out OUT/pools.jsonl",
    "fit": "fit FILE --out OUT/scores.jsonl",
    "agree": "agree FILE --human PEOPLE --out OUT/agree NONE",
    "agree NAME=": "agree mine=FILE --human PEOPLE --out OUT/agree NONE",
    "agree --human, grades": "agree base/graded --human FILE --out OUT/agree NONE",
    "agree --human, votes": "agree base/zelo --human FILE --out OUT/agree NONE",
    "agree --pools": "agree base/graded --human PEOPLE --pools FILE --out OUT/agree NONE",
    "agree --runs": "agree base/graded --human PEOPLE --runs FILE --out OUT/agree NONE",
    "bakeoff --truth": "bakeoff --truth FILE RUNS --out OUT/bakeoff FEW",
    "bakeoff --runs": "bakeoff --truth PEOPLE --runs FILE base/b.run --out OUT/bakeoff FEW",
    "bakeoff --human": "bakeoff --truth base/graded RUNS --human FILE --out OUT/bakeoff FEW",
    "bakeoff --pools": "bakeoff --truth PEOPLE RUNS --pools FILE --out OUT/bakeoff FEW",
    "annotate": "annotate FILE DRY --out OUT/judged",
    "annotate, texts": "annotate FILE TEXTS DRY --out OUT/judged",
    "annotate --human": "annotate POOLS --protocol graded --human FILE DRY --out OUT/judged",
    "annotate --anchors-from": (
        "annotate POOLS --protocol graded --anchors-from FILE DRY --out OUT/judged"
    ),
    "compare-protocols --human": (
        "compare-protocols POOLS --human FILE --protocols graded DRY --out OUT/protocols"
    ),
    "compare-labels --new": "compare-labels --old PEOPLE --new FILE RUNS --out OUT/compared FEW",
    "compare-labels --runs": (
        "compare-labels --old PEOPLE --new base/graded --runs FILE --out OUT/compared FEW"
    ),
    "drift": "drift base/graded FILE --out OUT/drift FEW",
    "drift, votes": "drift base/zelo FILE --out OUT/drift FEW",
    "label --pools": (
        "label --contest base/contest --pools FILE --labels 10 --out OUT/labels --csv OUT/sheet.csv"
    ),
    "label --contest": (
        "label --contest FILE --pools POOLS --labels 10 --out OUT/labels --csv OUT/sheet.csv"
    ),
    "label --read": "label --out OUT/labels --read FILE --person eve",
    "size --judges-from": (
        "size --judges-from FILE --documents 6 --pools 2 --cycles 1 --calls 3 --out OUT/size"
    ),
    "explain": "explain FILE --query q1",
}
"""By a short name, the words of a command."""
WITH_OPTIONS: Mapping[str, str] = {
    "annotate --columns, CSV": (
        "annotate rows-strange-names.csv --columns query=prompt content=html DRY --out OUT/judged"
    ),
    "bakeoff --columns, lists": (
        "bakeoff --truth PEOPLE RUNS --pools lists-of-objects.jsonl FEW --columns "
        "documents=passages query=question --out OUT/bakeoff"
    ),
    "annotate two kinds": "annotate pools.jsonl trec.run TEXTS DRY --out OUT/a",
    "annotate folder and run": "annotate beir-without-candidates trec.run DRY --out OUT/judged",
    "annotate run and qrels": "annotate trec.run trec.qrels TEXTS DRY --out OUT/judged",
    "annotate assistants": "annotate assistants.json --protocol best-of DRY --out OUT/judged",
    "annotate --show-query": (
        "annotate pools-with-fields.jsonl --show-query description lang DRY --out OUT/judged"
    ),
    "annotate --show-metadata": "annotate pools.jsonl --show-metadata domain DRY --out OUT/judged",
    "annotate --queries topics": (
        "annotate rows.csv --queries topics.txt --show-query description DRY --out OUT/judged"
    ),
    "bakeoff --corpus, qrels": (
        "bakeoff --truth PEOPLE RUNS --pools trec.qrels TEXTS FEW --out OUT/bakeoff"
    ),
    "bakeoff --corpus, ids": (
        "bakeoff --truth PEOPLE RUNS --pools rows-of-ids.csv TEXTS FEW --out OUT/bakeoff"
    ),
    "bakeoff --runs NAME=": (
        "bakeoff --truth PEOPLE --runs mine=run.csv base/a.run FEW --out OUT/bakeoff"
    ),
    "bakeoff --human, probabilities": (
        "bakeoff --truth base/graded RUNS --human labels-with-probabilities.csv FEW --out "
        "OUT/bakeoff"
    ),
    "fit --columns": (
        "fit games-of-other-names.csv --out OUT/scores.jsonl --columns a=Heim b=Gast "
        "a_wins=Tore_Heim b_wins=Tore_Gast"
    ),
    "fit --columns query_id": (
        "fit winners-models.csv --columns query_id=question_id --out OUT/scores.jsonl"
    ),
    "fit --games": "fit votes.jsonl --games rows --out OUT/scores.csv",
    "agree --turn": (
        "agree gpt=fastchat-human.jsonl --human fastchat-human.jsonl --turn 1 --people A* "
        "--out OUT/agree NONE"
    ),
    "agree --scale": (
        "agree wide=trec-many-grades.qrels --scale wide=0-6 --human PEOPLE --out OUT/agree NONE"
    ),
    "agree --scale ranks": (
        "agree wide=trec-many-grades.qrels trec.qrels --scale wide=0-6:ranks --human PEOPLE "
        "--out OUT/agree NONE"
    ),
    "agree --clip": "agree trec-below-zero.qrels --clip --human PEOPLE --out OUT/agree NONE",
    "agree panel": (
        "agree base/graded panel=base/graded/scores.parquet --human PEOPLE --clip --out "
        "OUT/agree NONE"
    ),
    "agree of people alone": "agree votes.csv votes-of-nobody.csv --out OUT/agree",
    "agree --human llamahub": "agree one=llamahub.json --human llamahub.json --out OUT/agree NONE",
    "convert qrels --grades": "convert qrels base/graded --grades --out OUT/out.qrels",
    "convert qrels --without-ambiguous": (
        "convert qrels base/graded --without-ambiguous --out OUT/out.qrels"
    ),
    "convert qrels --cut": "convert qrels zelo-and-graded --cut -1 1 --out OUT/out.qrels",
    "convert qrels --decimals": (
        "convert qrels trec-fractions.qrels --decimals 0 --out OUT/out.qrels"
    ),
    "convert run --name": "convert run several-runs.csv --name b --out OUT/out.run",
    "convert pool --depth": (
        "convert pool RUNS --qrels PEOPLE TEXTS --depth 2 --out OUT/pools.jsonl"
    ),
    "convert pool, folder and run": (
        "convert pool beir-without-candidates --runs trec.run --out OUT/pools.jsonl"
    ),
    "convert holes, texts": (
        "convert holes --truth labels/answers.jsonl RUNS TEXTS --out OUT/holes.jsonl"
    ),
    "convert beir, pools": "convert beir PEOPLE --pools POOLS --out OUT/beir",
    "convert mteb --positive": (
        "convert mteb PEOPLE --pools POOLS --positive 3 --out OUT/mteb.jsonl"
    ),
    "convert fastchat": (
        "convert fastchat fastchat/question.jsonl fastchat/answers.jsonl --out OUT/pools.jsonl"
    ),
    "convert llamahub --pairs": (
        "convert llamahub llamahub.json --pairs 3 --labels-out OUT/votes.jsonl --out "
        "OUT/pools.jsonl"
    ),
    "compare-protocols of votes": (
        "compare-protocols rows.csv --human votes.csv --people A* DRY --protocols graded --out "
        "OUT/protocols"
    ),
    "compare-labels --bakeoff": (
        "compare-labels --old PEOPLE --new base/graded --bakeoff base/contest FEW --out "
        "OUT/compared"
    ),
}
"""Commands with options that say how to read a file: by a name, all words."""
_NO_FILE = "with options"
"""What stands in place of a file in the names of the cells of these."""
_ONLY: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("drift", "drift, votes"), ("votes", "results", "refused")),
    **dict.fromkeys(("label --contest", "size --judges-from", "explain"), ("results", "refused")),
    "convert llamahub": ("lists", "votes", "refused"),
    "label --read": ("rows", "judgments", "cases", "refused"),
    "agree NAME=": ("judgments", "votes", "results", "cases"),
    **dict.fromkeys(
        ("convert pool, texts", "annotate, texts"),
        ("rows", "runs", "judgments", "texts", "results", "cases", "refused"),
    ),
}
"""Groups of files to which a command is confined, as others are no likely input of it."""
_OF_ONE_EXECUTION = {"at", "run_id", "seconds", "versions", "version"}
_FIRST_ROWS, _WHOLE_ROWS, _LONGEST = 3, 8, 400
_NEXT = re.compile(r"(?m)^(Next step: .*|still to ask .*|US dollars .*|.*(\$\d\S* *){3})\n?")
_FIGURES = re.compile(r"(offline:\w+|together) +\d")
Content = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """What a command made of a file."""

    status: int
    contents: Mapping[str, Content]
    """by the path of each table or text that it wrote, its rows; of many the first, and a hash"""
    messages: Sequence[str]
    """the lines that it wrote to the terminal, beside tables, and the notes in its records"""

    @property
    def is_read(self) -> bool:
        """Tell whether the command took the file."""
        return self.status in (0, 3)


def try_all(words: Sequence[str] = (), only: Container[str] | None = None) -> dict[str, Cell]:
    """Give each file to each command; return what came out, by ``file | command``.

    Args:
        words: of which a name has one; if empty, all are tried.
        only: the names to try; all if None.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "work"
        folder.mkdir()
        groups = input_files.write_files(folder)
        groups[_NO_FILE] = ""
        named = {f: _commands_for(f, group, words) for f, group in groups.items()}
        jobs = [
            (str(folder), f, [name for name in names if only is None or name in only])
            for f, names in named.items()
        ]
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            cells = pool.starmap(_try_file, [job for job in jobs if job[2]], chunksize=1)
    return {name: cell for by_name in cells for name, cell in by_name.items()}


def _commands_for(file: str, group: str, words: Sequence[str]) -> list[str]:
    commands = [c for c in COMMANDS if group in _ONLY.get(c, (group,))]
    commands = [*WITH_OPTIONS] if file == _NO_FILE else commands
    names = [f"{file} | {command}" for command in commands]
    return [name for name in names if not words or any(word in name for word in words)]


def _try_file(folder: str, file: str, names: Sequence[str]) -> dict[str, Cell]:
    """Give one file to commands, in a process of its own."""
    os.chdir(folder)
    environ = crash.bare_environment() | {"COLUMNS": "200"}
    os.environ.clear()
    os.environ.update(environ)
    return {name: _try(file, name.partition(" | ")[2]) for name in names}


def _try(file: str, command: str) -> Cell:
    out = Path("out") / re.sub(r"\W+", "-", file) / re.sub(r"\W+", "-", command)
    out.mkdir(parents=True)
    of = WITH_OPTIONS if file == _NO_FILE else COMMANDS
    if command == "label --read":
        shutil.copytree("base/labels", out / "labels")
    words = " ".join(_SHORT.get(word, word) for word in of[command].split()).split()
    words = [w.replace("OUT", str(out)).replace("FILE", file) for w in words]
    status, printed, complaints = _run(words)
    contents, notes = {}, list[str]()
    for place in sorted(out.rglob("*")):
        name = str(place.relative_to(out))
        if not place.is_file() or "/." in f"/{name}" or place.suffix == ".html":
            continue
        if place.suffix == ".json":
            notes += _notes(json.loads(place.read_text()))
        elif rows := _rows(place):
            contents[name] = _shorten([_without_places(row, out) for row in rows])
    if figures := [line for line in printed if _FIGURES.match(line)]:  # of what is not asked
        contents["printed"] = _shorten(figures)
    told = [line for line in printed if not _FIGURES.match(line)]
    shutil.rmtree(out)
    messages = [_without_places(line, out) for line in [*complaints, *told, *notes]]
    return Cell(status, contents, [_shortened(line) for line in messages if line.strip()])


def _without_places(line: str, out: Path) -> str:
    line = line.replace(f"{Path.cwd()}/", "").replace(str(out), "OUT")
    return re.sub(rf"{re.escape(tempfile.gettempdir())}/\w+", "TEMPORARY", line)


def _run(words: Sequence[str]) -> tuple[int, list[str], list[str]]:
    """Run a command; return its exit status, and the lines that it wrote to its two streams."""
    from zelo_ray import cli
    from zelo_ray.cli import printing

    printed, complaints = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(complaints),
        patch.object(printing, "print_report"),  # and its page: `tests.outputs` holds them
    ):
        try:
            status = cli.main(words)
        except SystemExit as ended:
            status = int(ended.code or 0)
        except Exception:  # noqa: BLE001 - a traceback is what a user would see, and is recorded
            status = -1
            lines = traceback.format_exc().splitlines()
            print("TRACEBACK", lines[-1], lines[-3].strip() if lines[3:] else "", file=complaints)
    text = _NEXT.sub("", printed.getvalue())
    return status, text.splitlines(), complaints.getvalue().splitlines()


def _notes(record: Any) -> Iterator[str]:
    """Yield what a record of a command says of its input."""
    if isinstance(record, dict):
        summary = record.get("summary") or {}
        missing = record.get("missing")
        yield from map(str, [*(record.get("notes") or ()), *(summary.get("notes") or ())])
        yield from missing if isinstance(missing, list) else ()
    elif isinstance(record, list):  # beside pools that were made
        yield from map(str, record)


def _rows(place: Path) -> list[str]:
    """Return the rows of a table, or the lines of a text, with numbers to six digits."""
    if place.suffix == ".parquet":
        table: pa.Table = pq.read_table(place)
        types = {field.name: str(field.type) for field in table.schema}
        rows = [_stable(row) for row in table.to_pylist()]
        return [json.dumps(row, ensure_ascii=False) for row in [types, *rows]]
    lines = place.read_text("utf-8", "backslashreplace").splitlines()
    if place.suffix in (".jsonl", ".ndjson"):
        return [json.dumps(_stable(json.loads(line)), ensure_ascii=False) for line in lines]
    return lines


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {n: _stable(v) for n, v in value.items() if n not in _OF_ONE_EXECUTION}
    if isinstance(value, list):
        return [_stable(v) for v in value]
    if isinstance(value, float):  # 12 digits first: 2.088735 and 2.0887350000000002 are one number
        return float(f"{float(f'{value:.12g}'):.6g}")
    return value


def _shorten(rows: Sequence[str]) -> Content:
    """Return the number of rows, a hash of all, and the first; all of a few."""
    whole = "\n".join(rows)
    shown = rows if len(rows) <= _WHOLE_ROWS else rows[:_FIRST_ROWS]
    digest = hashlib.sha256(whole.encode("utf-8", "backslashreplace")).hexdigest()[:16]
    return {"rows": len(rows), "hash": digest, "first": [_shortened(row) for row in shown]}


def _shortened(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


def read_record() -> dict[str, Cell]:
    """Return what was recorded, by ``file | command``."""
    held = json.loads(lzma.decompress(RECORD.read_bytes()))
    return {
        f"{file} | {command}": Cell(**cell)
        for file, by in held.items()
        for command, cell in by.items()
    }


def write_record(cells: Mapping[str, Cell]) -> None:
    """Write what came out as the record."""
    by_file: dict[str, dict[str, Any]] = {}
    for name, cell in cells.items():
        file, _, command = name.partition(" | ")
        by_file.setdefault(file, {})[command] = asdict(cell)
    text = json.dumps(by_file, ensure_ascii=False, indent=0).encode("utf-8", "backslashreplace")
    RECORD.write_bytes(lzma.compress(text, preset=9))


def has_same_results(old: Cell, new: Cell) -> bool:
    """Tell whether two cells have the same exit status and contents, whatever their messages."""
    return old.status == new.status and _digest(old) == _digest(new)


def _digest(cell: Cell) -> dict[str, Any]:
    return {place: (of["rows"], of["hash"]) for place, of in cell.contents.items()}


def differences(old: Mapping[str, Cell], new: Mapping[str, Cell]) -> Iterator[str]:
    """Yield lines on each cell that differs."""
    for name in dict.fromkeys([*old, *new]):
        if name not in old or name not in new:
            yield f"{name}: {'no longer tried' if name in old else 'new: ' + _in_short(new[name])}"
            continue
        was, now = old[name], new[name]
        if has_same_results(was, now) and [*was.messages] == [*now.messages]:
            continue
        what = "words" if has_same_results(was, now) else "RESULT"
        yield f"{name}: {what}"
        if what == "RESULT":
            yield f"    {_in_short(was)} -> {_in_short(now)}"
            for place in dict.fromkeys([*was.contents, *now.contents]):
                yield from _changed_rows(place, was.contents.get(place), now.contents.get(place))
        yield from (f"    - {line}" for line in was.messages if line not in now.messages)
        yield from (f"    + {line}" for line in now.messages if line not in was.messages)


def _changed_rows(place: str, was: Content | None, now: Content | None) -> Iterator[str]:
    if was is None or now is None:
        yield f"    {place}: {'is written now' if now else 'is no longer written'}"
    elif was["hash"] != now["hash"]:
        yield f"    {place}: {was['rows']} rows -> {now['rows']} rows"
        pairs = zip(was["first"], now["first"], strict=False)
        if first := next((pair for pair in pairs if pair[0] != pair[1]), None):
            yield from (f"      - {first[0]}", f"      + {first[1]}")


def _in_short(cell: Cell) -> str:
    if cell.is_read:
        notes = f": {len(cell.messages)} lines" if cell.messages else ""
        return f"read{' (status 3)' if cell.status == 3 else ''}{notes}"
    words = cell.messages[0] if cell.messages else "no words"
    return f"refused ({cell.status}): {words}"


def as_table(cells: Mapping[str, Cell]) -> Iterator[str]:
    """Yield a table in Markdown: files down, commands across, and below it all refusals."""
    commands = [c for c in COMMANDS if any(name.endswith(f" | {c}") for name in cells)]
    files = [f for f in dict.fromkeys(n.partition(" | ")[0] for n in cells) if f != _NO_FILE]
    refusals: dict[str, int] = {}
    yield f"| file | {' | '.join(commands)} |"
    yield f"|---|{'---|' * len(commands)}"
    for file in files:
        row = []
        for command in commands:
            cell = cells.get(f"{file} | {command}")
            row.append("" if cell is None else _mark(cell, refusals, file))
        yield f"| {file} | {' | '.join(row)} |"
    yield ""
    yield from (f"{number}. {words}" for words, number in refusals.items())


def _mark(cell: Cell, refusals: dict[str, int], file: str) -> str:
    if cell.is_read:
        return f"read, {len(cell.messages)}" if cell.messages else "read"
    words = (cell.messages[0] if cell.messages else "no words").replace(file, "FILE")
    words = re.sub(r"FILE:\d+", "FILE:N", words).replace("zelo-ray: ", "")
    return f"no {refusals.setdefault(words, len(refusals) + 1)}"


def main(words: Sequence[str]) -> None:
    """Record, compare or print."""
    flags = [word for word in words if word in ("--diff", "--table")]
    names = [word for word in words if word not in flags]
    if "--table" in flags and not names:
        print("\n".join(as_table(read_record())))
        return
    cells = try_all(names)
    if flags == ["--table"]:
        print("\n".join(as_table(cells)))
    elif flags == ["--diff"]:
        old = {n: cell for n, cell in read_record().items() if not names or n in cells}
        print("\n".join(differences(old, cells)) or "all is as recorded")
    else:
        write_record((read_record() | cells) if names else cells)


if __name__ == "__main__":
    main(sys.argv[1:])
