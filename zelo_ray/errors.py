"""Define the errors that the user can do something about.

Every message is one line that says what to do. Each class has its exit status: 2 for invalid
options, 1 for everything else. Any other exception is a bug.
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


class PanelError(OptionError):
    """A judge does not exist or cannot be reached; the message says what to write."""


class InputError(ZeloError):
    """The input as a whole cannot be read; the message says what to do."""


class UnreadableFile(InputError):
    """A file cannot be read to its end; the message says where and why."""


class OutputError(ZeloError):
    """A text or value does not fit the format to be written; the message says what to do."""


class LockError(ZeloError):
    """Another run is using this directory, or it holds results that must not be overwritten."""


class LedgerError(ZeloError):
    """Replies can no longer be written, so no further call may be made."""


class RayUnavailable(ZeloError):
    """Ray cannot be started or reached, or a part of it died; the message says what to do."""


class Stopped(ZeloError):
    """The run was stopped; paid replies are kept, and the same command resumes."""


class NotFoundError(ZeloError):
    """The results do not hold what was asked for; the message says what they do hold."""


def format_error(error: BaseException) -> str:
    """Format an error as the end of a one-line message."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
