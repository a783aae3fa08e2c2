"""Gemini's wire format: files and batches, in any version of the API."""

import base64
import hashlib
import time
from typing import Any

import orjson

from tests.fakes import gemini
from tests.fakes.batches import (
    Batch,
    Call,
    File,
    Line,
    Out,
    Outcome,
    in_breaths,
    lines_in,
    results_of,
    stamp,
)
from tests.fakes.parts import Invalid

KEEPS_PARTS = False  # an expired or cancelled batch gives nothing, and bills nothing
FAILS_WHOLE = True
_REQUESTS, _FILE_BYTES = 200_000, 2 * 10**9
_STATES = {
    "completed": "BATCH_STATE_SUCCEEDED",
    "failed": "BATCH_STATE_FAILED",
    "cancelled": "BATCH_STATE_CANCELLED",
    "expired": "BATCH_STATE_EXPIRED",
}
_ENDS = {  # code of gRPC, message
    "cancelled": (1, "The batch was cancelled."),
    "expired": (4, "The batch expired before it was done."),
}
_TYPE = "type.googleapis.com/google.ai.generativelanguage."
_KINDS = ("succeeded", "errored")
_KEPT = 172_800


def knows(call: Call) -> bool:
    """Whether a call needs no key: the id of an upload stands for it."""
    return call.request.query.get("upload_id") in _uploads(call)


# Files


def _uploads(call: Call) -> dict[str, dict[str, Any]]:
    return call.store.uploads


async def start_upload(call: Call) -> Out:
    """Say where a file is to be uploaded to."""
    headers = call.request.headers
    if headers.get("X-Goog-Upload-Command") != "start":
        raise Invalid("Invalid upload command.")
    about = (call.json() if call.body else {}).get("file") or {}
    size = int(headers.get("X-Goog-Upload-Header-Content-Length", _FILE_BYTES))
    if size > _FILE_BYTES:
        raise Invalid("The file is too large.")
    upload = f"upload{len(_uploads(call)):08}"
    mime = headers.get("X-Goog-Upload-Header-Content-Type") or about.get("mimeType")
    _uploads(call)[upload] = {"about": about, "mime": mime, "size": size, "data": bytearray()}
    url = f"{call.fakes.url}{call.request.path}/{upload}?upload_id={upload}"
    return Out({}, headers={"x-goog-upload-url": url, "x-goog-upload-status": "active"})


async def upload(call: Call) -> Out:
    """Take a part of a file, or the last one."""
    going = _uploads(call).get(call.request.query.get("upload_id", ""))
    if going is None:
        raise Invalid("There is no such upload.", "not_found")
    data, headers = going["data"], call.request.headers
    if int(headers.get("X-Goog-Upload-Offset", 0)) != len(data):
        raise Invalid("The offset is not where the upload has got to.")
    data += call.body
    commands = {command.strip() for command in headers["X-Goog-Upload-Command"].split(",")}
    if "finalize" not in commands:
        return Out({}, headers={"x-goog-upload-status": "active"})
    if len(data) != going["size"]:
        raise Invalid("The upload is not as long as was said.")
    name = str(going["about"].get("displayName") or "")
    about = {"mime": going["mime"], "source": "UPLOADED"}
    file = call.store.add_file(name, data, "files/f{:08}", about=about)
    call.emit("file_received", file=file.id, bytes=len(data))
    details = {"file": file.id}
    return Out({"file": _file(call, file)}, {"x-goog-upload-status": "final"}, details)


async def download(call: Call) -> Out:
    """Give the results of a batch; what was uploaded is not given back."""
    file = _found(call)
    if file.batch is None or call.request.query.get("alt") != "media":
        raise Invalid("Only generated files can be downloaded, with alt=media.")
    details = {"file": file.id, "batch": file.batch.id}
    return Out(file.data, details=details, results_of=file.batch)


def _found(call: Call) -> File:
    file = call.store.files.get(f"files/{call.request.match_info['file']}")
    if file is None:
        raise Invalid("Requested entity was not found.", "not_found")
    return file


def _file(call: Call, file: File) -> dict[str, Any]:
    version = call.request.match_info["version"]
    uri = f"{call.fakes.urls[call.provider]}/{version}/{file.id}"
    generated = {"downloadUri": f"{uri}:download?alt=media"} if file.batch else {}
    digest = hashlib.sha256(file.data).hexdigest()
    return {
        "name": file.id,
        "displayName": file.name,
        "mimeType": file.about["mime"],
        "sizeBytes": str(len(file.data)),
        "createTime": stamp(file.created),
        "updateTime": stamp(file.created),
        "expirationTime": stamp(file.created + _KEPT),
        "sha256Hash": base64.b64encode(digest.encode()).decode(),
        "uri": uri,
        "state": "ACTIVE",
        "source": file.about["source"],
        **generated,
    }


# Batches


async def create(call: Call) -> Out:
    """Begin a batch of a file; inline requests are not taken."""
    body = call.json()["batch"]
    config = body.get("inputConfig")
    name, model = body.get("displayName"), call.request.match_info["model"]
    if not name:
        raise Invalid("batch.display_name: required")
    file = config.get("fileName")
    lines = await _lines_of_file(call, model, file)
    if not 1 <= len(lines) <= _REQUESTS:
        raise Invalid(f"A batch has 1 to {_REQUESTS} requests.")
    if not call.store.room(call.provider, model, sum(line.input_tokens for line in lines)):
        raise Invalid("", "enqueued")
    about = {"name": name}
    batch = call.store.create(call.provider, "batches/b{:08}", model, lines, about=about)
    return Out(_shown(batch), details={"batch": batch.id, "model": model})


async def _lines_of_file(call: Call, model: str, name: str) -> list[Line]:
    file = call.store.files.get(name)
    if file is None:
        raise Invalid(f"The file {name} was not found.", "not_found")
    if len(file.data) > _FILE_BYTES:
        raise Invalid("The input file is too large.")
    lines = []
    async for number, text in in_breaths(lines_in(file.data)):
        item = orjson.loads(text)
        lines.append(_line(call, str(item.get("key", number)), item["request"], model))
    return lines


def _line(call: Call, custom_id: str, request: dict[str, Any], model: str) -> Line:
    try:
        size = call.size(gemini.read({"model": model}, request))
    except (Invalid, ValueError, LookupError, TypeError, AttributeError):
        size = 0
    return Line(custom_id, orjson.dumps(request), model, size)


async def look(call: Call) -> Out:
    """Describe a batch."""
    batch = _batch(call)
    await call.store.look(batch)
    return Out(_shown(batch), details={"batch": batch.id})


async def show_all(call: Call) -> Out:
    """A page of batches, the newest first; without their results."""
    query = call.request.query
    after = query.get("pageToken")
    page, more = call.store.page(call.provider, after, max(1, call.number("pageSize", 50)))
    call.emit("listed", batches=len(page))
    following = {"nextPageToken": page[-1].id} if more else {}
    return Out({"operations": [_shown(batch) for batch in page], **following})


async def cancel(call: Call) -> Out:
    """Ask a batch to end; one that is being answered ends as it would have."""
    batch = _batch(call)
    if call.store.refresh(batch):
        raise Invalid("The batch has ended already.")
    if not batch.begun:
        call.store.cancel(batch)
    call.emit("cancelled", batch=batch.id)
    return Out({}, details={"batch": batch.id})


def _batch(call: Call) -> Batch:
    batch = call.store.batches.get(f"batches/{call.request.match_info['batch']}")
    if batch is None:
        raise Invalid("Requested entity was not found.", "not_found")
    return batch


def result(_: Batch, line: Line, outcome: Outcome) -> dict[str, Any]:
    """A line of the results' file."""
    said: dict[str, Any] = {}
    if outcome.kind == "succeeded":
        said = {"response": outcome.body}
    elif outcome.kind == "errored":
        error = outcome.body["error"]
        status = {"code": _GRPC.get(error["status"], 2), "message": error["message"]}
        # "response or status object", say the documents of a line
        said = {"status" if _is_odd(line.custom_id) else "error": status}
    return {"key": line.custom_id, **said}


_GRPC = {
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "ABORTED": 10,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
}


def _is_odd(custom_id: str) -> bool:
    return bool(hashlib.sha256(custom_id.encode()).digest()[0] % 2)


def close(store: Any, batch: Batch) -> None:
    """Put the results into a file, where there are any."""
    if batch.end != "completed":
        return
    about = {"mime": "application/jsonl", "source": "GENERATED"}
    name = batch.id.removeprefix("batches/")
    data = results_of(batch, *_KINDS)
    file = store.add_file(name, data, f"files/batch-{name}", batch=batch, about=about)
    batch.about["output"] = file.id


def _shown(batch: Batch) -> dict[str, Any]:
    running = "BATCH_STATE_RUNNING" if batch.looks else "BATCH_STATE_PENDING"
    ok, bad = batch.counts["succeeded"], batch.counts["errored"]
    stats = {"requestCount": str(batch.total)}
    if not batch.ended:
        stats["pendingRequestCount"] = str(batch.total)
    elif batch.end == "completed":
        stats |= {"successfulRequestCount": str(ok), "failedRequestCount": str(bad)}
    metadata: dict[str, Any] = {
        "@type": f"{_TYPE}v1main.GenerateContentBatch",
        "name": batch.id,
        "model": f"models/{batch.model}",
        "displayName": batch.about["name"],
        "state": _STATES[batch.end] if batch.ended else running,
        "createTime": stamp(batch.created),
        "updateTime": stamp(time.time()),
        "batchStats": stats,
    }
    shown: dict[str, Any] = {"name": batch.id, "metadata": metadata}
    if not batch.ended:
        return shown
    metadata["endTime"] = stamp(batch.settled or batch.created)
    shown["done"] = True
    if batch.end == "completed":
        output = {"responsesFile": batch.about["output"]} if "output" in batch.about else {}
        metadata |= {"output": output} if output else {}
        shown["response"] = {"@type": f"{_TYPE}v1main.GenerateContentBatchOutput", **output}
        return shown
    code, message = _ENDS.get(batch.end) or (13, batch.errors[0][1])
    shown["error"] = {"code": code, "message": message}
    return shown


_FILE, _BATCH = "/{version}/files/{file:[^:/]+}", "/{version}/batches/{batch:[^:/]+}"
ROUTES = (
    ("POST", "/upload/{version}/files", "files", start_upload),
    ("POST", "/upload/{version}/files/{upload}", "upload", upload),
    ("GET", f"{_FILE}:download", "results", download),
    ("POST", "/{version}/models/{model}:batchGenerateContent", "create", create),
    ("GET", "/{version}/batches", "list", show_all),
    ("GET", _BATCH, "look", look),
    ("POST", f"{_BATCH}:cancel", "cancel", cancel),
)
