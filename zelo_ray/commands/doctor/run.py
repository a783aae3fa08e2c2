"""Run `doctor`: check this machine, its keys and judges."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version

from zelo_ray.command_options import DoctorOptions
from zelo_ray.commands.doctor.finding import Finding
from zelo_ray.commands.doctor.installed import (
    check_dotenv,
    check_keys,
    check_packages,
    check_plugins,
)
from zelo_ray.commands.doctor.judges import (
    ask_each,
    build_checked_panel,
    check_judges,
    describe_highest_cost,
    has_key,
)
from zelo_ray.commands.doctor.machine import check_machine, check_out
from zelo_ray.commands.doctor.secrets import make_redactor
from zelo_ray.providers.dotenv import DotenvFile


def run(options: DoctorOptions, say: Callable[[str], None] = lambda _: None) -> list[Finding]:
    """Check what a run would need, without any call unless ``options.ask``.

    Args:
        options: of the command.
        say: gets the cost of calls before they are made.
    """
    return [*map(make_redactor(options, os.environ), _check(options, os.environ, say))]


def _check(
    options: DoctorOptions, environ: Mapping[str, str], say: Callable[[str], None]
) -> Iterator[Finding]:
    """Run all checks, and yield their findings, which may hold secrets."""
    yield from check_packages(version("zelo-ray"))
    yield from check_plugins()
    dotenv = DotenvFile(dict(environ))
    yield from check_keys(options, environ, dotenv)
    yield from check_dotenv(dotenv, options)
    panel, wrong = build_checked_panel(options, environ)
    yield from wrong
    yield from check_judges(panel, options, environ)
    yield from check_machine()
    if options.out:
        yield from check_out(options.out)
    if not options.no_ray:
        from zelo_ray.commands.doctor import ray_check  # noqa: PLC0415 - Ray takes seconds

        yield from ray_check.check_ray(options.out)
    ready = [judge for judge in panel if has_key(judge, options, environ)]
    if options.ask and ready:
        say(describe_highest_cost(ready, options))
        yield from ask_each(ready, options, environ)


def is_wrong(findings: Sequence[Finding]) -> bool:
    """Return whether a check found something wrong."""
    return any(finding.state == "wrong" for finding in findings)


def has_no_judge(findings: Sequence[Finding]) -> bool:
    """Return whether no judge was named and there is no key for one."""
    return any(finding.check == "judges" and finding.state == "warn" for finding in findings)
