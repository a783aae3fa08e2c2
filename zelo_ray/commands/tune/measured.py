"""Measure all candidates on both halves, and make the one test on the second."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from zelo_ray.commands.compare_protocols.costs import Bill, bills_of, pools_in, requests_of
from zelo_ray.commands.tune.candidates import AS_IT_IS
from zelo_ray.commands.tune.choice import Gain, measure_gain
from zelo_ray.commands.tune.figures import PaidRequests, figures_of_half, tokens_of
from zelo_ray.commands.tune.halves import FIRST, SECOND
from zelo_ray.commands.tune.misjudged import (
    ChangedSide,
    WorthReading,
    changed_sides,
    describe_people,
    find_misjudged,
    read_documents,
    read_statements,
    worth_reading,
)
from zelo_ray.commands.tune.outcome import CandidateFigures, TuneOutcome
from zelo_ray.commands.tune.runs import CandidateRuns
from zelo_ray.engine.ledger import Ledger, read_rows
from zelo_ray.providers import panel_of


def measure_outcome(runs: CandidateRuns, chosen: str) -> TuneOutcome:
    """Measure all candidates on both halves, and test the chosen one on the second."""
    options, ledger = runs.options, Ledger(runs.options.ledger_dir)
    keys_by_half: dict[str, dict[str, dict[str, list[str]]]] = {FIRST: {}, SECOND: {}}
    for (name, half_name), plan in runs.plans.items():
        if (name, half_name) in runs.summaries:
            panel = panel_of(plan, os.environ)
            pools = pools_in(runs.halves[half_name].pools)
            keys_by_half[half_name][name] = dict(requests_of(pools, panel, plan, ledger))
    keys = {
        key
        for by_candidate in keys_by_half.values()
        for by_query in by_candidate.values()
        for query_keys in by_query.values()
        for key in query_keys
    }
    every = keys | {row.key for row in read_rows(options.ledger_dir)}
    bills, together, paid = bills_of(read_rows(options.ledger_dir), every), Bill(), Bill()
    for key, bill in bills.items():
        paid.add(bill)
        if key in keys:
            together.add(bill)
    tokens = tokens_of(read_rows(options.ledger_dir), keys)
    figures, gains = list[CandidateFigures](), list[Gain]()
    for half in runs.halves.values():
        verdicts = runs.verdicts(half.name)
        requests = PaidRequests(keys_by_half[half.name], bills, tokens)
        figures += figures_of_half(runs, half, requests)
        for name in verdicts:
            if name != AS_IT_IS:
                gain = measure_gain(
                    half.items,
                    verdicts,
                    name,
                    AS_IT_IS,
                    half.name,
                    measure=options.measure,
                    tested=half.name == SECOND and name == chosen,
                )
                gains.append(gain)
    changed = {name: _changed(runs, name, chosen) for name in runs.halves}
    return TuneOutcome(
        chosen,
        figures,
        gains,
        changed[FIRST],
        {name: _count_changed(rows) for name, rows in changed.items()},
        [*_reading(runs, chosen)],
        {**asdict(together), "tokens": sum(tokens.values())},
        asdict(paid),
        {
            name: str(text)
            for name, candidate in runs.candidates.items()
            if (text := candidate.changes.get("instructions"))
        },
    )


def _changed(runs: CandidateRuns, half: str, chosen: str) -> list[ChangedSide]:
    verdicts = runs.verdicts(half)
    return changed_sides(runs.halves[half].items, verdicts[AS_IT_IS], verdicts[chosen])


def _count_changed(rows: Sequence[ChangedSide]) -> dict[str, int]:
    """Count pairs that changed sides by who is right: chosen, as it is, neither."""
    return {
        right: sum(row.right == right for row in rows) for right in ("chosen", AS_IT_IS, "neither")
    }


def _reading(runs: CandidateRuns, chosen: str) -> Iterator[WorthReading]:
    """Yield the documents of the first half on which candidates err most, with what was said."""
    half = runs.halves[FIRST]
    misjudged = find_misjudged(half.items, runs.verdicts(FIRST).values())
    places = {(entry.query_id, entry.doc_id) for entry in misjudged}
    documents = read_documents(half.pools, places)
    people = {place: describe_people(runs.field.people, half.items, place) for place in places}
    plans = {name: runs.plans[name, FIRST] for name in dict.fromkeys((AS_IT_IS, chosen))}
    statements = {
        name: read_statements(plan.out, plan.protocol, places) for name, plan in plans.items()
    }
    yield from worth_reading(misjudged, documents, people, statements)
