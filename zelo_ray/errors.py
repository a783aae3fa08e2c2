"""Define the errors that the user can do something about.

Every message is one line that says what to do. An exit status stands on each class: 2 is for
options that make no sense, 1 for anything else. All else that is raised is a bug.

    ZeloError
    ├── OptionError          options make no sense
    │   ├── AnchorError      the worked examples cannot be used
    │   ├── MeasureError     there is no such measure
    │   ├── UnknownOption    there is no such option
    │   ├── PanelError       a judge does not exist or cannot be reached
    │   └── UnknownProtocol  there is no such protocol
    ├── ProtocolError        a function of a protocol of the user's raised
    ├── InputError           the input as a whole cannot be read
    │   └── UnreadableFile   a file breaks off, or is of no such form
    ├── QrelsError           these are no qrels
    ├── RunError             this is no run
    ├── Unwritable           a format cannot hold what is to be written
    ├── LockError           another run or its results are in the way
    ├── LedgerError          replies cannot be kept any more
    ├── RayTrouble           Ray does not start, or died
    ├── Stopped              the run was stopped
    ├── NothingAway          there is no batch
    ├── NothingToExplain     the results do not hold what was asked for
    └── NothingToReport      there is nothing to show
"""

from enum import IntEnum
from typing import ClassVar


class Status(IntEnum):
    """Exit status of a command."""

    COMPLETE = 0
    WRONG = 1
    INCOMPLETE = 3
    """something that was asked for is missing"""
    WORSE = 4
    """a candidate is worse than the baseline, or a judge changed"""


class ZeloError(Exception):
    """The root of all errors that are the user's to mend; the message is one line."""

    exit_status: ClassVar[int] = 1


class OptionError(ZeloError):
    """The options make no sense; the message is one line that says which and why."""

    exit_status = 2


class AnchorError(OptionError):
    """The anchors cannot be used; the message is one line that says why, and what to do."""


class MeasureError(OptionError):
    """There is no such measure; the message, one line, says what there is."""


class UnknownOption(OptionError):
    """There is no such option.

    Args:
        message: one line.
        name: of the option.
    """

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class ProtocolError(ZeloError):
    """A function of a protocol of the user's raised; the message names the function and why."""


class PanelError(OptionError):
    """The panel names a judge that does not exist or cannot be reached; says what to write."""


class UnknownProtocol(OptionError):
    """There is no protocol of that name; the message lists those that there are."""


class InputError(ZeloError):
    """The input as a whole cannot be read; the message says what to do."""


class UnreadableFile(InputError):
    """A file cannot be read to its end; the message says where and why."""


class QrelsError(ZeloError):
    """These are no qrels; the message, one line, says why."""


class RunError(ZeloError):
    """This is no run; the message, one line, says why."""


class Unwritable(ZeloError):
    """A text or value does not fit the format to be written; the message says what to do."""


class LockError(ZeloError):
    """Another run is at work on this directory, or it holds what is not to be written over."""


class LedgerError(ZeloError):
    """Replies cannot be kept any more; no further call may be made."""


class RayTrouble(ZeloError):
    """Ray cannot be joined or started, or a part of it died; the message says what to do."""


class Stopped(ZeloError):
    """The run was stopped; what it paid for is kept, and the same command goes on from there."""


class NothingAway(ZeloError):
    """The directory holds no record of a batch."""


class NothingToExplain(ZeloError):
    """The results do not hold what was asked for; the message says what they do hold."""


class NothingToReport(ZeloError):
    """The directory holds no finished run."""


def in_a_line(error: BaseException) -> str:
    """Format an error of the user's own code as the end of a line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
