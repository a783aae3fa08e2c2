"""What a run came to: settled pools to files, and to figures."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import fsum, isnan
from typing import Any

import pyarrow as pa

from zelo_ray.formats.record import former_tables
from zelo_ray.formats.results import Results, drop_scores, remove_tables
from zelo_ray.formats.tables import schema_of
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import PROTOCOLS, load
from zelo_ray.records import Failure, Rater, Share


@dataclass(slots=True)
class Summary:
    """How a run ended."""

    out: str
    queries: int = 0
    documents: int = 0
    scored: int = 0
    judgments: int = 0
    failures: int = 0
    rejected: int = 0
    missing: int = 0
    """requests that a further round would make"""
    sweeps: int = 1
    """how often all of the input was asked about, since questions waited for other judges"""
    reasons: dict[str, int] = field(default_factory=dict)
    """how often requests gave no judgment for which reason; the first hundred reasons"""
    unscored: dict[str, str] = field(default_factory=dict)
    """query id to reason, for pools without scores"""
    dollars: float = 0.0
    """spent by this run"""
    unpriced: int = 0
    """its billed answers of unknown price"""
    dollars_in_all: float = 0.0
    """spent by all runs on this ledger"""
    maybe_dollars: float = 0.0
    """what all runs may have been billed besides, at most, for calls that were cut off"""
    damaged: int = 0
    """lines of the ledger that are set aside"""
    absent: dict[str, str] = field(default_factory=dict)
    """judges that were asked nothing more, with the reason"""
    pilot_of: int = 0
    """how many queries the input holds, if only some were judged as a pilot; else 0"""
    std_error: float | None = None
    """mean standard error of the scores: how far another draw of the same answers might lie"""
    truth_error: float | None = None
    """mean error of the scores about people, which has besides what judges get wrong together"""
    ambiguous: int = 0
    """graded documents on which the panel is split"""
    ungraded: int = 0
    """queries with scores, but without absolute ones"""
    raters: list[Rater] = field(default_factory=list)
    """how each judge grades, if the protocol measures that"""
    shares: list[Share] = field(default_factory=list)
    """means of the grades"""
    notes: list[str] = field(default_factory=list)
    """what else there is to know of how judges were measured, and of the ledger"""
    seconds: dict[str, float] = field(default_factory=dict)
    stands: bool = False
    """nothing had changed since an earlier run, whose results these are"""

    @property
    def complete(self) -> bool:
        """Whether every line was read, every request answered and every pool scored."""
        return not (self.failures or self.rejected or self.unscored or self.absent)


def _told(failure: Mapping[str, Any]) -> str:
    judge = failure["judge"]
    return f"{judge}: {failure['status']}, {failure['reason'].removeprefix(f'{judge}: ')}"


def write_results(
    blocks: Iterable[pa.Table], options: AnnotateOptions, *, judgments_only: bool = False
) -> Summary:
    """Write settled pools to the files of a run, in their order.

    Args:
        blocks: what `settle` gave.
        options: of the job.
        judgments_only: leave scores as earlier runs left them, but for what is learned from.
    """
    summary, protocol = Summary(out=options.out), load(options.protocol)
    errors, beyond = list[float](), list[float]()
    records = {**protocol.tables, "failures": Failure, "scores": protocol.score.record}
    tables = {name: schema_of(record) for name, record in records.items()}
    judgments = [name for name, each in protocol.judgments.items() if each.counts]
    if judgments_only and "scores" not in protocol.learned_from(options):
        drop_scores(options.out, tables.pop("scores"))
    lines = [] if judgments_only else ["annotated.jsonl"]
    with Results(options.out, tables, lines) as results:
        for block in blocks:
            counts = {}
            for name, schema in tables.items():
                structs = block[name].combine_chunks().flatten()
                counts[name] = len(structs)
                results.add(name, pa.Table.from_struct_array(structs).cast(schema))
            for scores in block["scores"].to_pylist():
                summary.ambiguous += sum(score.get("ambiguous", False) for score in scores)
                summary.ungraded += any(isnan(s.get("absolute_score", 0.0)) for s in scores)
                errors += [e for score in scores if math.isfinite(e := score["std_error"])]
                beyond += [e for score in scores if math.isfinite(e := score["truth_error"])]
            for line in block["annotated"].to_pylist() if lines else ():
                results.add_line("annotated.jsonl", line)
            summary.queries += block.num_rows
            summary.documents += sum(block["documents"].to_pylist())
            summary.missing += sum(block["missing"].to_pylist())
            summary.judgments += sum(counts[name] for name in judgments)
            summary.failures += counts["failures"]
            summary.scored += counts.get("scores", 0)
            for failures in block["failures"].to_pylist():
                for reason in map(_told, failures):
                    if reason in summary.reasons or len(summary.reasons) < 100:
                        summary.reasons[reason] = summary.reasons.get(reason, 0) + 1
            reasons = zip(block["query_id"].to_pylist(), block["reason"].to_pylist(), strict=True)
            summary.unscored |= {query_id: reason for query_id, reason in reasons if reason}
    remove_tables(options.out, _foreign(options))
    summary.std_error = fsum(errors) / len(errors) if errors else None
    summary.truth_error = fsum(beyond) / len(beyond) if beyond else None
    return summary


def _foreign(options: AnnotateOptions) -> set[str]:
    """Tables that other protocols write: of an earlier run, they would be taken for this one's."""
    protocol = load(options.protocol)
    tables = {name for each in PROTOCOLS for name in load(each).tables}
    tables |= former_tables(options.out)
    if not protocol.learned_from(options):
        tables |= {"raters", "shares"}
    return tables - set(protocol.tables)
