"""Define a finding of `doctor`."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "wrong", "-"]
"""``-``: not set up, and not needed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of a check: what was checked, its state, and what to do about it."""

    check: str
    state: State
    finding: str
    advice: str = ""
    """what to do; empty where nothing is to be done"""
