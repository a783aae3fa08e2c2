"""Warn of what makes scores unreliable: missing answers, and judges that fail, contradict, copy."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations
from math import atanh, isfinite, sqrt, tanh

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
from zelo_ray.fitting.effective_judges import grade_correlation
from zelo_ray.protocols import protocol_of_record
from zelo_ray.protocols.server_figures import ServerFigures
from zelo_ray.report.demonstration import warn_of_demonstration
from zelo_ray.report.model import Severity, Warn, name_some
from zelo_ray.report.results import Results

LOST = 0.05
"""A share of missing answers that matters: with three judges, about every seventh document then
lacks a judgment. As models refuse alike, these documents are not a random sample."""
FEWEST = 30
"""The fewest votes for a warning about the order: of many judges with five votes each, some prefer
one side every time by chance."""
ORDER = 0.05
"""The distance from 1/2 beyond which the whole interval of the first one's share of wins must lie.
A judge with .45 or .55 changes one vote in ten by the order alone."""
ALWAYS = 0.95
"""From this share for one side on, the order alone decides."""
AGAINST, AGAINST_GRADES = 0.45, -0.1
"""Below this share of agreement (random votes reach .5), or this correlation of grades, two judges
contradict each other."""
SAME, MANY = 0.97, 100
"""From this mean agreement or correlation on, over so many items, a second judge changes next to
nothing, whether what they agree on is right or wrong."""
_Z = 1.959964
_AGAIN = "run the same command again: it asks for these anew"
_BUDGET = "run the same command again with a higher --max-usd: what is paid for is kept"
_HELP = {
    "invalid": "ask again with --retry-failures and reasks: 3, or replace it by another model",
    "truncated": "ask again with --retry-failures and a longer answer (max_output_tokens in "
    "judge_options), or replace it by another model",
    "failed": _AGAIN,
    "blank": "set another response_format (json_object or none, in judge_options), or replace it "
    "by another model: the same request would end so again",
}
_ANOTHER = "ask again with --retry-failures, or replace it by another model (--judges)"


def find_warnings(results: Results) -> Iterator[Warn]:
    """Yield a warning for everything that makes the scores of a run unreliable."""
    yield from _unscored(results)
    yield from _stopped(results)
    yield from _missing(results)
    yield from _servers(results)
    if rejected := results.record["summary"]["rejected"]:
        lines = counted(rejected, "invalid input line was", "invalid input lines were")
        text = f"{lines} set aside, and their queries have no labels"
        advice = "fix the lines listed in rejected.parquet, and run the same command again"
        yield Warn("rejected", "doubtful", text, advice, "rejected")
    counts = count_judgments(results)
    judges = [*dict.fromkeys((*results.record["judges"], *counts.judges))]
    yield from warn_of_demonstration(judges, "judges")
    yield from constant_judges(counts, judges)
    yield from order_sways(counts, _both_orders(results))
    yield from _contradictions(counts)
    yield from judges_alike(counts)


def _unscored(results: Results) -> Iterator[Warn]:
    summary = results.record["summary"]
    rows = [*summary["unscored"].values()]
    if not rows:
        return
    reasons = Counter(row["code"] for row in rows).most_common()
    listed = [f"{code} ({times:,})" for code, times in reasons]
    why = rows[0]["message"] if len(rows) == 1 else name_some(listed)
    statuses = {status for counts in summary["failures_by_judge"].values() for status in counts}
    advice = _AGAIN if statuses == {"failed"} else "ask again with --retry-failures"
    if {code for code, _ in reasons} <= {"no documents", "too few documents"}:
        advice = "give these queries documents"
    elif any(reason.is_over_budget for reason in disabled_in(summary)):
        advice = _BUDGET
    elif not statuses:
        advice = ""
    have = counted(len(rows), "query has", "queries have")
    yield Warn("unscored", "wrong", f"{have} no scores: {why}", advice, "unscored")


def _stopped(results: Results) -> Iterator[Warn]:
    for reason, judges in disabled_in(results.record["summary"]).items():
        text = f"{name_some(judges)} stopped: {reason.message}"
        advice = "fix that, and run the same command again: paid answers are kept"
        advice = _BUDGET if reason.is_over_budget else advice
        yield Warn("stopped", "wrong", text, advice, "judges")


def _missing(results: Results) -> Iterator[Warn]:
    summary = results.record["summary"]
    spent = [
        judge
        for reason, names in disabled_in(summary).items()
        if reason.is_over_budget
        for judge in names
    ]
    for judge, statuses in summary["failures_by_judge"].items():
        kinds = Counter(statuses)
        if judge in spent:  # another warning says it
            del kinds["failed"]
        missing = kinds.total()
        requests = missing + summary["answers_by_judge"].get(judge, 0)
        if not missing or share_interval(missing, requests)[0] <= LOST:
            continue
        listed = ", ".join(f"{n:,} {status}" for status, n in kinds.most_common() if n)
        text = f"{missing / requests:.0%} of {judge}'s answers are missing ({listed})"
        severity: Severity = "wrong" if missing >= requests / 2 else "doubtful"
        advice = _HELP.get(kinds.most_common(1)[0][0], _ANOTHER)
        yield Warn("missing", severity, text, advice, "failures")


def _servers(results: Results) -> Iterator[Warn]:
    """Yield a warning for each judge whose server cuts prompts, or lets another model answer."""
    for judge, row in results.record["summary"]["servers"].items():
        figures = ServerFigures(**row)
        if tokens := figures.cut_to:
            text = (
                f"The server of {judge} counted {tokens:,} tokens at most, also of longer prompts: "
            )
            text += "it has probably read only a part of them"
            advice = (
                "give it a larger context (of Ollama: OLLAMA_CONTEXT_LENGTH, num_ctx) or show less "
                "of documents (--document-tokens), and judge anew with another --out"
            )
            yield Warn("prompt_cut", "wrong", text, advice, "judges")
        if is_another_model(judge, figures.models):
            text = f"{judge} was answered by {list_models(judge, figures.models)}"
            advice = "turn off fallbacks at the server or name the model that answers, and judge "
            yield Warn("other_model", "wrong", text, f"{advice}anew", "judges")


def constant_judges(counts: Counts, judges: list[str]) -> Iterator[Warn]:
    """Yield a warning for each judge that always gave the same answer, too often for chance."""
    severity: Severity = "wrong" if len(judges) == 1 else "doubtful"
    habits = {
        name: f"gave grade {given.argmax()} to every document"
        for name, given in sorted(counts.grades.items())
        if given.max() == given.sum() >= FEWEST
    }
    ties = {
        name: "called every comparison a tie"
        for name, votes in sorted(counts.votes.items())
        if counts.tied[name] == votes >= FEWEST
    }
    for name, habit in (ties | habits).items():
        advice = "read its answers (zelo-ray explain), then replace it by another model"
        yield Warn("constant", severity, f"{name} {habit}", advice, "judges")


def order_sways(counts: Counts, help_: str) -> Iterator[Warn]:
    """Yield a warning for each judge whose vote depends on what is shown first."""
    for judge, votes in sorted(counts.votes.items()):
        share = counts.first[judge] / votes
        low, high = share_interval(counts.first[judge], votes)
        if votes < FEWEST or (low <= 0.5 + ORDER and high >= 0.5 - ORDER):
            continue
        always = max(share, 1 - share) >= ALWAYS
        place = "first" if share > 0.5 else "second"
        text = f"{judge} prefers what comes {place}: the first won {share:.2f} "
        text += f"[{max(low, 0):.2f}, {min(high, 1):.2f}] of its votes instead of .50"
        advice = "replace it by another model" if always else help_
        yield Warn("place", "wrong" if always else "doubtful", text, advice, "agreement")


def _both_orders(results: Results) -> str:
    """Return advice against an influence of the order."""
    options, own = results.record["options"], protocol_of_record(results.record).own_options
    if options.get("both_orders") or options.get("repeats", 1) > 1:
        return "replace it by another model"
    for name, flag in (("both_orders", "--both-orders"), ("repeats", "--repeats 2")):
        if name in own:
            return f"ask each pair in both orders ({flag}), or replace it by another model"
    return "replace it by another model"


def _contradictions(counts: Counts) -> Iterator[Warn]:
    advice = "read both with zelo-ray explain, then remove one from --judges or fix its prompt"
    for two, pairs in sorted(counts.pairs.items()):
        low, high = share_interval(counts.agreed[two], pairs) if pairs else (0, 1)
        if high < AGAINST:
            figure = f"agree on {counts.agreed[two] / pairs:.2f} [{low:.2f}, {high:.2f}] of pairs"
            text = f"{two[0]} and {two[1]} {figure} (by chance .50)"
            yield Warn("contradiction", "doubtful", text, advice, "agreement")
    for two, (r, low, high) in correlations(counts).items():
        if high < AGAINST_GRADES:
            figure = f"correlate by {r:.2f} [{low:.2f}, {high:.2f}]"
            text = f"The grades of {two[0]} and {two[1]} {figure}"
            yield Warn("contradiction", "doubtful", text, advice, "grades")


def correlations(counts: Counts) -> Mapping[tuple[str, str], tuple[float, float, float]]:
    """Return the correlation of every two judges' grades, with its interval (Fisher's z)."""
    found = {}
    for two, table in sorted(counts.confusion.items()):
        r, items = grade_correlation(table), int(table.sum())
        if isfinite(r) and items > 3:
            z, reach = atanh(np.clip(r, -0.999999, 0.999999)), _Z / sqrt(items - 3)
            found[two] = (r, tanh(z - reach), tanh(z + reach))
    return found


def judges_alike(counts: Counts) -> Iterator[Warn]:
    """Yield a warning if judges agree so much that one of them is enough."""
    names, confusion = counts.judges, counts.confusion
    pairs = [*combinations(names, 2)]
    if counts.grades:
        same = [grade_correlation(confusion.get(two, np.zeros((1, 1)))) for two in pairs]
        items = [int(table.sum()) for table in confusion.values()]
    else:
        same = [counts.agreement(*two)[0] for two in pairs]
        items = [*counts.pairs.values()]
    if pairs and np.mean(same) >= SAME and min(items, default=0) >= MANY:
        text = (
            f"The {len(names)} judges say nearly the same ({np.mean(same):.2f} on {min(items):,} "
        )
        text += "items or more), and probably count as about one"
        advice = "replace one of them by a judge of another model family (--judges)"
        yield Warn("alike", "doubtful", text, advice, "judges")
