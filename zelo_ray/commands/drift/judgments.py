"""Read a panel's old and new judgments of a frozen set, item by item."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from zelo_ray.errors import InputError
from zelo_ray.formats.files import list_directory
from zelo_ray.formats.run_record import changed_prompt_options, options_of_run, refuse_unfinished
from zelo_ray.formats.stored import StoredTable
from zelo_ray.formats.tables import schema_of
from zelo_ray.records import Grade, Vote

GRADES, VOTES = "grades.parquet", "votes.parquet"
_LEAST = 0.5
"""The least share of the smaller set's items that must be in both sets."""


@dataclass(frozen=True, slots=True)
class SharedJudgments:
    """Judgments that are in both sets: columns judge, query_id, item, turned, old, new.

    For votes, ``old`` and ``new`` are the preference for the document shown first, from -1 to 1; an
    item is a pair in the order in which it was shown, and ``turned`` the pair in the other order.
    """

    rows: pd.DataFrame
    votes: bool
    notes: tuple[str, ...]
    """where the two sets differ"""


def read_shared(old: str, new: str) -> SharedJudgments:
    """Read the judgments that two sets share.

    Raises:
        InputError: a set has no judgments, or they differ in kind or share too few.
    """
    kinds, tables = zip(*(_read(url) for url in (old, new)), strict=True)
    if kinds[0] != kinds[1]:
        raise InputError(f"{old} has {kinds[0]} and {new} has {kinds[1]}: drift compares one kind")
    notes, shared = [], sorted({*tables[0]["judge"]} & {*tables[1]["judge"]})
    for which, url, table in zip(("OLD", "NEW"), (old, new), tables, strict=True):
        if alone := sorted({*table["judge"]} - {*shared}):
            notes.append(f"only {which} has the judges {', '.join(alone)}")
        if not shared:
            raise InputError(f"{url}: no judge is in both sets: {', '.join(alone)}")
    tables = tuple(table[table["judge"].isin(shared)] for table in tables)
    keys = ["judge", "query_id", "item", "turned"]
    rows = tables[0].merge(tables[1], on=keys, suffixes=("_old", "_new"))
    rows = rows.rename(columns={"value_old": "old", "value_new": "new"}).sort_values(keys)
    for which, table in zip(("OLD", "NEW"), tables, strict=True):
        if lost := len(table) - len(rows):
            notes.append(f"{lost:,} of {len(table):,} judgments are in {which} alone")
    if len(rows) < _LEAST * max(1, min(map(len, tables))):
        raise InputError(f"{old} and {new} share too few judgments: {'; '.join(notes)}")
    notes += _asked_otherwise(old, new)
    return SharedJudgments(rows.reset_index(drop=True), kinds[0] == VOTES, tuple(notes))


def _asked_otherwise(*urls: str) -> Iterator[str]:
    """Yield a note on each prompt option that differs between two runs, if both record them."""
    was, now = (options_of_run(url) for url in urls)
    if not (was and now):
        return
    for name in changed_prompt_options(was, now):
        change = f"{was.get(name)!r:.200} in OLD and is {now.get(name)!r:.200} in NEW"
        yield f"the option {name} was {change}"


def _read(url: str) -> tuple[str, pd.DataFrame]:
    """Return the kind of judgments, and columns judge, query_id, item, value; average repeats."""
    refuse_unfinished(url)
    files: Collection[str] = list_directory(url) or ()
    kind = next((name for name in (GRADES, VOTES) if name in files or url.endswith(name)), None)
    if kind is None:
        raise InputError(f"{url}: no {GRADES} or {VOTES}; name one, or the --out of annotate")
    place = url if url.endswith(kind) else f"{url.rstrip('/')}/{kind}"
    record, columns = _RECORDS[kind]
    table = StoredTable(place, schema_of(record)).read(["judge", "query_id", *columns])
    if any(column.null_count for column in table.columns):
        raise InputError(f"{place}: a row has an empty field")
    frame = table.to_pandas()
    if kind == VOTES:
        turned = frame["swapped"].astype(bool)
        first = frame["doc_id_a"].where(~turned, frame["doc_id_b"])
        second = frame["doc_id_b"].where(~turned, frame["doc_id_a"])
        frame["item"], frame["turned"] = first + " > " + second, second + " > " + first
        frame["value"] = frame["preference"].where(turned, -frame["preference"])
    else:
        frame = frame.rename(columns={"doc_id": "item", "grade": "value"})
        frame["turned"] = frame["item"]
    keys = ["judge", "query_id", "item", "turned"]
    return kind, frame.groupby(keys, as_index=False)["value"].mean()


_RECORDS: Mapping[str, tuple[type, list[str]]] = {
    GRADES: (Grade, ["doc_id", "grade"]),
    VOTES: (Vote, ["doc_id_a", "doc_id_b", "preference", "swapped"]),
}
