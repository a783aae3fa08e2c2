"""Refuse to replace the results of a finished run by different ones unless the user says so.

A contest, a gate and people's labels name results by their place. So what stands there is replaced
only by the same with more input, or where the user says so.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow.compute as pc

from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.run_record import changed_prompt_options, last_record, options_of_run
from zelo_ray.files.tables import read_table
from zelo_ray.options import FILES, MONEY, RUNNING, AnnotateOptions, AskingOptions, group_of
from zelo_ray.plugins import absolute_plugin_name
from zelo_ray.providers import load_provider
from zelo_ray.records import Judge

_TELLING = {"seed", "document_limit"}
"""Options that change results, of groups whose others do not."""
_NOT_COMPARED = {"judges", "judge_options", "replace", "protocol"}
"""Options of which something else tells, or nothing."""


def refuse_other_options(options: AnnotateOptions, panel: Sequence[Judge]) -> None:
    """Refuse to judge otherwise where the results of a finished run lie.

    Raises:
        OptionError: protocol, panel or an option that changes results is not that of the results.
    """
    if record := _record_of_results(options):
        judges = {judge.name: judge.options for judge in panel}
        before = {row["judge"]: row.get("options") or {} for row in record.get("panel") or ()}
        was = _settings(options, record["options"], before, panel)
        now = _settings(options, options.model_dump(mode="json"), judges, panel)
        if others := [name for name in now if name in was and was[name] != now[name]]:
            raise OptionError(
                f"{options.out} holds the results of a finished run with other "
                f"{', '.join(others)}; add --replace, or name another --out (with --ledger "
                f"{options.ledger_dir} its paid answers are used there, too)"
            )


def _record_of_results(options: AnnotateOptions) -> dict[str, Any]:
    """Return the record of the last finished run; an empty one where it may be replaced."""
    record = {} if options.replace else last_record(options.out)
    return record if (record.get("summary") or {}).get("judgments") else {}


def _settings(
    options: AnnotateOptions,
    values: Mapping[str, Any],
    judges: Mapping[str, Mapping[str, Any]],
    panel: Sequence[Judge],
) -> dict[str, Any]:
    """Return all that results follow from, by the name that users know it by."""
    settings = {"--protocol": absolute_plugin_name(values["protocol"]), "judges": sorted(judges)}
    for name, field in type(options).model_fields.items():
        is_how = group_of(field) in (FILES, MONEY, RUNNING) and name not in _TELLING
        if name in values and not is_how and name not in _NOT_COMPARED:
            settings[f"--{name.replace('_', '-')}"] = values[name]
    for judge in (judge for judge in panel if judge.name in judges):
        own = judges[judge.name]
        told = own.keys() - load_provider(judge.provider).transport.keys()
        written = orjson.dumps({n: own[n] for n in told}, default=str)
        settings[f"options of {judge.name}"] = orjson.loads(written)
    return settings


def refuse_fewer_queries(options: AnnotateOptions, queries: Iterable[str]) -> None:
    """Refuse to drop queries from the results of a finished run.

    Raises:
        OptionError: the results that are there have others than ``queries``.
    """
    if options.blocks == "session" or not _record_of_results(options):
        return  # the results of sessions have other ids than their input
    try:
        scored = pc.unique(read_table(options.out, "scores", ["query_id"])["query_id"])
    except (InputError, KeyError):  # not every protocol scores
        return
    if gone := sorted(set(scored.to_pylist()) - set(queries)):
        raise OptionError(
            f"{options.out} holds the results of a finished run on {len(scored):,} queries, of "
            f"which this command would drop {len(gone):,}, such as {gone[0]!r}; add --replace, or "
            "name another --out"
        )


def warn_of_other_questions(options: AskingOptions) -> Iterator[str]:
    """Warn in a line for each option by which the last run here asked other questions."""
    before = options_of_run(options.out)
    if before and before.get("protocol") == getattr(options, "protocol", None):
        for name in changed_prompt_options(before, options.model_dump(mode="json")):
            if name != "judge_options":  # which are a judge's own affair
                yield (
                    f"--{name.replace('_', '-')} is not what it was in the last run here; answers "
                    "serve only for the questions to which they were given"
                )
