"""Explain in plain words why a document has its score, or how a query went."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from zelo_ray.commands.explain import meetings, queries
from zelo_ray.commands.explain.paragraphs import (
    ExplanationPart,
    first_words,
    make_part,
    ranges,
    text_part,
)
from zelo_ray.commands.explain.queries import complete_name, read_pool
from zelo_ray.errors import NotFoundError
from zelo_ray.files.run_record import read_record, unfinished_message, unfinished_record
from zelo_ray.files.storage import exists
from zelo_ray.files.tables import StoredTable, schema_of
from zelo_ray.names import did_you_mean
from zelo_ray.options import JudgingOptions
from zelo_ray.protocols import (
    Judgments,
    Protocol,
    QueryResults,
    ScoreKind,
    protocol_of_record,
    recorded_scores,
)
from zelo_ray.protocols.narrative import indented, of_failures
from zelo_ray.protocols.options import recorded_pooling
from zelo_ray.protocols.texts import shown_document, shown_query
from zelo_ray.providers.registry import judges_without_prompt
from zelo_ray.records import Failure, Grade, GradedScore, Pool, Rater, Vote

_LISTED = 20  # documents that a message names


@dataclass(frozen=True, slots=True)
class _Query:
    """Results of one query, with the protocol that explains them."""

    id: str
    protocol: Protocol
    score_kind: ScoreKind
    outcome: QueryResults
    why: str
    """why there are no scores, if the run records it"""
    pool: Pool | None
    """its texts, if the run has them"""
    raters: tuple[Rater, ...]
    """the measured severity and weight of judges that graded"""
    is_truth_error_learned: bool
    """whether people's labels say what judges get wrong together"""

    @property
    def texts(self) -> dict[str, str]:
        """Return the texts of the documents, as judges saw them."""
        if self.pool is None:
            return {}
        options = JudgingOptions.model_construct(**self.outcome.options)
        shown = (shown_document(document, self.pool, options) for document in self.pool.documents)
        return {document.id: document.content for document in shown}

    @property
    def judged(self) -> set[str]:
        """Return the documents with a score or a judgment."""
        doc_ids = set(self.outcome.scores)
        for name, kind in self.protocol.counted.items():
            doc_ids.update(*(kind.documents_of(row) for row in self.outcome.judgments[name]))
        return doc_ids

    def rows(self, kind: type) -> list[Any]:
        """Return all judgments of one type."""
        kinds = self.protocol.judgments.items()
        return [
            row for name, k in kinds if k.record is kind for row in self.outcome.judgments[name]
        ]

    def headline(self, doc_id: str) -> str:
        """Return a line with a document's score."""
        if score := self.outcome.scores.get(doc_id):
            return self.score_kind.describe(score, len(self.outcome.scores), self.protocol.noun)
        return f"{doc_id}: no score" + (f", as {self.why}" if self.why else "")

    def explain_score(self, doc_id: str | None = None) -> Iterator[str]:
        """Explain in words what a score means."""
        kind = self.score_kind
        score = self.outcome.scores.get(doc_id or "")
        if score and kind.unit == "logits":
            yield meetings.beats_average(score)
        text = kind.explain if isinstance(kind.explain, str) else kind.explain(self.outcome.options)
        if text and self.outcome.scores:
            yield f"{text[0].upper()}{text[1:].rstrip('.')}."
        errors = [score.truth_error for score in self.outcome.scores.values()]
        if any(map(isfinite, errors)) and not self.is_truth_error_learned:
            yield "The error about people is assumed: no label of people shows it in this run."

    def narrative(self, doc_id: str | None) -> Iterator[Iterable[str]]:
        """Yield the judgments, kind by kind: all, or those about a document."""
        for name, kind in self.protocol.judgments.items():
            if kind.narrative:
                yield from kind.narrative(self.outcome, doc_id)
                continue
            for row in self.outcome.judgments[name]:
                if doc_id in (None, *kind.documents_of(row)):
                    yield _plain_lines(kind, row)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The account of a query, or of a document's score, in words and as records."""

    query_id: str
    doc_id: str
    """empty for a query"""
    parts: Sequence[ExplanationPart]
    scores: Sequence[Any]
    """of the documents by rank, or of the one document"""
    judgments: Mapping[str, Sequence[Any]]
    """of all documents or of the one, by kind"""
    failures: Sequence[Failure]

    @property
    def best(self) -> str:
        """Return the first document of the ranking; empty without one."""
        return next((part.best for part in self.parts if part.best), "")


def explain(out: str, query_id: str, doc_id: str | None = None) -> str:
    """Explain a document's score and how it came about, as one text.

    Raises:
        NotFoundError: no such results, query or document.
    """
    parts = build_explanation(out, query_id, doc_id).parts
    return "\n\n".join(paragraph.whole() for paragraph in parts)


def build_explanation(out: str, query_id: str, doc_id: str | None = None) -> Explanation:
    """Explain a document's score by its judgments, against the best opponents first.

    Without a document: every score of the query by rank, every tournament or verdict, and every
    failure. An id may be shortened if it stays unique.

    Raises:
        NotFoundError: no such results, query or document, or the run is not finished.
    """
    if unfinished_record(out) is not None:
        raise NotFoundError(unfinished_message(out))
    run = read_record(f"{out}/run.json") if exists(f"{out}/run.json") else {}
    query = _query(out, run, query_id)
    if not (query.judged or query.outcome.failures):
        query = _query(out, run, _find_query(out, query_id, queries.known_ids(out)))
    return _explain_query(out, query, doc_id)


def _find_query(out: str, name: str, query_ids: Sequence[str]) -> str:
    """Find the query with this id, beginning of an id, or text.

    Raises:
        NotFoundError: there is none, or several.
    """
    query_id = complete_name(name, query_ids)
    if query_id not in query_ids:
        query_id = queries.find_by_text(name, [f"{out.rstrip('/')}/annotated.jsonl"]) or query_id
    if query_id != name:
        return query_id
    near = did_you_mean(name, query_ids) if name not in query_ids else ""
    raise NotFoundError(f"{out} has no judgments of a query {name!r}{near}")


def _explain_query(out: str, query: _Query, name: str | None) -> Explanation:
    """Explain a query, or its document of this name."""
    if not (query.judged or query.outcome.failures):
        raise NotFoundError(f"{out} has no judgments of a query {query.id!r}")
    doc_id = None if name is None else _find_document(query, name)
    held, kinds = query.outcome, query.protocol.judgments
    return Explanation(
        query_id=query.id,
        doc_id=doc_id or "",
        parts=[*_build_parts(query, doc_id)],
        scores=[
            score
            for score in sorted(held.scores.values(), key=lambda score: (score.rank, score.doc_id))
            if doc_id in (None, score.doc_id)
        ],
        judgments={
            kind_name: [
                row
                for row in held.judgments[kind_name]
                if doc_id is None or doc_id in kind.documents_of(row)
            ]
            for kind_name, kind in kinds.items()
        },
        failures=held.failures if doc_id is None else _failures(query, doc_id),
    )


def _build_parts(query: _Query, doc_id: str | None) -> Iterator[ExplanationPart]:
    options = query.outcome.options
    if query.pool:
        shown = shown_query(query.pool, options.get("show_query") or ())
        yield text_part(f"query {query.id}", shown)
    if words := options.get("instructions"):
        judges = {row.judge for rows in query.outcome.judgments.values() for row in rows}
        note = (
            ""
            if len(judges_without_prompt(judges)) < len(judges)
            else " (none of these reads prompts)"
        )
        yield text_part(f"what judges were told counts{note}", str(words))
    if template := options.get("template"):
        yield text_part("the template of their prompts", str(template))
    yield from _query_parts(query) if doc_id is None else _document_parts(query, doc_id)


def _query_parts(query: _Query) -> Iterator[ExplanationPart]:
    """Explain the results of the query."""
    by_rank = sorted(query.outcome.scores.values(), key=lambda score: (score.rank, score.doc_id))
    without = "no scores" + (f", as {query.why}" if query.why else "")
    texts, rows = query.texts, list[str]()
    for score in by_rank:
        rows.append(query.headline(score.doc_id))
        if score.doc_id in texts:
            rows.append(f"    {first_words(texts[score.doc_id])}")
    ranking = make_part("rows", rows or [without])
    yield replace(ranking, best=by_rank[0].doc_id) if by_rank else ranking
    same = "; ".join(ranges(meetings.ranks_not_different(by_rank)))
    sentences = (
        [f"Neighbours are not significantly different (95%) at ranks {same}."] if same else []
    )
    if sentences := [*sentences, *query.explain_score()]:
        yield make_part("said", sentences)
    for paragraph in query.narrative(None):
        yield make_part("judgments", paragraph)
    for failure in of_failures(query.outcome.failures):
        yield make_part("judgments", [failure])


def _document_parts(query: _Query, doc_id: str) -> Iterator[ExplanationPart]:
    """Explain why the document has its score."""
    texts = query.texts
    if doc_id in texts:
        yield text_part(f"document {doc_id}", texts[doc_id])
    yield make_part("said", [query.headline(doc_id), *query.explain_score(doc_id)])
    if matches := meetings.find_meetings(doc_id, query.rows(Vote), query.outcome.scores):
        yield make_part("rows", meetings.format_meetings(matches, texts))
    elif others := _others(query, doc_id):
        yield make_part(
            "rows", ["It was compared with:", *(f"  {o}: {first_words(texts[o])}" for o in others)]
        )
    if grades := [row for row in query.rows(Grade) if row.doc_id == doc_id]:
        graded = query.protocol.score.record is GradedScore
        plain = graded and recorded_pooling(query.outcome.options) == "mean"
        yield make_part("rows", meetings.format_grades(grades, query.raters, plain=plain))
    for paragraph in query.narrative(doc_id):
        yield make_part("judgments", paragraph)
    for failure in of_failures(_failures(query, doc_id)):
        yield make_part("judgments", [failure])


def _others(query: _Query, doc_id: str) -> list[str]:
    """Return the documents with a known text that it was compared with by other judgments."""
    about = [
        kind.documents_of(row)
        for name, kind in query.protocol.counted.items()
        for row in query.outcome.judgments[name]
    ]
    opponents = dict.fromkeys(
        opponent for docs in about if doc_id in docs for opponent in docs if opponent != doc_id
    )
    texts = query.texts
    return [opponent for opponent in opponents if opponent in texts]


def _find_document(query: _Query, doc_id: str) -> str:
    """Find the document with this id, or beginning of an id.

    Raises:
        NotFoundError: there is none, or several.
    """
    doc_ids = [*query.outcome.scores]
    doc_ids += sorted(
        (query.judged | {d for f in query.outcome.failures for d in f.doc_ids}) - {*doc_ids}
    )
    full_id = complete_name(doc_id, doc_ids)
    if full_id in doc_ids:
        return full_id
    if full_id in query.texts:
        raise NotFoundError(
            f"query {query.id!r} has a document {full_id!r}, but no judge was asked about it: "
            "failures, --document-limit or the protocol left it out"
        )
    listed = ", ".join(doc_ids[:_LISTED])
    near = did_you_mean(doc_id, doc_ids)
    raise NotFoundError(
        f"query {query.id!r} has no judged document {doc_id!r}{near}; it has {listed}"
    )


def _failures(query: _Query, doc_id: str) -> list[Failure]:
    return [failure for failure in query.outcome.failures if doc_id in failure.doc_ids]


def _plain_lines(kind: Judgments, row: Any) -> Iterator[str]:
    """Yield the lines of a judgment whose kind has no narrative of its own."""
    yield f"  {kind.noun} by {row.judge} on {' and '.join(kind.documents_of(row))}"
    yield from indented(kind.describe(row))


def _query(out: str, run: Mapping[str, Any], query_id: str) -> _Query:
    protocol = protocol_of_record(run)
    kind = recorded_scores(run)
    held = QueryResults(
        scores={row.doc_id: row for row in _records(out, "scores", query_id, kind.record)},
        judgments={
            name: _records(out, name, query_id, kind) for name, kind in protocol.tables.items()
        },
        failures=_records(out, "failures", query_id, Failure),
        options=run.get("options", {}),
    )
    unscored = run.get("summary", {}).get("unscored", {}).get(query_id, {})
    return _Query(
        query_id,
        protocol,
        kind,
        held,
        unscored.get("message", ""),
        read_pool(out, query_id),
        _raters(out),
        run.get("summary", {}).get("is_truth_error_learned", False),
    )


def _raters(out: str) -> tuple[Rater, ...]:
    if not exists(f"{out}/raters.parquet"):
        return ()
    names = schema_of(Rater).names
    stored = StoredTable(f"{out}/raters.parquet", schema_of(Rater))
    rows = stored.read(names).to_pylist()
    return tuple(Rater(**row) for row in rows)


def _records(out: str, table: str, query_id: str, kind: type) -> list[Any]:
    """Read a query's rows, without unknown columns; none where the file is missing."""
    if not exists(f"{out}/{table}.parquet"):
        if table != "scores":
            return []
        raise NotFoundError(f"{out} has no scores.parquet: is it the --out of a finished run?")
    names, schema = schema_of(kind).names, schema_of(kind)
    stored = StoredTable(f"{out}/{table}.parquet", schema)
    rows = (row for part in stored.rows_of_queries([query_id]) for row in part.to_pylist())
    return [kind(**{name: row[name] for name in names if name in row}) for row in rows]
