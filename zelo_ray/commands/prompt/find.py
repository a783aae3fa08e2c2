"""Find the requests that judges get about one query, exactly as they are sent, without a call.

Requests of the first round follow from the input alone. Those of later rounds follow from replies:
they are found as far as the ledger of a run has them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from zelo_ray.command_options import PromptOptions
from zelo_ray.commands.explain.find import complete_name, find_by_text
from zelo_ray.engine.preview_input import PreviewedInput, preview_input
from zelo_ray.engine.tokens import Estimates, measure_request
from zelo_ray.errors import InputError, NotFoundError
from zelo_ray.files.run_record import RUN, read_record, unfinished_record
from zelo_ray.names import did_you_mean
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Progress, find_protocol, recorded_options
from zelo_ray.providers import load_provider
from zelo_ray.providers.pricing import highest_price, price
from zelo_ray.providers.registry import judges_without_prompt
from zelo_ray.records import Pool, Reply, Request, response_schema

_EXAMPLE_CODE = "The code in the markers is an example: each ledger draws its own."
_NAMED = 20  # documents that a message lists


@dataclass(frozen=True, slots=True)
class ShownRequest:
    """A request as it is sent to a judge, with what it takes."""

    judge: str
    round: int
    """from 1"""
    query_id: str
    doc_ids: tuple[str, ...]
    """in the order in which the judge sees them"""
    system: str
    user: str
    schema: Mapping[str, Any] | None
    """JSON schema of the answer; None for prose"""
    options: Mapping[str, Any]
    """of the judge, without those that are not set"""
    body: Mapping[str, Any] | None
    """the body of the HTTP request; None where none is sent"""
    reads_prompt: bool
    """whether the judge reads the prompt at all: free judges compute their answers otherwise"""
    key: str
    input_tokens: int
    """as expected: about a token for three bytes"""
    output_tokens: int | None
    """the most that the answer may have; None: there is no limit"""
    dollars: float | None
    """as expected; None where the price is unknown"""
    most_dollars: float
    """the most that the call may cost; 0 where the price is unknown"""
    reply: Reply | None
    """the reply that the ledger has"""


@dataclass(frozen=True, slots=True)
class FoundRequests:
    """The requests about one query, as far as they are known."""

    query_id: str
    query: str
    requests: tuple[ShownRequest, ...]
    """those to show, by round and judge"""
    known_count: int
    """the number of all that are known of the query"""
    has_later_rounds: bool
    """whether the protocol asks more, by what the judges reply"""
    notes: tuple[str, ...] = field(default=())


def find_requests(options: PromptOptions, environ: Mapping[str, str]) -> FoundRequests:
    """Find the requests that the options of `prompt` ask for: see `requests_about`."""
    return requests_about(options, environ, options.query, options.doc)


def requests_of_run(
    out: str, environ: Mapping[str, str], query: str, doc_ids: Sequence[str] = ()
) -> FoundRequests:
    """Find the requests of a run about a query, or about some of its documents, as they were sent.

    Args:
        out: directory or URL of the run, whose input must still be where it was.
        environ: the environment variables; no key is needed.
        query: as for `requests_about`.
        doc_ids: as for `requests_about`.

    Raises:
        NotFoundError: there is no record of a run.
        InputError, OptionError, PanelError: as `requests_about`.
    """
    record = unfinished_record(out)
    try:
        options = recorded_options(read_record(f"{out}/{RUN}") if record is None else record)
    except (InputError, KeyError, TypeError, ValidationError):
        raise NotFoundError(f"{out} has no record of annotate that says what was asked") from None
    return requests_about(options.model_copy(update={"out": out}), environ, query, doc_ids)


def requests_about(
    options: AnnotateOptions,
    environ: Mapping[str, str],
    query: str = "",
    doc_ids: Sequence[str] = (),
) -> FoundRequests:
    """Find the requests about a query, or about some of its documents, as they are sent.

    Args:
        options: of the job; its ``out`` may be empty.
        environ: the environment variables; no key is needed.
        query: id of the query, its beginning or a part of the text; empty: the first one.
        doc_ids: ids of documents, or their beginnings: the requests that show all of these, and of
            one all that show it. Empty: one request of each judge and round.

    Raises:
        InputError, OptionError, PanelError, NotFoundError: the input cannot be read, or has no
            such query or document; or no request shows these documents together.
    """
    notes = [] if options.ledger_dir else [_EXAMPLE_CODE]
    with preview_input(options, environ, notes.append) as source:
        pool = _find_pool(source, query)
        progress = Progress(
            find_protocol(source.options.protocol).rounds(pool, source.panel, source.options),
            remember=True,
        )
        step = progress.step(source.ledger)
        answered = [r for r in progress.answered_requests if isinstance(r, Request)]
        by_key = {request.key: request for request in (*answered, *step.missing)}
        chosen = _choose([*by_key.values()], progress.rounds, pool, doc_ids)
        flags = source.ledger.contains([request.key for request in chosen])
        requests = [
            _show(
                request.with_codes(source.salt),
                progress.rounds[request.key],
                source.options,
                source.ledger.read([request.key])[0] if is_there else None,
            )
            for request, is_there in zip(chosen, flags, strict=True)
        ]
    has_later_rounds = bool(step.missing) and find_protocol(options.protocol).max_rounds != 1
    return FoundRequests(
        pool.query_id, pool.query, tuple(requests), len(by_key), has_later_rounds, tuple(notes)
    )


def _find_pool(source: PreviewedInput, name: str) -> Pool:
    """Return the pool of a query by its id, the beginning of it, or its text.

    Raises:
        NotFoundError: there is none, or there are several.
    """
    query_ids, invalid = list[str](), ""
    for line in source.lines():
        if line.pool and name in ("", line.pool.query_id):
            return line.pool
        if line.pool:
            query_ids.append(line.pool.query_id)
        elif not invalid:
            invalid = f"; {line.file}, line {line.number}: {line.reason}"
    if not (name and query_ids):
        raise NotFoundError(f"the input holds no pool{invalid}")
    query_id = complete_name(name, query_ids)
    if query_id not in query_ids:
        query_id = find_by_text(name, source.shards)
    if query_id not in query_ids:
        near = did_you_mean(name, query_ids)
        raise NotFoundError(f"the input has no query {name!r}{near}{invalid}")
    return next(p for line in source.lines() if (p := line.pool) and p.query_id == query_id)


def _choose(
    requests: Sequence[Request], rounds: Mapping[str, int], pool: Pool, doc_ids: Sequence[str]
) -> list[Request]:
    """Return the requests that show these documents; else the first of each judge and round.

    Raises:
        NotFoundError: there are none, or the query has no such document.
    """
    ordered = sorted(requests, key=lambda request: rounds[request.key])
    if not doc_ids:
        first = dict[tuple[int, str], Request]()
        for request in ordered:
            first.setdefault((rounds[request.key], request.judge.name), request)
        return [*first.values()]
    pool_ids = [document.id for document in pool.documents]
    sought = {complete_name(doc_id, pool_ids) for doc_id in doc_ids}
    for doc_id in sorted(sought - {*pool_ids}):
        near = did_you_mean(doc_id, pool_ids)
        listed = ", ".join(pool_ids[:_NAMED]) + (" …" if pool_ids[_NAMED:] else "")
        raise NotFoundError(
            f"query {pool.query_id!r} has no document {doc_id!r}{near}; it has {listed}"
        )
    matches = [r for r in ordered if sought <= {document.id for document in r.documents}]
    if not matches:
        ids = " and ".join(sorted(sought))
        together = " together" if len(sought) > 1 else ""
        raise NotFoundError(
            f"no request about query {pool.query_id!r} shows {ids}{together}: the protocol does "
            "not ask it, or not before it has replies (--out names a run that has them)"
        )
    return matches


def _show(
    request: Request, round_number: int, options: AnnotateOptions, reply: Reply | None
) -> ShownRequest:
    judge, estimates = request.judge, Estimates(request.judge)
    size, build_body = measure_request(request), load_provider(judge.provider).build_body
    usage = estimates.expected(size)
    most = estimates.upper_bound(size, request.output_limit)
    return ShownRequest(
        judge=judge.name,
        round=round_number,
        query_id=request.query_id,
        doc_ids=tuple(document.id for document in request.documents),
        system=request.system,
        user=request.user,
        schema=response_schema(request.response_model),
        options={name: value for name, value in judge.options.items() if value not in (None, {})},
        body=build_body(request) if build_body else None,
        reads_prompt=not judges_without_prompt([judge.name]),
        key=request.key,
        input_tokens=usage.input_tokens,
        output_tokens=request.output_limit,
        dollars=price(judge, usage, options.prices),
        most_dollars=highest_price(judge, most, options.prices),
        reply=reply,
    )
