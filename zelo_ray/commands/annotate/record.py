"""Write the record of a run (``run.json``), at its start and its end, with what it cost."""

from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from zelo_ray.engine.batch.parts import sum_possibly_billed
from zelo_ray.engine.bookkeeping import describe_possibly_billed, describe_uncounted
from zelo_ray.engine.exposure import sum_uncounted
from zelo_ray.engine.job import Job
from zelo_ray.engine.ledger import describe_damage, sum_spent
from zelo_ray.engine.run_fingerprint import KEY as STANDING
from zelo_ray.engine.tally import Tally
from zelo_ray.engine.write_results import Summary
from zelo_ray.files.run_record import RUN, record_start
from zelo_ray.files.storage import find_shards, write_json
from zelo_ray.plugins import absolute_plugin_name, loaded_packages
from zelo_ray.protocols import load_protocol
from zelo_ray.providers.pricing import table_version


def add_spending(summary: Summary, job: Job, tallies: Mapping[str, Tally]) -> None:
    """Add spending by the ledger (actors that died lost theirs), and notes on the run."""
    caution = load_protocol(job.options.protocol).caution
    summary.notes += [caution] if caution else []
    paid = sum_spent(job.options.ledger_dir, job.run_id)
    summary.dollars_in_all, summary.damaged = paid.dollars, len(paid.damaged)
    summary.maybe_dollars = sum_possibly_billed(job.options.ledger_dir)
    if summary.maybe_dollars:
        silent = sum_uncounted(job.options.ledger_dir)
        summary.notes.append(describe_possibly_billed(summary.maybe_dollars, silent))
    if job.options.max_usd is None:
        summary.notes += describe_uncounted(tallies)
    summary.dollars, summary.unpriced = paid.of_run, paid.unpriced_of_run
    summary.notes += [describe_damage(paid.damaged)] if paid.damaged else []


def begin_record(job: Job, queries: int) -> None:
    """Write the record of an unfinished run on so many queries, with absolute paths."""
    shards = find_shards(job.options.inputs, job.options.out)
    record_start(job.options.out, RUN, _record(job) | {"shards": shards, "queries": queries})


def _record(job: Job) -> dict[str, Any]:
    options = job.options.model_dump(mode="json")
    return {
        "kind": "annotate",
        "run_id": job.run_id,
        "options": {**options, "protocol": absolute_plugin_name(options["protocol"])},
        "judgments": list(load_protocol(job.options.protocol).tables),
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
            | {"prices": table_version(options.prices), **loaded_packages()},
            "summary": asdict(summary),
            "judges": {name: asdict(tally) for name, tally in tallies.items()},
            STANDING: standing,
        },
    )
