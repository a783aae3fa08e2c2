"""``size``: simulate plans of calls, to choose one before paying for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from zelo_ray.errors import InputError
from zelo_ray.fitting.battles import Floats
from zelo_ray.fitting.panel import PanelModel, default_model
from zelo_ray.fitting.sizing.plans import RINGS, Plan, PlanSimulator, PlanSize
from zelo_ray.fitting.sizing.synthetic import drawn_truth, simulate_answers, spread_truth
from zelo_ray.formats.files import read_record
from zelo_ray.formats.stored import parquet_table
from zelo_ray.formats.wording import counted
from zelo_ray.options import SizeOptions
from zelo_ray.records import first_error

JUDGES = "judges.json"
SPREAD, DOCUMENTS, JUDGED = 1.7, 25, 2000
GUESSED = ("judge 1", "judge 2", "judge 3")


@dataclass(frozen=True, slots=True)
class Pilot:
    """Measurements from a pilot run."""

    model: PanelModel
    scores: Floats
    errors: Floats
    documents: int
    """of a query, on average"""
    dollars_a_call: float
    """NaN if its calls had no price"""


@dataclass(frozen=True, slots=True)
class Sized:
    """Results by plan, and the settings of the simulation."""

    sizes: Sequence[PlanSize]
    answer: str
    """the plan for the requested error, in words; empty if none was requested"""
    notes: Sequence[str]
    queries: int
    documents: int
    dollars_a_call: float

    def dollars(self, size: PlanSize) -> float:
        """Return the US dollars of a plan, for all queries; NaN if no price is known."""
        return size.calls * self.queries * self.dollars_a_call

    def table(self) -> pa.Table:
        """Return a row for each plan; ``calls`` and ``dollars`` are for all queries."""
        columns: dict[str, Any] = {
            name: [getattr(size, name) for size in self.sizes] for name in PlanSize.__slots__
        }
        columns["calls"] = [round(size.calls * self.queries) for size in self.sizes]
        columns["dollars"] = [self.dollars(size) for size in self.sizes]
        return pa.table(columns)


def size(options: SizeOptions) -> Sized:
    """Simulate the plans that the options name.

    Raises:
        InputError: the pilot's files cannot be read, or have no scores.
    """
    pilot = _pilot(options.judges_from) if options.judges_from else None
    documents = options.documents or (pilot.documents if pilot else DOCUMENTS)
    model = _model(options, pilot)
    sizes = PlanSimulator(
        simulate_answers(_truth(options, pilot, documents), model, options.seed), model
    )
    plans = _plans(options, sizes.most_cycles)
    plan_sizes = {plan: sizes.simulate(plan) for plan in plans}
    dollars = pilot.dollars_a_call if pilot else nan
    report = Sized((), "", _notes(options, pilot, sizes), options.queries, documents, dollars)
    answer, best = "", None
    if options.error:
        best = find_cheapest_plan(options.error, plan_sizes, sizes)
        answer = _answer(options.error, best, plan_sizes, report)
    shown = {*plans, *([best] if best else [])}
    ordered = sorted((plan_sizes[plan] for plan in shown), key=lambda row: (row.calls, row.plan))
    return replace(report, sizes=ordered, answer=answer)


def _plans(options: SizeOptions, pairs: int) -> list[Plan]:
    cycles = sorted({min(number, pairs) for number in options.cycles} | {pairs})
    zelo = [Plan("zelo", number, votes) for number in cycles for votes in ("all", "one")]
    rings = sorted(set(options.calls)) if pairs > 2 else []
    return [*zelo, *(Plan("lean", calls) for calls in rings)]


def find_cheapest_plan(
    error: float, sizes_by_plan: dict[Plan, PlanSize], sizes: PlanSimulator
) -> Plan | None:
    """Find the plan with the fewest calls that reaches an error; simulate more plans if needed.

    Args:
        error: the wanted mean std_error, in logits.
        sizes_by_plan: simulated plans; further ones are added.
        sizes: simulates them.

    Returns:
        None if no plan reaches it.
    """
    reached = []
    for kind in _kinds(sizes_by_plan):
        amounts = sorted(plan.amount for plan in sizes_by_plan if replace(plan, amount=0) == kind)
        while sizes_by_plan[replace(kind, amount=amounts[-1])].std_error > error and _can_ask_more(
            kind, amounts, sizes
        ):
            amounts.append(min(2 * amounts[-1], sizes.most_cycles + RINGS))
            sizes_by_plan[replace(kind, amount=amounts[-1])] = sizes.simulate(
                replace(kind, amount=amounts[-1])
            )
        enough = [
            amount
            for amount in amounts
            if sizes_by_plan[replace(kind, amount=amount)].std_error <= error
        ]
        if enough:
            below = max(
                (amount for amount in amounts if amount < enough[0]), default=amounts[0] - 1
            )
            reached.append(
                _smallest_enough(
                    replace(kind, amount=enough[0]), below, error, sizes_by_plan, sizes
                )
            )
    return min(reached, key=lambda plan: sizes_by_plan[plan].calls, default=None)


def _can_ask_more(kind: Plan, amounts: Sequence[int], sizes: PlanSimulator) -> bool:
    """Return whether a plan of this kind can ask more; zelo's plans include all pairs already."""
    return kind.protocol == "lean" and amounts[-1] < sizes.most_cycles + RINGS


def _answer(
    error: float, best: Plan | None, sizes_by_plan: Mapping[Plan, PlanSize], sized: Sized
) -> str:
    if best is None:
        closest = min(sizes_by_plan.values(), key=lambda row: row.std_error)
        return (
            f"No plan reaches a std_error of {error:g}: the lowest is {closest.std_error:.2f}, "
            f"by {closest.plan}"
        )
    size = sizes_by_plan[best]
    price = "" if isnan(sized.dollars_a_call) else f", ${sized.dollars(size):,.2f}"
    return (
        f"A std_error of {error:g} takes {best}: {size.calls_a_document:.1f} calls a document, "
        f"{size.calls * sized.queries:,.0f} for {counted(sized.queries, 'query', 'queries')}{price}"
    )


def _kinds(sizes_by_plan: Mapping[Plan, PlanSize]) -> list[Plan]:
    """Return the kinds of plans, each as a plan of size 0."""
    return list(dict.fromkeys(replace(plan, amount=0) for plan in sizes_by_plan))


def _smallest_enough(
    plan: Plan, below: int, error: float, sizes_by_plan: dict[Plan, PlanSize], sizes: PlanSimulator
) -> Plan:
    """Find the smallest plan of a kind that reaches an error; ``below`` does not reach it."""
    amount = plan.amount
    while amount - below > 1:
        middle = replace(plan, amount=(amount + below) // 2)
        sizes_by_plan[middle] = sizes.simulate(middle)
        if sizes_by_plan[middle].std_error <= error:
            amount = middle.amount
        else:
            below = middle.amount
    return replace(plan, amount=amount)


def _model(options: SizeOptions, pilot: Pilot | None) -> PanelModel:
    if pilot is None:
        return default_model(tuple(sorted(options.judges)) or GUESSED)
    return pilot.model.for_judges(tuple(sorted(options.judges))) if options.judges else pilot.model


def _truth(options: SizeOptions, pilot: Pilot | None, documents: int) -> Floats:
    shape = {
        "queries": options.pools or max(8, JUDGED // documents),
        "documents": documents,
        "seed": options.seed,
    }
    if pilot is None or options.spread:
        return spread_truth(options.spread or SPREAD, **shape)
    return drawn_truth(pilot.scores, pilot.errors, **shape)


def _notes(options: SizeOptions, pilot: Pilot | None, sizes: PlanSimulator) -> list[str]:
    truth = sizes.answers.truth
    judges = "judges as in the pilot" if pilot else "judges by a cautious guess"
    spread = float(truth.std(axis=1).mean())
    simulated = (
        f"Simulated: {counted(len(truth), 'pool')} of {sizes.documents} documents whose true "
        f"scores spread by {spread:.1f} logits, {len(sizes.model.judges)} {judges}, seed "
        f"{options.seed}. Errors that all judges share are not included."
    )
    meant = (
        "Loss is 1 - nDCG@10 against the truth, with gains exp(score). Distances are from the "
        "scores fitted to all pairs by all judges: root mean square, and the largest of a query, "
        "in logits."
    )
    return [simulated, meant]


def _pilot(place: str) -> Pilot:
    """Read the pilot from a run's directory.

    Raises:
        InputError: there are no scores, or it is not a run.
    """
    table = parquet_table(f"{place}/scores.parquet", ["query_id", "score", "std_error"])
    columns = [
        np.asarray(table[name].to_numpy(), dtype=np.float64) for name in table.column_names[1:]
    ]
    if not len(table):
        raise InputError(f"{place}/scores.parquet has no scores")
    queries = len(table["query_id"].unique())
    return Pilot(
        model=_read_model(place),
        scores=columns[0],
        errors=np.nan_to_num(columns[1]),
        documents=max(2, round(len(table) / queries)),
        dollars_a_call=_dollars_a_call(place),
    )


def _read_model(place: str) -> PanelModel:
    """Read the model of the pilot's judges; if none was learned, guess it by their names."""
    model = _record(place, JUDGES)
    if model is None:
        panel = (_record(place, "run.json") or {}).get("panel", [])
        return default_model(tuple(sorted(member["judge"] for member in panel)) or GUESSED)
    try:
        return PanelModel.from_json(model)
    except ValueError as error:
        why = first_error(error) if isinstance(error, ValidationError) else error
        raise InputError(f"{place}/{JUDGES}: not a model of judges ({why})") from None


def _dollars_a_call(place: str) -> float:
    judges = (_record(place, "run.json") or {}).get("judges", {}).values()
    answered = sum(judge.get("answered", 0) for judge in judges)
    dollars = sum(judge.get("dollars", 0.0) for judge in judges)
    return dollars / answered if answered and dollars else nan


def _record(place: str, name: str) -> dict[str, Any] | None:
    fs, root = fsspec.url_to_fs(place)
    return read_record(f"{place}/{name}") if fs.exists(f"{root}/{name}") else None
