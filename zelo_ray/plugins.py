"""Load plug-ins: the user's, and those that installed packages declare as entry points.

The user's are named ``my_module:NAME`` or ``path/to/file.py:NAME``. A package declares its own with
a plain name, in one of the groups ``zelo_ray.protocols``, ``zelo_ray.providers``,
``zelo_ray.rerankers`` and ``zelo_ray.measures``; a name of this package always comes first.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from zelo_ray.errors import format_error
from zelo_ray.libraries import add_user_folders, user_folders

T = TypeVar("T")

PluginGroup = Literal["protocols", "providers", "rerankers", "measures"]
"""What a package can declare, in the group of entry points ``zelo_ray.…``."""
PLUGIN_GROUPS: tuple[PluginGroup, ...] = get_args(PluginGroup)

_loaded_packages = dict[str, str]()


class InstalledPlugin(NamedTuple):
    """A plug-in that an installed package declares: its ``place`` is ``module:NAME``."""

    place: str
    package: str
    version: str


@cache
def find_installed(group: PluginGroup) -> Mapping[str, tuple[InstalledPlugin, ...]]:
    """Return what installed packages declare in a group, by name; several of a name are a clash.

    It reads the metadata of every installed package, and imports none.
    """
    plugins = dict[str, tuple[InstalledPlugin, ...]]()
    for entry in sorted(entry_points(group=f"zelo_ray.{group}")):
        package, version = (entry.dist.name, entry.dist.version) if entry.dist else ("", "")
        place = f"{entry.module}:{entry.attr}"  # without the extras that it may ask for
        plugin = InstalledPlugin(place, package, version)
        plugins[entry.name] = (*plugins.get(entry.name, ()), plugin)
    return plugins


def add_installed(names: Iterable[str], group: PluginGroup) -> list[str]:
    """Return the names of this package and those that installed packages declare in a group."""
    return [*dict.fromkeys((*names, *find_installed(group)))]


def load_installed(
    group: PluginGroup, name: str, kind: type[T], error: Callable[[str], Exception]
) -> T | None:
    """Load what an installed package declares, and check its type; None if none declares it."""
    plugins = find_installed(group).get(name, ())
    if len(plugins) > 1:
        packages = " and ".join(plugin.package for plugin in plugins)
        raise error(f"{name} is declared by {packages}; uninstall one of them")
    if not plugins:
        return None
    (plugin,) = plugins
    package = f"{plugin.package} {plugin.version}"
    target = load_plugin(plugin.place, kind, lambda message: error(f"{package}: {message}"))
    _loaded_packages[plugin.package] = plugin.version
    return target


def loaded_packages() -> dict[str, str]:
    """Return the versions of the installed packages whose plug-ins this process has loaded."""
    return dict(_loaded_packages)


def is_plugin_name(name: str) -> bool:
    """Return whether a name has the form of a plug-in's."""
    where, _, what = name.rpartition(":")
    return bool(where and what) and (where.endswith(".py") or "." in where or where.isidentifier())


def absolute_plugin_name(name: str) -> str:
    """Return the name with the absolute path of its file, so that it works from any directory."""
    where, _, what = name.rpartition(":")
    return f"{Path(where).expanduser().resolve()}:{what}" if where.endswith(".py") else name


def load_plugin(
    name: str, kind: type[T], error: Callable[[str], Exception], unknown: str = ""
) -> T:
    """Import the object that a name points at, and check its type; ``error`` makes what is raised.

    ``unknown`` is the message where there is no such module, if the name may be a typo.
    """
    where, _, what = name.rpartition(":")
    top = where.partition(".")[0]
    try:
        target = import_plugin(name)
    except (Exception, SystemExit) as wrong:  # noqa: BLE001 - it runs the user's own code
        if unknown and isinstance(wrong, ModuleNotFoundError) and wrong.name == top:
            raise error(unknown) from None
        if isinstance(wrong, AttributeError) and wrong.name == what:
            members = getattr(wrong.obj, "__dict__", {}).items()
            names = [key for key, value in members if isinstance(value, kind)]
            has = f"; it has {', '.join(names)}" if names else ""
            raise error(f"{where} has no {what}{has}") from None
        raise error(f"{name} cannot be imported: {format_error(wrong)}") from None
    if not isinstance(target, kind):
        raise error(f"{name} must be a {kind.__name__}, not {type(target).__name__}")
    return target


def import_plugin(name: str) -> Any:
    """Import the object that a name points at; return the same one until its file changes.

    Modules are found on Python's path and in the working directory.
    """
    where, _, what = name.rpartition(":")
    add_user_folders([str(Path.cwd())])
    target: Any = import_module(where) if not where.endswith(".py") else None
    if target is None:
        path = Path(where).expanduser()
        target = _import_file(path, path.stat().st_mtime_ns)
    for part in what.split("."):
        target = getattr(target, part)
    return target


class PluginFolders:
    """Adds the folders of the user's modules to the process that unpickles it.

    Objects that are unpickled after it then find their modules.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return add_user_folders, ([str(Path.cwd()), *user_folders()],)


@cache
def _import_file(path: Path, changed_at: int) -> Any:  # noqa: ARG001 - a changed file is another one
    """Import a file as a module, under a name of its own."""
    spec = spec_from_file_location(f"own_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses and pickle look for it
    spec.loader.exec_module(module)
    return module
