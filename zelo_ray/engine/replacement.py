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
_NOT_COMPARED = {"judges", "judge_options", "replace"}
"""Options of which the panel tells, or nothing."""


def refuse_other_options(options: AnnotateOptions, panel: Sequence[Judge]) -> None:
    """Refuse to judge otherwise where the results of a finished run lie.

    Args:
        options: of the run that is to begin.
        panel: its judges.

    Raises:
        OptionError: protocol, panel or an option that changes results is not that of the results.
    """
    record = None if options.replace else _record_of_results(options.out)
    if record and (names := [*_differences(record, options, panel)]):
        raise OptionError(
            f"{options.out} holds the results of a finished run with other {', '.join(names)}; add "
            "--replace, or name another --out (with --ledger "
            f"{options.ledger_dir} its paid answers are used there, too)"
        )


def _record_of_results(out: str) -> dict[str, Any]:
    """Return the record of the last finished run; an empty one if it came to no judgment."""
    record = last_record(out)
    return record if (record.get("summary") or {}).get("judgments") else {}


def _differences(
    record: Mapping[str, Any], options: AnnotateOptions, panel: Sequence[Judge]
) -> Iterator[str]:
    """Name what changes results and is not what it was."""
    was, now = record.get("options") or {}, _as_recorded(options.model_dump(mode="json"))
    now["protocol"] = absolute_plugin_name(now["protocol"])
    for name, field in type(options).model_fields.items():
        is_how = group_of(field) in (FILES, MONEY, RUNNING) and name not in _TELLING
        if name in was and was[name] != now[name] and not is_how and name not in _NOT_COMPARED:
            yield f"--{name.replace('_', '-')}"
    before = {row["judge"]: row.get("options") or {} for row in record.get("panel") or ()}
    if before and before.keys() != {judge.name for judge in panel}:
        yield "judges"
    for judge in (judge for judge in panel if judge.name in before):
        provider = load_provider(judge.provider)
        usual = {n: v for n, v in provider.options.items() if n not in provider.transport}
        old, new = before[judge.name], _as_recorded(dict(judge.options))
        names = {*usual, *old, *new} - {*provider.transport}
        if any(old.get(n, usual.get(n)) != new.get(n, usual.get(n)) for n in names):
            yield f"options of {judge.name}"


def _as_recorded(values: Mapping[str, Any]) -> dict[str, Any]:
    recorded: dict[str, Any] = orjson.loads(orjson.dumps(values, default=str))
    return recorded


def refuse_fewer_queries(options: AnnotateOptions, queries: Iterable[str]) -> None:
    """Refuse to drop queries from the results of a finished run.

    Args:
        options: of the run that is to begin.
        queries: ids of those that it is to judge.

    Raises:
        OptionError: the results that are there have others.
    """
    record = None if options.replace else _record_of_results(options.out)
    if not record or options.blocks == "session":  # its results have other ids than its input
        return
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
