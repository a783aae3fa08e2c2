"""OpenAI's wire format: files and batches."""

from typing import Any

import orjson

from tests.fakes import openai
from tests.fakes.batches import (
    Batch,
    Call,
    Error,
    File,
    Line,
    Out,
    Outcome,
    in_breaths,
    lines_in,
    results_of,
)
from tests.fakes.parts import Invalid

KEEPS_PARTS = True  # a batch that was cut short gives, and bills, what is done
FAILS_WHOLE = True
_REQUESTS, _BYTES = 50_000, 200 * 10**6
_ENDPOINT = "/v1/chat/completions"
_ERRORS_SHOWN = 100
_LEFT = {
    "expired": (
        "batch_expired",
        "This request could not be executed before the completion window expired.",
    ),
    "canceled": ("batch_cancelled", "The batch was cancelled before this request executed."),
}
_DAY = 86_400


def knows(_: Call) -> bool:
    """Whether a call needs no key."""
    return False


# Files


async def upload(call: Call) -> Out:
    """Take a file."""
    if call.form.get("purpose") != "batch" or "filename" not in call.form:
        raise Invalid("A file and the purpose 'batch' are needed.")
    name, more = call.form["filename"], {"about": {"purpose": "batch"}}
    file = call.store.add_file(name, call.file, "file-{:08}", **more)
    call.emit("file_received", file=file.id, bytes=len(file.data))
    return Out(_file(file), details={"file": file.id})


async def content(call: Call) -> Out:
    """Give a file."""
    file = call.found
    if file.batch is None:
        return Out(bytes(file.data))
    details = {"file": file.id, "batch": file.batch.id}
    return Out(file.data, details=details, results_of=file.batch)


def _file(file: File) -> dict[str, Any]:
    return {
        "id": file.id,
        "object": "file",
        "bytes": len(file.data),
        "created_at": int(file.created),
        "expires_at": int(file.created) + 30 * _DAY,
        "filename": file.name,
        "purpose": file.about["purpose"],
        "status": "processed",
        "status_details": None,
    }


# Batches


async def create(call: Call) -> Out:
    """Begin a batch; what is wrong with its file is told by later looks."""
    body = call.json()
    if extra := set(body) - {*_NEEDED, "metadata", "output_expires_after"}:
        raise Invalid(f"Unknown parameter: '{min(extra)}'.")
    if missing := _NEEDED - set(body):
        raise Invalid(f"Missing required parameter: '{min(missing)}'.")
    if body["completion_window"] != "24h" or body["endpoint"] != _ENDPOINT:
        raise Invalid("Invalid value: 'completion_window' or 'endpoint'.")
    metadata = body.get("metadata")
    _check_metadata(metadata)
    file = call.store.files.get(body["input_file_id"])
    if file is None or file.about["purpose"] != "batch":
        raise Invalid(f"Invalid file id: {body['input_file_id']}", "not_found")
    lines, errors = await _read(call, file)
    model = lines[0].model if lines else ""
    tokens = sum(line.input_tokens for line in lines)
    if not errors and not call.store.room(call.provider, model, tokens):
        errors = [_too_much(model, call.store.enqueued_limit(call.provider))]
    about = {"file": file.id, "metadata": metadata}
    batch = call.store.create(
        call.provider, "batch_{:08}", model, lines, errors=errors, about=about
    )
    return Out(_shown(batch), details={"batch": batch.id})


_NEEDED = {"input_file_id", "endpoint", "completion_window"}


def _check_metadata(metadata: Any) -> None:
    if metadata is None:
        return
    sound = isinstance(metadata, dict) and len(metadata) <= 16
    if not sound or any(len(name) > 64 or len(text) > 512 for name, text in metadata.items()):
        raise Invalid("Invalid 'metadata'.")


async def _read(call: Call, file: File) -> tuple[list[Line], list[Error]]:
    """The lines of a file, and what is wrong with it."""
    if len(file.data) > _BYTES:
        return [], [("file_too_large", "The input file is too large.", None)]
    if sum(1 for _ in lines_in(file.data)) > _REQUESTS:
        said = f"The batch has more than the maximum of {_REQUESTS} requests."
        return [], [("too_many_tasks", said, None)]
    if not file.data:
        said = "The file is empty. Please ensure that your batch contains at least one request."
        return [], [("empty_file", said, None)]
    lines: list[Line] = []
    errors: list[Error] = []
    ids: set[str] = set()
    async for number, text in in_breaths(lines_in(file.data)):
        try:
            line = _line(call, text)
        except _BadLine as bad:
            errors.append((*bad.args, number + 1))
            continue
        if line.custom_id in ids:
            said = f"The custom_id '{line.custom_id}' is a duplicate of another request's."
            errors.append(("duplicate_custom_id", said, number + 1))
        if lines and line.model != lines[0].model:
            said = f"The model '{line.model}' is not that of the first line, '{lines[0].model}'."
            errors.append(("mismatched_model", said, number + 1))
        ids.add(line.custom_id)
        lines.append(line)
    return ([], errors[:_ERRORS_SHOWN]) if errors else (lines, [])


class _BadLine(Exception):  # noqa: N818 - it names what is the matter
    """Code and message."""


def _line(call: Call, text: bytes | bytearray) -> Line:
    try:
        parsed = orjson.loads(text)
    except ValueError:
        raise _BadLine("invalid_json_line", "This line is not parseable as valid JSON.") from None
    for name in ("custom_id", "method", "url", "body"):
        if not isinstance(parsed, dict) or name not in parsed:
            raise _BadLine("missing_required_parameter", f"Missing required parameter: '{name}'.")
    if (parsed["method"], parsed["url"]) != ("POST", _ENDPOINT):
        raise _BadLine("invalid_url", "The URL of this request is not the batch's endpoint.")
    body = parsed["body"]
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        raise _BadLine("missing_required_parameter", "Missing required parameter: 'body.model'.")
    try:
        size = call.size(openai.read({}, body))
    except (Invalid, ValueError, LookupError, TypeError, AttributeError):
        size = 0  # it will be an error of that line alone
    return Line(str(parsed["custom_id"]), orjson.dumps(body), body["model"], size)


def _too_much(model: str, limit: int) -> Error:
    said = (
        f"Enqueued token limit reached for {model} in organization org-for-tests. Limit: {limit:,} "
        "enqueued tokens. Please try again once some in_progress batches have been completed."
    )
    return "token_limit_exceeded", said, None


async def look(call: Call) -> Out:
    """Describe a batch."""
    batch = call.batch
    await call.store.look(batch)
    shown = _shown(batch)
    return Out(shown, details={"batch": batch.id})


async def show_all(call: Call) -> Out:
    """A page of batches, the newest first."""
    limit = max(1, min(call.number("limit", 20), 100))
    page, more = call.store.page(call.provider, call.request.query.get("after"), limit)
    call.emit("listed", batches=len(page))
    ends = {"first_id": page[0].id, "last_id": page[-1].id} if page else {}
    return Out({"object": "list", "data": [_shown(b) for b in page], "has_more": more, **ends})


async def cancel(call: Call) -> Out:
    """Ask a batch to end."""
    batch = call.batch
    if call.store.refresh(batch):
        raise Invalid(f"Cannot cancel a batch with status '{batch.end}'.", "409")
    call.store.cancel(batch)
    call.emit("cancelled", batch=batch.id)
    return Out(_shown(batch), details={"batch": batch.id})


def result(batch: Batch, line: Line, outcome: Outcome) -> dict[str, Any]:
    """A line of the output or the error file."""
    shown: dict[str, Any] = {
        "id": f"batch_req_{batch.id.removeprefix('batch_')}_{line.custom_id}",
        "custom_id": line.custom_id,
        "response": None,
        "error": None,
    }
    if outcome.kind in _LEFT:
        code, message = _LEFT[outcome.kind]
        return shown | {"error": {"code": code, "message": message}}
    response = {"status_code": outcome.status, "request_id": outcome.request_id}
    return shown | {"response": {**response, "body": outcome.body}}


def close(store: Any, batch: Batch) -> None:
    """Put the results into their files; one that would be empty is not there."""
    for kinds, field in ((("succeeded",), "output"), (("errored", *_LEFT), "error")):
        if data := results_of(batch, *kinds):
            about = {"purpose": "batch_output"}
            name = f"{batch.id}_{field}.jsonl"
            file = store.add_file(name, data, "file-{:08}", batch=batch, about=about)
            batch.about[field] = file.id


def _shown(batch: Batch) -> dict[str, Any]:
    created, status = int(batch.created), _status(batch)
    done = int(batch.settled or 0) if batch.ended else None
    failed = batch.counts.total() - batch.counts["succeeded"]
    counts = dict.fromkeys(("total", "completed", "failed"), 0)
    if status not in ("validating", "failed"):
        counts = {"total": batch.total, "completed": batch.counts["succeeded"], "failed": failed}
    listed = [
        {"code": code, "message": message, "line": line, "param": None}
        for code, message, line in batch.errors
    ]
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": _ENDPOINT,
        "model": batch.model or None,
        "errors": {"object": "list", "data": listed} if status == "failed" else None,
        "input_file_id": batch.about["file"],
        "completion_window": "24h",
        "status": status,
        "output_file_id": batch.about.get("output") if batch.ended else None,
        "error_file_id": batch.about.get("error") if batch.ended else None,
        "created_at": created,
        "in_progress_at": created if status not in ("validating", "failed") else None,
        "expires_at": created + _DAY,
        "finalizing_at": done if status == "completed" else None,
        "completed_at": done if status == "completed" else None,
        "failed_at": done if status == "failed" else None,
        "expired_at": done if status == "expired" else None,
        "cancelling_at": int(batch.cancelled) if batch.cancelled else None,
        "cancelled_at": done if status == "cancelled" else None,
        "request_counts": counts,
        "usage": _usage(batch) if batch.ended else None,
        "metadata": batch.about["metadata"],
    }


def _status(batch: Batch) -> str:
    if batch.ended:
        return batch.end
    if batch.cancelled:
        return "cancelling"
    if not batch.looks:
        return "validating"
    return "finalizing" if batch.begun else "in_progress"


def _usage(batch: Batch) -> dict[str, Any]:
    usage = batch.usage
    return {
        "input_tokens": usage["input"],
        "input_tokens_details": {"cached_tokens": usage["cached"]},
        "output_tokens": usage["output"],
        "output_tokens_details": {"reasoning_tokens": usage["thinking"]},
        "total_tokens": usage["input"] + usage["output"],
    }


ROUTES = (
    ("POST", "/files", "files", upload),
    ("GET", "/files/{file}/content", "results", content),
    ("POST", "/batches", "create", create),
    ("GET", "/batches", "list", show_all),
    ("GET", "/batches/{batch}", "look", look),
    ("POST", "/batches/{batch}/cancel", "cancel", cancel),
)
