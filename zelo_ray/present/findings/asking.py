"""What went wrong while judges were asked: answers that are missing, judges that stopped, lines."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from zelo_ray.evaluation.wilson import wilson_of
from zelo_ray.formats.wording import counted
from zelo_ray.present.findings.finding import Finding
from zelo_ray.reasons import Disabled, Unscored, UnscoredReason, judges_by_reason

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
class Asked:
    """How asking went, as far as it is known.

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


def of_asking(asked: Asked) -> Iterator[Finding]:
    """All that is missing, and why."""
    yield from _unscored(asked)
    yield from _stopped(asked)
    yield from _lost(asked)
    yield from _rejected(asked)


def _unscored(asked: Asked) -> Iterator[Finding]:
    if not asked.unscored:
        return
    count, alone = len(asked.unscored), len(asked.unscored) == 1
    kinds = Counter(
        reason.message if alone else _of_many(reason, asked.coverage)
        for reason in asked.unscored.values()
    ).most_common()
    told = [f"{why} ({times:,})" if len(kinds) > 1 else why for why, times in kinds[:_NAMED]]
    more = f"; and {len(kinds) - _NAMED} other reasons" if len(kinds) > _NAMED else ""
    lost = {status for of_judge in asked.failed.values() for status in of_judge}
    mend = "The section names them all"
    if {reason.code for reason in asked.unscored.values()} <= _LACK_DOCUMENTS:
        mend = "Give these queries documents: the section names them all"
    elif any(reason.is_over_budget for reason in asked.disabled.values()):
        mend = _BUDGET
    elif lost:
        mend = _AGAIN if lost == {"failed"} else "Ask again with --retry-failures"
    yield Finding(
        84 + count / max(count, asked.queries),
        f"{counted(count, 'query has', 'queries have')} no scores",
        "; ".join(told) + more,
        mend,
        "unscored",
    )


def _of_many(reason: Unscored, coverage: float) -> str:
    """Return a reason as it holds of several queries, without the numbers of one."""
    if reason.code is UnscoredReason.LOW_COVERAGE:
        share = "fewer than half" if coverage == 0.5 else f"less than {coverage:.0%}"
        return f"{share} of their requests gave a judgment (--min-coverage)"
    return _OF_MANY.get(reason.code, reason.message)


def _stopped(asked: Asked) -> Iterator[Finding]:
    for why, names in judges_by_reason(asked.disabled).items():
        reason, over = why.message, why.is_over_budget
        yield Finding(
            82,
            f"{reason[0].upper()}{reason[1:]} before {_listed(names)} had answered everything"
            if over
            else f"{_listed(names)} stopped ({reason})",
            "it was asked nothing more, and the scores of later queries lack its word"
            if len(names) == 1
            else "they were asked nothing more, and the scores of later queries lack their word",
            _BUDGET
            if over
            else "Mend that and run the same command again: what is paid for is kept",
            "judges",
            spoken=True,
        )


def _lost(asked: Asked) -> Iterator[Finding]:
    for judge, failed in asked.failed.items():
        statuses = dict(failed)
        reason = asked.disabled.get(judge)
        if reason and reason.is_over_budget:  # of which one finding tells already
            statuses.pop("failed", None)
        lost = sum(statuses.values())
        whole = lost + asked.given.get(judge, 0)
        if not lost or wilson_of(lost, whole)[0] <= LOST:
            continue
        kinds = sorted(statuses, key=lambda status: -statuses[status])
        told = ", ".join(f"{statuses[kind]:,} {kind}" for kind in kinds if statuses[kind])
        share = lost / whole
        alone = len(asked.given.keys() | asked.failed.keys()) == 1
        yield Finding(
            (80 if share >= 0.5 else 60) + share,
            f"{share:.0%} of {judge}'s answers are missing ({told})",
            "there is no judgment where it gave none"
            if alone
            else "where its word is missing, the other judges decide alone",
            _MEND.get(kinds[0], _ANOTHER),
            "failures",
        )


def _rejected(asked: Asked) -> Iterator[Finding]:
    if asked.rejected:
        were = "was" if asked.rejected == 1 else "were"
        first = f" (first {asked.first_rejected})" if asked.first_rejected else ""
        yield Finding(
            50,
            f"{counted(asked.rejected, 'bad input line')} {were} set aside{first}",
            "their queries have no labels",
            "Mend the lines that rejected.parquet names, and run the same command again",
        )


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
