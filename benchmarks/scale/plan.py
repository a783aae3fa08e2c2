"""What a large run would take, from what small ones took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.scale.measured import CALLS, JUDGES, Run
from zelo_ray.providers import parse_judge
from zelo_ray.providers.pricing import price
from zelo_ray.records import Usage

_UPLOAD = 0.1  # seconds that an object store takes to keep an object of half a megabyte
_PUT_DOLLARS = 5e-6
_SEGMENT = 2**20
_CORES = 4  # of the machine in cluster.yaml; those measured had two


@dataclass(frozen=True)
class Line:
    """A figure that grows with queries: so much at once, and so much for each."""

    fixed: float
    each: float

    def at(self, queries: float) -> float:
        return self.fixed + self.each * queries


@dataclass(frozen=True)
class Account:
    """A judge, and what its account allows a minute."""

    judge: str
    rpm: float
    tpm: float
    actors: int
    per_actor: float
    """calls a second that one actor makes"""
    usage: Usage
    """of a call"""


def figures(run: Run) -> dict[str, float]:
    """All that is measured of a run, by name."""
    laps = {f"lap: {name}": seconds for name, seconds in run.laps.items()}
    seconds = {f"seconds: {name}": each for name, each in run.seconds.items()}
    memory = {f"memory: {name}": each for name, each in run.memory.items()}
    sizes = {"ledger": run.ledger, "index": run.index, "results": run.results}
    return {**seconds, **laps, **memory, **sizes, "report": float(run.report)}


def fitted(runs: Sequence[Run]) -> dict[str, Line]:
    """Each figure as a line over the queries; errors count in proportion, none is below zero."""
    told = [figures(run) for run in runs]
    lines = {}
    for name in set.intersection(*map(set, told)):
        y = np.array([max(each[name], 1e-3) for each in told])
        x = np.array([run.queries for run in runs])
        found, *_ = np.linalg.lstsq(np.column_stack([1 / y, x / y]), np.ones(len(y)), rcond=None)
        lines[name] = Line(*map(float, found))
    return lines


def beyond(lines: Mapping[str, Line], run: Run) -> dict[str, float]:
    """How far each figure of a run that was not used lies from its line: measured by foretold."""
    return {name: each / lines[name].at(run.queries) for name, each in figures(run).items()}


def forecast(
    queries: int, lines: Mapping[str, Line], accounts: Sequence[Account]
) -> dict[str, str]:
    """What so many queries of 25 documents and three judges take, by what it is."""
    calls = CALLS * queries / len(JUDGES)
    asking = {each.judge: _seconds(each, calls) for each in accounts}
    longest = max(asking.values())
    dollars = [calls * (price(parse_judge(a.judge), a.usage) or 0.0) for a in accounts]
    settle = lines["lap: fit and write"].at(queries) * 2 / _CORES
    puts = sum(
        min(calls, seconds / _UPLOAD * account.actors)
        for account, seconds in zip(accounts, asking.values(), strict=True)
    )
    kept = lines["ledger"].at(queries)
    return {
        "calls": f"{CALLS * queries:,}",
        "calls a second": f"{CALLS * queries / longest:,.0f}",
        "hours of asking": f"{longest / 3600:.1f}",
        "dollars online, in batches": f"{sum(dollars):,.0f}, {sum(dollars) / 2:,.0f}",
        "hours to settle": f"{settle / 3600:.2f}",
        "ledger, GB": f"{kept / 1e9:.1f}",
        "index, mapped, GB": f"{lines['index'].at(queries) / 1e9:.2f}",
        "results, GB": f"{lines['results'].at(queries) / 1e9:.1f}",
        "memory of all processes, GB": f"{lines['memory: first'].at(queries) / 1e9:.1f}",
        "uploads to an object store": f"{puts:,.0f} (${puts * _PUT_DOLLARS:,.2f})",
        "segments there": f"{kept / _SEGMENT:,.0f}",
    }


def _seconds(account: Account, calls: float) -> float:
    tokens = account.usage.input_tokens + account.usage.output_tokens
    a_second = min(account.rpm / 60, account.tpm / 60 / tokens, account.actors * account.per_actor)
    return calls / a_second
