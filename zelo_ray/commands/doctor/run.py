"""Run `doctor`: check this machine, its keys and judges."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version

import pyarrow as pa

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
from zelo_ray.commands.doctor.screen import describe_findings
from zelo_ray.commands.doctor.secrets import make_redactor
from zelo_ray.engine.job import Watch
from zelo_ray.errors import ExitStatus
from zelo_ray.providers.dotenv import DotenvFile
from zelo_ray.report.command_lines import command_of
from zelo_ray.report.results import Results
from zelo_ray.report.terminal import make_console


def run(options: DoctorOptions, watch: Watch) -> Results:
    """Check what a run would need, and show what was found."""
    findings = find_all(options, watch.say)
    lines = [*describe_findings(findings, min(120, make_console().width))]
    wrong = any(finding.state == "wrong" for finding in findings)
    rows = [asdict(finding) for finding in findings]
    schema = pa.schema([(name, pa.string()) for name in Finding.__slots__])
    return Results(
        {"findings": rows},
        tables={"findings": pa.Table.from_pylist(rows, schema)},
        status=ExitStatus.FAILED if wrong else ExitStatus.COMPLETE,
        lines=lines,
        lead=lines[-1:],
        next_command=_next_command(options, findings, wrong=wrong),
    )


def _next_command(options: DoctorOptions, findings: Sequence[Finding], *, wrong: bool) -> str:
    """Return how to ask each judge once; else a first run, with free judges if there are none."""
    judges = ["--judges", *options.judges] if options.judges else []
    if wrong or (judges and not options.ask):
        return command_of("doctor", *judges, *([] if wrong and not options.ask else ["--ask"]))
    if any(each.check == "judges" and each.state == "warn" for each in findings):
        judges = ["--judges", "offline"]  # none was named, and there is no key for one
    return command_of("annotate", "POOLS", *judges, "--out", "judged", "--dry-run")


def find_all(options: DoctorOptions, say: Callable[[str], None] = lambda _: None) -> list[Finding]:
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
