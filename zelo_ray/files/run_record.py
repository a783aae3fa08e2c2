"""Read and write the record of a run, such as ``run.json``: when calls begin, and at the end."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from zelo_ray.errors import InputError
from zelo_ray.files.storage import exists, list_directory, read_json_object, write_json

RUN = "run.json"
SAMPLE_RECORD, ANSWERS = "label.json", "answers.jsonl"
"""Files of which each says that a folder holds a sample for people, or their labels."""
_RESULTS = frozenset(
    f"{name}.parquet"
    for name in ("scores", "votes", "grades", "contests", "winners", "verdicts", "runs")
) | {"annotated.jsonl"}
"""Files of results that a user may name in place of their directory."""
_PROMPT_OPTIONS = (
    *("protocol", "criteria", "anchors", "show_metadata", "document_tokens", "judge_options"),
    *("instructions", "template", "answer", "group", "show_query", "passages"),
    "seed",  # decides on the examples, and on the order of documents
)


def read_record(url: str) -> dict[str, Any]:
    """Read the record of a run, and check its options and summary."""
    content = read_json_object(url)
    for name in ("options", "summary"):
        if not isinstance(content.get(name, {}), dict):
            raise InputError(f"{url}: its {name} are not a JSON object")
    return content


def find_record(out: str, name: str = RUN) -> dict[str, Any]:
    """Return the record of a run in a directory; an empty one if there is none that is readable."""
    url = f"{out.rstrip('/')}/{name}"
    try:
        return read_json_object(url) if exists(url) else {}
    except InputError:
        return {}


def is_finished(record: Mapping[str, Any]) -> bool:
    """Return whether a record is of a finished run; those of commands without calls always are."""
    return bool(record.get("finished", True))


def last_record(out: str) -> dict[str, Any]:
    """Return the record of the last finished run in a directory; an empty one if none is."""
    run = find_record(out)
    return (run if is_finished(run) else run.get("before")) or {}


def record_start(out: str, name: str, record: Mapping[str, Any]) -> None:
    """Record that a run has begun to make calls.

    Until it is finished, the record of the last finished run is kept in it as ``before``.
    """
    before = find_record(out, name)
    before = before if is_finished(before) else before.get("before") or {}
    write_json(out, name, {**record, "finished": False, "before": before or None})


def unfinished_record(out: str) -> dict[str, Any] | None:
    """Return the record of the run in a directory if it is unfinished, else None."""
    record = find_record(out)
    return None if is_finished(record) else record


def unfinished_message(out: str) -> str:
    """Return the message about an output directory whose run is unfinished."""
    return f"{out} is not finished; run the same command again"


def refuse_unfinished(url: str) -> None:
    """Refuse a directory, or a file of results in it, whose run cannot be measured yet."""
    if unfinished_record(out := run_directory(url)):
        raise InputError(unfinished_message(out))


def run_directory(url: str) -> str:
    """Return the directory of a run, given itself or one file of results in it."""
    folder, _, name = url.rstrip("/").rpartition("/")
    return (folder or ".") if name in _RESULTS else url.rstrip("/")


def options_of_run(url: str) -> dict[str, Any] | None:
    """Return the options of a run, given its directory or a file in it; None if there are none."""
    out = run_directory(url)
    is_there = RUN in (list_directory(out) or ())
    return read_record(f"{out}/{RUN}").get("options") if is_there else None


def changed_prompt_options(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options whose values make the prompts of two runs differ."""
    for name in _PROMPT_OPTIONS:
        if _in_prompts(name, was.get(name)) != _in_prompts(name, now.get(name)):
            yield name


def _in_prompts(name: str, value: Any) -> Any:
    """Return what of an option's value is in prompts; None for the usual value."""
    if name == "answer" and value == "reasoned":
        return None
    if name == "criteria" and value:  # weights are not
        return [re.sub(r"^([^=:]*)=[^:]*", r"\1", text).strip() for text in value]
    return value or None


def canonical_place(place: str) -> str:
    """Return a place in the one form in which it can be compared with others."""
    place = place.removeprefix("file://")
    return place.rstrip("/") if "://" in place else os.path.realpath(place)


def find_owner(out: str, kind: str, sources: Iterable[str | None] = ()) -> str:
    """Return what a folder holds that results of a kind must not replace; empty if nothing."""
    folder = canonical_place(out)
    for place in filter(None, sources):
        path = canonical_place(place)
        inside = path.rpartition("/")[0] == folder and path.endswith(".parquet")
        if path == folder or (inside and list_directory(place) is None):
            return f"judgments ({place})"
    names = list_directory(out) or ()
    if kind != "label" and (SAMPLE_RECORD in names or ANSWERS in names):
        return "people's labels"
    if RUN not in names:
        return ""
    owner = read_record(f"{out.rstrip('/')}/{RUN}").get("kind") or "another program"
    return "" if owner == kind else f"the results of {owner}"
