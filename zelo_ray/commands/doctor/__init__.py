"""``doctor``: check what a run needs, before it starts."""

from collections.abc import Callable, Iterator, Mapping

from zelo_ray.commands.doctor.finding import Finding
from zelo_ray.commands.doctor.installed import keys, packages, taken_from
from zelo_ray.commands.doctor.judges import ask_each, has_key, looked_at, most_of, panel_of
from zelo_ray.commands.doctor.machine import machine, place
from zelo_ray.commands.doctor.secrets import keyless
from zelo_ray.options.doctor import DoctorOptions
from zelo_ray.providers.dotenv import DotenvFile

__all__ = ["Finding", "examined"]


def examined(
    options: DoctorOptions,
    environ: Mapping[str, str],
    version: str,
    look_at_ray: Callable[[], Iterator[Finding]],
    say: Callable[[str], None],
) -> Iterator[Finding]:
    """Run all checks, and yield their findings.

    Args:
        options: of the command.
        environ: where keys are found.
        version: of this package.
        look_at_ray: runs the checks of Ray.
        say: gets the cost of calls before they are made.
    """
    yield from map(keyless(options, environ), _checks(options, environ, version, look_at_ray, say))


def _checks(
    options: DoctorOptions,
    environ: Mapping[str, str],
    version: str,
    look_at_ray: Callable[[], Iterator[Finding]],
    say: Callable[[str], None],
) -> Iterator[Finding]:
    yield from packages(version)
    dotenv = DotenvFile(dict(environ))
    yield from keys(options, environ, dotenv)
    yield from taken_from(dotenv, options)
    panel, wrong = panel_of(options, environ)
    yield from wrong
    yield from looked_at(panel, options, environ)
    yield from machine()
    if options.out:
        yield from place(options.out)
    if not options.no_ray:
        yield from look_at_ray()
    ready = [judge for judge in panel if has_key(judge, options, environ)]
    if options.ask and ready:
        say(most_of(ready, options))
        yield from ask_each(ready, options, environ)
