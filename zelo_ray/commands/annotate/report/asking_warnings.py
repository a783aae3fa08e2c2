"""Warn of failures while asking: missing answers, disabled judges, rejected lines."""

from collections import Counter
from collections.abc import Iterator, Sequence

from zelo_ray.commands.annotate.report.answering_models import is_another_model, list_models
from zelo_ray.engine.write_results import Summary
from zelo_ray.evaluation.significance import share_interval
from zelo_ray.files.wording import counted
from zelo_ray.reasons import Unscored, UnscoredReason, judges_by_reason
from zelo_ray.reports.warning import ResultWarning
from zelo_ray.reports.warning_codes import Value, WarningCode
from zelo_ray.reports.wording import short

LOST = 0.05
"""A share of missing answers that matters: with three judges, about every seventh document then
lacks a judgment. As models refuse alike, these documents are not a random sample."""
_NAMED = 3
_REASON = 160  # characters of a reason in a sentence
_AGAIN = "Run the same command again: it asks for these anew"
_BUDGET = "Run the same command again with a higher --max-usd: what is paid for is kept"
_MEND = {
    "invalid": "Ask again with --retry-failures and reasks: 3, or put another model in its place",
    "truncated": "Ask again with --retry-failures and a longer answer (max_output_tokens in "
    "judge_options), or put another model in its place",
    "failed": _AGAIN,
    "blank": "Set another response_format (json_object or none, in judge_options), or put another "
    "model in its place: the same request would end so again",
}
_LACK_DOCUMENTS = {UnscoredReason.NO_DOCUMENTS, UnscoredReason.TOO_FEW_DOCUMENTS}
_OF_MANY = {
    UnscoredReason.NO_DOCUMENTS: "they hold no documents",
    UnscoredReason.TOO_FEW_DOCUMENTS: "they hold fewer documents than a comparison takes",
    UnscoredReason.NO_VOTES: "they have no votes",
    UnscoredReason.NO_GRADES: "they have no grades",
    UnscoredReason.DISCONNECTED: "their comparisons fall into parts that never met",
    UnscoredReason.NO_TOURNAMENT: "none of their tournaments came to an end",
}
_ANOTHER = "Ask again with --retry-failures, or put another model in its place (--judges)"


def warn_of_asking(
    summary: Summary, coverage: float = 0.5, first_rejected: str = ""
) -> Iterator[ResultWarning]:
    """Yield a warning for everything that is missing, with the reason.

    Args:
        summary: of the run.
        coverage: the share of the requests of a query that must give a judgment.
        first_rejected: the place of the first rejected line, and the reason.
    """
    yield from _unscored(summary, coverage)
    yield from _stopped(summary)
    yield from _missing(summary)
    yield from _servers(summary)
    if summary.rejected:
        lines = counted(summary.rejected, "invalid input line was", "invalid input lines were")
        first = f" (first {short(first_rejected, _REASON)})" if first_rejected else ""
        yield ResultWarning(WarningCode.LINES_REJECTED, {"lines": lines, "first": first})


def _unscored(summary: Summary, coverage: float) -> Iterator[ResultWarning]:
    if not summary.unscored:
        return
    count, alone = len(summary.unscored), len(summary.unscored) == 1
    reasons = Counter(
        short(reason.message, _REASON) if alone else _of_many(reason, coverage)
        for reason in summary.unscored.values()
    ).most_common()
    shown = [
        f"{reason} ({times:,})" if len(reasons) > 1 else reason
        for reason, times in reasons[:_NAMED]
    ]
    more = f"; and {len(reasons) - _NAMED} other reasons" if len(reasons) > _NAMED else ""
    statuses = {status for counts in summary.failures_by_judge.values() for status in counts}
    advice = "The section names them all"
    if {reason.code for reason in summary.unscored.values()} <= _LACK_DOCUMENTS:
        advice = "Give these queries documents: the section names them all"
    elif any(reason.is_over_budget for reason in summary.disabled.values()):
        advice = _BUDGET
    elif statuses == {"blank"}:
        advice = _MEND["blank"]
    elif statuses:
        advice = _AGAIN if statuses == {"failed"} else "Ask again with --retry-failures"
    values = {
        "queries": counted(count, "query has", "queries have"),
        "reasons": "; ".join(shown) + more,
        "advice": advice,
    }
    share = count / max(count, summary.queries)
    yield ResultWarning(WarningCode.UNSCORED_QUERIES, values, share)


def _of_many(reason: Unscored, coverage: float) -> str:
    """Return a reason in words that apply to several queries."""
    if reason.code is UnscoredReason.LOW_COVERAGE:
        share = "fewer than half" if coverage == 0.5 else f"less than {coverage:.0%}"
        return f"{share} of their requests gave a judgment (min_coverage)"
    return _OF_MANY.get(reason.code, short(reason.message, _REASON))


def _stopped(summary: Summary) -> Iterator[ResultWarning]:
    for reason, judges in judges_by_reason(summary.disabled).items():
        message = short(reason.message, _REASON)
        values = {"judges": _listed(judges), "reason": message, "advice": _BUDGET}
        if reason.is_over_budget:
            values["reason"] = message[0].upper() + message[1:]
            yield ResultWarning(WarningCode.BUDGET_USED_UP, values)
        else:
            yield ResultWarning(WarningCode.JUDGE_STOPPED, values)


def _missing(summary: Summary) -> Iterator[ResultWarning]:
    judged, failed = summary.judgments_by_judge, summary.failures_by_judge
    for judge, counts in failed.items():
        statuses = dict(counts)
        reason = summary.disabled.get(judge)
        if reason and reason.is_over_budget:  # another warning covers it
            statuses.pop("failed", None)
        missing = sum(statuses.values())
        requests = missing + summary.answers_by_judge.get(judge, 0)
        if not missing or share_interval(missing, requests)[0] <= LOST:
            continue
        kinds = sorted(statuses, key=lambda status: -statuses[status])
        alone = len(judged.keys() | failed.keys()) == 1
        share = missing / requests
        values: dict[str, Value] = {
            "judge": judge,
            "share": share,
            "kinds": ", ".join(f"{statuses[kind]:,} {kind}" for kind in kinds if statuses[kind]),
            "consequence": "there is no judgment where it gave none"
            if alone
            else "where its judgment is missing, the other judges decide alone",
            "advice": _MEND.get(kinds[0], _ANOTHER),
        }
        yield ResultWarning(WarningCode.ANSWERS_MISSING, values, share + 20 * (share >= 0.5))


def _servers(summary: Summary) -> Iterator[ResultWarning]:
    """Yield a warning for each judge whose server cuts prompts, or lets another model answer."""
    for judge, figures in summary.servers.items():
        if tokens := figures.cut_to:
            yield ResultWarning(WarningCode.PROMPTS_CUT, {"judge": judge, "tokens": tokens})
        if is_another_model(judge, figures.models):
            values = {"judge": judge, "models": list_models(judge, figures.models)}
            yield ResultWarning(WarningCode.ANOTHER_MODEL, values)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
