"""Define the progress of a run as a file of its output keeps it, for onlookers from elsewhere."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from zelo_ray.engine.tally import LastProblem, Tally
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.report.progress.figures import JudgeProgress, RunProgress, judge_progress

PROGRESS = ".progress.json"
"""The file, in the output of a command."""


class ProgressState(StrEnum):
    """State of a run that it last recorded."""

    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    """it ended by an error, or was interrupted"""


@dataclass(frozen=True, slots=True)
class PartProgress:
    """Progress of the judges in one part of a command; most commands have a single part.

    Attributes:
        name: the part's directory within the output of the command; empty if that is the output.
        progress: of its judges.
        replied_at: when the number of answers last grew, in seconds since 1970; 0 if it never did.
    """

    name: str
    progress: RunProgress
    replied_at: float = 0.0


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """Progress of a command at one moment. Times are by the clock of its machine.

    Attributes:
        command: the kind of its results.
        process: number of its process.
        host: name of its machine.
        token: a word that no other run has.
        count: how many times this run has written its progress.
        every: seconds between two times.
        began_at: when it locked its output, in seconds since 1970.
        written_at: when this was written, likewise.
        state: what it records of itself.
        parts: that have begun, in their order.
        status: exit status; None while it runs.
        message: the error that ended it.
        next_line: the line that names the command that usually comes next.
    """

    command: str
    process: int
    host: str
    token: str
    count: int
    every: float
    began_at: float
    written_at: float
    state: ProgressState = ProgressState.RUNNING
    parts: tuple[PartProgress, ...] = ()
    status: int | None = None
    message: str = ""
    next_line: str = ""

    def to_json(self) -> bytes:
        """Return the file's content."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return orjson.dumps({**plain, "parts": [_part_fields(part) for part in self.parts]})


def parse_snapshot(content: bytes) -> ProgressSnapshot | None:
    """Return the progress that a file holds; None if it is damaged, or of another version."""
    try:
        fields = orjson.loads(content)
        parts = tuple(_part(part) for part in fields["parts"])
        return ProgressSnapshot(
            **{**fields, "state": ProgressState(fields["state"]), "parts": parts}
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _part_fields(part: PartProgress) -> dict[str, Any]:
    return {
        "name": part.name,
        "cap": part.progress.cap,
        "judges": [_judge_fields(standing) for standing in part.progress.judges],
        "replied_at": part.replied_at,
    }


def _judge_fields(standing: JudgeProgress) -> dict[str, Any]:
    return {
        "name": standing.name,
        "planned": standing.needed + standing.tally.spared,
        "rate": standing.rate,
        "span": standing.span,
        "tally": dataclasses.asdict(standing.tally),
    }


def _part(fields: Mapping[str, Any]) -> PartProgress:
    standings = [
        judge_progress(row["name"], _tally(row["tally"]), row["planned"], row["rate"], row["span"])
        for row in fields["judges"]
    ]
    cap = tuple(fields["cap"]) if fields["cap"] else None
    return PartProgress(fields["name"], RunProgress(standings, cap), fields["replied_at"])


def _tally(fields: Mapping[str, Any]) -> Tally:
    stopped = fields["disabled"]
    disabled = Disabled(StopReason(stopped["code"]), stopped["message"]) if stopped else None
    return Tally(**{**fields, "trouble": LastProblem(**fields["trouble"]), "disabled": disabled})
