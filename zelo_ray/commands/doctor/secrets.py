"""Check whether keys can be sent, and remove keys from messages."""

import contextlib
import urllib.parse
from collections.abc import Callable, Iterator, Mapping

from zelo_ray.commands.doctor.finding import Finding
from zelo_ray.errors import PanelError
from zelo_ray.options.doctor import DoctorOptions
from zelo_ray.providers import PROVIDERS, RERANKERS, load_provider, parse_judge

_SHORTEST, _PIECE = 4, 8  # characters of a key, and of a piece of one, that are looked for


def is_sendable(key: str) -> bool:
    """Return whether a key, without the space around it, can be sent in a header."""
    return key.strip().isascii() and key.strip().isprintable() and " " not in key.strip()


def check_key(what: str, variable: str, key: str, source: str) -> Finding:
    """Check a key that is set in a variable; ``source`` says where it is from."""
    if key.strip() == key and is_sendable(key):
        return Finding(what, "ok", f"{variable} is set, from {source}")
    do = f"remove spaces, quotes and line breaks from {variable}"
    return Finding(what, "wrong", "has characters that keys never have", do)


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
        told(finding.what), finding.state, told(finding.found), told(finding.do)
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
