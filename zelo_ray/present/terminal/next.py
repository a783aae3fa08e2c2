"""The one command that makes sense after another: from options and results to a command line.

Every function returns one command, with the user's own paths, quoted for a shell.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

from zelo_ray.engine.write_results import Summary
from zelo_ray.options import (
    AgreeOptions,
    AnnotateOptions,
    BakeoffOptions,
    CompareLabelsOptions,
    ConvertOptions,
    DriftOptions,
    ExplainOptions,
    FitOptions,
    SizeOptions,
)
from zelo_ray.options.places import split_name
from zelo_ray.present.terminal.commands import (
    again,
    beside,
    command_of,
    flag_of,
    retold,
    typed,
)

_SECRET = re.compile(r"(?<=://)[^/@\s]+(?=@)")
"""Who signs in to a URL, and with which password."""
_PLAIN = ("--rerankers", "original", "bm25")
Use = Literal["texts", "labels", "nothing"]
"""What a place is good for: a truth with the texts of its documents, a truth without, or none."""


def line(command: str) -> str:
    """What the terminal shows last."""
    return f"next: {_SECRET.sub('…', command)}"


def after_annotate(
    summary: Summary,
    options: AnnotateOptions,
    words: Sequence[str],
    *,
    crowned: str = "",
    runs: Sequence[str] = (),
    fruitless: Sequence[str] = (),
) -> str:
    """Mend what is missing; else let rerankers meet, or look at a tournament.

    Args:
        summary: of the run.
        options: of the run.
        words: what was typed.
        crowned: of answers that were compared, the id of a query to look at.
        runs: inputs that are files of runs.
        fruitless: judges of whom asking again would bring nothing either.
    """
    if summary.pilot_of:
        return again(words, without=("--pilot",))
    if summary.disabled or fruitless:
        return _without(summary, fruitless, options, words)
    if summary.failures and not options.retry_failures:
        return retried(words)
    if not summary.scored:
        return command_of("doctor", *_judges(options), "--out", options.out)
    if crowned:
        return command_of("explain", options.out, "--query", crowned)
    return _contest(options.out, runs)


def _without(
    summary: Summary, fruitless: Sequence[str], options: AnnotateOptions, words: Sequence[str]
) -> str:
    """Raise a budget that is used up; else look at the judges that had to stop."""
    over = not fruitless and all(reason.is_over_budget for reason in summary.disabled.values())
    if options.max_usd and over:
        return again(words, "--max-usd", f"{2 * options.max_usd:g}", without=("--max-usd",))
    judges = dict.fromkeys([*summary.disabled, *fruitless])
    return command_of("doctor", "--judges", *judges, "--out", options.out)


def after_estimate(words: Sequence[str], high: float, cap: float | None) -> str:
    """The run itself, under a cap of what it costs at most."""
    rounded = max(0.01, -(-high * 100 // 1) / 100)
    more = ["--max-usd", f"{rounded:.2f}"] if high and cap is None else []
    return again(words, *more, without=("--dry-run",))


def after_bakeoff(
    options: BakeoffOptions, words: Sequence[str], *, again: bool, people: str
) -> str:
    """Ask again what failed; else let people judge what decides, if they have not.

    Args:
        options: of the contest.
        words: what was typed.
        again: whether asking again may help.
        people: ``more``, ``begin``, ``texts`` (nobody knows where they are) or ``none``.
    """
    if again and not options.retry_failures:
        return retried(words)
    if people == "more":
        return command_of("label", "--out", str(options.human), "--more", "100")
    if people == "none":
        return command_of("report", options.out)
    return _labels_for(options.out, people)


def retried(words: Sequence[str]) -> str:
    """The same, with what failed asked again."""
    return again(words, "--retry-failures")


def _labels_for(contest: str, people: str) -> str:
    """Labels of people for a contest."""
    texts = ["--pools", "POOLS"] if people == "texts" else []
    out = beside(contest, "labels")
    return command_of("label", "--contest", contest, *texts, "--labels", "200", "--out", out)


def after_compare_protocols(out: str, best: AnnotateOptions, words: Sequence[str]) -> str:
    """Judge everything in the best way, asked as it was compared, out of the same ledger.

    The cap is not that of the comparison, which each protocol had: the estimate names one.

    Args:
        out: of the comparison.
        best: the options of the best protocol on the whole input.
        words: what was typed, which may name the files of texts.
    """
    texts = (name for name, value in best if isinstance(value, str))
    files = {name: file for name in texts if (file := typed(words, flag_of(name)))}
    own = {"out": beside(out, best.protocol), "max_usd": None, "dry_run": True}
    return _same_run(best.model_copy(update={**files, **own}))


def after_agree(options: AgreeOptions, use: Callable[[str], Use]) -> str:
    """What the first judge's labels change, or what they say of rerankers.

    Args:
        options: of the command.
        use: what a place is good for: votes alone are no labels.
    """
    place, *others = dict.fromkeys(run_of(split_name(each)[1]) for each in options.sources)
    pair = (options.human, place) if options.human else (place, *others[:1])
    if pair[1:] and "nothing" not in map(use, pair):
        return command_of("compare-labels", "--old", pair[0], "--new", pair[1], *_runs(options))
    return _contest(place, use=use(place)) if not others else command_of("agree", "--help")


def after_compare_labels(options: CompareLabelsOptions, use: Callable[[str], Use]) -> str:
    """Runs or rerankers by the new labels, or how far the two agree; ``use`` as `after_agree`."""
    runs = options.runs or ([f"{options.bakeoff}/runs.parquet"] if options.bakeoff else [])
    if runs:
        out = beside(options.out or options.new, "bakeoff")
        return command_of("bakeoff", "--truth", options.new, "--runs", *runs, "--out", out)
    if use(options.new) == "texts":
        return _contest(options.new)
    return command_of("agree", options.new, "--human", options.old)


def after_drift(options: DriftOptions, use: Callable[[str], Use]) -> str:
    """What the change of judges changes for labels; ``use`` as `after_agree`."""
    old, new = run_of(options.old), run_of(options.new)
    if "nothing" in (use(old), use(new)):
        return command_of("agree", options.old, options.new)
    return command_of("compare-labels", "--old", old, "--new", new)


def after_fit(options: FitOptions, words: Sequence[str]) -> str:
    """Write the ratings, and then look at them on another scale."""
    if not options.out:
        return again(words, "--out", beside(options.source, "ratings.csv"))
    if options.scale == "logits":
        return again(words, "--scale", "elo", without=("--out", "--scale"))
    return command_of("fit", "--help")


def after_convert(
    options: ConvertOptions, truth: AnnotateOptions | None = None, texts: str = ""
) -> str:
    """What a file of its kind is for.

    Args:
        options: of the command.
        truth: of holes, the options of the run that the truth is of, whose replies serve again.
        texts: where the texts of the source lie as pools; empty where nobody knows.
    """
    out, source = options.out, run_of(options.source)
    if options.what == "holes" and truth:
        return _filled(options, truth)
    if options.what in ("pool", "holes", "fastchat", "llamahub"):
        answers = options.what in ("fastchat", "llamahub")
        human = ["--protocol", "best-of"] if answers else []
        return command_of("annotate", out, *human, "--out", beside(out, "judged"), "--dry-run")
    if options.what in ("qrels", "beir"):
        if pools := options.pools or ((texts,) if texts else ()):
            words = ["--truth", out, "--pools", *pools, *_PLAIN]
            return command_of("bakeoff", *words, "--out", beside(out, "bakeoff"))
        return _contest(out, use="texts" if options.what == "beir" else "labels")
    return _contest(source, use="texts" if texts and options.what != "run" else "nothing")


def _filled(options: ConvertOptions, truth: AnnotateOptions) -> str:
    """Judge the holes as the truth was judged.

    Results are those of the lines that are given: only all of them may take the place of others.
    """
    place = run_of(options.truth)
    places: dict[str, str | None] = {"out": place, "ledger": None}
    if truth.ledger and truth.ledger != truth.out:
        places["ledger"] = truth.ledger
    if not options.all:
        places = {"out": beside(options.out, "judged"), "ledger": places["ledger"] or place}
    given = {"inputs": (options.out,), "pilot": None, "retry_failures": False, "dry_run": True}
    return _same_run(truth.model_copy(update={**given, **places}))


def after_size(options: SizeOptions, plan: str, inputs: Sequence[str]) -> str:
    """A run by the plan that is enough.

    Args:
        options: of `size`.
        plan: as flags of annotate behind its protocol, such as ``zelo --cycles 3 --votes all``.
        inputs: of the pilot, or others that are there.
    """
    pools = inputs or ("POOLS",)
    words = [*pools, "--protocol", *plan.split(), *_judges(options)]
    return command_of("annotate", *words, "--out", options.judges_from or "judged", "--dry-run")


def after_report(out: str, query_id: str, people: str) -> str:
    """Of labels a query to look at; of a contest labels of people; else what else there is."""
    if query_id:
        return command_of("explain", out, "--query", query_id)
    return command_of("--help") if people == "none" else _labels_for(out, people)


def after_batches(out: str, run: AnnotateOptions | None) -> str:
    """The run that collects the batches, as its record tells it."""
    if run is None:
        return command_of("report", out)
    return _same_run(run.model_copy(update={"out": out}))


def _same_run(run: AnnotateOptions) -> str:
    """A run from its options; some are held by its file alone."""
    same = retold("annotate", run)
    if run.judge_options or run.prices or run.api_key_env:  # which no flag holds
        return f"{same} --config THE-FILE-OF-THAT-RUN.yaml"
    return same


def after_compact(out: str) -> str:
    """Look at the results, which are as they were."""
    return command_of("report", out)


def after_explain(options: ExplainOptions, doc_id: str) -> str:
    """A document of the query; and after a document, the whole query."""
    words = ["explain", options.dir, "--query", options.query]
    return command_of(*words, *(["--doc", doc_id] if doc_id and not options.doc else []))


def whole_of(options: ExplainOptions) -> str:
    """The same explanation, uncut."""
    doc = ["--doc", options.doc] if options.doc else []
    return command_of("explain", options.dir, "--query", options.query, *doc, "--all")


def after_doctor(
    judges: Sequence[str], *, wrong: bool, asked: bool, pools: str, none: bool = False
) -> str:
    """Ask each judge once; or begin, if need be with free judges; or look again when it is mended.

    Args:
        judges: as they were named.
        wrong: whether something is.
        asked: whether the judges were.
        pools: that are there; empty if there are none.
        none: whether there is no judge at all.
    """
    named = ["--judges", *judges] if judges else []
    if wrong:
        return command_of("doctor", *named, *(["--ask"] if asked else []))
    if judges and not asked:
        return command_of("doctor", *named, "--ask")
    if not pools:
        return command_of("annotate", "--help")
    if none:
        return command_of("annotate", pools, "--out", "out", "--judges", "offline")
    return command_of("annotate", pools, *named, "--out", "judged", "--dry-run")


def _contest(truth: str, runs: Sequence[str] = (), use: Use = "texts") -> str:
    """Let runs meet, and plain rerankers where there are texts and no two runs."""
    met = ["--runs", *runs] if runs else []
    if len(runs) < 2 and use == "texts":
        met += ["--rerankers", "words=bm25"] if runs else _PLAIN  # a run is often called bm25
    if not met:
        return command_of("bakeoff", "--help")
    return command_of("bakeoff", "--truth", truth, *met, "--out", beside(truth, "bakeoff"))


def _runs(options: AgreeOptions) -> list[str]:
    return ["--runs", *options.runs] if options.runs else []


def _judges(options: Any) -> list[str]:
    return ["--judges", *options.judges] if options.judges else []


def run_of(place: str) -> str:
    """The directory of a run, where one of its files is named."""
    folder, _, name = place.rstrip("/").rpartition("/")
    return (folder or ".") if name.endswith((".parquet", "annotated.jsonl")) else place
