"""Find judges that changed between two runs on the same pools."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import log2

import numpy as np
import pandas as pd

from zelo_ray.errors import InputError
from zelo_ray.evaluation.coefficients import COEFFICIENTS
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.evaluation.significance import holm, paired_test
from zelo_ray.files import judges
from zelo_ray.files.run_record import changed_prompt_options, options_of_run, refuse_unfinished
from zelo_ray.files.storage import file_stem, list_directory
from zelo_ray.report.figures import Figure

ALPHA = 0.05
PANEL = "(panel)"
OLD = "old"
"""Whom changes are measured against."""
GRADES, VOTES = "grades", "votes"
LEVEL, WITH_OTHERS = "level", "agreement with others"
SAME, KAPPA = "share unchanged", "kappa with itself"
_KEYS = ["judge", "query_id", "item", "turned"]
_FEWEST = 0.5
"""The share of the smaller set's items that must be in both sets."""


@dataclass(frozen=True, slots=True)
class Change:
    """A judgment that changed, one of the ``grades`` or ``votes``."""

    judge: str
    judged: str
    query_id: str
    item: str
    old: float
    new: float


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed between two runs.

    ``needed`` is the fewest queries with which a test can be significant: its smallest p is
    2 / 2**queries, which Holm's correction multiplies by the number of tests.
    """

    figures: list[Figure]
    rows: list[Change]
    notes: list[str]
    needed: int

    @property
    def changed(self) -> list[str]:
        """Return the judges that changed; the panel alone does not count."""
        found = (row.of for row in self.figures if row.p < ALPHA and row.of != PANEL)
        return [*dict.fromkeys(found)]

    @property
    def queries(self) -> int:
        """Return the number of queries of the smallest test."""
        return min(row.queries for row in self.figures)

    @property
    def complete(self) -> bool:
        """Return whether both sets have the same items, enough of them to show a change."""
        return not self.notes and self.queries >= self.needed


def read_both(
    old: str, new: str, columns: Mapping[str, str]
) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]] | None:
    """Read two runs, each by kind of judgments, if judges judged in both; else None.

    Rows are a judge, a query, an item, which is a document or a pair in the order in which it was
    shown, ``turned``, which is the pair in the other order, and the value: the grade, or the
    preference for what was shown first, from -1 to 1.
    """
    sets = [_read(place, columns) for place in (old, new)]
    was, now = sets
    is_shared = any({*was[kind]["judge"]} & {*now[kind]["judge"]} for kind in {*was} & {*now})
    return (was, now) if is_shared else None


def _read(place: str, columns: Mapping[str, str]) -> dict[str, pd.DataFrame]:
    files = list_directory(place)
    found = [f"{name}.parquet" for name in (GRADES, VOTES) if f"{name}.parquet" in (files or ())]
    places = [f"{place.rstrip('/')}/{name}" for name in found]
    if files is not None and not places:
        return {}
    refuse_unfinished(place)
    kinds = dict[str, pd.DataFrame]()
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
    old: str, new: str, both: tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]
) -> Changes:
    """Test for every judge whether its judgments changed, over queries, corrected by Holm."""
    shared, notes = _share_all(old, new, *both)
    figures = [figure for kind, rows in shared.items() for figure in _measure(kind, rows)]
    tests = [n for n, row in enumerate(figures) if not np.isnan(row.p) and row.of != PANEL]
    corrected = holm(np.array([figures[n].p for n in tests]))
    for n, p in zip(tests, corrected.tolist(), strict=True):
        figures[n] = _with_p(figures[n], p)
    rows = pd.concat([rows.assign(judged=kind) for kind, rows in shared.items()])
    rows = rows.assign(size=(rows["new"] - rows["old"]).abs())
    rows = rows[rows["size"] > 0].sort_values("size", ascending=False, kind="stable")
    cells = [rows[name].tolist() for name in ("judge", "judged", "query_id", "item", "old", "new")]
    changes = [Change(*row) for row in zip(*cells, strict=True)]
    needed = int(log2(2 * len(tests) / ALPHA)) + 1
    return Changes(figures, changes, [*notes, *_asked_otherwise(old, new)], needed)


def _with_p(figure: Figure, p: float) -> Figure:
    names = ("of", "against", "what", "scale", "value", "low", "high")
    values = {name: getattr(figure, name) for name in names}
    return Figure(**values, p=p, items=figure.items, queries=figure.queries)


def _share_all(
    old: str, new: str, was: dict[str, pd.DataFrame], now: dict[str, pd.DataFrame]
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Return the judgments that both sets have, by kind, and notes on what differs."""
    shared, notes, errors = dict[str, pd.DataFrame](), list[str](), list[str]()
    for kind in (GRADES, VOTES):
        if kind in was and kind in now:
            rows, about, error = _share(kind, was[kind], now[kind])
            notes += about
            if error:
                errors.append(f"{old} and {new} {error}")
            else:
                shared[kind] = rows
        elif kind in was or kind in now:
            has, lacks = (old, new) if kind in was else (new, old)
            notes.append(f"{has} has {kind}, and {lacks} has none: they are not compared")
    if not shared:
        why = errors[0] if errors else f"{old} and {new} have no judgments of one kind"
        raise InputError(why)
    return shared, [*dict.fromkeys(notes), *(f"not compared: {error}" for error in errors)]


def _share(kind: str, was: pd.DataFrame, now: pd.DataFrame) -> tuple[pd.DataFrame, list[str], str]:
    """Return the judgments that both have, what one has alone, and why they do not suffice."""
    common = {*was["judge"]} & {*now["judge"]}
    notes = [
        f"only the {which} run has the judges {', '.join(sorted(alone))}"
        for which, table in (("old", was), ("new", now))
        if (alone := {*table["judge"]} - common)
    ]
    was, now = (table[table["judge"].isin(common)] for table in (was, now))
    rows = was.merge(now, on=_KEYS, suffixes=("_old", "_new"))
    rows = rows.rename(columns={"value_old": "old", "value_new": "new"}).sort_values(_KEYS)
    lost = [
        f"{len(table) - len(rows):,} of {len(table):,} {kind} are in the {which} run alone"
        for which, table in (("old", was), ("new", now))
        if len(table) > len(rows)
    ]
    error = ""
    if not len(rows) or len(rows) < _FEWEST * min(len(was), len(now)):
        error = f"share too few {kind}: {'; '.join(lost or notes)}"
    return rows.reset_index(drop=True), [*notes, *lost], error


def _asked_otherwise(old: str, new: str) -> Iterator[str]:
    """Yield a note on each option of prompts that differs between two runs, if both record them."""
    was, now = options_of_run(old) or {}, options_of_run(new) or {}
    for name in changed_prompt_options(was, now) if was and now else ():
        values = f"{was.get(name)!r:.200} in the old run and is {now.get(name)!r:.200} in the new"
        yield f"the option {name} was {values}"


def _measure(kind: str, rows: pd.DataFrame) -> Iterator[Figure]:
    for name, group in rows.groupby("judge"):
        judge = str(name)
        yield _change(judge, LEVEL, kind, group, group[["old", "new"]])
        others = _others_mean(kind, group, rows[rows["judge"] != judge])
        if others.notna().any():
            subset = group[others.notna()]
            follows = subset[["old", "new"]].mul(others[subset.index], axis=0)
            yield _change(judge, WITH_OTHERS, kind, subset, follows)
        yield from _repeated(judge, kind, group)
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
    found = pd.Series(means.reindex(items).to_numpy(), index=rows.index)
    if kind == VOTES:
        return found
    return found - found.groupby(rows["query_id"]).transform("mean")


def _change(judge: str, what: str, kind: str, rows: pd.DataFrame, values: pd.DataFrame) -> Figure:
    """Test one change, by means over queries of the means over their items."""
    by_query = values.groupby(rows["query_id"]).mean()
    difference = (by_query["new"] - by_query["old"]).to_numpy()[np.newaxis]
    test = paired_test(difference, 0.95)
    value, low, high, p = (float(each[0]) for each in (test.mean, test.low, test.high, test.p))
    return Figure(judge, OLD, what, kind, value, low, high, p, len(rows), len(by_query))


def _repeated(judge: str, kind: str, rows: pd.DataFrame) -> Iterator[Figure]:
    """Yield how far a judge's new judgments are its old ones; kappa is quadratic for grades."""
    old, new = (rows[side].to_numpy() for side in ("old", "new"))
    size = {"items": len(rows), "queries": rows["query_id"].nunique()}
    same = float((old == new).mean())
    yield Figure(judge, OLD, SAME, kind, same, **size)
    yield Figure(judge, OLD, KAPPA, kind, _kappa(np.stack([old, new]), kind), **size)


def _kappa(values: Floats, kind: str) -> float:
    steps = (np.sign(values) if kind == VOTES else np.rint(values)).astype(np.int64)
    steps -= steps.min()
    table = np.zeros((steps.max() + 1, steps.max() + 1))
    np.add.at(table, (steps[0], steps[1]), 1.0)
    coefficient = COEFFICIENTS["kappa" if kind == VOTES else "kappa-quadratic"]
    return float(coefficient.compute({"confusion": table}))
