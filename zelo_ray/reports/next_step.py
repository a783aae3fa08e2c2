"""Suggest the command that usually follows another one, with the user's own paths.

A suggestion is built from the typed words and from the results in memory. It is a command line,
quoted by `command_of`; None if there is no usual next step.
"""

from collections.abc import Sequence
from pathlib import Path

from zelo_ray.command_options import (
    BakeoffOptions,
    ConvertOptions,
    DoctorOptions,
    FitOptions,
)
from zelo_ray.files.wording import without_passwords
from zelo_ray.reports.command_lines import (
    command_of,
    repeat_command,
    sibling_path,
)

_PLAIN = ("--rerankers", "original", "bm25")


def next_line(command: str) -> str:
    """Return the last line that the terminal shows, without passwords of URLs."""
    return f"Next step: {without_passwords(command)}"


def after_bakeoff(
    options: BakeoffOptions, words: Sequence[str], *, failed: bool, grows: bool = False
) -> str:
    """Return how to retry failed requests; else how to let people label what decides.

    Args:
        options: of the bake-off.
        words: the typed words.
        failed: whether requests failed.
        grows: whether people's labels are a sample that `label` drew, and can make larger.
    """
    if failed and not options.retry_failures:
        return repeat_command(words, "--retry-failures")
    if options.human and grows:
        return command_of("label", "--out", options.human, "--more", "100")
    labels = ("--labels", "200", "--out", sibling_path(options.out, "labels"))
    return command_of("label", "--contest", options.out, *labels)


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
