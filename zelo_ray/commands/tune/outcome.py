"""Define what `tune` finds, and write it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from zelo_ray.commands.tune.choice import Gain
from zelo_ray.commands.tune.misjudged import ChangedSide, WorthReading
from zelo_ray.files.storage import write_text
from zelo_ray.files.tables import table_of, write_tables
from zelo_ray.options import AnnotateOptions, may_name_file

CHOSEN = "chosen.yaml"
_NOT_KEPT = {
    *("inputs", "out", "ledger", "replace", "dry_run", "pilot", "max_usd", "corpus", "queries"),
    *("columns", "retry_failures", "track"),
}
"""Options of this run that are not those of a later one."""


@dataclass(frozen=True, slots=True)
class CandidateFigures:
    """A candidate on one half of the queries: how far it agrees with people, and what it cost.

    ``concordance`` is the share of the judged pairs that are ordered as people do, where a tie
    counts half; by ``agreement`` it counts nothing; ``decided`` is where neither says a tie. Each
    has the ends of its 95% interval over samples of queries.
    ``tokens`` counts input and output. ``dollars`` is what is known, ``unpriced`` the number of
    answers without a price. A reply that two candidates use counts for both. ``kappa`` is
    Cohen's, weighted by squares, of whole grades; NaN if judges or people gave none.
    """

    candidate: str
    half: str
    protocol: str
    differs: str
    concordance: float
    concordance_low: float
    concordance_high: float
    agreement: float
    agreement_low: float
    agreement_high: float
    decided: float
    decided_low: float
    decided_high: float
    kappa: float
    kappa_low: float
    kappa_high: float
    items: int
    judged: int
    correct: int
    queries: int
    calls: int
    tokens: int
    dollars: float
    unpriced: int


@dataclass(slots=True)
class TuneOutcome:
    """Outcome of `tune`.

    ``gains`` are of each candidate against what is as it is, on each half; one of them is tested.
    ``changed_counts`` says by half how many pairs changed sides, and how many of them to the
    people's side and away from it. ``together`` is what was paid for the candidates' requests, each
    once; ``paid`` all that the ledger holds. ``texts`` are the instructions of each candidate that
    has its own.
    """

    chosen: str
    figures: list[CandidateFigures]
    gains: list[Gain]
    changed: list[ChangedSide]
    changed_counts: Mapping[str, Mapping[str, int]]
    reading: list[WorthReading]
    together: Mapping[str, Any]
    paid: Mapping[str, Any]
    texts: Mapping[str, str]
    notes: list[str] = field(default_factory=list)
    complete: bool = True


def write_outcome(out: str, outcome: TuneOutcome, chosen: AnnotateOptions) -> None:
    """Write the tables, and the chosen options, under a directory or URL."""
    tables = {
        "candidates": table_of(outcome.figures, CandidateFigures),
        "differences": table_of(outcome.gains, Gain),
        "changed": table_of(outcome.changed, ChangedSide),
        "worth_reading": table_of(outcome.reading, WorthReading),
    }
    write_tables(out, tables)
    write_text(out, CHOSEN, chosen_options(chosen))


def chosen_options(plan: AnnotateOptions) -> str:
    """Return the options of a run as a config file for `annotate`, without its places."""
    plain = plan.model_dump(mode="json", include=plan.model_fields_set - _NOT_KEPT)
    for name, value in plain.items():
        if isinstance(value, str) and may_name_file(type(plan).model_fields[name]):
            plain[name] = f"{value.rstrip()}\n"  # with a line's end it is no file's name
    return yaml.safe_dump(plain, allow_unicode=True, sort_keys=False)
