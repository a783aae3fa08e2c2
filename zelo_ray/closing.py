"""What a run of annotate says at its end, in lines of a terminal."""

import math
from collections.abc import Iterator

from zelo_ray.config import Options
from zelo_ray.display import dollars, duration
from zelo_ray.records import Rater, Share
from zelo_ray.settle import Summary

_RATERS = 12
_NAMED = 10


def closing(summary: Summary, options: Options) -> Iterator[str]:
    """What was scored, what is missing and why, and how the judges grade."""
    took, spent = sum(summary.seconds.values()), dollars(summary.dollars, summary.unpriced)
    yield (
        f"{summary.scored:,} documents of {summary.queries:,} queries scored from "
        f"{summary.judgments:,} judgments in {duration(took)}, {spent}"
    )
    if summary.std_error is not None:
        unit = "grades" if options.protocol == "graded" else "logits"
        yield f"standard error {summary.std_error:.2f} {unit} on average"
    if summary.ambiguous:
        yield (
            f"{summary.ambiguous:,} documents on which the judges are split: ambiguous in "
            "scores.parquet (to leave them out: zelo-ray convert qrels "
            f"{summary.out} --grades --without-ambiguous --out FILE)"
        )
    yield from summary.notes
    yield from _raters(summary.raters)
    yield from _shares(summary.shares)
    if options.human and not any(share.humans for share in summary.shares):
        yield f"{options.human} holds no grade of a document that was graded: it changed nothing"
    if summary.ungraded:
        yield f"{summary.ungraded:,} queries have no grades, and so no absolute scores"
    if summary.failures:
        yield f"{summary.failures:,} requests gave no judgment: see failures.parquet"
    for reason, times in sorted(summary.reasons.items(), key=lambda item: -item[1])[:3]:
        yield f"  {times:,} times {reason}"
    if summary.rejected:
        yield f"{summary.rejected:,} bad input lines were set aside: see rejected.parquet"
    for query_id, reason in list(summary.unscored.items())[:_NAMED]:
        yield f"query {query_id} has no scores: {reason}"
    if len(summary.unscored) > _NAMED:
        more = len(summary.unscored) - _NAMED
        yield f"… and {more:,} more queries without scores: see run.json"
    for reason in dict.fromkeys(summary.absent.values()):
        names = ", ".join(judge for judge, why in summary.absent.items() if why == reason)
        yield f"asked nothing more: {names} ({reason.removeprefix(f'{names}: ')})"


def _raters(raters: list[Rater]) -> Iterator[str]:
    """How each judge of a panel grades beside the others."""
    if len(raters) < 2:
        return
    width = max(len(rater.judge) for rater in raters[:_RATERS])
    yield f"{'judge':{width}}   severity       spread      weight"
    for rater in raters[:_RATERS]:
        severity = f"{rater.severity:+5.2f} ± {rater.severity_error:.2f}"
        spread = f"{rater.spread:.2f} ± {rater.spread_error:.2f}"
        known, told = math.isfinite(rater.severity), math.isfinite(rater.spread)
        lost = "by chance" if rater.spread == math.inf else "unknown"
        weight = f"{rater.weight:.1%}" if math.isfinite(rater.weight) else ""
        yield (
            f"{rater.judge:{width}}  {severity if known else 'unknown':>12}  "
            f"{spread if told else lost:>11}  {weight:>7}"
        )
    if len(raters) > _RATERS:
        yield f"… and {len(raters) - _RATERS} more: see raters.parquet"


def _shares(shares: list[Share]) -> Iterator[str]:
    """What human labels say of the panel's means."""
    for share in shares:
        if share.humans:
            what = "mean grade" if share.measure == "grade" else f"share of grades {share.measure}"
            interval = f" [{share.low:.3f}, {share.high:.3f}]" if math.isfinite(share.low) else ""
            yield (
                f"{what}: {share.mean:.3f}{interval} with {share.humans:,} human labels, "
                f"{share.panel:.3f} by the panel alone"
            )
