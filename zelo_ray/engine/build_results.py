"""Build results from the ledger: replies become judgments, judgments become scores. No calls."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from zelo_ray.files.pools import Line, annotate_line
from zelo_ray.files.tables import table_of
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Learned, Replies, Step, advance, load_protocol
from zelo_ray.protocols.progress import PlanError
from zelo_ray.reasons import Disabled, Unscored, UnscoredReason
from zelo_ray.records import Failure, Judge, Pool


def build_results(
    lines: Sequence[Line],
    panel: Sequence[Judge],
    options: AnnotateOptions,
    ledger: Replies,
    *,
    disabled: Mapping[str, Disabled] | None = None,
    learned: Learned | None = None,
) -> pa.Table:
    """Judge and fit good lines from what the ledger holds; return a row for each.

    Missing answers of judges that are ``disabled`` count as failed. ``learned`` is
    what the protocol has learned from all judgments; None while some are missing.
    """
    protocol = load_protocol(options.protocol)
    pools = [line.pool for line in lines if line.pool]
    steps = list[Step]()
    for pool in pools:
        try:
            step = advance(protocol.rounds(pool, panel, options), ledger, disabled)
        except PlanError:
            plain = replace(pool, plan={})
            step = advance(protocol.rounds(plain, panel, options), ledger, disabled)
        steps.append(step)
    return build_results_from_steps(lines, steps, options, learned)


def build_results_from_steps(
    lines: Sequence[Line],
    steps: Sequence[Step],
    options: AnnotateOptions,
    learned: Learned | None = None,
) -> pa.Table:
    """Fit good lines from how far the protocol got with each; see `build_results`."""
    protocol = load_protocol(options.protocol)
    pools = [line.pool for line in lines if line.pool]
    covered = [_judgments_to_score(step, options) for step in steps]
    fits = protocol.fit(covered, options, learned)
    why = [
        _why_unscored(pool, step, options) or fit.reason
        for pool, step, fit in zip(pools, steps, fits, strict=True)
    ]
    scores = [() if reason else fit.scores for reason, fit in zip(why, fits, strict=True)]
    kind = protocol.scores_of(options)
    annotated = [
        annotate_line(
            line.raw,
            {s.doc_id: {name: getattr(s, name) for name in kind.shown} for s in pool_scores},
            *kind.shown,
        )
        for line, pool_scores in zip(lines, scores, strict=True)
    ]
    judged = {
        name: _lists(
            [[j for j in step.judgments if isinstance(j, record)] for step in steps], record
        )
        for name, record in protocol.tables.items()
    }
    return pa.table(
        {
            "query_id": pa.array([pool.query_id for pool in pools], pa.string()),
            "documents": pa.array([len(pool.documents) for pool in pools], pa.int64()),
            "annotated": pa.array(annotated, pa.large_binary()),
            **judged,
            "failures": _lists([step.failures for step in steps], Failure),
            "scores": _lists(scores, kind.record),
            "unscored": pa.array(map(orjson.dumps, why), pa.binary()),
            "missing": pa.array([len(step.missing) for step in steps], pa.int64()),
            "servers": pa.array([orjson.dumps(step.servers) for step in steps], pa.binary()),
        }
    )


def _lists(rows: Sequence[Sequence[Any]], record: type) -> pa.ListArray:
    """Return the records of each pool: a list of structs, put together column by column."""
    ends = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    flat = table_of([entry for group in rows for entry in group], record)
    columns = [column.combine_chunks() for column in flat.columns]
    return pa.ListArray.from_arrays(
        ends, pa.StructArray.from_arrays(columns, fields=[*flat.schema])
    )


def _judgments_to_score(step: Step, options: AnnotateOptions) -> Sequence[Any]:
    """Return the judgments to score; those about single documents only where coverage is enough."""
    if not load_protocol(options.protocol).per_document:
        return step.judgments
    # A reply may hold several judgments, and counts once, as one that failed does.
    replies = {(judgment.doc_id, judgment.key) for judgment in step.judgments}
    judged = Counter(doc_id for doc_id, _ in replies)
    attempts = judged + Counter(doc_id for failure in step.failures for doc_id in failure.doc_ids)
    return [
        judgment
        for judgment in step.judgments
        if judged[judgment.doc_id] >= options.min_coverage * attempts[judgment.doc_id]
    ]


def _why_unscored(pool: Pool, step: Step, options: AnnotateOptions) -> Unscored | None:
    protocol = load_protocol(options.protocol)
    documents, takes = len(pool.documents), protocol.min_documents
    if not documents:
        return Unscored.because(UnscoredReason.NO_DOCUMENTS)
    if documents < takes:
        return Unscored.because(UnscoredReason.TOO_FEW_DOCUMENTS, held=documents, takes=takes)
    judged = {protocol.coverage_key(judgment) for judgment in step.judgments} - {None}
    attempts = judged | {protocol.coverage_key(failure) for failure in step.failures} - {None}
    if len(judged) < options.min_coverage * len(attempts) and not (
        protocol.per_document and judged
    ):
        return Unscored.because(
            UnscoredReason.LOW_COVERAGE, judged=len(judged), asked=len(attempts)
        )
    return None
