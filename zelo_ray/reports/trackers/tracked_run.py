"""Collect what a tracker gets of a run: parameters, figures, tags and files."""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fsspec
import orjson

from zelo_ray.evaluation.measures.titles import title_measures
from zelo_ray.formats.files import list_directory
from zelo_ray.formats.run_record import PROBE, PROTOCOLS, RUN, TUNE
from zelo_ray.formats.stored import StoredTable
from zelo_ray.formats.wording import without_passwords
from zelo_ray.options import CommandOptions
from zelo_ray.options.tracking import options_that_change_results
from zelo_ray.reports.parts import Report

_LARGEST_FILE = 100 * 2**20  # bytes
_LONGEST = 500  # characters of a parameter
_RECORDS = (RUN, PROTOCOLS, PROBE, TUNE, "agree.json")
_OF_JUDGES = ("answered", "retries", "input_tokens", "output_tokens", "dollars")


@dataclass(frozen=True, slots=True)
class _FiguresTable:
    """A table of results: the columns that name a figure, and those that hold one."""

    name: str
    labels: Sequence[str]
    values: Sequence[str]


_TABLES = {
    "bakeoff": _FiguresTable("means", ("measure", "run", "estimate"), ("mean",)),
    "agree": _FiguresTable("agreement", ("coefficient", "rater_a", "rater_b", "scale"), ("value",)),
    "protocols": _FiguresTable("trials", ("protocol",), ()),
    "tune": _FiguresTable(
        "candidates",
        ("half", "candidate"),
        ("concordance", "agreement", "decided", "kappa", "calls", "tokens", "dollars"),
    ),
    "probe": _FiguresTable("probes", ("probe", "judge"), ("shift", "p_holm", "detectable")),
}
"""By the kind of results; without columns of figures, all numbers of a row are."""
_USUAL_ESTIMATE = "panel"
"""An estimate that is not named, as it is the only one without labels of people."""


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """A run as a tracker gets it.

    Attributes:
        name: shown for it.
        fingerprint: the same for each run of the same command on the same output.
        params: options, as texts.
        metrics: finite figures, by names with slashes.
        tags: version, run id, kind, fingerprint and status.
    """

    name: str
    fingerprint: str
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]


def tracked_run(report: Report, options: CommandOptions) -> TrackedRun:
    """Return what a tracker gets of a report.

    Args:
        report: of a command that has written its results.
        options: of the command.

    Raises:
        InputError: a table cannot be read.
    """
    record = report.record
    kind = str(record.get("kind", ""))
    plain = options.model_dump(mode="json")
    essence = {name: plain[name] for name in options_that_change_results(options)}
    place = report.out if "://" in report.out else str(Path(report.out).resolve())
    ingredients = [kind, place, {**essence, "out": place}]
    digest = blake2b(orjson.dumps(ingredients, option=orjson.OPT_SORT_KEYS), digest_size=16)
    tags = {
        "version": str(record.get("versions", {}).get("zelo-ray", "")),
        "run_id": str(record.get("run_id", "")),
        "kind": kind,
        "fingerprint": digest.hexdigest(),
        "status": str(int(report.status)),
    }
    return TrackedRun(
        name=f"{kind} {place.rstrip('/').rsplit('/', 1)[-1]}",
        fingerprint=digest.hexdigest(),
        params={
            name: _text(value)
            for name, value in plain.items()
            if name != "track" and value not in (None, [], {})
        },
        metrics=dict(_figures(report, kind)),
        tags={f"zelo_ray.{name}": value for name, value in tags.items() if value},
    )


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    text = without_passwords(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _label(name: str) -> str:
    """Return a name as one part of a path: no figure may lie within another."""
    return without_passwords(name).replace("/", "_")


def _figures(report: Report, kind: str) -> Iterator[tuple[str, float]]:
    """Yield names and values of all finite figures."""
    for name, value in _numbers(report, kind):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and math.isfinite(value):
            yield name, float(value)


def _numbers(report: Report, kind: str) -> Iterator[tuple[str, Any]]:
    record = report.record
    for part in (record, record.get("summary"), record.get("together"), record.get("paid")):
        yield from (part or {}).items()
    for name, seconds in (record.get("summary") or {}).get("seconds", {}).items():
        yield f"seconds/{name}", seconds
    judges = record.get("judges")
    for judge, tally in judges.items() if isinstance(judges, Mapping) else ():
        path = _label(judge)
        yield from ((f"judges/{name}/{path}", tally[name]) for name in _OF_JUDGES)
        failures = sum(count for status, count in tally["statuses"].items() if status != "ok")
        yield f"judges/failures/{path}", failures
    if kind in _TABLES:
        yield from _rows(report, _TABLES[kind])


def _rows(report: Report, table: _FiguresTable) -> Iterator[tuple[str, Any]]:
    rows = StoredTable(f"{report.out.rstrip('/')}/{table.name}.parquet").read().to_pylist()
    titles = title_measures(row["measure"] for row in rows if "measure" in row)
    for row in rows:
        names = [str(row[name]) for name in table.labels if row.get(name)]
        labels = [_label(titles.get(name, name)) for name in names]
        path = "/".join(label for label in labels if label != _USUAL_ESTIMATE)
        for name in table.values or row.keys() - {*table.labels}:
            yield (path if len(table.values) == 1 else f"{name}/{path}"), row[name]


@contextlib.contextmanager
def collect_files(report: Report) -> Iterator[Sequence[Path]]:
    """Yield the page, the record and the tables of a report as local files, but for huge ones.

    Args:
        report: of a command that has written its results, to a directory or URL.
    """
    names = [
        name
        for name in list_directory(report.out) or ()
        if name in (report.page, *_RECORDS) or name.endswith(".parquet")
    ]
    fs, root = fsspec.url_to_fs(report.out)
    places = [f"{root.rstrip('/')}/{name}" for name in names]  # parts of a table are no file
    places = [at for at in places if fs.isfile(at) and fs.size(at) <= _LARGEST_FILE]
    if "file" in fs.protocol:
        yield [Path(at) for at in places]
        return
    with TemporaryDirectory() as folder:
        for at in places:
            fs.get_file(at, f"{folder}/{at.rsplit('/', 1)[-1]}")
        yield sorted(Path(folder).iterdir())
