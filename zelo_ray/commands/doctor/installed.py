"""Check what is installed and which keys are set; of a key only its presence is ever shown."""

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from zelo_ray.commands.doctor.finding import Finding, State
from zelo_ray.commands.doctor.secrets import key_of
from zelo_ray.errors import PanelError
from zelo_ray.options.doctor import DoctorOptions
from zelo_ray.providers import PROVIDERS, load_provider, parse_judge
from zelo_ray.providers.addresses import elsewhere
from zelo_ray.providers.dotenv import DotenvFile
from zelo_ray.records import Judge

_OLDEST = (3, 11)
_SDKS = ("ray", "openai", "anthropic", "google-genai", "genai-prices")
_FOR = {
    "offline": "judges without a key",
    "cluster": "ray up and ray job submit",
    "s3": "--out s3://...",
    "gcs": "--out gs://...",
    "vllm": "judges on GPUs of this machine or cluster",
    "local": "rerankers on this machine",
}


def packages(own: str) -> Iterator[Finding]:
    """Check Python, this package (version ``own``), its dependencies and its extras."""
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
    """Check which extras are installed; those for developers are left out."""
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


def keys(
    options: DoctorOptions, environ: Mapping[str, str], dotenv: DotenvFile
) -> Iterator[Finding]:
    """Check whether each provider has a key.

    Args:
        options: of the command: its judges say which keys it takes.
        environ: where keys are found.
        dotenv: the file ``.env``.
    """
    known = {name: load_provider(name) for name in PROVIDERS}
    by_provider = {name: each.key_variables for name, each in known.items()}
    there = {name: [v for v in each if environ.get(v)] for name, each in by_provider.items()}
    needed = _needed(options) if options.judges else set() if any(there.values()) else {*PROVIDERS}
    for name, variables in by_provider.items():
        if there[name]:
            variable = there[name][0]
            key = environ[variable]
            source = dotenv.path if dotenv.holds(variable, key) else "the environment"
            if url := elsewhere(Judge(name, ""), known[name], key, environ):
                source += f", and goes to {url}"
            yield key_of(f"key of {name}", variable, key, source)
        elif variables:
            state: State = "warn" if name in needed else "-"
            do = f"set {_listed(name, variables)} to use this provider"
            yield Finding(f"key of {name}", state, "not set", do)


def taken_from(dotenv: DotenvFile, options: DoctorOptions) -> Iterator[Finding]:
    """Yield the lines of ``.env`` that are not used, if there is such a file."""
    dotenv.take()
    dotenv.take_named(options)
    do = "remove it from there, or set it in the shell"
    for line in dotenv.left_out():
        yield Finding(".env", "warn", line, do)


def _needed(options: DoctorOptions) -> set[str]:
    """Return the providers whose own keys the judges take."""
    found = set()
    for name in options.judges:
        with contextlib.suppress(PanelError):
            judge = parse_judge(name)
            own = any(each == name or each.startswith(f"{name}:") for each in options.api_key_env)
            if not judge.base_url and not own:
                found.add(judge.provider)
    return found


def _listed(provider: str, variables: Sequence[str]) -> str:
    """List the variables of a key, the one with the provider's name first."""
    first, *others = sorted(variables, key=lambda each: not each.startswith(provider.upper()))
    return first + "".join(f" (or {each})" for each in others)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
