"""Guard against self-preference: measure again without judges of the rankers' families."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff import measure
from zelo_ray.commands.bakeoff.model_families import FamilyOverlap
from zelo_ray.commands.bakeoff.outcome import (
    BakeoffOutcome,
    MeasuredRanker,
    SelfPreference,
)
from zelo_ray.commands.bakeoff.significance import Significance, significance_of
from zelo_ray.commands.bakeoff.truth_without_judges import InseparableError
from zelo_ray.errors import InputError, Stopped
from zelo_ray.evaluation.gate import GateDecision
from zelo_ray.evaluation.measures import Truth
from zelo_ray.records import Comparison

Judges = frozenset[str]
_CONFIRMED_BY = {
    "better": ("better", "not worse"),
    "not worse": ("better", "not worse"),
    "worse": ("worse",),
}
"""By the verdict of all judges, the verdicts of the remaining judges that confirm it."""


class SeparableTruth(Protocol):
    """A truth that can be computed again without some judges."""

    def labels_without(self, judges: Collection[str], truth: pa.Table) -> pa.Table:
        """Compute labels from the other judges alone, for the documents of the truth."""
        ...


def guard_against_self_preference(
    outcome: BakeoffOutcome,
    kinship: FamilyOverlap,
    annotated: SeparableTruth | None,
    options: BakeoffOptions,
) -> None:
    """Withdraw what only judges of a ranker's own family support.

    Nothing is fitted or measured again if no ranker shares a family with a judge.

    A significant comparison stays significant if it is so, with the same sign, without the judges
    of the one ranker's families, and without those of the other's: both times the whole bake-off
    is measured and corrected (Holm) again. On recorded judges of TREC DL 2019 as rankers, under
    panels of three of them, 210 of 2,332 significant comparisons were wrong by people's labels;
    with this guard, none of 1,396 (``benchmarks/kin.py``).

    Args:
        outcome: of the bake-off; its comparisons and gates are replaced, and ``kin`` is set.
        kinship: the model families of judges and rankers.
        annotated: the run that made the truth; None if the truth cannot be computed again.
        options: of the bake-off.
    """
    rests = _WithoutJudges(outcome, annotated, options)
    kin = SelfPreference(kinship)
    outcome.comparisons = [
        _check_comparison(comparison, kinship, rests) for comparison in outcome.comparisons
    ]
    outcome.gate = [_check_gate(candidate, kinship, rests) for candidate in outcome.gate]
    for family, judges in kinship.judges_by_family.items() if kinship.judges_by_ranker else ():
        try:
            rests.truth_without(judges)
        except InseparableError as error:
            kin.not_refitted[family] = str(error)
    outcome.self_preference = kin


def _check_comparison(
    comparison: Comparison, kinship: FamilyOverlap, rests: "_WithoutJudges"
) -> Comparison:
    """Return the comparison with the families without which it is not significant."""
    significance = significance_of(comparison)
    if not significance.is_significant:
        return comparison
    only = set[str]()
    for ranker in (comparison.run_a, comparison.run_b):
        kin = kinship.judges_like(ranker)
        if kin and rests.significance_on(comparison, kin) is not significance:
            only |= kinship.shared_families(ranker)
    return replace(comparison, kin=", ".join(sorted(only))) if only else comparison


def _check_gate(
    result: GateDecision, kinship: FamilyOverlap, rests: "_WithoutJudges"
) -> GateDecision:
    """Return the gate; open if only judges of a ranker's own family make it pass or fail."""
    if result.estimate != "panel" or result.verdict == "not enough data":
        return result
    only = set[str]()
    for ranker in (result.run, result.baseline):
        kin = kinship.judges_like(ranker)
        if kin and rests.gate_on(result, kin) not in _CONFIRMED_BY[result.verdict]:
            only |= kinship.shared_families(ranker)
    if not only:
        return result
    why = f"only judges of its own model family say so ({', '.join(sorted(only))})"
    return replace(result, verdict="only kin", reason=why, enough=0)  # more queries would not help


@dataclass(slots=True)
class _WithoutJudges:
    """The bake-off measured again without some judges: each computed once, on first use."""

    outcome: BakeoffOutcome
    annotated: SeparableTruth | None
    options: BakeoffOptions
    _truths: dict[Judges, Truth | str] = field(default_factory=dict)
    _outcomes: dict[Judges, BakeoffOutcome | None] = field(default_factory=dict)
    _significances: dict[Judges, dict[tuple[str, str, str], Significance]] = field(
        default_factory=dict
    )

    nothing = "no judge of the truth would be left, so this cannot be checked"

    def truth_without(self, judges: Judges) -> Truth:
        """Return the truth without some judges.

        Raises:
            InseparableError: it cannot be computed.
        """
        if judges not in self._truths:
            self._truths[judges] = self._compute_truth(judges)
        truth = self._truths[judges]
        if isinstance(truth, str):
            raise InseparableError(truth)
        return truth

    def _compute_truth(self, judges: Judges) -> Truth | str:
        if self.annotated is None:
            return self.nothing
        try:
            return Truth(self.annotated.labels_without(judges, _labels(self.outcome.truth)))
        except (InseparableError, InputError) as error:
            return str(error)

    def significance_on(self, one: Comparison, judges: Judges) -> Significance | None:
        """Return a comparison's significance without some judges; None if no judge is left."""
        outcome = self._measure_without(judges)
        if judges not in self._significances:
            compared = outcome.comparisons if outcome else ()
            self._significances[judges] = {
                _pair(comparison): significance_of(comparison) for comparison in compared
            }
        return self._significances[judges].get(_pair(one))

    def gate_on(self, result: GateDecision, judges: Judges) -> str:
        """Return the gate's verdict without some judges; empty if no judge is left."""
        outcome = self._measure_without(judges)
        same = (gate for gate in outcome.gate if gate.run == result.run) if outcome else ()
        return next((gate.verdict for gate in same), "")

    def _measure_without(self, judges: Judges) -> BakeoffOutcome | None:
        """Measure the whole bake-off again without some judges; None if no judge is left."""
        if judges not in self._outcomes:
            entries = [MeasuredRanker(entry.name, entry.run) for entry in self.outcome.rankers]
            changes = {"measures": tuple(map(str, self.outcome.compared)), "slices": ()}
            options = self.options.model_copy(update=changes)
            try:
                self._outcomes[judges] = measure(self.truth_without(judges), entries, options, {})
            except (InseparableError, Stopped):
                self._outcomes[judges] = None
        return self._outcomes[judges]


def _pair(comparison: Comparison) -> tuple[str, str, str]:
    return comparison.run_a, comparison.run_b, comparison.measure


def _labels(truth: Truth) -> pa.Table:
    """Return the query and document of each label."""
    ids = pa.array(truth.query_ids, pa.string()).take(pa.array(truth.query))
    return pa.table({"query_id": ids, "doc_id": truth.doc_ids})
