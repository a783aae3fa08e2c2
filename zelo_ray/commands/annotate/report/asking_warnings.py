"""Warn of what went wrong while judges were asked: missing answers, judges that stopped, lines."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from zelo_ray.evaluation.wilson import wilson_of
from zelo_ray.formats.wording import counted
from zelo_ray.reasons import Disabled, Unscored, UnscoredReason, judges_by_reason
from zelo_ray.report.warning import ResultWarning
from zelo_ray.report.warning_codes import Value, WarningCode

LOST = 0.05
"""A share of lost answers that matters. One in twenty: of three judges, about every seventh
document then lacks a word; and models refuse alike, so that these are not any documents."""
_NAMED = 3
_AGAIN = "Run the same command again: it asks for these anew"
_BUDGET = "Run the same command again with a higher --max-usd: what is paid for is kept"
_MEND = {
    "invalid": "Ask again with --retry-failures --reasks 3, or put another model in its place",
    "truncated": "Ask again with --retry-failures and a longer answer (max_output_tokens in "
    "judge_options), or put another model in its place",
    "failed": _AGAIN,
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


@dataclass(frozen=True, slots=True)
class AskingFigures:
    """Figures of how asking went, as far as they are known.

    Attributes:
        given: by judge, how many judgments it gave.
        failed: by judge, how many requests ended with which status.
        disabled: judges that were asked nothing more, and why.
        unscored: queries without scores, and why.
        queries: how many queries there are.
        coverage: the share of the requests of a query that must give a judgment.
        rejected: how many input lines were set aside.
        first_rejected: where the first of these is, and why it was set aside; may be empty.
    """

    given: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    disabled: Mapping[str, Disabled] = field(default_factory=dict)
    unscored: Mapping[str, Unscored] = field(default_factory=dict)
    queries: int = 0
    coverage: float = 0.5
    rejected: int = 0
    first_rejected: str = ""


def warn_of_asking(asking: AskingFigures) -> Iterator[ResultWarning]:
    """Yield a warning for all that is missing, with the reason."""
    yield from _unscored(asking)
    yield from _stopped(asking)
    yield from _missing(asking)
    yield from _rejected(asking)


def _unscored(asking: AskingFigures) -> Iterator[ResultWarning]:
    if not asking.unscored:
        return
    count, alone = len(asking.unscored), len(asking.unscored) == 1
    reasons = Counter(
        reason.message if alone else _of_many(reason, asking.coverage)
        for reason in asking.unscored.values()
    ).most_common()
    shown = [
        f"{reason} ({times:,})" if len(reasons) > 1 else reason
        for reason, times in reasons[:_NAMED]
    ]
    more = f"; and {len(reasons) - _NAMED} other reasons" if len(reasons) > _NAMED else ""
    statuses = {status for by_judge in asking.failed.values() for status in by_judge}
    advice = "The section names them all"
    if {reason.code for reason in asking.unscored.values()} <= _LACK_DOCUMENTS:
        advice = "Give these queries documents: the section names them all"
    elif any(reason.is_over_budget for reason in asking.disabled.values()):
        advice = _BUDGET
    elif statuses:
        advice = _AGAIN if statuses == {"failed"} else "Ask again with --retry-failures"
    values = {
        "queries": counted(count, "query has", "queries have"),
        "reasons": "; ".join(shown) + more,
        "advice": advice,
    }
    share = count / max(count, asking.queries)
    yield ResultWarning(WarningCode.UNSCORED_QUERIES, values, share)


def _of_many(reason: Unscored, coverage: float) -> str:
    """Return a reason as it holds of several queries, without the numbers of one."""
    if reason.code is UnscoredReason.LOW_COVERAGE:
        share = "fewer than half" if coverage == 0.5 else f"less than {coverage:.0%}"
        return f"{share} of their requests gave a judgment (--min-coverage)"
    return _OF_MANY.get(reason.code, reason.message)


def _stopped(asking: AskingFigures) -> Iterator[ResultWarning]:
    for reason, judges in judges_by_reason(asking.disabled).items():
        values = {"judges": _listed(judges), "reason": reason.message, "advice": _BUDGET}
        if reason.is_over_budget:
            values["reason"] = reason.message[0].upper() + reason.message[1:]
            yield ResultWarning(WarningCode.BUDGET_USED_UP, values)
        else:
            yield ResultWarning(WarningCode.JUDGE_STOPPED, values)


def _missing(asking: AskingFigures) -> Iterator[ResultWarning]:
    for judge, failed in asking.failed.items():
        statuses = dict(failed)
        reason = asking.disabled.get(judge)
        if reason and reason.is_over_budget:  # of which one warning tells already
            statuses.pop("failed", None)
        missing = sum(statuses.values())
        requests = missing + asking.given.get(judge, 0)
        if not missing or wilson_of(missing, requests)[0] <= LOST:
            continue
        kinds = sorted(statuses, key=lambda status: -statuses[status])
        alone = len(asking.given.keys() | asking.failed.keys()) == 1
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


def _rejected(asking: AskingFigures) -> Iterator[ResultWarning]:
    if asking.rejected:
        lines = counted(asking.rejected, "bad input line was", "bad input lines were")
        first = f" (first {asking.first_rejected})" if asking.first_rejected else ""
        yield ResultWarning(WarningCode.LINES_REJECTED, {"lines": lines, "first": first})


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
