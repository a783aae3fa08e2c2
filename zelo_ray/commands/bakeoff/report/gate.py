"""Show which rankers may replace the baseline, in lines that scripts can parse."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from math import isnan, nan
from typing import Any

from zelo_ray.commands.bakeoff.report.leaderboard import join_names
from zelo_ray.commands.bakeoff.report.results import BakeoffResults, comparisons_by_rival
from zelo_ray.commands.bakeoff.significance import Significance, count_tested, significance_of
from zelo_ray.evaluation.regression_gate import POWER, GateDecision
from zelo_ray.reports.parts import Section, Sentences


def gate_section(results: BakeoffResults) -> Section | None:
    """Compare each candidate with the baseline; None if there is no baseline."""
    gates = [
        replace(gate, measure=results.title(gate.measure)) for gate in read_gate(results.summary)
    ]
    if not gates:
        return None
    parts = [Sentences([*gate_lines(gates)])]
    if reasons := [*explain_beside_table(results, gates)]:
        parts.append(Sentences(reasons))
    return Section("gate", "May they replace the baseline?", parts)


def read_gate(summary: Mapping[str, Any]) -> tuple[GateDecision, ...]:
    """Read the decision on each candidate, with null as NaN."""
    rows: Sequence[dict[str, Any]] = summary.get("gate", ())
    nulls: list[dict[str, Any]] = [{k: nan for k, v in row.items() if v is None} for row in rows]
    return tuple(
        GateDecision(**{**row, **unknown}) for row, unknown in zip(rows, nulls, strict=True)
    )


def gate_lines(results: Iterable[GateDecision]) -> Iterator[str]:
    """Yield a log line for each candidate: ``GATE pass``, ``GATE fail`` or ``GATE open``."""
    for row in results:
        within = f"than {row.baseline} by more than {row.margin:g}"
        match row.verdict:
            case "better":
                text = f"pass: {row.run} is better than {row.baseline}"
            case "not worse":
                text = f"pass: {row.run} is not worse {within}"
            case "worse":
                text = f"fail: {row.run} is worse than {row.baseline}"
            case "not enough data":
                text = f"open: not enough data to say that {row.run} is not worse {within}"
            case "only kin":
                text = f"open: {row.reason}: {row.run} against {row.baseline}"
        yield f"GATE {text} ({'; '.join(_figures(row))})"


class _Beside(Enum):
    """A decision beside the significance of the same difference, where these seem at odds."""

    BETTER = auto()
    WORSE = auto()
    NEITHER = auto()
    """not worse by more than the margin, and no significant difference"""
    BELOW = auto()
    """not worse by more than the margin, and significantly below"""
    OPEN = auto()
    """not enough data, and a significant difference"""


def explain_beside_table(results: BakeoffResults, gates: Sequence[GateDecision]) -> Iterator[str]:
    """Yield why decisions and the table of differences both hold, where they seem at odds."""
    cases = dict[_Beside, list[str]]()
    by_estimate = [row for row in results.all_comparisons if row.estimate == gates[0].estimate]
    for gate in gates:
        of_measure = (row for row in by_estimate if row.measure == gate.measure)
        row = comparisons_by_rival(gate.run, of_measure).get(gate.baseline)
        if row and (case := _beside(gate, significance_of(row))):
            cases.setdefault(case, []).append(gate.run)
    first = gates[0]
    tested = count_tested(by_estimate)
    for case, names in sorted(cases.items(), key=lambda pair: pair[0].value):
        yield _explain(case, join_names(names), len(names) > 1, first, tested)


def _beside(gate: GateDecision, significance: Significance) -> _Beside | None:
    is_significant = significance.is_significant
    match gate.verdict:
        case "better" if significance is Significance.NOT_SIGNIFICANT:
            return _Beside.BETTER
        case "worse" if significance is Significance.NOT_SIGNIFICANT:
            return _Beside.WORSE
        case "not worse" if significance is Significance.NOT_SIGNIFICANT:
            return _Beside.NEITHER
        case "not worse" if significance is Significance.BELOW:
            return _Beside.BELOW
        case "not enough data" if is_significant:
            return _Beside.OPEN
    return None


def _explain(case: _Beside, names: str, several: bool, gate: GateDecision, tested: int) -> str:
    """Say why a decision and the significance of the same difference both hold."""
    baseline, are = gate.baseline, "are" if several else "is"
    match case:
        case _Beside.BETTER | _Beside.WORSE:
            word = "better" if case is _Beside.BETTER else "worse"
            return (
                f"{names} {are} {word} than {baseline} here and not significantly different in the "
                "table: the gate tests one ranker in one direction, and the table both directions"
                + (
                    f" of {tested:,} comparisons, corrected for their number."
                    if tested > 1
                    else "."
                )
            )
        case _Beside.NEITHER:
            return (
                f"{names} {are} not worse here and not significantly different in the table. Both "
                f"hold: a loss of more than {gate.margin:g} is ruled out, and no difference is "
                "shown."
            )
        case _Beside.BELOW:
            return (
                f"{names} {are} significantly below {baseline} in the table, and may still replace "
                f"it: the loss is shown, and so is that it is not more than {gate.margin:g}."
            )
        case _Beside.OPEN:
            return (
                f"The difference of {names} from {baseline} is significant in the table, on the "
                "queries that both ranked; the gate asks for more, as its line says."
            )


def _figures(result: GateDecision) -> Iterator[str]:
    if not isnan(result.difference):
        limits = ""
        if not isnan(result.low):
            sure = f"{100 * result.confidence:g}%"
            limits = f", one-sided {sure} limits {result.low:+z.4f} and {result.high:+z.4f}"
        label = "" if result.estimate == "panel" else f", {result.estimate}"
        yield (
            f"{result.measure} {result.difference:+z.4f}{label}{limits}, {result.queries:,} queries"
        )
    if not isnan(result.labels):
        yield f"not worse in {result.labels:.0%} of the draws of the labels"
    if result.reason and result.verdict != "only kin":
        yield result.reason
        if result.estimate == "panel" and result.enough > result.queries:
            yield (
                f"about {result.enough:,} queries show it in {POWER:.0%} of cases if both are alike"
            )
