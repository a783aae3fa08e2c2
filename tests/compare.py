"""Run forty commands on the sample at an older commit and now; say what differs in their results.

    python -m tests.compare COMMIT    # some 15 minutes on two cores

Each column of each table is alike to 1e-9, gone, new, or different. A table is a Parquet file, a
file of JSON lines, or the lines of any other text. What differs needs a reason in the note of the
change; the exit status is 1 where anything is gone or different.
"""

import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.helpers import crash

_COMMAND = (sys.executable, "-c", "import sys, zelo_ray.cli; sys.exit(zelo_ray.cli.main())")
_POOLS, _JUDGES = "--pools pools.jsonl", "--judges openai:gpt-6-luna anthropic:claude-haiku-5-5"
_ASKED = f"annotate pools.jsonl {_JUDGES}"
_ARMS = "--rerankers original bm25 likelihood"
_PAIRS = f"pools.jsonl --human votes.jsonl {_JUDGES}"
COMMANDS: dict[
    str, str | tuple[str, str]
] = {  # by the place of the results: the command then and now, or both
    "sample": "annotate data/sample --judges recorded:data/recordings",
    "sample-graded": "annotate data/sample --judges recorded:data/recordings --protocol graded",
    "sample-people": "annotate data/sample --judges recorded:data/recordings --protocol graded "
    "--human data/qrels.txt",
    "sample-two-cycles": "annotate data/sample --judges recorded:data/recordings --cycles 2",
    "zelo": f"{_ASKED} --config votes.yaml",
    "graded": f"{_ASKED} --protocol graded --repeats 2",
    "zelo-calls": f"{_ASKED} --calls-per-document 5",
    "best-of": f"{_ASKED} --protocol best-of",
    "best-of-random": f"{_ASKED} --protocol best-of --order random",
    "samre": f"{_ASKED} --protocol samre --document-limit 3",
    "baseline-strong": f"{_ASKED} --protocol baseline-strong --document-limit 3",
    "baseline-weak": f"{_ASKED} --protocol baseline-weak --document-limit 3",
    "listwise-votes": f"{_ASKED} --protocol listwise-votes",
    "offline": "annotate pools.jsonl --judges offline --protocol graded",
    "batched": f"{_ASKED} --protocol graded --mode batch --config poll.yaml",
    "cut": f"{_ASKED} --protocol graded --repeats 2 --document-tokens 20",
    "limited": f"{_ASKED} --document-limit 4 --cycles 3 --seed 7",
    "contest": f"bakeoff --truth sample --pools data/sample {_ARMS} --runs first=data/bm25.run",
    "contest-people": f"bakeoff --truth data/qrels.txt --pools data/sample {_ARMS}",
    "contest-asked": f"bakeoff --truth graded {_POOLS} --rerankers original "
    "listwise:openai:gpt-6-luna pointwise:anthropic:claude-haiku-5-5 --baseline original",
    "contest-measures": f"bakeoff --truth sample-graded --pools data/sample {_ARMS} "
    "--measures nDCG@10 nDCG@3 AP RR@10 R@20 P@5 Success@5 Pairs R(k_gt=5)@10",
    "labels": "label --contest contest --pools data/sample --labels 60 --csv l.csv",
    "pairs-to-label": "label --run zelo --pairs --labels 20 --csv p.csv",
    "corrected": f"bakeoff --truth sample --pools data/sample {_ARMS} --human people.qrels",
    "agree-grades": "agree graded offline --human data/qrels.txt --runs data/bm25.run",
    "agree-votes": "agree zelo --human votes.jsonl",
    "agree-debates": "agree samre baseline-strong baseline-weak --human votes.jsonl",
    "relabelled": "agree old=data/qrels.txt new=sample-graded/scores.parquet --relevant old=2 "
    "new=2 --runs contest/runs.parquet",
    "changed": "agree graded cut",
    "probe": f"probe pools.jsonl {_JUDGES} --probes length stuffing",
    "protocols": (
        f"compare-protocols {_PAIRS} --max-usd 5 --protocols zelo graded baseline-weak",
        f"compare {_PAIRS} --max-usd 5 --try protocol=graded protocol=baseline-weak",
    ),
    "tuned": (
        f"tune {_PAIRS} --max-usd 5 --try-protocols graded",
        f"compare {_PAIRS} --max-usd 5 --try protocol=graded --halves",
    ),
    "ratings.csv": "fit sample/votes.parquet",
    "ratings-of-games.csv": "fit games.csv",
    "graded.qrels": "convert qrels sample-graded --grades",
    "zelo.run": "convert run sample",
    "training": "convert train sample --form rows",
    "beir": f"convert beir sample-graded {_POOLS}".replace("pools.jsonl", "data/sample"),
    "unjudged.jsonl": "convert unjudged --truth people.qrels --runs data/bm25.run "
    "--pools data/sample",
}
_OF_ONE_RUN = {"at", "received_at", "run_id", "seconds", "started", "finished", "file", "folder"}
_TIMES = ("costs", "times")  # how long calls took
Tables = dict[str, dict[str, list[Any]]]


def write_inputs(folder: Path) -> None:
    """Write what the commands read beside `data`: some pools, people's labels and votes, games."""
    (folder / "data").symlink_to(crash.ROOT / "data")
    lines = (folder / "data/sample/part-0.jsonl").read_text().splitlines()
    pools = [json.loads(line) for line in lines][:12]
    for pool in pools:
        pool["documents"] = pool["documents"][:6]
    (folder / "pools.jsonl").write_text("".join(json.dumps(pool) + "\n" for pool in pools))
    lines = (folder / "data/qrels.txt").read_text().splitlines(keepends=True)
    (folder / "people.qrels").write_text("".join(lines[:150]))
    grades = {(q, d): int(grade) for q, _, d, grade in map(str.split, lines)}
    votes = [
        {"query_id": q, "doc_id_a": one, "doc_id_b": two, "winner": _winner(a, b)}
        for q, documents in (_ids(pool) for pool in pools)
        for one, two in pairwise(documents)
        for a, b in [(grades[q, one], grades[q, two])]
    ]
    (folder / "votes.jsonl").write_text("".join(json.dumps(vote) + "\n" for vote in votes))
    (folder / "games.csv").write_text("left,right,winner\nann,bob,ann\nann,cyd,cyd\nbob,cyd,bob\n")
    (folder / "poll.yaml").write_text("batch_poll: 0.2\n")
    (folder / "votes.yaml").write_text("votes: all\n")


def _ids(pool: Mapping[str, Any]) -> tuple[str, list[str]]:
    return pool["query"]["id"], [document["id"] for document in pool["documents"]]


def _winner(a: int, b: int) -> str:
    return "model_a" if a > b else "model_b" if b > a else "tie"


def run_all(code: Path, folder: Path, *, now: bool) -> dict[str, tuple[int, str]]:
    """Run the commands by the code of a tree; return the exit status and the words of each."""
    ended = {}
    write_inputs(folder)
    flags = ("--judge", "tests.fakes.sample:judge", "--rpm", "100000", "--key", "")
    with crash.fakes(folder, *flags, "--batch-seconds", "0.2") as environ:
        places = environ | {"PYTHONPATH": str(code)}
        for out, command in COMMANDS.items():
            words = (command if isinstance(command, str) else command[now]).split()
            run = crash.start([*_COMMAND, *words, "--out", out], places, cwd=folder)
            ended[out] = crash.finish(run)
            print(f"{'now' if now else 'then'}: {out}: {ended[out][0]}", file=sys.stderr)
    return ended


def read_tables(place: Path) -> Tables:
    """Return the columns of each table of some results, by the table's name."""
    files = [place] if place.is_file() else sorted(place.rglob("*")) if place.exists() else []
    tables: Tables = {}
    for file in files:
        name = str(file.relative_to(place)) if place.is_dir() else place.name
        hidden = any(part.startswith((".", "_")) or part in ("replies", "batches", "exposure")
                     for part in Path(name).parts)  # fmt: skip
        if not file.is_file() or hidden or file.suffix in (".html", ".json", ".lock"):
            continue
        if file.suffix == ".parquet":
            rows = pq.read_table(file).to_pylist()
        elif file.suffix == ".jsonl":
            rows = [json.loads(line) for line in file.read_text().splitlines()]
        else:
            lines = file.read_text().splitlines()
            rows = [{"line": [_cell(cell) for cell in re.split(r"[,\s]+", x)]} for x in lines]
        if file.stem not in _TIMES:
            columns = dict.fromkeys(key for row in rows for key in row if key not in _OF_ONE_RUN)
            tables[name] = {column: [row.get(column) for row in rows] for column in columns}
    return tables


def _cell(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def is_alike(one: Any, two: Any) -> bool:
    """Tell whether two values are the same, numbers in them to 1e-9."""
    if isinstance(one, float | int) and isinstance(two, float | int):
        both_nan = math.isnan(one) and math.isnan(two)
        return both_nan or math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(is_alike(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(is_alike, one, two))
    return bool(one == two)


def differences(then: Tables, now: Tables) -> Iterator[str]:
    """Yield a line for each table and column that is gone, new or different."""
    for name in sorted({*then, *now}):
        if name not in now or name not in then:
            yield f"{name}: {'gone' if name in then else 'new'}"
            continue
        for column in sorted({*then[name], *now[name]}):
            old, new = then[name].get(column), now[name].get(column)
            if old is None or new is None:
                yield f"{name}: {column}: {'gone' if new is None else 'new'}"
            elif len(old) != len(new):
                yield f"{name}: {column}: {len(old)} rows, now {len(new)}"
            elif unlike := [pair for pair in zip(old, new, strict=True) if not is_alike(*pair)]:
                first = ", now ".join(str(value)[:60] for value in unlike[0])
                yield f"{name}: {column}: {len(unlike)} of {len(old)} differ, first {first}"


def main(commit: str) -> int:
    """Compare, print each difference; 1 where anything is gone or different."""
    found = 0
    with tempfile.TemporaryDirectory() as temporary:
        tree, then, now = (Path(temporary) / name for name in ("tree", "then", "now"))
        git = ("git", "-C", str(crash.ROOT), "worktree")
        subprocess.run([*git, "add", "-q", "--detach", str(tree), commit], check=True)
        try:
            for folder in (then, now):
                folder.mkdir()
            before = run_all(tree, then, now=False)
            after = run_all(crash.ROOT, now, now=True)
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
        for out in COMMANDS:
            lines = list(differences(read_tables(then / out), read_tables(now / out)))
            if before[out][0] != after[out][0]:
                lines.insert(0, f"exit status {before[out][0]}, now {after[out][0]}")
            for status, words in (before[out], after[out]):
                lines += [f"ended with {status}: {words.strip()[-300:]}"] if status == 2 else []
            found += any(not line.endswith(": new") for line in lines)
            print(f"{out}: {'as it was' if not lines else ''}", *lines, sep="\n    ")
    print(f"{found} of {len(COMMANDS)} commands have something gone or different")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
