"""Write the record of a run (``run.json``), at its start and its end, with what it cost."""

from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from zelo_ray.engine.batch.parts import in_doubt
from zelo_ray.engine.bookkeeping import Tally, maybe_billed, uncounted_by
from zelo_ray.engine.exposure import uncounted
from zelo_ray.engine.ledger import spent_in, told_damage
from zelo_ray.engine.standing import KEY as STANDING
from zelo_ray.engine.write_results import Summary
from zelo_ray.formats.input.keeping import noted
from zelo_ray.formats.pools import find_shards
from zelo_ray.formats.record import RUN, begin
from zelo_ray.formats.results import write_json
from zelo_ray.own import found_again
from zelo_ray.protocols import load
from zelo_ray.providers.pricing import table_version
from zelo_ray.ray.dataset import Job


def add_up(summary: Summary, job: Job, tallies: Mapping[str, Tally]) -> None:
    """Add spending by the ledger (actors that died lost theirs), and notes on what was left out."""
    summary.notes += noted(job.options.inputs, job.options.out)
    paid = spent_in(job.options.books, job.run_id)
    summary.dollars_in_all, summary.damaged = paid.dollars, len(paid.damaged)
    summary.maybe_dollars = in_doubt(job.options.books)
    if summary.maybe_dollars:
        silent = uncounted(job.options.books)
        summary.notes.append(maybe_billed(summary.maybe_dollars, silent))
    if job.options.max_usd is None:
        summary.notes += uncounted_by(tallies)
    summary.dollars, summary.unpriced = paid.of_run, paid.unpriced_of_run
    summary.notes += [told_damage(paid.damaged)] if paid.damaged else []


def begin_record(job: Job) -> None:
    """Write the record of an unfinished run, with absolute paths."""
    shards = find_shards(job.options.inputs, job.options.out)
    begin(job.options.out, RUN, _record(job) | {"shards": shards})


def _record(job: Job) -> dict[str, Any]:
    options = job.options.model_dump(mode="json")
    return {
        "kind": "annotate",
        "run_id": job.run_id,
        "options": {**options, "protocol": found_again(options["protocol"])},
        "judgments": list(load(job.options.protocol).tables),
        "panel": [{"judge": judge.name, "options": judge.options} for judge in job.panel],
    }


def write_run(
    job: Job, summary: Summary, tallies: Mapping[str, Tally], standing: Mapping[str, str] | None
) -> None:
    """Write the record of a finished run, after all its other files."""
    options = job.options
    packages = ("zelo-ray", "ray", "pydantic", "openai", "anthropic", "google-genai", "numpy")
    write_json(
        options.out,
        RUN,
        {
            **_record(job),
            "finished": True,
            "complete": summary.complete,
            "versions": {name: version(name) for name in packages}
            | {"prices": table_version(options.prices)},
            "summary": asdict(summary),
            "judges": {name: asdict(tally) for name, tally in tallies.items()},
            STANDING: standing,
        },
    )
