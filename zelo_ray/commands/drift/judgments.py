"""Read a panel's old and new judgments of a frozen set, item by item."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from zelo_ray.errors import InputError
from zelo_ray.files.judges import read_judgments
from zelo_ray.files.run_record import changed_prompt_options, options_of_run, refuse_unfinished
from zelo_ray.files.storage import file_stem, list_directory

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


def read_shared(
    old: str, new: str, columns: Mapping[str, str]
) -> tuple[list[SharedJudgments], tuple[str, ...]]:
    """Read the judgments that two sets share, of each kind that both have.

    Returns:
        Grades, votes, or both; and notes where the sets differ.

    Raises:
        InputError: a set has no judgments, or of no kind do the two share enough.
    """
    was, now = _read(old, columns), _read(new, columns)
    shared, notes, errors = list[SharedJudgments](), list[str](), list[InputError]()
    for kind in (GRADES, VOTES):
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


def _read(url: str, columns: Mapping[str, str]) -> dict[str, pd.DataFrame]:
    """Return the judgments of a set by kind: judge, query_id, item, value; average repeats."""
    refuse_unfinished(url)
    files = list_directory(url)
    places = [f"{url.rstrip('/')}/{name}" for name in (GRADES, VOTES) if name in (files or ())]
    if files is not None and not places:
        raise InputError(f"{url}: no {GRADES} or {VOTES}; name one, or the --out of annotate")
    tables = [read_judgments(place, file_stem(place), columns).table for place in places or [url]]
    sets = {VOTES if "preference" in table.column_names else GRADES: table for table in tables}
    # A run without a single vote may have an empty table of them.
    filled = {kind: table for kind, table in sets.items() if len(table)} or sets
    return {kind: _by_item(table.to_pandas(), kind) for kind, table in filled.items()}


def _by_item(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    if kind == VOTES:
        turned = frame["swapped"].fillna(value=False).astype(bool)
        first = frame["doc_id_a"].where(~turned, frame["doc_id_b"])
        second = frame["doc_id_b"].where(~turned, frame["doc_id_a"])
        frame["item"], frame["turned"] = first + " > " + second, second + " > " + first
        frame["value"] = frame["preference"].where(turned, -frame["preference"])
    else:
        frame = frame.rename(columns={"doc_id": "item", "grade": "value"})
        frame["turned"] = frame["item"]
    keys = ["judge", "query_id", "item", "turned"]
    return frame.groupby(keys, as_index=False)[["value"]].mean()
