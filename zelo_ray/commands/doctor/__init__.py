"""``doctor``: check what a run needs, before it starts."""

from collections.abc import Callable, Iterator, Mapping

from zelo_ray.commands.doctor.finding import Finding
from zelo_ray.commands.doctor.installed import check_dotenv, check_keys, check_packages
from zelo_ray.commands.doctor.judges import (
    ask_each,
    build_checked_panel,
    check_judges,
    describe_highest_cost,
    has_key,
)
from zelo_ray.commands.doctor.machine import check_machine, check_out
from zelo_ray.options.doctor import DoctorOptions
from zelo_ray.providers.dotenv import DotenvFile


def run_checks(
    options: DoctorOptions,
    environ: Mapping[str, str],
    version: str,
    look_at_ray: Callable[[], Iterator[Finding]],
    say: Callable[[str], None],
) -> Iterator[Finding]:
    """Run all checks, and yield their findings, which may hold secrets.

    Args:
        options: of the command.
        environ: where keys are found.
        version: of this package.
        look_at_ray: runs the checks of Ray.
        say: gets the cost of calls before they are made.
    """
    yield from check_packages(version)
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
        yield from look_at_ray()
    ready = [judge for judge in panel if has_key(judge, options, environ)]
    if options.ask and ready:
        say(describe_highest_cost(ready, options))
        yield from ask_each(ready, options, environ)
