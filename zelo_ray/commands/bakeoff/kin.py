"""Measure a contest without judges that are kin of its arms, and find what only they support."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from zelo_ray.commands.bakeoff import measure
from zelo_ray.commands.bakeoff.kinship import Kinship
from zelo_ray.commands.bakeoff.outcome import BakeoffOutcome, Kin, LeftOut, MeasuredRanker, standing
from zelo_ray.commands.bakeoff.rest import InseparableError
from zelo_ray.commands.bakeoff.significance import Significance, significance_of
from zelo_ray.errors import QrelsError, Stopped
from zelo_ray.evaluation.gate import Gated
from zelo_ray.evaluation.measures import Truth, evaluate, rank
from zelo_ray.evaluation.significance import means
from zelo_ray.options import BakeoffOptions
from zelo_ray.records import Comparison

Judges = frozenset[str]
_AS_GOOD = {
    "better": ("better", "not worse"),
    "not worse": ("better", "not worse"),
    "worse": ("worse",),
}
"""What judges without kin have to say of a candidate, by what all of them say."""


class Judged(Protocol):
    """A truth of which some judges can be left out."""

    def without(self, judges: Collection[str], truth: pa.Table) -> pa.Table:
        """Do as `zelo_ray.commands.bakeoff.rest.Annotated.without`."""
        ...


def guard(
    outcome: BakeoffOutcome, kinship: Kinship, annotated: Judged | None, options: BakeoffOptions
) -> None:
    """Take back what only kin support, and tell how the arms stand without each family of judges.

    Nothing is fitted or measured anew where no arm has kin.

    A comparison that is sure stays so if it is also sure, with the same sign, without the judges
    that are kin of the one arm, and without those that are kin of the other: measured and corrected
    (Holm) as the whole contest is. On recorded judges of TREC DL 2019 as arms, under panels of
    three of them, 234 of 2,605 sure comparisons were wrong by people; with this, none of 1,700
    (``benchmarks/kin.py``).

    Args:
        outcome: of the contest; its comparisons are replaced, and ``kin`` is set.
        kinship: who is kin of whom.
        annotated: the run that the truth is of; None: nothing can be told without a judge.
        options: of the bake-off.
    """
    rests = _Rests(outcome, annotated, options)
    kin = Kin(kinship)
    outcome.comparisons = [_held(comparison, kinship, rests) for comparison in outcome.comparisons]
    outcome.gate = [_gated(candidate, kinship, rests) for candidate in outcome.gate]
    for family, judges in kinship.families.items() if kinship.of_arms else ():
        try:
            kin.left_out += rests.standing(family, judges)
        except InseparableError as error:
            kin.untold[family] = str(error)
    outcome.kin = kin


def _held(comparison: Comparison, kinship: Kinship, rests: "_Rests") -> Comparison:
    """Return the comparison with the families without which it is not significant."""
    significance = significance_of(comparison)
    if not significance.is_significant:
        return comparison
    only = set[str]()
    for arm in (comparison.run_a, comparison.run_b):
        kin = kinship.kin_of(arm)
        if kin and rests.significance_on(comparison, kin) is not significance:
            only |= kinship.shared(arm)
    return replace(comparison, kin=", ".join(sorted(only))) if only else comparison


def _gated(result: Gated, kinship: Kinship, rests: "_Rests") -> Gated:
    """Return the gate, open where it passes or fails only by judges that are kin."""
    if result.estimate != "panel" or result.verdict == "not enough data":
        return result
    only = set[str]()
    for arm in (result.run, result.baseline):
        kin = kinship.kin_of(arm)
        if kin and rests.gate_on(result, kin) not in _AS_GOOD[result.verdict]:
            only |= kinship.shared(arm)
    if not only:
        return result
    why = f"only judges that are kin say so ({', '.join(sorted(only))})"
    return replace(result, verdict="only kin", reason=why, enough=0)  # more queries do not help


@dataclass(slots=True)
class _Rests:
    """The contest under the truth without some judges, each made once, when it is first needed."""

    outcome: BakeoffOutcome
    annotated: Judged | None
    options: BakeoffOptions
    _truths: dict[Judges, Truth | str] = field(default_factory=dict)
    _found: dict[Judges, BakeoffOutcome | None] = field(default_factory=dict)
    _compared: dict[Judges, dict[tuple[str, str, str], Significance]] = field(default_factory=dict)

    nothing = "no judge of the truth is left"

    def truth(self, judges: Judges) -> Truth:
        """Return the truth without some judges.

        Raises:
            InseparableError: there is none.
        """
        if judges not in self._truths:
            self._truths[judges] = self._told(judges)
        truth = self._truths[judges]
        if isinstance(truth, str):
            raise InseparableError(truth)
        return truth

    def _told(self, judges: Judges) -> Truth | str:
        if self.annotated is None:
            return self.nothing
        try:
            return Truth(self.annotated.without(judges, _labels(self.outcome.truth)))
        except (InseparableError, QrelsError) as error:
            return str(error)

    def significance_on(self, one: Comparison, judges: Judges) -> Significance | None:
        """Return what a comparison allows to say without some judges; None if nothing is left."""
        outcome = self._measured(judges)
        if judges not in self._compared:
            compared = outcome.comparisons if outcome else ()
            self._compared[judges] = {
                _pair(comparison): significance_of(comparison) for comparison in compared
            }
        return self._compared[judges].get(_pair(one))

    def gate_on(self, result: Gated, judges: Judges) -> str:
        """Return the verdict on a candidate without some judges; empty where nothing is left."""
        outcome = self._measured(judges)
        same = (gate for gate in outcome.gate if gate.run == result.run) if outcome else ()
        return next((gate.verdict for gate in same), "")

    def _measured(self, judges: Judges) -> BakeoffOutcome | None:
        """Measure the whole contest again without some judges; None where nothing is left."""
        if judges not in self._found:
            entries = [MeasuredRanker(entry.name, entry.run) for entry in self.outcome.entries]
            changes = {"measures": tuple(map(str, self.outcome.measures)), "slices": ()}
            options = self.options.model_copy(update=changes)
            try:
                self._found[judges] = measure(self.truth(judges), entries, options, {})
            except (InseparableError, Stopped):
                self._found[judges] = None
        return self._found[judges]

    def standing(self, family: str, judges: Judges) -> Iterator[LeftOut]:
        """Yield the arms by the leading measure without some judges, best first.

        Raises:
            InseparableError: nothing is left.
        """
        outcome, truth = self.outcome, self.truth(judges)
        runs = {entry.name: entry.run for entry in outcome.entries}
        ranked = [rank(truth, runs[arm], ties=self.options.ties) for arm in outcome.arms]
        values = np.stack([evaluate([outcome.measures[0]], ranking)[0] for ranking in ranked])
        ends = means(
            values,
            resamples=self.options.resamples,
            confidence=self.options.confidence,
            seed=self.options.seed,
        )
        rows = dict(zip(outcome.arms, np.stack(ends, axis=1).tolist(), strict=True))
        places = standing({arm: mean for arm, (mean, _, _) in rows.items()})
        for place, arm in enumerate(places, 1):
            yield LeftOut(
                *(family, tuple(sorted(judges)), outcome.leading, arm),
                *(*rows[arm], len(truth.query_ids), place),
            )


def _pair(comparison: Comparison) -> tuple[str, str, str]:
    return comparison.run_a, comparison.run_b, comparison.measure


def _labels(truth: Truth) -> pa.Table:
    """Return the query and document of each label."""
    ids = pa.array(truth.query_ids, pa.string()).take(pa.array(truth.query))
    return pa.table({"query_id": ids, "doc_id": truth.doc_ids})
