"""Show which rankers may replace the baseline, in lines that scripts can parse."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan, nan
from typing import Any

from zelo_ray.commands.bakeoff.report.results import BakeoffResults
from zelo_ray.evaluation.gate import POWER, GateDecision
from zelo_ray.reports.parts import Section, Sentences


def gate_section(results: BakeoffResults) -> Section | None:
    """Compare each candidate with the baseline; None if there is no baseline."""
    gates = read_gate(results.summary)
    if not gates:
        return None
    return Section("gate", "May they replace the baseline?", [Sentences([*gate_lines(gates)])])


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
