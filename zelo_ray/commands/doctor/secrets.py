"""Remove keys from messages."""

import contextlib
import urllib.parse
from collections.abc import Callable, Iterator, Mapping

from zelo_ray.command_options import DoctorOptions
from zelo_ray.commands.doctor.finding import Finding
from zelo_ray.errors import PanelError
from zelo_ray.providers import PROVIDERS, RERANKERS, load_provider, parse_judge

_SHORTEST, _PIECE = 4, 8  # characters of a key, and of a piece of one, that are looked for


def make_redactor(
    options: DoctorOptions, environ: Mapping[str, str]
) -> Callable[[Finding], Finding]:
    """Return a function that removes keys from a finding, as servers may repeat them."""
    forms = {form for key in _set_keys(options, environ) for form in _forms(key)}
    longest_first = sorted(forms, key=len, reverse=True)

    def told(text: str) -> str:
        for form in longest_first:
            text = text.replace(form, "(the key)")
        return text

    return lambda finding: Finding(
        told(finding.check), finding.state, told(finding.finding), told(finding.advice)
    )


def _set_keys(options: DoctorOptions, environ: Mapping[str, str]) -> Iterator[str]:
    providers = {*PROVIDERS, *RERANKERS}
    variables = {*options.api_key_env.values()}
    for name in options.judges:
        with contextlib.suppress(PanelError):
            providers.add(parse_judge(name).provider)
    for provider in providers:
        with contextlib.suppress(PanelError):
            variables.update(load_provider(provider).key_variables)
    return (environ[name] for name in variables if environ.get(name))


def _forms(key: str) -> Iterator[str]:
    """Yield the forms of a key that errors may contain: as it is, escaped, or a part of it."""
    for variant in (key, key.strip()):
        escaped = (
            ascii(variant)[1:-1],
            repr(variant)[1:-1],
            repr(variant.encode(errors="replace"))[2:-1],
        )
        quoted = urllib.parse.quote(variant, errors="replace")
        yield from (form for form in (variant, *escaped, quoted) if len(form) >= _SHORTEST)
    yield from (piece for piece in key.split() if len(piece) >= _PIECE)
