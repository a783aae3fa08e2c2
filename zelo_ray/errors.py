"""Define the errors that the user can do something about.

Every message is one line that says what to do. Each class has its exit status: 2 for invalid
options, 1 for everything else. Any other exception is a bug.

    ZeloError
    ├── OptionError          an option is invalid
    │   ├── AnchorError      the worked examples cannot be used
    │   ├── MeasureError     there is no such measure
    │   ├── PanelError       a judge does not exist or cannot be reached
    │   └── UnknownProtocol  there is no such protocol
    ├── ProtocolError        a function of the user's protocol raised
    ├── InputError           the input as a whole cannot be read
    │   └── UnreadableFile   a file is truncated or malformed
    ├── QrelsError           a file does not hold qrels
    ├── RunError             a file is not a run
    ├── Unwritable           a format cannot hold a value
    ├── LockError            another run, or its results, are in the way
    ├── LedgerError          replies can no longer be written
    ├── RayUnavailable       Ray does not start, or died
    ├── Stopped              the run was stopped
    ├── NoBatches            there is no batch
    ├── NothingToExplain     the results do not hold what was asked for
    └── NothingToReport      there is nothing to show
"""

import re
from enum import IntEnum
from typing import ClassVar


class ExitStatus(IntEnum):
    """Exit status of a command."""

    COMPLETE = 0
    """everything that was asked for is done"""
    FAILED = 1
    """an error ended the command, or a check of `doctor` found something wrong"""
    INVALID = 2
    """an option or the command line is invalid, and nothing was done"""
    INCOMPLETE = 3
    """something that was asked for could not be done"""
    WORSE = 4
    """a candidate is worse than the baseline, or a judge changed"""


class ZeloError(Exception):
    """Base class of all errors that the user can mend; the message is one line."""

    exit_status: ClassVar[ExitStatus] = ExitStatus.FAILED

    @classmethod
    def code(cls) -> str:
        """Return the word by which programs know the kind, such as ``lock`` of `LockError`."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__.removesuffix("Error")).lower()


class OptionError(ZeloError):
    """An option is invalid; the message is one line that says which and why."""

    exit_status = ExitStatus.INVALID


class AnchorError(OptionError):
    """The anchors (worked examples) cannot be used; the message says why and what to do."""


class MeasureError(OptionError):
    """There is no such measure; the message lists those that there are."""


class ProtocolError(ZeloError):
    """A function of the user's protocol raised; the message names the function and the error."""


class PanelError(OptionError):
    """A judge does not exist or cannot be reached; the message says what to write."""


class UnknownProtocol(OptionError):
    """There is no protocol of that name; the message lists those that there are."""


class InputError(ZeloError):
    """The input as a whole cannot be read; the message says what to do."""


class UnreadableFile(InputError):
    """A file cannot be read to its end; the message says where and why."""


class QrelsError(ZeloError):
    """A file does not hold qrels; the message says why."""


class RunError(ZeloError):
    """A file is not a run; the message says why."""


class Unwritable(ZeloError):
    """A text or value does not fit the format to be written; the message says what to do."""


class LockError(ZeloError):
    """Another run is using this directory, or it holds results that must not be overwritten."""


class LedgerError(ZeloError):
    """Replies can no longer be written, so no further call may be made."""


class RayUnavailable(ZeloError):
    """Ray cannot be started or reached, or a part of it died; the message says what to do."""


class Stopped(ZeloError):
    """The run was stopped; paid replies are kept, and the same command resumes."""


class NoBatches(ZeloError):
    """The directory holds no record of a batch."""


class NothingToExplain(ZeloError):
    """The results do not hold what was asked for; the message says what they do hold."""


class NothingToReport(ZeloError):
    """The directory holds no finished run."""


def format_error(error: BaseException) -> str:
    """Format an error as the end of a one-line message."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
