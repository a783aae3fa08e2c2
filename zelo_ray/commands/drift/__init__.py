"""``drift``: find judges that changed between two runs on the same pools."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from zelo_ray.command_options import DriftOptions
from zelo_ray.commands.drift.judgments import SharedJudgments, read_shared
from zelo_ray.errors import OptionError
from zelo_ray.evaluation.coefficients import COEFFICIENTS
from zelo_ray.evaluation.significance import Floats, holm, paired_test
from zelo_ray.files.run_record import find_owner
from zelo_ray.files.schema import split_columns
from zelo_ray.files.storage import write_json
from zelo_ray.files.tables import table_of, write_tables

SURE = 0.05
"""Changes with a smaller p (after Holm's correction) are significant."""
PANEL = "(panel)"


def is_significant(p_holm: float) -> bool:
    """Return whether a change with this corrected p is significant."""
    return p_holm < SURE


@dataclass(frozen=True, slots=True)
class JudgeMovement:
    """Change of a judge, or of the mean of the panel, in one respect.

    ``judged``: ``grades`` or ``votes``. ``what``: ``level``, its mean grade, or for votes its
    preference for the document shown first; ``with others``, how far it agrees with the other
    judges' old judgments of a query's items. ``same`` is the share of unchanged judgments,
    ``kappa`` Cohen's kappa of old and new (quadratic for grades, of the winner or a tie for votes).
    p is of a paired t-test over queries, corrected over all tests by Holm.
    """

    judge: str
    judged: str
    what: str
    old: float
    new: float
    change: float
    low: float
    high: float
    p: float
    p_holm: float
    same: float
    kappa: float
    judgments: int
    queries: int

    @property
    def moved(self) -> bool:
        """Return whether the change is significant."""
        return is_significant(self.p_holm)


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
class Drift:
    """Result of comparing two sets of judgments; ``notes`` say where the sets differ."""

    moves: tuple[JudgeMovement, ...]
    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    @property
    def moved(self) -> bool:
        """Return whether any judge changed; the panel alone does not count."""
        return any(move.moved for move in self.moves if move.judge != PANEL)

    @property
    def complete(self) -> bool:
        """Return whether the sets have the same items, and are large enough to show a change."""
        return not self.notes and self.queries >= self.needed

    @property
    def queries(self) -> int:
        """Return the number of queries of the smallest test."""
        return min(move.queries for move in self.moves)

    @property
    def needed(self) -> int:
        """Return the fewest queries with which a test can be significant.

        Its smallest p is 2 / 2**queries, which Holm multiplies by the number of tests.
        """
        tests = sum(move.judge != PANEL for move in self.moves)
        return int(np.log2(2 * tests / SURE)) + 1


def drift(options: DriftOptions) -> Drift:
    """Find the judges of a panel that changed between two runs of `annotate` on the same pools.

    Raises:
        OptionError: ``out`` holds other results.
        InputError: an input cannot be read, or the two share too few judgments.
    """
    places = (options.old, options.new)
    if options.out and (owned := find_owner(options.out, "drift", places)):
        raise OptionError(f"{options.out} holds {owned}; name another --out")
    columns = split_columns(options.columns)
    kinds, notes = read_shared(*places, columns)
    columns.refuse_unused()
    tests = [test for each in kinds for test in _measure_movements(each)]
    tests.sort(key=lambda test: test.judge == PANEL)
    # The panel is their mean, not a further test.
    judges = [test for test in tests if test.judge != PANEL]
    corrected = holm(np.array([test.p for test in judges]))
    moves = [replace(test, p_holm=float(p)) for test, p in zip(judges, corrected, strict=True)]
    moves += [replace(test, p_holm=test.p) for test in tests[len(judges) :]]
    rows = pd.concat([each.rows.assign(judged=_judged(each)) for each in kinds])
    rows = rows.assign(size=(rows["new"] - rows["old"]).abs())
    rows = rows[rows["size"] > 0].sort_values("size", ascending=False, kind="stable")
    cells = [rows[name].tolist() for name in ("judge", "judged", "query_id", "item", "old", "new")]
    changes = [Change(*row) for row in zip(*cells, strict=True)]
    result = Drift(tuple(moves), tuple(changes), notes)
    if options.out:
        _write(options.out, options, result)
    return result


def _judged(judgments: SharedJudgments) -> str:
    return "votes" if judgments.votes else "grades"


def _measure_movements(judgments: SharedJudgments) -> Iterator[JudgeMovement]:
    rows, judged = judgments.rows, _judged(judgments)
    for judge, group in rows.groupby("judge"):
        name = str(judge), judged, "level"
        yield _measure_movement(name, group, group[["old", "new"]])
        word = _others_mean(judgments, group, rows[rows["judge"] != judge])
        if word.notna().any():
            subset = group[word.notna()]
            follows = subset[["old", "new"]].mul(word[subset.index], axis=0)
            yield _measure_movement((name[0], judged, "with others"), subset, follows)
    if rows["judge"].nunique() > 1 and not judgments.votes:
        panel = rows.groupby(["query_id", "item"], as_index=False)[["old", "new"]].mean()
        yield _measure_movement((PANEL, judged, "level"), panel, panel[["old", "new"]])


def _others_mean(judgments: SharedJudgments, rows: pd.DataFrame, others: pd.DataFrame) -> pd.Series:
    """Return the other judges' old mean on the items of a judge; NaN if none judged."""
    if judgments.votes:  # also if they saw the pair in the other order
        turned = others.assign(item=others["turned"], old=-others["old"])
        others = pd.concat([others, turned])
    means_of = others.groupby(["query_id", "item"])["old"].mean()
    items = pd.MultiIndex.from_frame(rows[["query_id", "item"]])
    word = pd.Series(means_of.reindex(items).to_numpy(), index=rows.index)
    if judgments.votes:
        return word
    # Relative to the mean of its query.
    return word - word.groupby(rows["query_id"]).transform("mean")


def _measure_movement(
    name: tuple[str, str, str],
    rows: pd.DataFrame,
    values: pd.DataFrame,
) -> JudgeMovement:
    """Test one change, by means over queries of the means over their items."""
    by_query = values.groupby(rows["query_id"]).mean()
    apart = (by_query["new"] - by_query["old"]).to_numpy()[np.newaxis]
    test = paired_test(apart, 0.95)
    return JudgeMovement(
        judge=name[0],
        judged=name[1],
        what=name[2],
        old=float(by_query["old"].mean()),
        new=float(by_query["new"].mean()),
        change=float(test.mean[0]),
        low=float(test.low[0]),
        high=float(test.high[0]),
        p=float(test.p[0]),
        p_holm=1.0,
        same=float((rows["old"] == rows["new"]).mean()),
        kappa=_kappa(rows["old"].to_numpy(), rows["new"].to_numpy(), votes=name[1] == "votes"),
        judgments=len(rows),
        queries=len(by_query),
    )


def _kappa(old: Floats, new: Floats, *, votes: bool) -> float:
    """Compute Cohen's kappa: quadratic, of whole grades; or nominal, of who won or tied."""
    values = np.stack([old, new])
    steps = (np.sign(values) if votes else np.rint(values)).astype(np.int64)
    steps -= steps.min()
    table = np.zeros((steps.max() + 1, steps.max() + 1))
    np.add.at(table, (steps[0], steps[1]), 1.0)
    coefficient = COEFFICIENTS["kappa" if votes else "kappa-quadratic"]
    return float(coefficient.of({"confusion": table}))


def tables_of(found: Drift) -> dict[str, pa.Table]:
    """Return the tables of a comparison, by name."""
    return {
        "drift": table_of(found.moves, JudgeMovement),
        "changes": table_of(found.changes, Change),
    }


def record_of(drift: Drift, options: DriftOptions) -> dict[str, Any]:
    """Return the contents of ``drift.json``."""
    return {
        "kind": "drift",
        "version": version("zelo-ray"),
        "options": options.model_dump(mode="json"),
        "complete": drift.complete,
        "moved": drift.moved,
        "needed": drift.needed,
        "judges": [asdict(move) for move in drift.moves],
        "notes": list(drift.notes),
    }


def _write(out: str, options: DriftOptions, drift: Drift) -> None:
    write_tables(out, tables_of(drift))
    write_json(out, "drift.json", record_of(drift, options))
