"""Find judges that changed between two runs on the same pools."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.evaluation.coefficients import COEFFICIENTS
from zelo_ray.evaluation.significance import holm, paired_test
from zelo_ray.files import judges
from zelo_ray.files.run_record import changed_prompt_options, options_of_run, refuse_unfinished
from zelo_ray.files.storage import file_stem, list_directory
from zelo_ray.report.figures import Figure

PANEL = "(panel)"
OLD = "old"
"""Whom changes are measured against."""
GRADES, VOTES = "grades", "votes"
LEVEL, WITH_OTHERS = "level", "agreement with others"
SAME, KAPPA = "share unchanged", "kappa with itself"
_KEYS = ["judge", "query_id", "item", "turned"]
_CHANGED = ("judge", "judged", "query_id", "item", "old", "new")
"""The columns of ``changes.parquet``."""
_FEWEST = 0.5
"""The share of the smaller set's items that must be in both sets."""
Judgments = dict[str, pd.DataFrame]
"""By kind of judgments, their judge, query, item, and value.

An item is a document or a pair in the order in which it was shown; ``turned`` is the pair in the
other order. The value is the grade, or the preference for what was shown first, from -1 to 1.
"""


def read_both(old: str, new: str, columns: Mapping[str, str]) -> tuple[Judgments, Judgments] | None:
    """Read two runs; None unless some judges judged in both."""
    was, now = (_read(place, columns) for place in (old, new))
    shared = ({*was[kind]["judge"]} & {*now[kind]["judge"]} for kind in {*was} & {*now})
    return (was, now) if any(shared) else None


def _read(place: str, columns: Mapping[str, str]) -> Judgments:
    files, kinds = list_directory(place), Judgments()
    names = [f"{kind}.parquet" for kind in (GRADES, VOTES)]
    places = [f"{place.rstrip('/')}/{name}" for name in names if name in (files or ())]
    if files is not None and not places:
        return {}
    refuse_unfinished(place)
    for each in places or [place]:
        file = judges.read_judgments(each, file_stem(each), columns)
        if file.names_judges and len(file):
            kinds[VOTES if file.votes else GRADES] = _by_item(file.table.to_pandas(), file.votes)
    return kinds


def _by_item(frame: pd.DataFrame, is_votes: bool) -> pd.DataFrame:
    if is_votes:
        swapped = frame["swapped"].fillna(value=False).astype(bool)
        first = frame["doc_id_a"].where(~swapped, frame["doc_id_b"])
        second = frame["doc_id_b"].where(~swapped, frame["doc_id_a"])
        frame["item"], frame["turned"] = first + " > " + second, second + " > " + first
        frame["value"] = frame["preference"].where(swapped, -frame["preference"])
    else:
        frame = frame.rename(columns={"doc_id": "item", "grade": "value"})
        frame["turned"] = frame["item"]
    return frame.groupby(_KEYS, as_index=False)[["value"]].mean()


def measure_changes(
    old: str, new: str, both: tuple[Judgments, Judgments]
) -> tuple[list[Figure], pa.Table, list[str]]:
    """Test for every judge whether its judgments changed, over queries, corrected by Holm.

    Returns the figures, the judgments that changed, the largest first, and how the runs differ.
    """
    shared, notes = _join_all(old, new, both)
    figures = [figure for kind, rows in shared.items() for figure in _measure(kind, rows)]
    tests = [n for n, row in enumerate(figures) if not np.isnan(row.p) and row.of != PANEL]
    corrected = holm(np.array([figures[n].p for n in tests])).tolist()
    for n, p in zip(tests, corrected, strict=True):
        figures[n] = replace(figures[n], p=p)
    rows = pd.concat([rows.assign(judged=kind) for kind, rows in shared.items()])
    rows = rows.assign(size=(rows["new"] - rows["old"]).abs())
    rows = rows[rows["size"] > 0].sort_values("size", ascending=False, kind="stable")
    was, now = options_of_run(old) or {}, options_of_run(new) or {}
    for name in changed_prompt_options(was, now) if was and now else ():
        values = f"{was.get(name)!r:.200} in the old run and is {now.get(name)!r:.200} in the new"
        notes.append(f"the option {name} was {values}")
    return figures, pa.table({name: rows[name].tolist() for name in _CHANGED}), notes


def _join_all(old: str, new: str, both: tuple[Judgments, Judgments]) -> tuple[Judgments, list[str]]:
    """Return the judgments that both have, by kind, and notes on what differs."""
    shared, notes, errors = Judgments(), list[str](), list[str]()
    for kind in (GRADES, VOTES):
        holders = [name for name, side in zip((old, new), both, strict=True) if kind in side]
        if len(holders) == 1:
            notes.append(f"{holders[0]} alone has {kind}: they are not compared")
        elif holders:
            rows, about, is_enough = _join(kind, *(side[kind] for side in both))
            if is_enough:
                shared[kind] = rows
                notes += about
            else:
                errors.append(f"{old} and {new} share too few {kind}: {'; '.join(about)}")
    if not shared:
        raise InputError((errors or [f"{old} and {new} have no judgments of one kind"])[0])
    return shared, [*dict.fromkeys(notes), *(f"not compared: {error}" for error in errors)]


def _join(kind: str, was: pd.DataFrame, now: pd.DataFrame) -> tuple[pd.DataFrame, list[str], bool]:
    """Return the judgments that both have, what one has alone, and whether they suffice."""
    sides, common = {"old": was, "new": now}, {*was["judge"]} & {*now["judge"]}
    notes = [
        f"only the {which} run has the judges {', '.join(sorted(alone))}"
        for which, side in sides.items()
        if (alone := {*side["judge"]} - common)
    ]
    sides = {name: side[side["judge"].isin(common)] for name, side in sides.items()}
    was, now = (side.rename(columns={"value": name}) for name, side in sides.items())
    rows = was.merge(now, on=_KEYS).sort_values(_KEYS, ignore_index=True)
    notes += [
        f"{len(side) - len(rows):,} of {len(side):,} {kind} are in the {which} run alone"
        for which, side in sides.items()
        if len(side) > len(rows)
    ]
    return rows, notes, len(rows) >= max(1, _FEWEST * min(map(len, sides.values())))


def _measure(kind: str, rows: pd.DataFrame) -> Iterator[Figure]:
    for name, group in rows.groupby("judge"):
        judge = str(name)
        yield _change(judge, LEVEL, kind, group, group[["old", "new"]])
        others = _others_mean(kind, group, rows[rows["judge"] != judge])
        if others.notna().any():
            subset = group[others.notna()]
            follows = subset[["old", "new"]].mul(others[subset.index], axis=0)
            yield _change(judge, WITH_OTHERS, kind, subset, follows)
        old, new = (group[side].to_numpy() for side in ("old", "new"))
        size = {"items": len(group), "queries": group["query_id"].nunique()}
        yield Figure(judge, OLD, SAME, kind, float((old == new).mean()), **size)
        yield Figure(judge, OLD, KAPPA, kind, _kappa(np.stack([old, new]), kind), **size)
    if rows["judge"].nunique() > 1 and kind == GRADES:
        panel = rows.groupby(["query_id", "item"], as_index=False)[["old", "new"]].mean()
        yield _change(PANEL, LEVEL, kind, panel, panel[["old", "new"]])


def _others_mean(kind: str, rows: pd.DataFrame, others: pd.DataFrame) -> pd.Series:
    """Return the other judges' old mean on the items of a judge; NaN if none judged."""
    if kind == VOTES:  # also if they saw the pair in the other order
        turned = others.assign(item=others["turned"], old=-others["old"])
        others = pd.concat([others, turned])
    means = others.groupby(["query_id", "item"])["old"].mean()
    items = pd.MultiIndex.from_frame(rows[["query_id", "item"]])
    moved = pd.Series(means.reindex(items).to_numpy(), index=rows.index)
    if kind == VOTES:
        return moved
    return moved - moved.groupby(rows["query_id"]).transform("mean")


def _change(judge: str, what: str, kind: str, rows: pd.DataFrame, values: pd.DataFrame) -> Figure:
    """Test one change, by means over queries of the means over their items."""
    by_query = values.groupby(rows["query_id"]).mean()
    difference = (by_query["new"] - by_query["old"]).to_numpy()[np.newaxis]
    test = paired_test(difference, 0.95)
    value, low, high, p = (float(each[0]) for each in (test.mean, test.low, test.high, test.p))
    return Figure(judge, OLD, what, kind, value, low, high, p, len(rows), len(by_query))


def _kappa(values: np.ndarray, kind: str) -> float:
    """Return how far old and new judgments agree beyond chance; quadratic for grades."""
    steps = (np.sign(values) if kind == VOTES else np.rint(values)).astype(np.int64)
    steps -= steps.min()
    table = np.zeros((steps.max() + 1, steps.max() + 1))
    np.add.at(table, (steps[0], steps[1]), 1.0)
    coefficient = COEFFICIENTS["kappa" if kind == VOTES else "kappa-quadratic"]
    return float(coefficient.compute({"confusion": table}))
