"""Describe requests for the terminal; judges that are asked the same share one text."""

import json
from collections.abc import Iterable, Iterator

from zelo_ray.commands.prompt.find import FoundRequests, ShownRequest
from zelo_ray.engine.bookkeeping import format_dollars
from zelo_ray.files.wording import counted


def bodies_of(result: FoundRequests) -> Iterator[str]:
    """Yield the body of each HTTP request as a line of JSON."""
    for request in result.requests:
        if request.body is not None:
            yield json.dumps(request.body, ensure_ascii=False)


def describe_requests(result: FoundRequests) -> Iterator[str]:
    """Yield the lines that show the requests in full."""
    yield from result.notes
    yield f"query {result.query_id}: {result.query}"
    shown, known_count = len(result.requests), result.known_count
    yield f"{shown:,} of the {counted(known_count, 'known request')} about it" + (
        "; --doc ID shows those about a document" if shown < known_count else ""
    )
    system = user = None
    for request in result.requests:
        yield ""
        yield from _heading(request)
        yield from _block("system", request.system, is_as_above=request.system == system)
        yield from _block("user", request.user, is_as_above=request.user == user)
        system, user = request.system, request.user
    if result.has_later_rounds:
        yield ""
        yield (
            "What is asked in later rounds follows from the replies: --out DIR shows it for a run "
            "that has them."
        )


def _heading(request: ShownRequest) -> Iterator[str]:
    """Yield who is asked what, what it takes, and the answer's form."""
    yield f"{request.judge}, round {request.round}, on {' and '.join(request.doc_ids)}"
    if not request.reads_prompt:
        yield "It reads no prompt: it computes its answer, or has it on record."
    most = f"{request.output_tokens:,}" if request.output_tokens else "any number of"
    yield (
        f"key {request.key}; about {request.input_tokens:,} tokens in, at most {most} out; "
        f"{_cost(request)}"
    )
    if request.reply:
        yield f"It was asked before: {request.reply.status}, {request.reply.received_at}"
    if request.options:
        yield f"options: {json.dumps(dict(request.options), ensure_ascii=False, default=str)}"
    schema = "none, the answer is prose" if request.schema is None else json.dumps(request.schema)
    yield f"schema: {schema}"


def _cost(request: ShownRequest) -> str:
    if request.dollars is None:
        return "its price is unknown"
    if not request.most_dollars:
        return "free"
    return f"{format_dollars(request.dollars)}, at most {format_dollars(request.most_dollars)}"


def _block(name: str, text: str, *, is_as_above: bool) -> Iterable[str]:
    if is_as_above:
        return [f"{name}: as above"]
    return (f"{name}:", *(f"    {line}".rstrip() for line in text.splitlines()))
