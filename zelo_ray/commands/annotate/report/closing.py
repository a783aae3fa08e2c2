"""Summarize an annotation run at its end, in lines for the terminal."""

import math
from collections.abc import Iterator
from typing import get_args

import numpy as np

from zelo_ray.commands.annotate.report import tournaments
from zelo_ray.commands.annotate.report.debates import debates_of
from zelo_ray.commands.annotate.report.wins import Wins, win_shares
from zelo_ray.engine.write_results import Summary
from zelo_ray.evaluation.wilson import wilson
from zelo_ray.formats.wording import counted, printable
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import load
from zelo_ray.protocols.graded import is_plain
from zelo_ray.reasons import judges_by_reason
from zelo_ray.records import Contest, GradedScore, Rater, Share, Side, Verdict
from zelo_ray.report.progress.display import dollars, duration

_RATERS = 12
_WINNERS = 10
_NAMED = 10


def closing(summary: Summary, options: AnnotateOptions) -> Iterator[str]:
    """Yield what was scored, what is missing and why, and how the judges grade."""
    yield from map(printable, _closing(summary, options))


def _closing(summary: Summary, options: AnnotateOptions) -> Iterator[str]:
    protocol = load(options.protocol)
    records = {kind.record for kind in protocol.counted.values()}
    judgments = counted(summary.judgments, protocol.noun)
    took, charged = sum(summary.seconds.values()), summary.dollars or summary.unpriced
    spent = dollars(summary.dollars, summary.unpriced) if charged else "nothing spent"
    sweeps = f", {summary.sweeps:,} sweeps over the input" if summary.sweeps > 1 else ""
    queries = counted(summary.queries, "query", "queries")
    yield (
        f"{counted(summary.scored, 'document')} of {queries} scored from {judgments} in "
        f"{duration(took)}{sweeps}, {spent}"
    )
    if summary.std_error is not None:
        error = f"{summary.std_error:.2f} {protocol.score.unit}"
        yield f"standard error {error} on average{_beyond(summary)}"
    if summary.ambiguous:
        yield (
            f"{counted(summary.ambiguous, 'document')} on which the judges are split: ambiguous in "
            "scores.parquet (to leave them out: zelo-ray convert qrels "
            f"{summary.out} --grades --without-ambiguous --out FILE)"
        )
    if Contest in records:
        yield from _tournaments(options)
    if Verdict in records:
        yield from _verdicts(options)
    yield from summary.notes
    yield from _raters(summary.raters, options)
    yield from _shares(summary.shares)
    human = getattr(options, "human", None)
    graded = protocol.score.record is GradedScore
    if human and graded and not any(share.humans for share in summary.shares):
        yield f"{human} holds no grade of a document that was graded: it changed nothing"
    if summary.ungraded:
        have = "has" if summary.ungraded == 1 else "have"
        yield (
            f"{counted(summary.ungraded, 'query', 'queries')} {have} no grades, and so no absolute "
            "scores"
        )
    if summary.failures:
        yield f"{counted(summary.failures, 'request')} gave no judgment: see failures.parquet"
    for reason, times in sorted(summary.reasons.items(), key=lambda item: -item[1])[:3]:
        yield f"  {counted(times, 'time')} {reason}"
    if summary.rejected:
        were = "was" if summary.rejected == 1 else "were"
        bad = counted(summary.rejected, "bad input line")
        yield f"{bad} {were} set aside: see rejected.parquet"
    for query_id, unscored in list(summary.unscored.items())[:_NAMED]:
        yield f"query {query_id} has no scores: {unscored.message}"
    if len(summary.unscored) > _NAMED:
        more = len(summary.unscored) - _NAMED
        yield f"… and {counted(more, 'more query', 'more queries')} without scores: see run.json"
    for why, judges in judges_by_reason(summary.disabled).items():
        yield f"asked nothing more: {', '.join(judges)} ({why.message})"


def _beyond(summary: Summary) -> str:
    """Say which error a figure is, and add the error about people if it is known."""
    if summary.truth_error is None:
        return " if the same judges answered again"
    return f" if the same judges answered again; {summary.truth_error:.2f} about people"


def _tournaments(options: AnnotateOptions) -> Iterator[str]:
    """Yield how tournaments ended, and how far their order matters."""
    decide, repeats = getattr(options, "decide", "each"), getattr(options, "repeats", 1)
    results = tournaments.tournaments_of(options.out, decide=decide, repeats=repeats)
    over = tournaments.ended(results)
    if not results:
        return
    without = len(results) - len(over)
    lost = f", {without:,} had a contest without an answer, and so no winner" if without else ""
    yield f"{len(over):,} of {counted(len(results), 'tournament')} came to an end{lost}"
    won, by_chance, of = tournaments.stayed(over)
    if of:
        yield f"the first king won {won / of:.0%} of them, {by_chance / of:.0%} by chance"
    same, several = tournaments.alike(over)
    if several:
        unit = "query" if decide == "panel" else "judge and query"
        yield f"all repeats have the same winner {same:,} times of {several:,} (once a {unit})"
    yield from _ranking(tournaments.wins(over))


def _ranking(wins: Wins) -> Iterator[str]:
    """Yield how often each name won over many queries, with a 95% interval over these."""
    best = win_shares(wins)
    shown = [(printable(name), share, queries) for name, share, queries in best[:_WINNERS]]
    width = max((len(name) for name, _, _ in shown), default=0)
    for name, share, queries in shown:
        low, high = np.clip(wilson(np.array(share), np.array(queries)), 0, 1)
        over = counted(queries, "query", "queries")
        yield f"  {name:{width}}  won {share:4.0%} [{low:.0%}, {high:.0%}] (mean over {over})"
    if len(best) > _WINNERS:
        yield f"  … and {len(best) - _WINNERS:,} more: see report.html"


def _verdicts(options: AnnotateOptions) -> Iterator[str]:
    """Yield who won, and how often the two orders differ."""
    debates = debates_of(options.out)
    total = debates.whole
    if not total.pairs:
        return
    winners = ", ".join(f"{name} {total.winners[name]:,}" for name in get_args(Side))
    rounds = sum(total.rounds) / len(total.rounds)
    mean = f"; {rounds:.1f} rounds on average" if max(total.rounds) > 1 else ""
    yield f"who won: {winners}{mean}"
    if total.both:
        pairs = counted(total.both, "pair")
        ties = (
            f", so ties: {total.turned:,} turned round (A in one, B in the other), "
            f"{total.half_tied:,} a tie in one order"
        )
        yield f"the orders differ on {total.flipped:,} of {pairs}{ties if total.flipped else ''}"
    yield from _ranking(debates.wins)


def _raters(raters: list[Rater], options: AnnotateOptions) -> Iterator[str]:
    """Yield how each judge of a panel grades compared with the others."""
    if len(raters) < 2:
        return
    names = [printable(rater.judge) for rater in raters[:_RATERS]]
    width = max(map(len, names))
    yield f"{'judge':{width}}   severity       spread      weight"
    for name, rater in zip(names, raters, strict=False):
        severity = f"{rater.severity:+5.2f} ± {rater.severity_error:.2f}"
        spread = f"{rater.spread:.2f} ± {rater.spread_error:.2f}"
        has_severity, has_spread = math.isfinite(rater.severity), math.isfinite(rater.spread)
        lost = "by chance" if rater.spread == math.inf else "unknown"
        weight = f"{rater.weight:.1%}" if math.isfinite(rater.weight) else ""
        yield (
            f"{name:{width}}  {severity if has_severity else 'unknown':>12}  "
            f"{spread if has_spread else lost:>11}  {weight:>7}"
        )
    if len(raters) > _RATERS:
        yield f"… and {len(raters) - _RATERS} more: see raters.parquet"
    if options.protocol == "graded" and is_plain(vars(options)):
        yield "scores take every judge alike: the weights are those of a model that is not used"


def _shares(shares: list[Share]) -> Iterator[str]:
    """Yield what human labels say of the panel's means."""
    for share in shares:
        if share.humans and math.isfinite(share.mean):
            what = "mean grade" if share.measure == "grade" else f"share of grades {share.measure}"
            labels = counted(share.humans, "human label")
            interval = f" [{share.low:.3f}, {share.high:.3f}]" if math.isfinite(share.low) else ""
            yield (
                f"{what}: {share.mean:.3f}{interval} with {labels}, "
                f"{share.panel:.3f} by the panel alone"
            )
