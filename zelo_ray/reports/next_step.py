"""Suggest the command that usually follows another one, with the user's own paths.

A suggestion is built from the typed words and from the results in memory. It is a command line,
quoted by `command_of`; None if there is no usual next step.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from zelo_ray.command_options import (
    AgreeOptions,
    CompareLabelsOptions,
    ConvertOptions,
    DoctorOptions,
    DriftOptions,
    FitOptions,
    ProbeOptions,
    TuneOptions,
)
from zelo_ray.engine.write_results import Summary
from zelo_ray.files.wording import without_passwords
from zelo_ray.names import split_name
from zelo_ray.options import AnnotateOptions
from zelo_ray.reports.command_lines import (
    command_from_options,
    command_of,
    flag_of,
    repeat_command,
    sibling_path,
    typed_value,
    values_of,
)

_PLAIN = ("--rerankers", "original", "bm25")
_ONLY_WHAT_IT_SAYS = (
    "Only what a document says about the query counts: not its length, its language or its source, "
    "and not what it says of itself."
)
"""Instructions against what a probe found."""
_OF_A_PROBE = {"ledger", "max_usd", "out", "protocol", "replace"}
"""Options of `probe` that a run of annotate after it does not take over."""


def next_line(command: str) -> str:
    """Return the last line that the terminal shows, without passwords of URLs."""
    return f"Next step: {without_passwords(command)}"


def after_annotate(
    summary: Summary,
    options: AnnotateOptions,
    words: Sequence[str],
    *,
    crowned: bool = False,
    fruitless: Collection[str] = (),
) -> str:
    """Return how to get what is missing; else a bake-off, or a look at tournaments.

    Args:
        summary: of the run.
        options: of the run.
        words: the typed words.
        crowned: whether answers were compared, and not documents.
        fruitless: judges without any judgment, so that asking again is useless.
    """
    if summary.pilot_of:
        return repeat_command(words, without=("--pilot",))
    if summary.disabled and options.collect:
        return repeat_command(words, without=("--collect",))
    if summary.disabled or fruitless:
        return _without_judges(summary, options, words, fruitless)
    statuses = {status for counts in summary.failures_by_judge.values() for status in counts}
    if summary.failures and statuses != {"blank"} and not options.retry_failures:
        return repeat_command(words, "--retry-failures")
    if not summary.scored:
        return command_of("doctor", *_judges(options.judges), "--out", options.out)
    return command_of("explain", options.out) if crowned else _bakeoff(options.out)


def _without_judges(
    summary: Summary, options: AnnotateOptions, words: Sequence[str], fruitless: Collection[str]
) -> str:
    """Return how to raise a used-up budget, or else how to check the judges that stopped."""
    reasons = summary.disabled.values()
    if options.max_usd and not fruitless and all(reason.is_over_budget for reason in reasons):
        return repeat_command(
            words, "--max-usd", f"{2 * options.max_usd:g}", without=("--max-usd",)
        )
    judges = dict.fromkeys((*summary.disabled, *fruitless))
    return command_of("doctor", "--judges", *judges, "--out", options.out)


def after_estimate(words: Sequence[str], high: float, cap: float | None) -> str:
    """Return the run itself, with a cap of its highest estimated cost."""
    rounded = max(0.01, -(-high * 100 // 1) / 100)
    more = ["--max-usd", f"{rounded:.2f}"] if high and cap is None else []
    return repeat_command(words, *more, without=("--dry-run",))


def after_compare_protocols(out: str, best: AnnotateOptions, words: Sequence[str]) -> str:
    """Return how to judge the whole input with the best protocol, from the same ledger.

    The cap of the comparison is dropped, as it held for each protocol: the estimate suggests one.

    Args:
        out: of the comparison.
        best: the options of the best protocol on the whole input.
        words: the typed words, which may name files with texts.
    """
    texts = (name for name, value in best if isinstance(value, str))
    files = {name: file for name in texts if (file := typed_value(words, flag_of(name)))}
    updates = {"out": sibling_path(out, best.protocol), "max_usd": None, "dry_run": True}
    return command_from_options(best.model_copy(update={**files, **updates}))


def after_tune(options: TuneOptions, chosen: str) -> str:
    """Return how to judge the whole input as was chosen, from the same ledger.

    The cap is dropped, as it held for the choice: the estimate suggests one.

    Args:
        options: of the command.
        chosen: the name of the file with the chosen options.
    """
    out = options.out.rstrip("/")
    places = ("--config", f"{out}/{chosen}", "--out", sibling_path(out, "judged"))
    read = [
        word
        for name in ("corpus", "queries", "columns")
        if (value := getattr(options, name))
        for word in (flag_of(name), *values_of(value))
    ]
    ledger = ("--ledger", options.ledger_dir)
    return command_of("annotate", *options.inputs, *read, *places, *ledger, "--dry-run")


def after_agree(options: AgreeOptions, *, grades: bool) -> str | None:
    """Return how to see what the first judge's labels would change, if judgments are ``grades``."""
    if not (options.human and grades):
        return None
    _, source = split_name(options.sources[0])
    return command_of("compare-labels", "--old", options.human, "--new", source)


def after_compare_labels(options: CompareLabelsOptions) -> str:
    """Return a bake-off of the runs by the new labels; without runs, how far the labels agree."""
    runs = options.runs or ([f"{options.bakeoff}/runs.parquet"] if options.bakeoff else [])
    if not runs:
        return command_of("agree", options.new, "--human", options.old)
    out = sibling_path(options.out or options.new, "bakeoff")
    return command_of("bakeoff", "--truth", options.new, "--runs", *runs, "--out", out)


def after_drift(options: DriftOptions) -> str:
    """Return how to see how far the old and the new judgments agree."""
    return command_of("agree", options.old, options.new)


def after_probe(options: ProbeOptions, words: Sequence[str], *, failing: Sequence[str]) -> str:
    """Return how to probe with instructions; else how to judge the input with these judges.

    Args:
        options: of the probe.
        words: the typed words.
        failing: judges with a harmful shift.
    """
    if failing and not options.instructions:
        out = sibling_path(options.out, "instructed")
        more = ("--instructions", _ONLY_WHAT_IT_SAYS, "--out", out)
        return repeat_command(words, *more, without=("--out",))
    given = options.model_fields_set & AnnotateOptions.model_fields.keys() - _OF_A_PROBE
    values = {name: getattr(options, name) for name in given}
    values |= {"protocol": options.protocol, "inputs": options.inputs, "dry_run": True}
    if file := typed_value(words, "--instructions"):
        values["instructions"] = file
    out = sibling_path(options.out, "judged")
    return command_from_options(AnnotateOptions.model_construct(**values, out=out))


def after_fit(options: FitOptions, words: Sequence[str]) -> str | None:
    """Return how to write the ratings, if they were not written."""
    return (
        None
        if options.out
        else repeat_command(words, "--out", sibling_path(options.source, "ratings.csv"))
    )


def after_convert(options: ConvertOptions) -> str | None:
    """Return the command that uses a converted file; None if other tools read it."""
    if options.what in ("pool", "unjudged"):
        judged = sibling_path(options.out, "judged")
        return command_of("annotate", options.out, "--out", judged, "--dry-run")
    if options.what == "beir":
        return _bakeoff(options.out)
    if options.what == "qrels":
        return _bakeoff(options.out, "--pools", *(options.pools or ("POOLS",)))
    return None


def after_explain(out: str, query: str, doc: str = "") -> str:
    """Return how to look at a query, or at a document of it."""
    return command_of("explain", out, "--query", query, *(["--doc", doc] if doc else []))


def after_sample(directory: str) -> str:
    """Return the first run of the sample, by its recorded judges."""
    judges = ("--judges", f"recorded:{Path(directory, 'recordings')}")
    return command_of("annotate", str(Path(directory, "sample")), *judges, "--out", "out")


def after_doctor(options: DoctorOptions, *, wrong: bool, no_judge: bool) -> str:
    """Return how to ask each judge once; else a first run, with free judges if there are none."""
    judge_flags = _judges(options.judges)
    if wrong or (judge_flags and not options.ask):
        return command_of("doctor", *judge_flags, *([] if wrong and not options.ask else ["--ask"]))
    judges = ["--judges", "offline"] if no_judge else judge_flags
    return command_of("annotate", "POOLS", *judges, "--out", "judged", "--dry-run")


def _bakeoff(truth: str, *pools: str) -> str:
    """Return a bake-off of plain rerankers."""
    out = ("--out", sibling_path(truth, "bakeoff"))
    return command_of("bakeoff", "--truth", truth, *pools, *_PLAIN, *out)


def _judges(names: Sequence[str]) -> list[str]:
    return ["--judges", *names] if names else []
