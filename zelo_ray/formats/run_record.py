"""Read and write the record of a run, ``run.json``: once when calls begin, and at the end."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import fsspec

from zelo_ray.errors import InputError
from zelo_ray.formats.files import list_directory, read_record
from zelo_ray.formats.probe import ANSWERS, SAMPLE_RECORD
from zelo_ray.formats.results import write_json

RUN, PROTOCOLS, PROBE, TUNE = "run.json", "protocols.json", "probe.json", "tune.json"
RECORD_OF_KIND: Mapping[str, str] = {
    **dict.fromkeys(("annotate", "bakeoff"), RUN),
    "protocols": PROTOCOLS,
    "tune": TUNE,
    "probe": PROBE,
    **{kind: f"{kind}.json" for kind in ("agree", "compare", "drift")},
}
"""By kind of results, the file that says whose the other files of a folder are."""
_OF_PEOPLE = (SAMPLE_RECORD, ANSWERS)
"""Files of which each says that a folder holds a sample for people, or their labels."""
COMMAND_OF_KIND = {"protocols": "compare-protocols", "compare": "compare-labels"}
"""The command that writes results of a kind, if it has another name."""
_RESULTS = frozenset(
    f"{name}.parquet"
    for name in ("scores", "votes", "grades", "contests", "winners", "verdicts", "runs")
) | {"annotated.jsonl"}
"""Files of results that a user may name in place of their directory."""
PROMPT_OPTIONS = (
    *("protocol", "criteria", "anchors", "show_metadata", "document_tokens", "judge_options"),
    *("instructions", "template", "answer", "group", "show_query", "passages"),
    "seed",  # decides on the examples, and on the order of documents
)
"""Options that change the prompts of judges."""


def record_start(out: str, name: str, record: Mapping[str, Any]) -> None:
    """Record that a run has begun to make calls.

    Until it is finished, the record of the last finished run is kept in it as ``before``.
    """
    before = _read(out, name)
    if before and not is_finished(before):
        before = before.get("before")
    write_json(out, name, {**record, "finished": False, "before": before})


def judgment_tables(out: str) -> list[str] | None:
    """Return the names of the tables of judgments that a run writes; None if there is no record."""
    tables: list[str] | None = (_read(out, RUN) or {}).get("judgments")
    return tables


def earlier_tables(out: str) -> set[str]:
    """Return the names of the tables of judgments of the finished run before an unfinished one."""
    before = (_read(out, RUN) or {}).get("before") or {}
    return {*before.get("judgments", ())}


def find_owner(out: str, kind: str, human: str | None = None, sources: Iterable[str] = ()) -> str:
    """Return what a folder holds that results of a kind must not replace; empty if nothing.

    Args:
        out: directory or URL.
        kind: of the results that are to be written there.
        human: the place of people's labels that are read.
        sources: places of other judgments that are read, of which a table may have a name of ours.

    Raises:
        InputError: whose results there are cannot be told.
    """
    folder = canonical_place(out)
    for place in (*([human] if human else ()), *sources):
        path = canonical_place(place)
        inside = path.rpartition("/")[0] == folder and path.endswith(".parquet")
        if path == folder or (inside and list_directory(place) is None):
            return f"judgments ({place})"
    names = {*(list_directory(out) or ())}
    if kind != "label" and not names.isdisjoint(_OF_PEOPLE):
        return "people's labels"
    for owner, name in RECORD_OF_KIND.items():
        if name in names and name != RUN and owner != kind:
            return f"the results of {COMMAND_OF_KIND.get(owner, owner)}"
    ran = read_record(f"{out.rstrip('/')}/{RUN}").get("kind") if RUN in names else kind
    return "" if ran == kind else f"the results of {ran or 'another program'}"


def canonical_place(place: str) -> str:
    """Return a place in the one form in which it can be compared with others."""
    place = place.removeprefix("file://")
    return place.rstrip("/") if "://" in place else os.path.realpath(place)


def record_of_results(out: str) -> dict[str, Any] | None:
    """Read the record of the run whose results are in a directory or URL.

    That is the last finished one, also while another is running.

    Returns:
        The record; None if there is none, or the run has no judgments.
    """
    last_run = last_record(out)
    return last_run if (last_run.get("summary") or {}).get("judgments") else None


def last_record(out: str) -> dict[str, Any]:
    """Read the record of the last finished run in a directory or URL; an empty one if none is."""
    run = _read(out, RUN) or {}
    return (run if is_finished(run) else run.get("before")) or {}


def is_finished(record: Mapping[str, Any]) -> bool:
    """Return whether a record is of a finished run; those of commands without calls always are."""
    return bool(record.get("finished", True))


def unfinished_record(out: str) -> dict[str, Any] | None:
    """Return the record of the run in a directory or URL if it is unfinished, else None."""
    for name in (RUN, PROTOCOLS, PROBE, TUNE):
        if run := _read(out, name):
            return None if is_finished(run) else run
    return None


def refuse_unfinished(url: str) -> None:
    """Refuse the results of an unfinished run, which cannot be measured yet.

    Args:
        url: a directory, or one file of results in it.

    Raises:
        InputError: the run is unfinished.
    """
    out = run_directory(url)
    if (out != url.rstrip("/") or list_directory(url) is not None) and unfinished_record(out):
        raise InputError(unfinished_message(out))


def options_of_run(url: str) -> dict[str, Any] | None:
    """Return the options of a run, given its directory or a file in it; None if there are none."""
    out = run_directory(url)
    names = list_directory(out) or ()
    name = next((name for name in (RUN, PROTOCOLS, PROBE, TUNE) if name in names), None)
    options = read_record(f"{out}/{name}").get("options") if name else None
    return options if isinstance(options, dict) else None


def changed_prompt_options(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options whose values make the prompts of two runs differ."""
    for name in PROMPT_OPTIONS:
        if _told_to_judges(name, was.get(name)) != _told_to_judges(name, now.get(name)):
            yield name


def _told_to_judges(name: str, value: Any) -> Any:
    """Return what of an option's value is in prompts; None for the usual value."""
    if name == "answer" and value == "reasoned":
        return None
    if name == "criteria" and value:  # weights are not
        return [re.sub(r"^([^=:]*)=[^:]*", r"\1", text).strip() for text in value]
    return value or None


def run_directory(url: str) -> str:
    """Return the directory of a run, given itself or one file of results in it."""
    folder, _, name = url.rstrip("/").rpartition("/")
    return (folder or ".") if name in _RESULTS else url.rstrip("/")


def unfinished_message(out: str) -> str:
    """Return the message about an output directory whose run is unfinished."""
    return f"{out} is not finished; run the same command again"


def _read(out: str, name: str) -> dict[str, Any] | None:
    fs, root = fsspec.url_to_fs(out)
    path = f"{root.rstrip('/')}/{name}"
    try:
        content = json.loads(fs.cat_file(path)) if fs.exists(path) else None
    except (OSError, ValueError):  # such as text that is not JSON, and so not a record
        return None
    return content if isinstance(content, dict) else None
