"""What is installed, and which keys are set: nothing of a key is ever told but that it is there."""

import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

from packaging.requirements import Requirement

from zelo_ray.commands.doctor.finding import Finding
from zelo_ray.providers import PROVIDERS, load_provider

_OLDEST = (3, 11)
_SDKS = ("ray", "openai", "anthropic", "google-genai", "genai-prices")
_FOR = {
    "offline": "judges without a key",
    "cluster": "ray up and ray job submit",
    "s3": "--out s3://...",
    "gcs": "--out gs://...",
    "local": "rerankers on this machine",
}


def packages(own: str) -> Iterator[Finding]:
    """Python, this package (of version ``own``), what it stands on, and its extras."""
    python = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < _OLDEST:
        yield Finding("python", "wrong", python, "install Python 3.11 or newer")
    else:
        yield Finding("python", "ok", python)
    found = {name: _version(name) for name in _SDKS}
    told = ", ".join([f"zelo_ray {own}", *(f"{n} {v}" for n, v in found.items() if v)])
    if lacking := [name for name, there in found.items() if not there]:
        do = f"pip install {' '.join(lacking)}"
        yield Finding("packages", "wrong", f"{told}; missing: {', '.join(lacking)}", do)
    else:
        yield Finding("packages", "ok", told)
    yield from _extras()


def _extras() -> Iterator[Finding]:
    """The extras by whether all that they ask for is there; those for developers are left out."""
    by_extra = dict[str, list[str]]()
    try:
        asked = [Requirement(each) for each in requires("zelo-ray") or ()]
    except PackageNotFoundError:
        return
    for each in asked:
        for extra in _FOR:
            marker = each.marker
            if marker and not marker.evaluate({"extra": ""}) and marker.evaluate({"extra": extra}):
                by_extra.setdefault(extra, []).append(each.name)
    there = [extra for extra, names in by_extra.items() if all(map(_version, names))]
    told = [f"{extra} ({_FOR[extra]})" for extra in by_extra if extra not in there]
    found = f"installed: {', '.join(there) or 'none'}"
    if told:
        found += f"; not installed: {', '.join(told)}"
    yield Finding(
        "extras", "ok", found, "pip install 'zelo-ray[NAME]' if you need one" * bool(told)
    )


def keys(environ: Mapping[str, str], dotenv: Mapping[str, Any], place: str) -> Iterator[Finding]:
    """Whether each provider has a key.

    Args:
        environ: where keys are found.
        dotenv: what the file ``.env`` holds.
        place: that file.
    """
    for name in PROVIDERS:
        variables = load_provider(name).key_variables
        if not variables:
            continue
        variable = next((each for each in variables if environ.get(each)), "")
        if not variable:
            usual = next((v for v in variables if name.upper() in v), variables[0])
            others = "".join(f" (or {each})" for each in variables if each != usual)
            do = f"set {usual}{others} to use this provider"
            yield Finding(f"key of {name}", "-", "not set", do)
            continue
        key = environ[variable]
        source = place if dotenv.get(variable) == key else "the environment"
        if key.strip() != key or " " in key or not (key.isascii() and key.isprintable()):
            do = f"remove spaces, quotes and line breaks from {variable}"
            yield Finding(f"key of {name}", "wrong", "holds characters that no key has", do)
        else:
            yield Finding(f"key of {name}", "ok", f"{variable} is set, from {source}")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
