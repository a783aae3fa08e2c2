"""List the batches of a run, and cancel open ones if asked, for ``zelo-ray batches DIR``."""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from zelo_ray.command_options import BatchesOptions
from zelo_ray.engine.batch import connect
from zelo_ray.engine.batch.parts import BatchPart, Parts
from zelo_ray.engine.job import Watch
from zelo_ray.errors import NotFoundError
from zelo_ray.files.run_record import canonical_place, options_of_run
from zelo_ray.files.wording import counted
from zelo_ray.providers import Batches, Fatal, Refused, Retry, parse_judge
from zelo_ray.providers.dotenv import DotenvFile
from zelo_ray.report.model import Report, Section, table
from zelo_ray.report.results import Results


def run(options: BatchesOptions, _watch: Watch) -> Results:
    """List batches, or cancel them."""
    batches = list_batches(options.run, os.environ, cancel=options.cancel)
    columns: dict[str, Any] = {n: n for n in ("judge", "batch", "requests")} | {
        "created": lambda row: time.strftime("%Y-%m-%d %H:%M", time.localtime(row["created"])),
        "state": "state",
    }
    listed = Section("batches", "Batches", [table(batches, columns, open_rows=len(batches))])
    report = Report(counted(len(batches), "batch", "batches"), sections=[listed])
    return Results({"batches": batches}, build=lambda _: report)


def list_batches(
    out: str, environ: Mapping[str, str], *, cancel: bool = False
) -> list[dict[str, Any]]:
    """Ask the providers for the state, in words, of each batch of an output directory."""
    options = options_of_run(out) or {}
    ledger, variables = options.get("ledger") or out, options.get("api_key_env") or {}
    places = {canonical_place(place): Parts(place) for place in (out, ledger)}
    parts = [(part, records) for records in places.values() for part in records]
    if not parts:
        raise NotFoundError(f"{out}: no batches; annotate --mode batch creates them")
    environment = dict(environ)
    DotenvFile(environment).take_names(variables.values())
    return asyncio.run(_ask_for_states(parts, variables, environment, cancel=cancel))


async def _ask_for_states(
    parts: Sequence[tuple[BatchPart, Parts]],
    variables: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    cancel: bool,
) -> list[dict[str, Any]]:
    batches, clients = list[dict[str, Any]](), dict[str, Batches]()
    try:
        for part, records in parts:
            state = {
                "intended": "unknown; the next run will look for it",
                "harvested": "collected",
                "void": "failed",
            }.get(part.state, "")
            if part.state == "submitted":
                if part.judge not in clients:
                    clients[part.judge] = connect(parse_judge(part.judge), variables, environ)
                state = await _describe_state(
                    clients[part.judge], part, records if cancel else None
                )
            about = {"judge": part.judge, "batch": part.batch, "requests": part.requests}
            batches.append({**about, "created": part.intended_at, "state": state})
    finally:
        for client in clients.values():
            await client.aclose()
    return batches


async def _describe_state(client: Batches, part: BatchPart, cancel: Parts | None) -> str:
    note = ""
    try:
        batch = await client.look(part.batch)
        if cancel and not batch.ended:
            await client.cancel(part.batch)
            part.cancelled = True  # so that the next run asks for the rest
            await asyncio.to_thread(cancel.keep, part)
            batch, note = await client.look(part.batch), "asked to cancel: "
    except (Retry, Refused, Fatal) as error:
        return str(error)
    done = f", {batch.done:,} done" if batch.done else ""
    return f"{note}{batch.state}{done}" + (", to be collected" if batch.ended else "")
