"""Show the requests that judges get about one query, exactly as they are sent, without a call.

Requests of the first round follow from the input alone. Those of later rounds follow from replies:
they are found as far as the ledger of a run has them.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from zelo_ray.command_options import PromptOptions
from zelo_ray.engine.job import Watch
from zelo_ray.engine.preview_input import PreviewedInput, preview_input
from zelo_ray.errors import InputError, NotFoundError
from zelo_ray.files.queries import complete_name, find_by_text
from zelo_ray.files.run_record import RUN, read_record, unfinished_record
from zelo_ray.names import did_you_mean
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Progress, find_protocol, recorded_options
from zelo_ray.providers import load_provider
from zelo_ray.providers.registry import judges_without_prompt
from zelo_ray.records import Pool, Request, response_schema
from zelo_ray.report.model import name_some
from zelo_ray.report.results import Results

_EXAMPLE_CODE = "The code in the markers is an example: each ledger draws its own."
_NAMED = 20  # documents that a message lists


def run(options: PromptOptions, _watch: Watch) -> Results:
    """Find the requests about a query, of an input or of a run."""
    asked: AnnotateOptions = options
    if not options.inputs:
        asked = _options_of_run(options.out).model_copy(update={"out": options.out})
    notes = [] if asked.ledger_dir else [_EXAMPLE_CODE]
    with preview_input(asked, os.environ, notes.append) as source:
        pool = _find_pool(source, options.query)
        progress = Progress(
            find_protocol(source.options.protocol).rounds(pool, source.panel, source.options),
            remember=True,
        )
        missing = progress.step(source.ledger).missing
        answered = [r for r in progress.answered_requests if isinstance(r, Request)]
        by_key = {request.key: request for request in (*answered, *missing)}
        chosen = _choose([*by_key.values()], progress.rounds, pool, options.doc)
        salt = source.ledger.salt if asked.ledger_dir else ""
        requests = [_show(r.with_codes(salt), progress.rounds[r.key]) for r in chosen]
    record = {"query_id": pool.query_id, "query": pool.query, "requests": requests}
    if options.body:
        bodies = [request["body"] for request in requests if request["body"] is not None]
        lines = [json.dumps(body, ensure_ascii=False) for body in bodies]
    else:
        lines = [*notes, f"query {pool.query_id}: {pool.query}", *_describe(requests)]
    return Results(record, lines=lines, notes=notes)


def _options_of_run(out: str) -> AnnotateOptions:
    record = unfinished_record(out)
    try:
        return recorded_options(read_record(f"{out}/{RUN}") if record is None else record)
    except (InputError, KeyError, TypeError, ValidationError):
        raise NotFoundError(f"{out} has no record of annotate that says what was asked") from None


def _find_pool(source: PreviewedInput, name: str) -> Pool:
    """Return the pool of a query by its id, the beginning of it, or its text; else the first."""
    query_ids, invalid = list[str](), ""
    for line in source.lines():
        if line.pool and name in ("", line.pool.query_id):
            return line.pool
        if line.pool:
            query_ids.append(line.pool.query_id)
        elif not invalid:
            invalid = f"; {line.file}, line {line.number}: {line.reason}"
    if not query_ids:
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
    """Return the requests that show these documents; else the first of each judge and round."""
    ordered = sorted(requests, key=lambda request: rounds[request.key])
    if not doc_ids:
        first = dict[tuple[int, str], Request]()
        for request in ordered:
            first.setdefault((rounds[request.key], request.judge.name), request)
        return [*first.values()]
    pool_ids = [document.id for document in pool.documents]
    for doc_id in doc_ids:
        if doc_id not in pool_ids:
            near, listed = did_you_mean(doc_id, pool_ids), name_some(pool_ids, _NAMED)
            query = f"query {pool.query_id!r}"
            raise NotFoundError(f"{query} has no document {doc_id!r}{near}; it has {listed}")
    matches = [r for r in ordered if {*doc_ids} <= {document.id for document in r.documents}]
    if not matches:
        raise NotFoundError(
            f"no request about query {pool.query_id!r} shows {' and '.join(doc_ids)}: the protocol "
            "does not ask it, or not before it has replies (--out names a run that has them)"
        )
    return matches


def _show(request: Request, round_number: int) -> dict[str, Any]:
    """Return a request as it is sent to a judge; its documents in the order that this one sees.

    ``schema`` is None for prose, ``body`` where no HTTP request is sent; ``reads_prompt``: free
    judges compute their answers otherwise.
    """
    judge = request.judge
    build_body = load_provider(judge.provider).build_body
    return {
        "judge": judge.name,
        "round": round_number,
        "query_id": request.query_id,
        "doc_ids": [document.id for document in request.documents],
        "system": request.system,
        "user": request.user,
        "schema": response_schema(request.response_model),
        "options": {n: value for n, value in judge.options.items() if value not in (None, {})},
        "body": build_body(request) if build_body else None,
        "reads_prompt": not judges_without_prompt([judge.name]),
        "key": request.key,
    }


def _describe(requests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of requests in full; judges that are asked the same share one text."""
    before = dict[str, str]()
    for request in requests:
        documents = " and ".join(request["doc_ids"])
        yield from ["", f"{request['judge']}, round {request['round']}, on {documents}"]
        if not request["reads_prompt"]:
            yield "It reads no prompt: it computes its answer, or has it on record."
        yield f"key: {request['key']}"
        if options := request["options"]:
            yield f"options: {json.dumps(options, ensure_ascii=False, default=str)}"
        yield f"schema: {json.dumps(request['schema']) if request['schema'] else 'none: prose'}"
        for name in ("system", "user"):
            if before.get(name) == request[name]:
                yield f"{name}: as above"
            else:
                yield f"{name}:"
                yield from (f"    {line}".rstrip() for line in request[name].splitlines())
            before[name] = request[name]
