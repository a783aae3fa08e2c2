"""Check what is installed and which keys are set; keys themselves are never shown."""

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from zelo_ray.command_options import DoctorOptions
from zelo_ray.commands.doctor.finding import Finding, State
from zelo_ray.errors import PanelError
from zelo_ray.evaluation.measures import MEASURES
from zelo_ray.plugins import PLUGIN_GROUPS, find_installed
from zelo_ray.protocols import PROTOCOLS, RANKERS
from zelo_ray.providers import PROVIDERS, RERANKERS, load_provider, parse_judge
from zelo_ray.providers.addresses import foreign_address
from zelo_ray.providers.dotenv import DotenvFile
from zelo_ray.records import Judge

_OLDEST = (3, 11)
_BUILT_IN = {
    "protocols": {*PROTOCOLS},
    "providers": {*PROVIDERS, *RERANKERS},
    "rerankers": {*PROVIDERS, *RERANKERS, *RANKERS},
    "measures": {*MEASURES},
}
"""Names that no plug-in can have, by group of plug-ins."""
_SDKS = ("ray", "openai", "anthropic", "google-genai", "genai-prices")


def check_packages(version: str) -> Iterator[Finding]:
    """Check Python, this package (version ``version``), and its dependencies."""
    python = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < _OLDEST:
        yield Finding("python", "wrong", python, "install Python 3.11 or newer")
    else:
        yield Finding("python", "ok", python)
    versions = {name: _version(name) for name in _SDKS}
    summary = ", ".join([f"zelo_ray {version}", *(f"{n} {v}" for n, v in versions.items() if v)])
    if lacking := [name for name, number in versions.items() if not number]:
        do = f"pip install {' '.join(lacking)}"
        yield Finding("packages", "wrong", f"{summary}; missing: {', '.join(lacking)}", do)
    else:
        yield Finding("packages", "ok", summary)


def check_plugins() -> Iterator[Finding]:
    """Yield a finding for each plug-in that an installed package declares; none is imported."""
    for group in PLUGIN_GROUPS:
        for name, plugins in find_installed(group).items():
            what = f"{group.removesuffix('s')} {name}"
            packages = " and ".join(f"{plugin.package} {plugin.version}" for plugin in plugins)
            if name in _BUILT_IN[group]:
                hidden = f"zelo-ray's own is used, and not that of {packages}"
                yield Finding(what, "warn", hidden, "rename it there, or uninstall that package")
            elif len(plugins) > 1:
                clash = f"{name} is declared by {packages}"
                yield Finding(what, "warn", clash, "uninstall one of them")
            else:
                yield Finding(what, "ok", f"{packages} ({plugins[0].place})")


def check_keys(
    options: DoctorOptions, environ: Mapping[str, str], dotenv: DotenvFile
) -> Iterator[Finding]:
    """Check whether each provider has a key.

    Args:
        options: of the command; its judges determine which keys are needed.
        environ: where keys are found.
        dotenv: the file ``.env``.
    """
    providers = {name: load_provider(name) for name in PROVIDERS}
    by_provider = {name: provider.key_variables for name, provider in providers.items()}
    set_keys = {
        name: [v for v in variables if environ.get(v)] for name, variables in by_provider.items()
    }
    needed = (
        _needed(options) if options.judges else set() if any(set_keys.values()) else {*PROVIDERS}
    )
    for name, variables in by_provider.items():
        if set_keys[name]:
            variable = set_keys[name][0]
            key = environ[variable]
            source = dotenv.path if dotenv.has_value(variable, key) else "the environment"
            if url := foreign_address(Judge(name, ""), providers[name], key, environ):
                source += f", and goes to {url}"
            yield Finding(f"key of {name}", "ok", f"{variable} is set, from {source}")
        elif variables:
            state: State = "warn" if name in needed else "-"
            do = f"set {_listed(name, variables)} to use this provider"
            yield Finding(f"key of {name}", state, "not set", do)


def check_dotenv(dotenv: DotenvFile, options: DoctorOptions) -> Iterator[Finding]:
    """Yield a finding for each unused line of ``.env``, if there is one."""
    dotenv.take_all()
    dotenv.take_named(options)
    do = "remove it from .env, or set it in the shell"
    for line in dotenv.describe_skipped():
        yield Finding(".env", "warn", line, do)


def _needed(options: DoctorOptions) -> set[str]:
    """Return the providers whose default keys the judges need."""
    providers = set()
    for name in options.judges:
        with contextlib.suppress(PanelError):
            judge = parse_judge(name)
            has_own_key = any(
                judge_name == name or judge_name.startswith(f"{name}:")
                for judge_name in options.api_key_env
            )
            if not judge.base_url and not has_own_key:
                providers.add(judge.provider)
    return providers


def _listed(provider: str, variables: Sequence[str]) -> str:
    """List the variables of a key, the one with the provider's name first."""
    first, *others = sorted(
        variables, key=lambda variable: not variable.startswith(provider.upper())
    )
    return first + "".join(f" (or {variable})" for variable in others)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
