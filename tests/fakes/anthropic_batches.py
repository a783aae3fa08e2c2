"""Anthropic's wire format: Message Batches."""

import re
from typing import Any

import orjson

from tests.fakes import anthropic
from tests.fakes.batches import Batch, Call, Line, Out, Outcome, in_breaths, results_of, stamp
from tests.fakes.parts import Invalid

KEEPS_PARTS = True
FAILS_WHOLE = False  # there is no such end: each request fails for itself
_REQUESTS, _BYTES = 100_000, 256 * 10**6
_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DAY = 86_400
_KINDS = ("succeeded", "errored", "canceled", "expired")


def knows(_: Call) -> bool:
    """Whether a call needs no key."""
    return False


async def create(call: Call) -> Out:
    """Begin a batch; its requests are looked at when it is their turn."""
    body = call.json()
    if extra := set(body) - {"requests"}:
        raise Invalid(f"{min(extra)}: Extra inputs are not permitted")
    if len(call.body) > _BYTES:
        raise Invalid("Request exceeds the maximum size", "413")
    if not 1 <= len(body["requests"]) <= _REQUESTS:
        raise Invalid(f"requests: List should have 1 to {_REQUESTS} items")
    lines: list[Line] = []
    ids: set[str] = set()
    async for number, request in in_breaths(body["requests"]):
        if extra := set(request) - {"custom_id", "params"}:
            raise Invalid(f"requests.{number}.{min(extra)}: Extra inputs are not permitted")
        custom_id, params = request["custom_id"], request["params"]
        if not _CUSTOM_ID.fullmatch(custom_id):
            said = f"String should match pattern '^{_CUSTOM_ID.pattern}$'"
            raise Invalid(f"requests.{number}.custom_id: {said}")
        if custom_id in ids:
            raise Invalid(f"requests.{number}.custom_id: custom_id must be unique")
        if not isinstance(params, dict) or {"stream", "speed"} & set(params):
            raise Invalid(f"requests.{number}.params: not supported in a batch")
        ids.add(custom_id)
        lines.append(_line(call, custom_id, params))
    batch = call.store.create(call.provider, "msgbatch_{:08}", "", lines, about={})
    return Out(_shown(call, batch), details={"batch": batch.id})


def _line(call: Call, custom_id: str, params: dict[str, Any]) -> Line:
    try:
        size = call.size(anthropic.read({}, params))
    except (Invalid, ValueError, LookupError, TypeError, AttributeError):
        size = 0
    return Line(custom_id, orjson.dumps(params), str(params.get("model", "")), size)


async def look(call: Call) -> Out:
    """Describe a batch."""
    batch = call.batch
    await call.store.look(batch)
    shown = _shown(call, batch)
    return Out(shown, details={"batch": batch.id})


async def show_all(call: Call) -> Out:
    """A page of batches, the newest first."""
    limit = max(1, min(call.number("limit", 20), 1000))
    page, more = call.store.page(call.provider, call.request.query.get("after_id"), limit)
    call.emit("listed", batches=len(page))
    return Out(
        {
            "data": [_shown(call, batch) for batch in page],
            "has_more": more,
            "first_id": page[0].id if page else None,
            "last_id": page[-1].id if page else None,
        }
    )


async def cancel(call: Call) -> Out:
    """Ask a batch to end."""
    batch = call.batch
    if call.store.refresh(batch):
        raise Invalid("A batch that has ended cannot be canceled.")
    call.store.cancel(batch)
    call.emit("cancelled", batch=batch.id)
    return Out(_shown(call, batch), details={"batch": batch.id})


async def results(call: Call) -> Out:
    """The results, as lines of JSON."""
    batch = call.batch
    if not call.store.refresh(batch) or batch.output is None:
        raise Invalid("The batch has no results yet.", "not_found")
    shape = "application/x-jsonl"
    return Out(batch.output, details={"batch": batch.id}, results_of=batch, shape=shape)


def result(_: Batch, line: Line, outcome: Outcome) -> dict[str, Any]:
    """A line of the results."""
    said: dict[str, Any] = {"type": outcome.kind}
    if outcome.kind == "succeeded":
        usage = {**outcome.body["usage"], "service_tier": "batch"}
        said["message"] = {**outcome.body, "usage": usage}
    elif outcome.kind == "errored":
        said["error"] = outcome.body
    return {"custom_id": line.custom_id, "result": said}


def close(_: Any, batch: Batch) -> None:
    """Keep the results as the bytes that they are sent as."""
    batch.output = results_of(batch, *_KINDS)


def _shown(call: Call, batch: Batch) -> dict[str, Any]:
    counts = {"processing": 0 if batch.ended else batch.total}
    counts |= {kind: batch.counts[kind] if batch.ended else 0 for kind in _KINDS}
    status = "ended" if batch.ended else "canceling" if batch.cancelled else "in_progress"
    url = f"{call.fakes.urls[call.provider]}/v1/messages/batches/{batch.id}/results"
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": status,
        "request_counts": counts,
        "created_at": stamp(batch.created),
        "expires_at": stamp(batch.created + _DAY),
        "ended_at": stamp(batch.settled) if batch.ended and batch.settled else None,
        "archived_at": None,
        "cancel_initiated_at": stamp(batch.cancelled) if batch.cancelled else None,
        "results_url": url if batch.ended else None,
    }


ROUTES = (
    ("POST", "/v1/messages/batches", "create", create),
    ("GET", "/v1/messages/batches", "list", show_all),
    ("GET", "/v1/messages/batches/{batch}", "look", look),
    ("POST", "/v1/messages/batches/{batch}/cancel", "cancel", cancel),
    ("GET", "/v1/messages/batches/{batch}/results", "results", results),
)
