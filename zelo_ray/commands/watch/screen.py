"""Show how a run stands: what an onlooker can tell, its figures, and what to do next."""

import time
from collections.abc import Sequence

from rich.console import Group

from zelo_ray.commands.watch.look import Phase, RunView
from zelo_ray.engine.bookkeeping import format_dollars
from zelo_ray.errors import ExitStatus
from zelo_ray.files.wording import counted
from zelo_ray.report.progress.figures import JudgeProgress, duration
from zelo_ray.report.progress.lines import progress_line
from zelo_ray.report.progress.snapshot import PartProgress, ProgressSnapshot, ProgressState
from zelo_ray.report.progress.table import progress_table

_STATUSES = {
    ExitStatus.COMPLETE: "complete",
    ExitStatus.INCOMPLETE: "finished, but with failures or gaps",
    ExitStatus.WORSE: "finished: worse than the baseline, or a judge changed or is biased",
}
_PARTS = 8  # that have ended, and are shown beside the one at work
_AGAIN = "run the same command again, which pays for nothing twice"


def describe_run(
    view: RunView, out: str, width: int, height: int | None = None
) -> list[str | Group]:
    """Return lines and a table on how a run stands.

    Args:
        view: what the last look showed.
        out: the output, as the user calls it.
        width: characters of a line.
        height: lines of the terminal; None: unlimited.
    """
    lines: list[str | Group] = [describe_phase(view, out)]
    snapshot = view.snapshot
    if snapshot is None:
        return lines
    *earlier, last = snapshot.parts or (None,)
    if len(earlier) > _PARTS:
        lines.append(f"… {len(earlier) - _PARTS:,} more")
    lines += [_describe_part(part) for part in earlier[-_PARTS:] if part]
    if last:
        room = None if height is None else height - len(lines) - 5
        lines += [f"{last.name}:"] if last.name else []
        lines += [*_describe_counts(last, view)]
        lines.append(progress_table(last.progress, width, room, _date_of(view, snapshot)))
    if earlier:
        lines.append(_describe_sum(snapshot.parts))
    if snapshot.next_line:
        lines.append(snapshot.next_line)
    return lines


def describe_in_a_line(view: RunView, out: str) -> str:
    """Return one line on how a run stands, with its figures."""
    snapshot, line = view.snapshot, describe_phase(view, out)
    if snapshot is None or not snapshot.parts:
        return line
    part = snapshot.parts[-1]
    figures = progress_line(part.progress, _date_of(view, snapshot))
    return " · ".join([line, *([part.name] if part.name else []), figures])


def describe_phase(view: RunView, out: str) -> str:
    """Return a sentence on how a run stands."""
    snapshot = view.snapshot
    if snapshot is None:
        kind = str((view.record or {}).get("kind", "a command"))
        return {
            Phase.NOTHING: f"nothing has been written to {out} yet",
            Phase.BEGINNING: f"{out}: a run has begun ({view.holder}), and has recorded no "
            "progress yet",
            Phase.ENDED: f"{out} has the finished results of {kind}, and no run is at work there",
        }.get(
            view.phase, f"{out}: a run of {kind} was begun and has recorded no progress; {_AGAIN}"
        )
    what = f"{snapshot.command} in {out}"
    return f"{what}{_describe_progress(view, snapshot)}"


def _describe_progress(view: RunView, snapshot: ProgressSnapshot) -> str:
    """Return the rest of a sentence on a run that has recorded its progress."""
    span = duration(max(0.0, _date_of(view, snapshot) - snapshot.began_at))
    quiet = duration(max(0.0, view.quiet))
    if view.phase is Phase.RUNNING:
        return f": at work for {span}{_stage(snapshot)}; last wrote {quiet} ago"
    if view.phase is Phase.SILENT:
        return f": nothing was written for {quiet}; if it was killed, {_AGAIN}"
    if view.phase is Phase.GONE:
        where = f"process {snapshot.process} on {snapshot.host}"
        of_then = ", of which these figures are" if snapshot.parts else ""
        return f": {where} is gone, and last wrote {quiet} ago{of_then}; {_AGAIN}"
    ended = "has ended" if snapshot.state is ProgressState.ENDED else "has stopped"
    why = snapshot.message or _STATUSES.get(ExitStatus(snapshot.status or 0), "")
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(snapshot.written_at))
    return f" {ended} at {date} after {span}, exit status {snapshot.status}: {why}"


def _stage(snapshot: ProgressSnapshot) -> str:
    """Return what a run does where it does not ask."""
    if not snapshot.parts:
        return ", and has asked nothing yet"
    return ", and has asked all there is" if snapshot.parts[-1].progress.whole.ended else ""


def _describe_counts(part: PartProgress, view: RunView) -> list[str]:
    """Return lines on queries and failures."""
    tally, lines = part.progress.whole.tally, list[str]()
    if number := view.queries.get(part.name):
        judges = [row.tally for row in part.progress.judges if not row.tally.disabled]
        done = min(number, min((judge.queries for judge in judges), default=0))
        lines.append(f"queries: {done:,} of {number:,} are answered by all judges")
    if tally.answered and part.replied_at and view.snapshot:
        ago = duration(max(0.0, _date_of(view, view.snapshot) - part.replied_at))
        is_over = view.phase is Phase.ENDED
        lines += [] if is_over else [f"last answer: {ago} ago"]
    if failed := {s: n for s, n in tally.statuses.items() if s != "ok"}:
        reasons = ", ".join(f"{count:,} {status}" for status, count in sorted(failed.items()))
        lines.append(f"failures: {reasons}")
    return lines


def _describe_part(part: PartProgress) -> str:
    return f"{part.name or 'before'}: {_figures(part.progress.whole)}"


def _describe_sum(parts: Sequence[PartProgress]) -> str:
    totals = [part.progress.whole for part in parts]
    done, needed = sum(total.done for total in totals), sum(total.needed for total in totals)
    dollars = sum(total.tally.dollars for total in totals)
    failures = counted(sum(total.failures for total in totals), "failure")
    begun = counted(len(parts), "run")
    return f"{begun} so far: {done:,}/{needed:,} replies · {failures} · {format_dollars(dollars)}"


def _figures(total: JudgeProgress) -> str:
    return (
        f"{total.done:,}/{total.needed:,} replies · {counted(total.failures, 'failure')} · "
        f"{format_dollars(total.tally.dollars)}"
    )


def _date_of(view: RunView, snapshot: ProgressSnapshot) -> float:
    """Return the time of the look by the clock of the run's machine, in seconds since 1970."""
    return snapshot.written_at + (0.0 if view.phase is Phase.ENDED else max(0.0, view.quiet))
