"""Run `doctor`: check this machine, its keys and judges."""

import os
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version

from zelo_ray.commands.doctor import run_checks
from zelo_ray.commands.doctor.finding import Finding
from zelo_ray.commands.doctor.secrets import make_redactor
from zelo_ray.options.doctor import DoctorOptions


def run(options: DoctorOptions, say: Callable[[str], None] = lambda _: None) -> list[Finding]:
    """Check what a run would need, without any call unless ``options.ask``.

    Args:
        options: of the command.
        say: gets the cost of calls before they are made.
    """

    def look() -> Iterator[Finding]:
        from zelo_ray.commands.doctor.ray_check import (  # noqa: PLC0415 - Ray takes seconds
            check_ray,
        )

        return check_ray(options.out)

    findings = run_checks(options, os.environ, version("zelo-ray"), look, say)
    return [*map(make_redactor(options, os.environ), findings)]


def is_wrong(findings: Sequence[Finding]) -> bool:
    """Return whether a check found something wrong."""
    return any(finding.state == "wrong" for finding in findings)


def has_no_judge(findings: Sequence[Finding]) -> bool:
    """Return whether no judge was named and there is no key for one."""
    return any(finding.what == "judges" and finding.state == "warn" for finding in findings)
