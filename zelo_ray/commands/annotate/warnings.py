"""Warn of what makes scores unreliable: missing answers, and judges that fail, contradict, copy."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import combinations
from math import atanh, isfinite, sqrt, tanh
from typing import Any

import numpy as np

from zelo_ray.commands.annotate.judges import (
    Counts,
    count_judgments,
    disabled_in,
    is_another_model,
    list_models,
)
from zelo_ray.evaluation.significance import share_interval
from zelo_ray.files.wording import counted
from zelo_ray.fitting.grades import grade_correlation
from zelo_ray.protocols.server_figures import ServerFigures
from zelo_ray.report.model import Severity, Warn, name_some, warn_of_demonstration
from zelo_ray.report.results import Results

LOST = 0.05
"""A share of missing answers that matters. As models refuse alike, they are no random sample."""
FEWEST = 30
"""The fewest votes for a warning about the order: of many judges some prefer one side by chance."""
ORDER, ALWAYS = 0.05, 0.95
"""How far from 1/2 the whole interval of the first one's share of wins must lie: a judge with .45
changes one vote in ten by the order alone. And the share from which the order alone decides."""
AGAINST, AGAINST_GRADES = 0.45, -0.1
"""Below this share of agreement (random votes reach .5), or this correlation of grades, two judges
contradict each other."""
SAME, MANY = 0.97, 100
"""From this mean agreement or correlation on, over so many items, a second judge adds nothing."""
_Z = 1.959964
_AGAIN = "Run the same command again: it asks for these anew"
_BUDGET = "Run the same command again with a higher --max-usd: what is paid for is kept"
_ANOTHER = "Ask again with --retry-failures, or replace it by another model (--judges)"
_READ = "Read its answers (zelo-ray explain), then replace it by another model"
_READ_BOTH = "Read both with zelo-ray explain, then remove one from --judges or fix its prompt"


def find_warnings(results: Results) -> Iterator[Warn]:
    """Yield a warning for everything that makes the scores of a run unreliable."""
    record = results.record
    yield from warn_of_asking(record["summary"])
    counts = count_judgments(results)
    judges = [*dict.fromkeys((*record["judges"], *counts.judges))]
    yield from warn_of_demonstration(judges, "judges")
    once = record["options"].get("repeats", 2) == 1  # with more, both orders are asked
    yield from warn_of_judges(counts, judges, "--repeats 2" if once else "")


def warn_of_asking(summary: Mapping[str, Any]) -> Iterator[Warn]:
    """Yield a warning for everything that is missing, by the summary of a run."""
    stopped = disabled_in(summary)
    over = {name for reason in stopped if reason.is_over_budget for name in stopped[reason]}
    if unscored := summary["unscored"]:
        codes = Counter(row["code"] for row in unscored.values()).most_common()
        why = name_some([f"{code} ({times:,})" for code, times in codes])
        why = next(iter(unscored.values()))["message"] if len(unscored) == 1 else why
        text = f"{counted(len(unscored), 'query has', 'queries have')} no scores: {why}"
        advice = _BUDGET if over else _AGAIN if summary["failures_by_judge"] else ""
        yield Warn("unscored", "wrong", text, advice, "unscored")
    for reason, judges in stopped.items():
        advice = "Fix that, and run the same command again: paid answers are kept"
        advice = _BUDGET if reason.is_over_budget else advice
        text = f"{name_some(judges)} stopped: {reason.message}"
        yield Warn("stopped", "wrong", text, advice, "judges")
    for judge, statuses in summary["failures_by_judge"].items():
        yield from _missing(judge, statuses, summary["answers_by_judge"].get(judge, 0), over)
    for judge, row in summary["servers"].items():
        yield from _served(judge, ServerFigures(**row))
    if rejected := summary["rejected"]:
        lines = counted(rejected, "invalid input line was", "invalid input lines were")
        its = "its query has" if rejected == 1 else "their queries have"
        text = f"{lines} set aside, and {its} no labels"
        advice = "Fix the lines listed in rejected.parquet, and run the same command again"
        yield Warn("rejected", "doubtful", text, advice, "rejected")


def _missing(
    judge: str, statuses: Mapping[str, int], answers: int, over: Container[str]
) -> Iterator[Warn]:
    kinds = Counter({k: n for k, n in statuses.items() if not (k == "failed" and judge in over)})
    missing, asked = kinds.total(), kinds.total() + answers
    if missing and share_interval(missing / asked, asked)[0] > LOST:
        listed = ", ".join(f"{times:,} {status}" for status, times in kinds.most_common())
        text = f"{missing / asked:.0%} of {judge}'s answers are missing ({listed})"
        advice = _AGAIN if {*kinds} == {"failed"} else _ANOTHER
        severity: Severity = "wrong" if missing >= asked / 2 else "doubtful"
        yield Warn("missing", severity, text, advice, "failures")


def _served(judge: str, figures: ServerFigures) -> Iterator[Warn]:
    """Yield a warning if a judge's server cuts prompts, or lets another model answer."""
    if tokens := figures.cut_to:
        text = f"The server of {judge} counted {tokens:,} tokens at most, also of longer prompts: "
        text += "it has probably read only a part of them"
        advice = "Give it a larger context (of Ollama: OLLAMA_CONTEXT_LENGTH, num_ctx) or show "
        advice += "less of documents (--document-tokens), and judge anew with another --out"
        yield Warn("prompt_cut", "wrong", text, advice, "judges")
    if is_another_model(judge, figures.models):
        text = f"{judge} was answered by {list_models(judge, figures.models)}"
        advice = "Turn off fallbacks at the server or name the model that answers, and judge anew"
        yield Warn("other_model", "wrong", text, advice, "judges")


def warn_of_judges(counts: Counts, judges: Sequence[str], both: str = "") -> Iterator[Warn]:
    """Yield a warning for each judge that is of no use, and for judges that contradict or copy.

    ``both`` is the option that asks a pair in both orders, if the run did not.
    """
    alone: Severity = "wrong" if len(judges) == 1 else "doubtful"
    for name, by_grade in sorted(counts.grades.items()):
        if by_grade.max() == by_grade.sum() >= FEWEST:
            text = f"{name} gave grade {by_grade.argmax()} to every document"
            yield Warn("constant", alone, text, _READ, "judges")
    for name, votes in sorted(counts.votes.items()):
        first = counts.first[name]
        low, high = share_interval(first / votes, votes)
        if counts.tied[name] == votes >= FEWEST:
            yield Warn("constant", alone, f"{name} called every comparison a tie", _READ, "judges")
        if votes >= FEWEST and (low > 0.5 + ORDER or high < 0.5 - ORDER):
            place = "first" if 2 * first > votes else "second"
            span = f"{first / votes:.2f} [{max(low, 0):.2f}, {min(high, 1):.2f}]"
            text = f"{name} prefers what comes {place}: what came first won {span} of its votes, "
            advice = f"Ask each pair in both orders ({both}), or " if both else ""
            advice += "replace it by another model" if both else "Replace it by another model"
            severity: Severity = "wrong" if abs(first / votes - 0.5) >= ALWAYS - 0.5 else "doubtful"
            yield Warn("place", severity, f"{text}instead of .50", advice, "agreement")
    yield from _contradictions(counts)
    pairs = [*combinations(counts.judges, 2)]
    nothing = np.zeros((1, 1))
    if counts.grades:
        same = [grade_correlation(counts.confusion.get(two, nothing)) for two in pairs]
        items = min((int(table.sum()) for table in counts.confusion.values()), default=0)
    else:
        same = [counts.agreement(*two)[0] for two in pairs]
        items = min(counts.pairs.values(), default=0)
    if pairs and np.mean(same) >= SAME and items >= MANY:
        text = f"The {len(counts.judges)} judges say nearly the same ({np.mean(same):.2f} on "
        text += f"{items:,} items or more), and probably count as about one"
        advice = "Replace one of them by a judge of another model family (--judges)"
        yield Warn("alike", "doubtful", text, advice, "judges")


def _contradictions(counts: Counts) -> Iterator[Warn]:
    for two, pairs in sorted(counts.pairs.items()):
        low, high = share_interval(counts.agreed[two] / pairs, pairs)
        if high < AGAINST:
            span = f"{counts.agreed[two] / pairs:.2f} [{low:.2f}, {high:.2f}]"
            text = f"{' and '.join(two)} agree on {span} of pairs (by chance .50)"
            yield Warn("contradiction", "doubtful", text, _READ_BOTH, "agreement")
    for two, table in sorted(counts.confusion.items()):
        r, items = grade_correlation(table), int(table.sum())
        if isfinite(r) and items > 3:
            z, reach = atanh(np.clip(r, -0.999999, 0.999999)), _Z / sqrt(items - 3)  # Fisher's
            low, high = tanh(z - reach), tanh(z + reach)
            if high < AGAINST_GRADES:
                span = f"{r:.2f} [{low:.2f}, {high:.2f}]"
                text = f"The grades of {' and '.join(two)} correlate by {span}"
                yield Warn("contradiction", "doubtful", text, _READ_BOTH, "grades")
