"""Guard against self-preference: withdraw what only judges of a ranker's own family support."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain

import pyarrow as pa

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff.gate import decide_gates
from zelo_ray.commands.bakeoff.measure import Measured, measure
from zelo_ray.engine.refit import InseparableError, TruthRun
from zelo_ray.errors import InputError, OptionError, Stopped
from zelo_ray.evaluation.gate import GateDecision
from zelo_ray.evaluation.measures import Truth
from zelo_ray.evaluation.significance import Significance, significance_of
from zelo_ray.families import families_of
from zelo_ray.names import did_you_mean
from zelo_ray.records import Comparison

TRUTH = "truth"
"""Stands for the judges of a truth that does not name its judges."""
Names = frozenset[str]


@dataclass(frozen=True, slots=True)
class Families:
    """The model families of the truth's judges (empty if they are unknown) and of the rankers."""

    judges: Mapping[str, Names]
    rankers: Mapping[str, Names]

    def shared(self, ranker: str) -> Names:
        """Return the families that a ranker shares with judges of the truth."""
        return self.rankers[ranker] & frozenset(chain.from_iterable(self.judges.values()))

    def judges_like(self, ranker: str) -> Names:
        """Return the judges that share a family with a ranker."""
        own = self.rankers[ranker]
        return frozenset(name for name, families in self.judges.items() if families & own)


def find_families(
    judges: Iterable[str], rankers: Mapping[str, str], declared: Mapping[str, Iterable[str]]
) -> Families:
    """Return the families of all judges and rankers, as declared or by their names.

    ``rankers`` say by name what each is: a reranker, a judge, or a run's tag; ``declared`` names
    the families of a judge or ranker, and `TRUTH` stands for unknown judges.
    """
    families = {name: frozenset(map(str.lower, names)) for name, names in declared.items()}
    judge_names = sorted(judges) or ([TRUTH] if TRUTH in families else [])
    every_name = [*rankers, *judge_names]
    for name in families:
        if name not in every_name:
            raise OptionError(
                f"families: {name} is neither a ranker nor a judge of the truth"
                f"{did_you_mean(name, every_name)}; there are {', '.join(every_name)}"
            )
    return Families(
        {name: families.get(name, families_of(name)) for name in judge_names},
        {name: families.get(name, families_of(what)) for name, what in rankers.items()},
    )


class Guard:
    """Withdraws what only judges of a ranker's own family support.

    A significant comparison stays significant if it is so, with the same sign, without the judges
    of the one ranker's families, and without those of the other's: both times the whole bake-off
    is measured and corrected (Holm) again, on first use. On recorded judges of TREC DL 2019 as
    rankers, under panels of three of them, 210 of 2,332 significant comparisons were wrong by
    people's labels; with this guard, none of 1,396 (``benchmarks/kin.py``). ``run`` made the truth;
    None if that cannot be computed again.
    """

    def __init__(
        self, measured: Measured, families: Families, run: TruthRun | None, options: BakeoffOptions
    ) -> None:
        self._all, self._families, self._run = measured, families, run
        compared = tuple(map(str, measured.compared))
        self._options = options.model_copy(update={"measures": compared})
        self._measured = cache(self._measure)
        self._comparisons, self._gates = cache(self._compare), cache(self._decide)

    def check(self, row: Comparison) -> Comparison:
        """Return a comparison with the families without which it is not significant."""
        significance, pair = significance_of(row), (row.run_a, row.run_b, row.measure)
        if not significance.is_significant:
            return row
        families = self._only_by(
            *(row.run_a, row.run_b),
            lambda judges: self._comparisons(judges).get(pair) is significance,
        )
        return replace(row, family=families) if families else row

    def check_gate(self, row: GateDecision) -> GateDecision:
        """Return a decision; open if only judges of a ranker's own family lead to it."""
        if row.estimate != "panel" or row.verdict == "not enough data":
            return row
        confirmed = ("worse",) if row.verdict == "worse" else ("better", "not worse")
        families = self._only_by(
            *(row.run, row.baseline), lambda judges: self._gates(judges).get(row.run) in confirmed
        )
        if not families:
            return row
        why = f"only judges of its own model family say so ({families})"
        return replace(row, verdict="own family only", reason=why, enough=0)  # no query would help

    def not_refitted(self) -> dict[str, str]:
        """Return, by the families of a ranker, why the truth is unknown without their judges."""
        why: dict[str, str] = {}
        for ranker in self._families.rankers:
            judges = self._families.judges_like(ranker)
            if judges and isinstance(measured := self._measured(judges), str):
                why[", ".join(sorted(self._families.shared(ranker)))] = measured
        return why

    def _only_by(self, run_a: str, run_b: str, holds_without: Callable[[Names], bool]) -> str:
        """Return the families without whose judges something does not hold."""
        only = set[str]()
        for ranker in (run_a, run_b):
            judges = self._families.judges_like(ranker)
            if judges and not holds_without(judges):
                only |= self._families.shared(ranker)
        return ", ".join(sorted(only))

    def _measure(self, judges: Names) -> Measured | str:
        """Measure the bake-off without some judges; or say why that is impossible."""
        if self._run is None:
            return "no judge of the truth would be left, so this cannot be checked"
        truth = self._all.truth
        ids = pa.array(truth.query_ids, pa.string()).take(pa.array(truth.query))
        labels = pa.table({"query_id": ids, "doc_id": truth.doc_ids})
        try:
            rest = Truth(self._run.labels_without(judges, labels))
            return measure(rest, self._all.runs, self._options)
        except (InseparableError, InputError, Stopped) as error:
            return str(error)

    def _compare(self, judges: Names) -> dict[tuple[str, str, str], Significance]:
        measured = self._measured(judges)
        rows = () if isinstance(measured, str) else measured.comparisons
        return {(row.run_a, row.run_b, row.measure): significance_of(row) for row in rows}

    def _decide(self, judges: Names) -> dict[str, str]:
        measured = self._measured(judges)
        try:
            rows = [] if isinstance(measured, str) else decide_gates(measured, None, self._options)
        except Stopped:
            rows = []
        return {row.run: row.verdict for row in rows}
