"""Write the results of pools to files, and sum them up in figures."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import fsum, isfinite, isnan

import fsspec
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.files.run_record import find_record
from zelo_ray.files.tables import ResultsWriter, schema_of
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import TABLES, Protocol, load_protocol
from zelo_ray.protocols.server_figures import ServerFigures
from zelo_ray.reasons import Disabled, Unscored, UnscoredReason, strip_name
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

    @property
    def complete(self) -> bool:
        """Return whether every line was read, every request answered and every pool scored."""
        return not (self.failures or self.rejected or self.unscored or self.disabled)


def write_results(blocks: Iterable[pa.Table], options: AnnotateOptions) -> Summary:
    """Write what `build_results` gave to the files of a run, in order, each table to one file."""
    protocol, summary = load_protocol(options.protocol), Summary(options.out)
    records = {**protocol.tables, "failures": Failure, "scores": protocol.scores_of(options).record}
    schemas = {name: schema_of(record) for name, record in records.items()}
    rows = Counter[str]()
    errors = dict[str, list[float]](std_error=[], truth_error=[])
    with ResultsWriter(options.out, schemas, [LINES]) as results:
        for block in blocks:
            for name, schema in schemas.items():
                structs = block[name].combine_chunks().flatten()
                results.add(name, pa.Table.from_struct_array(structs).cast(schema))
                rows[name] += len(structs)
            for line in block["annotated"].to_pylist():
                results.add_line(LINES, line)
            _count_pools(summary, block)
            _count_scores(summary, block, errors)
            _count_answers(summary, block, protocol)
    summary.judgments = sum(rows[name] for name in _counted(protocol))
    summary.failures, summary.scored = rows["failures"], rows["scores"]
    std_errors, truth_errors = errors.values()
    summary.std_error = fsum(std_errors) / len(std_errors) if std_errors else None
    summary.truth_error = fsum(truth_errors) / len(truth_errors) if truth_errors else None
    _remove_other_tables(options, rows)
    return summary


def _counted(protocol: Protocol) -> list[str]:
    """Return the tables whose rows count as judgments."""
    return [name for name, kind in protocol.judgments.items() if kind.counts]


def _count_pools(summary: Summary, block: pa.Table) -> None:
    summary.queries += block.num_rows
    summary.documents += sum(block["documents"].to_pylist())
    summary.missing += sum(block["missing"].to_pylist())
    unscored = map(orjson.loads, block["unscored"].to_pylist())
    for query_id, row in zip(block["query_id"].to_pylist(), unscored, strict=True):
        if row:
            summary.unscored[query_id] = Unscored(UnscoredReason(row["code"]), row["message"])
    for servers in block["servers"].to_pylist():
        for judge, figures in orjson.loads(servers).items():
            summary.servers.setdefault(judge, ServerFigures()).add(ServerFigures(**figures))


def _count_scores(summary: Summary, block: pa.Table, errors: Mapping[str, list[float]]) -> None:
    for scores in block["scores"].to_pylist():
        for name, values in errors.items():
            values.extend(filter(isfinite, (score[name] for score in scores)))
        summary.ambiguous += sum(score.get("ambiguous", False) for score in scores)
        summary.ungraded += any(isnan(score.get("absolute_score", 0.0)) for score in scores)


def _count_answers(summary: Summary, block: pa.Table, protocol: Protocol) -> None:
    for failure in (failure for row in block["failures"].to_pylist() for failure in row):
        judge, status = failure["judge"], failure["status"]
        reason = f"{judge}: {status}, {strip_name(failure['reason'], judge)}"
        if reason in summary.reasons or len(summary.reasons) < _REASONS:
            summary.reasons[reason] = summary.reasons.get(reason, 0) + 1
        _add(summary.failures_by_judge.setdefault(judge, {}), status, 1)
    answers = list[pa.Table]()
    for name in _counted(protocol):
        lists = block[name].combine_chunks()
        rows = pc.list_flatten(lists)
        judges = pc.struct_field(rows, "judge")
        for row in judges.value_counts().to_pylist():
            _add(summary.judgments_by_judge.setdefault(row["values"], {}), name, row["counts"])
        has_key = rows.type.get_field_index("key") >= 0  # a debate has several
        keys = pc.struct_field(rows, "key") if has_key else pa.array(map(str, range(len(rows))))
        query = pc.list_parent_indices(lists)
        answers.append(pa.table({"query": query, "judge": judges, "key": keys}))
    if answers:
        requests = pa.concat_tables(answers).group_by(["query", "judge", "key"]).aggregate([])
        for row in requests["judge"].value_counts().to_pylist():
            _add(summary.answers_by_judge, row["values"], row["counts"])


def _add(counts: dict[str, int], name: str, number: int) -> None:
    counts[name] = counts.get(name, 0) + number


def _remove_other_tables(options: AnnotateOptions, rows: Mapping[str, int]) -> None:
    """Remove tables of earlier runs that this protocol does not write, and those without a row."""
    protocol = load_protocol(options.protocol)
    before = find_record(options.out).get("before") or {}
    tables = {*TABLES, *before.get("judgments", ())}
    if not protocol.learns(options):
        tables |= {"raters", "shares"}
    kept = {n for n, kind in protocol.judgments.items() if rows.get(n) or not kind.optional}
    tables |= {*protocol.tables} - kept
    remove_files(options.out, [f"{name}.parquet" for name in tables - kept])


def remove_files(out: str, names: Iterable[str]) -> None:
    """Remove files of a directory that are there."""
    fs, root = fsspec.url_to_fs(out)
    for name in names:
        if fs.exists(path := f"{root}/{name}"):
            fs.rm_file(path)
