"""Run every command on small inputs and read its outputs as texts, to hold them against a record.

    python -m tests.outputs            # record them anew in tests/golden/outputs.tar.xz
    python -m tests.outputs FOLDER     # write them to a folder, to be compared by eye

Beside the page of a report stand the values that it shows: see `tests.report_values`.

Judges are servers on loopback that know the grades of the sample and err by the words of a prompt
alone. So the same code gives the same outputs on any machine, but for the last digits of floats.
"""

import io
import json
import re
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from math import isclose
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq

from tests import crash, given
from tests.one_ray import OneRay
from tests.report_values import NUMBER, report_lines
from zelo_ray.commands.report import RECORDS, REPORTS

RECORD = Path(__file__).parent / "golden" / "outputs.tar.xz"
PRINTED, VALUES = "printed.txt", ".values.jsonl"

_OPENAI, _CLAUDE, _ = crash.DEFAULT_JUDGES
_JUDGES = ("--judges", _OPENAI, _CLAUDE)
_POOLS = ("--pools", "pools.jsonl")
_ARMS = ("--rerankers", "original", "bm25", "likelihood")
_RUNS = ("--runs", "runs/a.run", "runs/b.run")
_DOZEN = [f"dozen/{number:02}.run" for number in range(12)]
_JUDGED = {  # by the directory of the results, what `annotate` is told
    "zelo": ("--votes", "all"),
    "lean": ("--protocol", "lean"),
    "graded": ("--protocol", "graded", "--repeats", "2"),
    "zelo-and-graded": ("--protocol", "zelo+graded"),
    "best-of": ("--protocol", "best-of"),
    "samre": ("--protocol", "samre", "--document-limit", "3"),
    "baseline-strong": ("--protocol", "baseline-strong"),
    "baseline-weak": ("--protocol", "baseline-weak"),
}
_AGREE = {
    "agree-grades": ("graded", "offline", "--human", "people.qrels", *_POOLS, *_RUNS),
    "agree-votes": ("zelo", "--human", "votes.jsonl"),
    "agree-answers": ("samre", "baseline-strong", "--human", "votes.jsonl"),
    "agree-without-people": ("graded", "offline", *_POOLS, *_RUNS),
}
_CONVERTED = {
    "qrels": ("graded", "--grades", "--out", "graded.qrels"),
    "train": ("zelo", "--out", "train.jsonl"),
    "run": ("zelo", "--out", "zelo.run"),
    "beir": ("graded", *_POOLS, "--out", "beir"),
    "mteb": ("graded", *_POOLS, "--out", "mteb.jsonl"),
    "unjudged": ("--truth", "people.qrels", *_RUNS, *_POOLS, "--out", "unjudged.jsonl"),
    "pool": ("scidocs", "--out", "scidocs.jsonl"),
}
_PROTOCOLS = ("zelo", "graded", "best-of", "baseline-strong", "baseline-weak")
COMMANDS: Mapping[str, Sequence[str]] = {
    "sample": ("annotate", "data/sample", "--judges", "recorded:data/recordings"),
    "sample-contest": ("bakeoff", "--truth", "sample", "--pools", "data/sample", *_ARMS),
    "sample-query": ("explain", "sample", "--query", "tick-removal"),
    "estimate": ("annotate", "pools.jsonl", *_JUDGES, "--dry-run"),
    **{out: ("annotate", "pools.jsonl", *_JUDGES, *words) for out, words in _JUDGED.items()},
    "zelo-again": ("annotate", "pools.jsonl", *_JUDGES, *_JUDGED["zelo"], "--out", "zelo"),
    "offline": ("annotate", "pools.jsonl", "--judges", "offline", "--protocol", "graded"),
    "batched": ("annotate", "pools.jsonl", *_JUDGES, *_JUDGED["graded"], "--mode", "batch"),
    "drifted-to": (
        *("annotate", "pools.jsonl", *_JUDGES, *_JUDGED["graded"]),
        *("--document-tokens", "20"),
    ),
    "graded-beside-people": (
        *("annotate", "pools.jsonl", *_JUDGES, *_JUDGED["graded"], "--ledger", "graded"),
        *("--human", "people.qrels"),
    ),
    **{f"explain-{out}": ("explain", out, "--query", "q1") for out in _JUDGED},
    **{f"explain-{out}-d2": ("explain", out, "--query", "q1", "--doc", "d2") for out in _JUDGED},
    "contest": (
        *("bakeoff", "--truth", "graded", *_POOLS, *_ARMS, f"listwise:{_OPENAI}"),
        *(f"pointwise:{_CLAUDE}", *_RUNS, "--baseline", "original"),
    ),
    "contest-of-one": ("bakeoff", "--truth", "graded", *_POOLS, "--runs", "runs/a.run"),
    "contest-of-a-dozen": ("bakeoff", "--truth", "graded", *_POOLS, "--runs", *_DOZEN),
    "contest-by-scores": ("bakeoff", "--truth", "zelo", *_POOLS, *_RUNS),
    "labels": ("label", "--contest", "contest", *_POOLS, "--labels", "60"),
    "corrected": ("bakeoff", "--truth", "graded", *_POOLS, *_ARMS, "--human", "labels"),
    **{out: ("agree", *words) for out, words in _AGREE.items()},
    "relabelled": (
        *("compare-labels", "--old", "people.qrels", "--new", "graded"),
        *("--bakeoff", "contest"),
    ),
    "protocols": (
        *("compare-protocols", "pools.jsonl", "--human", "votes.jsonl", *_JUDGES),
        *("--max-usd", "5", "--protocols", *_PROTOCOLS),
    ),
    "drift": ("drift", "graded", "drifted-to"),
    "sizes": ("size", "--documents", "8", "--judges-from", "lean", "--pools", "20"),
    "ratings": ("fit", "baseball.csv", "--mle", "--order-effect", "--out", "ratings.csv"),
    "ratings-of-votes": ("fit", "zelo/votes.parquet", "--out", "ratings.parquet"),
    **{f"convert-{what}": ("convert", what, *words) for what, words in _CONVERTED.items()},
    "batches": ("batches", "batched"),
    "compacted": ("compact", "zelo"),
    "reports": ("report", "."),
}
"""Commands in the order in which they run. Without ``--out`` they write where their name says."""

_ENVIRON = {"PYTHONPATH": str(crash.ROOT), "COLUMNS": "100", "ZELO_RAY_BATCH_POLL": "0.2"}
_WITHOUT_OUT = ("explain", "batches", "compact", "report")
_VOLATILE = {"at", "received_at", "run_id", "seconds", "versions", "files", "made_of"}
"""Columns and fields that are of one execution or one installation."""
_OF_ONE_RUN = {
    r"\d{8}T\d{6}Z-[0-9a-f]{6}": "RUN",
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d[\d:.+]*": "DATE",
    r"\b\d+:\d\d:\d\d\b": "DURATION",
    r"127\.0\.0\.1:\d+": "HOST",
    r"[\d.,]+ calls/s": "SPEED",
    r" · last trouble: .*": "",
    r"\bin(\s+[\d.,]+\s+(s|min|h))+\b": "in SECONDS",
    r"compacted-\S+": "SEGMENT",
    r"\b(msg)?batch_\d+": "BATCH",
}
"""The same in texts."""
_LEDGER = ("replies", "batches", "exposure")
_TIMED = "costs"
"""The section of a report, and its tables, that hold seconds of one execution."""
_TIMED_FILES = ("costs.parquet", "times.parquet")
_TIMED_TITLE = "Time and money"
_QUERIES, _DOCUMENTS = 12, 6


def run_all(folder: Path) -> Iterator[tuple[str, int, str]]:
    """Run all commands in a folder; yield each one's name, its exit status and what it printed."""
    work = folder / "work"
    work.mkdir()
    (work / "data").symlink_to(crash.ROOT / "data")
    sizes = {"QUERIES": _QUERIES, "DOCUMENTS": _DOCUMENTS}
    with patch.multiple(given, **sizes), OneRay(folder / "ray", cwd=work) as ray:
        flags = ("--judge", "tests.fakes.sample:judge", "--rpm", "100000", "--key", "")
        flags += ("--batch-seconds", "0.2")
        (folder / "fakes").mkdir()
        with ray.fakes(folder / "fakes", *flags) as servers:
            no_limits = {k: v for k, v in servers.items() if k != "ZELO_RAY_LIMITS"} | _ENVIRON
            limits = no_limits | crash.limits(_JUDGES[1:])
            inputs = given.Given(work, lambda *words: None)
            inputs.make("pools.jsonl runs/*.run", "outputs")
            _write_dozen(work)
            for name, command in COMMANDS.items():
                has_out = command[0] in _WITHOUT_OUT or "--out" in command
                words = [*command] if has_out else [*command, "--out", name]
                inputs.make(" ".join(words), "outputs")
                limited = limits if {*_JUDGES} <= {*words} else no_limits  # of judges on a panel
                run = partial(ray.run, limited)
                status, printed = inputs.around(words, lambda words, run=run: run(*words))
                yield name, status, _of_any_run(_without_times(printed), work)


def _write_dozen(work: Path) -> None:
    """Write runs of the pools, each with another order; the first has documents nobody judged."""
    pools = [json.loads(line) for line in (work / "pools.jsonl").read_text().splitlines()]
    for number, name in enumerate(_DOZEN):
        rows = list[str]()
        for pool in pools:
            ids = [document["id"] for document in pool["documents"]]
            turned = ids[number % len(ids) :] + ids[: number % len(ids)]
            order = turned[::-1] if number < len(ids) else turned
            order = [order[0], "unjudged", *order[1:]] if number == 0 else order
            place = f"{pool['query']['id']} Q0"
            rows += [f"{place} {doc} 1 {-n} {Path(name).stem}\n" for n, doc in enumerate(order)]
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text("".join(rows))


def read_outputs(work: Path) -> Iterator[tuple[str, str]]:
    """Yield the path of each file of results below a folder, and its content as text.

    Beside each report stand its values.
    """
    for file in sorted(work.rglob("*")):
        path = file.relative_to(work)
        if not file.is_file() or path.parts[0] == "data" or path.parts[-1].startswith("."):
            continue
        if any(part in _LEDGER for part in path.parts) or _is_timed(file):
            continue
        if reader := _READERS.get(file.suffix):
            yield str(path), _of_any_run(reader(file), work)
        if file.name == "report.html":
            values = _of_any_run(read_values(file.parent), work)
            yield str(path.with_suffix(VALUES)), values


def read_values(folder: Path) -> str:
    """Return the values of the report on a run, a row of a table a line."""
    record = next(folder / name for name in RECORDS if (folder / name).exists())
    kind = REPORTS[json.loads(record.read_text())["kind"]]
    report = kind.read(str(folder), shown=folder.name)
    lasting = [part for part in report.sections if not (part and part.name == _TIMED)]
    return _lines(report_lines(replace(report, sections=lasting)))


def _of_any_run(text: str, work: Path) -> str:
    text = re.sub(r"(?m)^.*left: (?!done).*\n", "", text.replace(str(work), "WORK"))  # on its way
    for pattern, word in _OF_ONE_RUN.items():
        text = re.sub(pattern, word, text)
    return text


def _is_timed(file: Path) -> bool:
    """Tell whether a file holds the times of a bake-off; protocols have costs that last."""
    return file.name in _TIMED_FILES and (file.parent / "times.parquet").exists()


def _without_times(printed: str) -> str:
    return re.sub(rf"(?m)^{_TIMED_TITLE}\n(?:.+\n)+\n?", "", printed)


def _read_table(file: Path) -> str:
    """Return the columns with their types, and then each row, as lines of JSON."""
    table = pq.read_table(file)
    types = {field.name: str(field.type) for field in table.schema}
    lasting = (row for row in table.to_pylist() if row.get("estimate") != "cost")
    rows = (_stable(row) for row in lasting)
    return _lines([types, *rows])


def _read_json(file: Path) -> str:
    return json.dumps(_stable(json.loads(file.read_text())), indent=1, sort_keys=True) + "\n"


def _read_json_lines(file: Path) -> str:
    return _lines(_stable(json.loads(line)) for line in file.read_text().splitlines())


def _read_page(file: Path) -> str:
    """Return the texts of a page, one a line, and what its charts hold."""
    page = _Page()
    page.feed(file.read_text())
    return "\n".join(page.texts) + "\n"


class _Page(HTMLParser):
    """Collects the texts of a page; of its scripts, data alone."""

    def __init__(self) -> None:
        super().__init__()
        self.texts, self._skip, self._is_timed = list[str](), False, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        data = ("type", "application/json") in attrs
        self._skip = tag == "style" or (tag == "script" and not data)
        self._is_timed |= tag == "section" and ("id", _TIMED) in attrs

    def handle_endtag(self, tag: str) -> None:
        self._skip = False
        self._is_timed &= tag != "section"

    def handle_data(self, data: str) -> None:
        if not (self._skip or self._is_timed) and data.strip():
            self.texts.append(re.sub(r"[\w+/=]{120,}", "PACKED", " ".join(data.split())))


_READERS = {
    ".parquet": _read_table,
    ".json": _read_json,
    ".jsonl": _read_json_lines,
    ".html": _read_page,
    **dict.fromkeys((".csv", ".tsv", ".qrels", ".run"), Path.read_text),
}


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stable(v) for key, v in value.items() if key not in _VOLATILE}
    return [_stable(v) for v in value] if isinstance(value, list) else value


def _lines(rows: Any) -> str:
    return "".join(json.dumps(row, ensure_ascii=False, default=_plain) + "\n" for row in rows)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def is_shown(name: str) -> bool:
    """Tell whether an output is for a person to read, who looks for figures and not for bytes.

    What explains a score is not: its words are the result.
    """
    return name.endswith((PRINTED, ".html.txt")) and not name.startswith("explain-")


def numbers_in(text: str) -> Counter[str]:
    """Count the numbers that a text shows; the last digits of long ones differ by machine."""
    return Counter(
        f"{_value(number):.6g}" if len(number) > 12 else number for number in NUMBER.findall(text)
    )


def is_same(recorded: str, now: str) -> bool:
    """Tell whether two texts are the same but for the last digits of their numbers."""
    if recorded == now:
        return True
    texts = [NUMBER.split(text) for text in (recorded, now)]
    numbers = [NUMBER.findall(text) for text in (recorded, now)]
    return texts[0] == texts[1] and all(
        a == b or isclose(_value(a), _value(b), rel_tol=1e-6, abs_tol=1e-9)
        for a, b in zip(*numbers, strict=True)
    )


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def write_outputs(folder: Path) -> None:
    """Run all commands and write their outputs, each to a file of a folder."""
    with tempfile.TemporaryDirectory() as temporary:
        for name, status, printed in run_all(Path(temporary)):
            file = folder / f"{name}.{PRINTED}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"exit status {status}\n{printed}")
            print(name, status, flush=True)
        for path, text in read_outputs(Path(temporary) / "work"):
            file = folder / f"{path}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


def read_record(record: Path = RECORD) -> dict[str, str]:
    """Return what was recorded, by its name."""
    with tarfile.open(record) as archive:
        return {
            member.name: archive.extractfile(member).read().decode()
            for member in archive
            if member.isfile()
        }


def write_record(folder: Path, record: Path = RECORD) -> None:
    """Record the files of a folder."""
    with tarfile.open(record, "w:xz") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                data, member = file.read_bytes(), tarfile.TarInfo(str(file.relative_to(folder)))
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


def _record() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "outputs"
        write_outputs(folder)
        write_record(folder)


if __name__ == "__main__":
    write_outputs(Path(sys.argv[1])) if sys.argv[1:] else _record()
