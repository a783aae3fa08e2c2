"""Write the record of `tune`, and say what is missing in it."""

from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from zelo_ray.commands.compare_protocols.job import failure_reasons
from zelo_ray.commands.compare_protocols.labelled_items import describe_left_out
from zelo_ray.commands.compare_protocols.outcome import MOST
from zelo_ray.commands.tune.outcome import TuneOutcome
from zelo_ray.commands.tune.runs import CandidateRuns
from zelo_ray.engine.job import Timer
from zelo_ray.files.run_record import TUNE
from zelo_ray.files.storage import write_json
from zelo_ray.plugins import loaded_packages
from zelo_ray.providers.pricing import table_version
from zelo_ray.reasons import describe_disabled

KIND = "tune"


def describe_gaps(runs: CandidateRuns) -> Iterator[str]:
    """Yield notes on what is missing and why."""
    field, options = runs.field, runs.options
    for (name, half), summary in runs.summaries.items():
        verdicts = runs.verdicts(half)[name]
        if unjudged := sum(word < 0 for word in verdicts):
            why = "; ".join(failure_reasons(summary))
            few = ", too little to be chosen" if unjudged > (1 - MOST) * len(verdicts) else ""
            yield (
                f"{name} did not judge {unjudged:,} of {len(verdicts):,} pairs of the {half} half"
                f"{few}: {why}"
            )
        elif summary.disabled:
            yield f"{name}: {'; '.join(describe_disabled(summary.disabled))}"
    yield from describe_left_out(field, options.human, options.document_limit)


def write_record(runs: CandidateRuns, outcome: TuneOutcome, timer: Timer) -> None:
    """Write the record of a finished run, after all its other files."""
    options = runs.options
    names = ("zelo-ray", "ray", "numpy", "scipy", "pyarrow")
    folders = {
        f"{name}, {half} half": {
            "out": summary.out,
            "complete": summary.complete,
            "failures": summary.failures,
            "disabled": {judge: asdict(why) for judge, why in summary.disabled.items()},
            "dollars": summary.dollars,
        }
        for (name, half), summary in runs.summaries.items()
    }
    record: dict[str, Any] = {
        "kind": KIND,
        "finished": True,
        "complete": outcome.complete,
        "options": options.model_dump(mode="json"),
        "versions": {package: version(package) for package in names}
        | {"prices": table_version(options.prices), **loaded_packages()},
        "chosen": outcome.chosen,
        "queries": runs.field.queries,
        "items": len(runs.field.items),
        "halves": {
            half.name: {"queries": half.queries, "items": len(half.items)}
            for half in runs.halves.values()
        },
        "people": {
            "kind": runs.field.people.kind,
            "said": runs.field.people.judgment_count,
            "known": runs.field.judgments_in_input,
        },
        "changed": outcome.changed_counts,
        "texts": outcome.texts,
        "together": outcome.together,
        "paid": outcome.paid,
        "runs": folders,
        "notes": outcome.notes,
        "seconds": timer.laps,
    }
    write_json(options.out, TUNE, record)
