"""Read a panel's old and new judgments of a frozen set, item by item."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from zelo_ray.errors import InputError
from zelo_ray.files.run_record import changed_prompt_options, options_of_run, refuse_unfinished
from zelo_ray.files.storage import list_directory
from zelo_ray.files.tables import StoredTable, schema_of
from zelo_ray.records import Grade, Vote

GRADES, VOTES = "grades.parquet", "votes.parquet"
_LEAST = 0.5
"""The least share of the smaller set's items that must be in both sets."""


@dataclass(frozen=True, slots=True)
class SharedJudgments:
    """Judgments of one kind that are in both sets: judge, query_id, item, turned, old, new.

    For votes, ``old`` and ``new`` are the preference for the document shown first, from -1 to 1; an
    item is a pair in the order in which it was shown, and ``turned`` the pair in the other order.
    """

    rows: pd.DataFrame
    votes: bool


def read_shared(old: str, new: str) -> tuple[list[SharedJudgments], tuple[str, ...]]:
    """Read the judgments that two sets share, of each kind that both have.

    Returns:
        Grades, votes, or both; and notes where the sets differ.

    Raises:
        InputError: a set has no judgments, or of no kind do the two share enough.
    """
    was, now = _read(old), _read(new)
    shared, notes, errors = list[SharedJudgments](), list[str](), list[InputError]()
    for kind in _RECORDS:
        if kind in was and kind in now:
            try:
                shared.append(_share(kind, (old, was[kind]), (new, now[kind]), notes))
            except InputError as error:
                errors.append(error)
        elif kind in was or kind in now:
            has, lacks = ("OLD", "NEW") if kind in was else ("NEW", "OLD")
            notes.append(f"{has} has {kind}, and {lacks} has none: they are not compared")
    if not shared:
        if errors:
            raise errors[0]
        raise InputError(
            f"{old} has {', '.join(was)} and {new} has {', '.join(now)}: drift compares one kind"
        )
    notes += [f"not compared: {error}" for error in errors]
    return shared, (*dict.fromkeys(notes), *_asked_otherwise(old, new))


def _share(
    kind: str, old: tuple[str, pd.DataFrame], new: tuple[str, pd.DataFrame], notes: list[str]
) -> SharedJudgments:
    """Return the judgments of one kind that both sets have; add to the notes what one has alone."""
    tables = old[1], new[1]
    shared = sorted({*tables[0]["judge"]} & {*tables[1]["judge"]})
    for which, (url, table) in zip(("OLD", "NEW"), (old, new), strict=True):
        if alone := sorted({*table["judge"]} - {*shared}):
            notes.append(f"only {which} has the judges {', '.join(alone)}")
        if not shared:
            raise InputError(f"{url}: no judge is in both sets: {', '.join(alone)}")
    tables = tables[0][tables[0]["judge"].isin(shared)], tables[1][tables[1]["judge"].isin(shared)]
    keys = ["judge", "query_id", "item", "turned"]
    rows = tables[0].merge(tables[1], on=keys, suffixes=("_old", "_new"))
    rows = rows.rename(columns={"value_old": "old", "value_new": "new"}).sort_values(keys)
    what = kind.removesuffix(".parquet")
    lost = [
        f"{len(table) - len(rows):,} of {len(table):,} {what} are in {which} alone"
        for which, table in zip(("OLD", "NEW"), tables, strict=True)
        if len(table) > len(rows)
    ]
    if len(rows) < _LEAST * max(1, min(map(len, tables))):
        raise InputError(f"{old[0]} and {new[0]} share too few {what}: {'; '.join(lost)}")
    notes += lost
    return SharedJudgments(rows.reset_index(drop=True), kind == VOTES)


def _asked_otherwise(*urls: str) -> Iterator[str]:
    """Yield a note on each prompt option that differs between two runs, if both record them."""
    was, now = (options_of_run(url) for url in urls)
    if not (was and now):
        return
    for name in changed_prompt_options(was, now):
        change = f"{was.get(name)!r:.200} in OLD and is {now.get(name)!r:.200} in NEW"
        yield f"the option {name} was {change}"


def _read(url: str) -> dict[str, pd.DataFrame]:
    """Return the judgments of a set by kind: judge, query_id, item, value; average repeats."""
    refuse_unfinished(url)
    files: Collection[str] = list_directory(url) or ()
    kinds = [name for name in _RECORDS if name in files or url.endswith(name)]
    if not kinds:
        raise InputError(f"{url}: no {GRADES} or {VOTES}; name one, or the --out of annotate")
    sets = {
        kind: _read_kind(url if url.endswith(kind) else f"{url.rstrip('/')}/{kind}", kind)
        for kind in kinds
    }
    # A run without a single vote may have an empty table of them.
    return {kind: rows for kind, rows in sets.items() if len(rows)} or sets


def _read_kind(place: str, kind: str) -> pd.DataFrame:
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
    means: pd.DataFrame = frame.groupby(keys, as_index=False)["value"].mean()
    return means


_RECORDS: Mapping[str, tuple[type, list[str]]] = {
    GRADES: (Grade, ["doc_id", "grade"]),
    VOTES: (Vote, ["doc_id_a", "doc_id_b", "preference", "swapped"]),
}
