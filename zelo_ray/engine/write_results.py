"""Write the results of pools to files, and sum them up in figures."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from math import fsum, isnan
from typing import Any, Self

import fsspec
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.files.run_record import find_record
from zelo_ray.files.tables import ResultsWriter, schema_of
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import TABLES, load_protocol
from zelo_ray.protocols.server_figures import ServerFigures
from zelo_ray.reasons import Disabled, StopReason, Unscored, UnscoredReason, strip_name
from zelo_ray.records import Failure

LINES = "annotated.jsonl"
_REASONS = 100


@dataclass(slots=True)
class Summary:
    """The figures at the end of a run."""

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
    unscored: dict[str, Unscored] = field(default_factory=dict)
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
    disabled: dict[str, Disabled] = field(default_factory=dict)
    """judges that were asked nothing more, with the reason"""
    pilot_of: int = 0
    """how many queries the input holds, if only some were judged as a pilot; else 0"""
    std_error: float | None = None
    """mean standard error of the scores: how far another draw of the same answers might lie"""
    truth_error: float | None = None
    """mean error of the scores about people, which has besides what judges get wrong together"""
    is_truth_error_learned: bool = False
    """whether people's labels say what judges get wrong together; else that is an assumption"""
    ambiguous: int = 0
    """graded documents on which the panel is split"""
    ungraded: int = 0
    """queries with scores, but without absolute ones"""
    judgments_by_judge: dict[str, dict[str, int]] = field(default_factory=dict)
    """by judge, how many judgments of it each table holds"""
    answers_by_judge: dict[str, int] = field(default_factory=dict)
    """by judge, how many of its requests gave judgments: an answer may give many rows"""
    failures_by_judge: dict[str, dict[str, int]] = field(default_factory=dict)
    """by judge, how many of its requests ended with which status, without a judgment"""
    servers: dict[str, ServerFigures] = field(default_factory=dict)
    """by judge, which models gave its answers, and what is known of its prompts' tokens"""
    notes: list[str] = field(default_factory=list)
    """what else there is to know of how judges were measured, and of the ledger"""
    seconds: dict[str, float] = field(default_factory=dict)
    up_to_date: bool = False
    """nothing had changed since an earlier run, whose results these are"""

    @classmethod
    def from_record(cls, out: str, figures: Mapping[str, Any]) -> Self:
        """Build the summary of a run from what its record holds."""
        names = {column.name for column in fields(cls)} - {"out"}
        plain = {name: value for name, value in figures.items() if name in names}
        plain["disabled"] = {
            judge: Disabled(StopReason(row["code"]), row["message"])
            for judge, row in figures.get("disabled", {}).items()
        }
        plain["unscored"] = _unscored_in(figures.get("unscored", {}))
        plain["servers"] = _servers_in(figures.get("servers", {}))
        return cls(out, **plain)

    @property
    def complete(self) -> bool:
        """Return whether every line was read, every request answered and every pool scored."""
        return not (self.failures or self.rejected or self.unscored or self.disabled)


def _unscored_in(rows: Mapping[str, Mapping[str, str]]) -> dict[str, Unscored]:
    """Return queries without scores, with the reason, from rows as of JSON."""
    return {
        query_id: Unscored(UnscoredReason(row["code"]), row["message"])
        for query_id, row in rows.items()
    }


def _servers_in(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, ServerFigures]:
    """Return what is known of the judges' servers, from rows as of JSON."""
    return {judge: ServerFigures(**row) for judge, row in rows.items()}


def _failure_reason(failure: Mapping[str, Any]) -> str:
    judge = failure["judge"]
    return f"{judge}: {failure['status']}, {strip_name(failure['reason'], judge)}"


@dataclass(frozen=True, slots=True)
class ResultTables:
    """The tables and lines that are written from results."""

    tables: Mapping[str, pa.Schema]
    lines: Sequence[str]
    judgments: Sequence[str]
    """the tables whose rows count as judgments"""

    @classmethod
    def for_options(cls, options: AnnotateOptions) -> Self:
        """Return what a job writes."""
        protocol = load_protocol(options.protocol)
        records = {
            **protocol.tables,
            "failures": Failure,
            "scores": protocol.scores_of(options).record,
        }
        tables = {name: schema_of(record) for name, record in records.items()}
        judgments = [name for name, kind in protocol.judgments.items() if kind.counts]
        return cls(tables, [LINES], judgments)


@dataclass(slots=True)
class ResultCounts:
    """Figures summed over the results of pools."""

    queries: int = 0
    documents: int = 0
    scored: int = 0
    judgments: int = 0
    failures: int = 0
    missing: int = 0
    ambiguous: int = 0
    ungraded: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    judgments_by_judge: dict[str, dict[str, int]] = field(default_factory=dict)
    answers_by_judge: dict[str, int] = field(default_factory=dict)
    failures_by_judge: dict[str, dict[str, int]] = field(default_factory=dict)
    rows_by_table: dict[str, int] = field(default_factory=dict)
    servers: dict[str, ServerFigures] = field(default_factory=dict)
    unscored: dict[str, Unscored] = field(default_factory=dict)
    errors: list[float] = field(default_factory=list)
    """numbers that add up to the sum of the standard errors, of twice a float's precision"""
    errors_of: int = 0
    beyond: list[float] = field(default_factory=list)
    """the same of the errors about people"""
    beyond_of: int = 0

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` gives."""
        figures = orjson.loads(text)
        figures["servers"] = _servers_in(figures["servers"])
        return cls(**{**figures, "unscored": _unscored_in(figures["unscored"])})

    def to_json(self) -> str:
        """Return the figures as they travel."""
        return orjson.dumps(asdict(self)).decode()

    def add(self, block: pa.Table, written: ResultTables) -> None:
        """Add the figures of a block of results."""
        sizes = {name: pc.sum(pc.list_value_length(block[name])).as_py() for name in written.tables}
        counts = {name: size or 0 for name, size in sizes.items()}
        for name, size in counts.items():
            self.rows_by_table[name] = self.rows_by_table.get(name, 0) + size
        errors, beyond = list[float](), list[float]()
        for scores in block["scores"].to_pylist():
            errors += [e for score in scores if math.isfinite(e := score["std_error"])]
            beyond += [e for score in scores if math.isfinite(e := score["truth_error"])]
            self.ambiguous += sum(score.get("ambiguous", False) for score in scores)
            self.ungraded += any(isnan(s.get("absolute_score", 0.0)) for s in scores)
        self.errors, self.errors_of = _summed(self.errors + errors), self.errors_of + len(errors)
        self.beyond, self.beyond_of = _summed(self.beyond + beyond), self.beyond_of + len(beyond)
        self.queries += block.num_rows
        self.documents += sum(block["documents"].to_pylist())
        self.missing += sum(block["missing"].to_pylist())
        self.judgments += sum(counts[name] for name in written.judgments)
        self.failures += counts["failures"]
        self.scored += counts.get("scores", 0)
        for failures in block["failures"].to_pylist():
            self._add_reasons(Counter(map(_failure_reason, failures)))
            for failure in failures:
                _count(self.failures_by_judge, failure["judge"], failure["status"])
        answers = list[pa.Table]()
        for name in written.judgments:
            lists = block[name].combine_chunks()
            rows = pc.list_flatten(lists)
            judges = pc.struct_field(rows, "judge")
            for row in judges.value_counts().to_pylist():
                _count(self.judgments_by_judge, row["values"], name, row["counts"])
            has_key = rows.type.get_field_index("key") >= 0  # a debate has several
            keys = pc.struct_field(rows, "key") if has_key else pa.array(map(str, range(len(rows))))
            query = pc.list_parent_indices(lists)
            answers.append(pa.table({"query": query, "judge": judges, "key": keys}))
        if answers:
            requests = pa.concat_tables(answers).group_by(["query", "judge", "key"]).aggregate([])
            for row in requests["judge"].value_counts().to_pylist():
                judge, times = row["values"], row["counts"]
                self.answers_by_judge[judge] = self.answers_by_judge.get(judge, 0) + times
        for servers in block["servers"].to_pylist():
            self._add_servers(_servers_in(orjson.loads(servers)))
        query_ids, reasons = block["query_id"].to_pylist(), block["unscored"].to_pylist()
        rows = zip(query_ids, reasons, strict=True)
        self.unscored |= _unscored_in({query_id: row for query_id, row in rows if row})

    def join(self, later: "ResultCounts") -> None:
        """Add the figures of later blocks."""
        for figure in fields(self):
            if isinstance(value := getattr(later, figure.name), int):
                setattr(self, figure.name, getattr(self, figure.name) + value)
        self._add_reasons(later.reasons)
        for judge, times in later.answers_by_judge.items():
            self.answers_by_judge[judge] = self.answers_by_judge.get(judge, 0) + times
        for name, size in later.rows_by_table.items():
            self.rows_by_table[name] = self.rows_by_table.get(name, 0) + size
        for name in ("judgments_by_judge", "failures_by_judge"):
            for judge, counts in getattr(later, name).items():
                for kind, count in counts.items():
                    _count(getattr(self, name), judge, kind, count)
        self._add_servers(later.servers)
        self.unscored |= later.unscored
        self.errors, self.beyond = self.errors + later.errors, self.beyond + later.beyond

    def _add_reasons(self, reasons: Mapping[str, int]) -> None:
        for reason, count in reasons.items():
            if reason in self.reasons or len(self.reasons) < _REASONS:
                self.reasons[reason] = self.reasons.get(reason, 0) + count

    def _add_servers(self, servers: Mapping[str, ServerFigures]) -> None:
        for judge, figures in servers.items():
            self.servers.setdefault(judge, ServerFigures()).add(figures)

    def summary(self, out: str) -> Summary:
        """Return these figures as the summary of a run."""
        figures = {figure.name: getattr(self, figure.name) for figure in fields(self)}
        del figures["rows_by_table"]
        errors, of = figures.pop("errors"), figures.pop("errors_of")
        beyond, people = figures.pop("beyond"), figures.pop("beyond_of")
        return Summary(
            out=out,
            **figures,
            std_error=fsum(errors) / of if of else None,
            truth_error=fsum(beyond) / people if people else None,
        )


def _count(by_judge: dict[str, dict[str, int]], judge: str, kind: str, times: int = 1) -> None:
    counts = by_judge.setdefault(judge, {})
    counts[kind] = counts.get(kind, 0) + times


def _summed(values: Sequence[float]) -> list[float]:
    """Return a sum and its rounding error, so that the split into blocks matters little."""
    total = fsum(values)
    return [total, fsum([*values, -total])]


def add_blocks(
    results: ResultsWriter, blocks: Iterable[pa.Table], written: ResultTables
) -> ResultCounts:
    """Write blocks of what `build_results` gave, in order, and sum their figures."""
    counted = ResultCounts()
    for block in blocks:
        for name, schema in written.tables.items():
            structs = block[name].combine_chunks().flatten()
            results.add(name, pa.Table.from_struct_array(structs).cast(schema))
        for line in block["annotated"].to_pylist() if written.lines else ():
            results.add_line(LINES, line)
        counted.add(block, written)
    return counted


def write_results(blocks: Iterable[pa.Table], options: AnnotateOptions) -> Summary:
    """Write the results of pools to the files of a run, in order, each table to one file.

    Args:
        blocks: what `build_results` gave.
        options: of the job.
    """
    written = ResultTables.for_options(options)
    with ResultsWriter(options.out, written.tables, written.lines) as results:
        counted = add_blocks(results, blocks, written)
    remove_foreign(options, counted.rows_by_table)
    return counted.summary(options.out)


def remove_foreign(options: AnnotateOptions, rows: Mapping[str, int]) -> None:
    """Remove tables of earlier runs that this protocol does not write, and those without a row."""
    protocol = load_protocol(options.protocol)
    before = find_record(options.out).get("before") or {}
    tables = {*TABLES, *before.get("judgments", ())}
    if not protocol.learns(options):
        tables |= {"raters", "shares", "consensus"}
    kept = {n for n, kind in protocol.judgments.items() if rows.get(n) or not kind.optional}
    tables |= {*protocol.tables} - kept
    remove_files(options.out, [f"{name}.parquet" for name in tables - kept])


def remove_files(out: str, names: Iterable[str]) -> None:
    """Remove files of a directory that are there."""
    fs, root = fsspec.url_to_fs(out)
    for name in names:
        if fs.exists(path := f"{root}/{name}"):
            fs.rm_file(path)
