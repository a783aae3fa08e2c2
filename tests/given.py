"""What pages of the documentation take for granted: the reader's own files and earlier runs."""

import csv
import itertools
import json
import re
import shutil
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.crash import ROOT
from tests.fakes import sample
from zelo_ray.formats.files import read_placed_lines

QUERIES, DOCUMENTS = 5, 5
_WRITTEN = ("--out", "--csv", "--label-studio", "--argilla", "--labels-out")
_RUNS = {
    "judged": (),
    "graded": ("--protocol", "graded"),
    "judged-in-may": (),
    "judged-in-june": (),
    "out": (),
    "pilot": ("--judges", "openai:gpt-6-luna", "anthropic:claude-haiku-5-5"),
}
PRELUDES = {
    "api.md": """
class MyModel:
    def __init__(self, size):
        self.size = size

    def score(self, query, documents):
        return [len(text) * self.size for text in documents]


def my_function(query, documents):
    return [len(text) for text in documents]


""",
}


class Given:
    """Makes what a command names and nobody has made."""

    def __init__(self, folder: Path, annotate: Callable[..., None]) -> None:
        self._folder, self._annotate = folder, annotate
        self._kept = folder.parent / f"{folder.name}-given"
        self._kept.mkdir()

    def make(self, text: str, page: str) -> None:
        """Make what a command reads, such as ``pools.jsonl`` or the results ``judged``."""
        for word in _read(text):
            name = word.rstrip("/")
            name = name.partition("/")[0] if name.partition("/")[0] in _RUNS else name
            if (self._folder / name).exists() or name.startswith("data/"):
                continue
            if name in _RUNS:
                self._run(name)
            elif name.endswith(".yaml") and (told := _told_yaml(page)):
                (self._folder / name).write_text(told)
            elif name in _FILES:
                _FILES[name](self._folder)

    def around(
        self, words: list[str], run: Callable[[list[str]], tuple[int, str]]
    ) -> tuple[int, str]:
        """Run a command; where it opens a page for a person, the person answers in a file."""
        serves = words[0] == "label" and not {"--csv", "--label-studio", "--argilla", "--read"} & {
            *words
        }
        if not serves:
            return run(words)
        status, printed = run([*words, "--csv", "sheet.csv"])
        if status or not (self._folder / "sheet.csv").exists():
            return status, printed
        filled = "compared.csv" if "--pairs" in words else "filled.csv"
        _fill(self._folder, filled)
        out = words[words.index("--out") + 1]
        return run(["label", "--out", out, "--read", filled, "--person", "ann"])

    def _run(self, name: str) -> None:
        kept = self._kept / ("judged" + "".join(_RUNS[name]))  # one run for all that are alike
        if not kept.exists():
            file = self._folder / "pools.jsonl"
            of_the_page = file.read_bytes() if file.exists() else None
            _pools(self._folder)
            judges = () if "--judges" in _RUNS[name] else ("--judges", "offline")
            pools = "graded.jsonl" if name == "pilot" else "pools.jsonl"
            self._annotate(pools, *judges, "--out", str(kept), *_RUNS[name])
            if of_the_page is not None:
                file.write_bytes(of_the_page)
        shutil.copytree(kept, self._folder / name)


def _read(text: str) -> Iterable[str]:
    """Words of a command that may name what it reads."""
    before = ""
    for word in re.findall(r"[^\s'\"=(),]+", text):
        if before not in _WRITTEN and (before != "--protocol" or ".py" in word):
            yield from (word, word.rpartition("=")[2], word.partition(":")[0])
        before = word


def _sample() -> list[dict[str, Any]]:
    """The first queries of the sample, with a few documents each: q1 with d1, d2 ..., q2 ..."""
    found = [
        json.loads(line) for _, line in read_placed_lines(str(ROOT / "data/sample/part-0.jsonl"))
    ]
    pools, numbers = found[:QUERIES], itertools.count(1)
    for number, pool in enumerate(pools, 1):
        pool["query"]["id"] = f"q{number}"
        pool["documents"] = pool["documents"][:DOCUMENTS]
        for document in pool["documents"]:
            document["id"] = f"d{next(numbers)}"
    return pools


def _votes(folder: Path) -> None:
    rows = (
        {"query_id": pool["query"]["id"], "doc_id_a": a["id"], "doc_id_b": b["id"]}
        | {"preference": _grade(b) - _grade(a), "judge": "Ada"}
        for pool in _sample()
        for a, b in itertools.pairwise(pool["documents"])
    )
    rows = (row | {"preference": max(-1, min(1, row["preference"]))} for row in rows)
    (folder / "votes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _grade(document: dict[str, Any]) -> int:
    return int(sample.grades()[document["content"]])


def _pools(folder: Path) -> None:
    text = "".join(json.dumps(pool) + "\n" for pool in _sample())
    (folder / "pools.jsonl").write_text(text)


def _first_stage(name: str, places: slice) -> Callable[[Path], None]:
    """Make a file of the pools with some of each query's documents, in an order of its own."""

    def make(folder: Path) -> None:
        pools = [pool | {"documents": pool["documents"][places]} for pool in _sample()]
        (folder / name).write_text("".join(json.dumps(pool) + "\n" for pool in pools))

    return make


def _pool_folder(folder: Path) -> None:
    import gzip

    if (folder / "pools").exists():
        return
    (folder / "pools").mkdir()
    text = "".join(json.dumps(pool) + "\n" for pool in _sample())
    (folder / "pools/part-0.jsonl").write_text(text)
    more = "".join(json.dumps(p).replace('"id": "', '"id": "more-') + "\n" for p in _sample())
    (folder / "pools/part-1.jsonl.gz").write_bytes(gzip.compress(more.encode()))


def _qrels(name: str, change: int = 0) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        rows = [
            f"{pool['query']['id']} 0 {doc['id']} {abs(_grade(doc) - change * (n % 2))}\n"
            for pool in _sample()
            for n, doc in enumerate(pool["documents"])
        ]
        (folder / name).write_text("".join(rows))

    return write


def _run_file(name: str, tag: str, *, turned: bool = False) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        rows = list[str]()
        for pool in _sample():
            ids = [doc["id"] for doc in pool["documents"]]
            for rank, doc in enumerate(ids[::-1] if turned else ids, 1):
                rows.append(f"{pool['query']['id']} Q0 {doc} {rank} {10 - rank} {tag}\n")
        (folder / name).write_text("".join(rows))

    return write


def _together(*makers: Callable[[Path], None]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for make in makers:
            make(folder)

    return write


def _mtbench(folder: Path) -> None:
    with tarfile.open(ROOT / "tests/golden/mtbench_human.tar.xz") as files:
        files.extractall(folder, filter="data")
    for file in (folder / "mtbench_human").iterdir():
        if not (folder / file.name).exists():
            file.rename(folder / file.name)
    if not (folder / "human_judgments.jsonl").exists():
        shutil.copy(folder / "human.jsonl", folder / "human_judgments.jsonl")


def _beir(folder: Path) -> None:
    root = folder / "scidocs"
    (root / "qrels").mkdir(parents=True)
    corpus, queries, judged = [], [], ["query-id\tcorpus-id\tscore"]
    for pool in _sample():
        queries.append({"_id": pool["query"]["id"], "text": pool["query"]["query"]})
        for doc in pool["documents"]:
            corpus.append({"_id": doc["id"], "title": "", "text": doc["content"]})
            judged.append(f"{pool['query']['id']}\t{doc['id']}\t{_grade(doc)}")
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (root / "qrels/test.tsv").write_text("\n".join(judged) + "\n")


def _games(name: str, head: str, rows: Iterable[str]) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text("\n".join([head, *rows]) + "\n") and None


_CITIES = ("Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore")
_PAIRS = [(a, b) for a in _CITIES for b in _CITIES if a != b]


def _label(folder: Path) -> None:
    """A person labels the tasks in Label Studio, which exports them."""
    tasks = json.loads((folder / "tasks.json").read_text())
    results = [{"from_name": "answer", "value": {"choices": ["1"]}}]
    annotations = [{"completed_by": {"email": "bob@example.org"}, "result": results}]
    export = [{**task, "annotations": annotations} for task in tasks]
    (folder / "export.json").write_text(json.dumps(export))


_FILES: dict[str, Callable[[Path], None]] = {
    "pools.jsonl": _pools,
    "bm25.jsonl": _first_stage("bm25.jsonl", slice(4)),
    "dense.jsonl": _first_stage("dense.jsonl", slice(None, 0, -1)),
    "pools": _pool_folder,
    "pools/*.jsonl": _pool_folder,
    "pools/*.jsonl.gz": _pool_folder,
    "qrels.txt": _qrels("qrels.txt"),
    "people.qrels": _qrels("people.qrels"),
    "labels.qrels": _qrels("labels.qrels"),
    "submissions": _together(_qrels("submissions/one.txt", 1), _qrels("submissions/two.txt", 2)),
    "judges": _together(_qrels("judges/one.txt", 1), _qrels("judges/two.txt", 2)),
    "runs/*.run": _together(
        _run_file("runs/a.run", "a"), _run_file("runs/b.run", "b", turned=True)
    ),
    "production.run": _run_file("production.run", "production"),
    "candidate.run": _run_file("candidate.run", "candidate", turned=True),
    "question.jsonl": _mtbench,
    "gpt4_pair.jsonl": _mtbench,
    "votes.jsonl": _votes,
    "scidocs": _beir,
    "baseball.csv": _games(
        "baseball.csv",
        "home,away,home_wins,away_wins",
        [f"{a},{b},{4 + n % 3},{3 + n % 4}" for n, (a, b) in enumerate(_PAIRS)],
    ),
    "games.csv": _games(
        "games.csv",
        "Heim,Gast,Tore_Heim,Tore_Gast",
        [f"{a},{b},{n % 3},{n % 2}" for n, (a, b) in enumerate(_PAIRS)],
    ),
    "filled.csv": lambda folder: None,  # see Given.around
    "export.json": _label,
    "relevant.txt": lambda folder: (folder / "relevant.txt").write_text(_WORDS) and None,
    "my_module": lambda folder: (folder / "my_module.py").write_text(_OWN) and None,
}
_WORDS = "Relevant is what somebody can act on today.\n"
_OWN = '''"""A reranker of the reader's."""


class MyClass:
    version = "1"

    def score(self, query, documents):
        return [-len(text) for text in documents]
'''


def _fill(folder: Path, name: str) -> None:
    """A person fills in half of the sheet, by the grades of the sample; of pairs, A and B."""
    with (folder / "sheet.csv").open(newline="", encoding="utf-8-sig") as sheet:
        rows = list(csv.DictReader(sheet))
    for row in rows[: len(rows) // 2 + 1]:
        if "better" in row:
            row["better"] = "AB"[len(row["document_a"]) < len(row["document_b"])]
            continue
        known = [grade for text, grade in sample.grades().items() if text in row.values()]
        row["grade"] = str(known[0] if known else 1)
    with (folder / name).open("w", newline="") as filled:
        writer = csv.DictWriter(filled, rows[0] if rows else ["key", "grade"])
        writer.writeheader()
        writer.writerows(rows)


def _told_yaml(page: str) -> str:
    """The first options file that a page shows."""
    file = ROOT / "docs" / page
    text = file.read_text() if file.exists() else ""
    found = re.search(r"^```yaml\n(.*?)^```", text, re.S | re.M)
    return found[1] if found else ""
