"""Load the user's plug-ins, named ``my_module:NAME`` or ``path/to/file.py:NAME``."""

import sys
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, TypeVar

from zelo_ray.errors import format_error
from zelo_ray.libraries import add_user_folders, user_folders

T = TypeVar("T")


def is_plugin_name(name: str) -> bool:
    """Return whether a name has the form of a plug-in's."""
    where, _, what = name.rpartition(":")
    return bool(where and what) and (where.endswith(".py") or "." in where or where.isidentifier())


def absolute_plugin_name(name: str) -> str:
    """Return the name with the absolute path of its file, so that it works from any directory."""
    where, _, what = name.rpartition(":")
    return f"{Path(where).expanduser().resolve()}:{what}" if where.endswith(".py") else name


def load_plugin(name: str, kind: type[T], error: type[Exception], unknown: str = "") -> T:
    """Import the object that a name points at, and check its type.

    Args:
        name: of the plug-in.
        kind: the class of which it must be an instance.
        error: the exception to raise if it is not.
        unknown: the message where there is no such module, if the name may be a typo.

    Raises:
        error: it cannot be imported, or is of another type; the message is one line.
    """
    where, _, what = name.rpartition(":")
    top = where.partition(".")[0]
    try:
        target = import_plugin(name)
    except (Exception, SystemExit) as wrong:  # noqa: BLE001 - it runs the user's own code
        if unknown and isinstance(wrong, ModuleNotFoundError) and wrong.name == top:
            raise error(unknown) from None
        if isinstance(wrong, AttributeError) and wrong.name == what:
            held = getattr(wrong.obj, "__dict__", {}).items()
            names = [key for key, value in held if isinstance(value, kind)]
            has = f"; it has {', '.join(names)}" if names else ""
            raise error(f"{where} has no {what}{has}") from None
        raise error(f"{name} cannot be imported: {format_error(wrong)}") from None
    if not isinstance(target, kind):
        raise error(f"{name} must be a {kind.__name__}, not {type(target).__name__}")
    return target


def import_plugin(name: str) -> Any:
    """Import the object that a name points at; return the same one until its file changes.

    Modules are found on Python's path and in the working directory.

    Raises:
        Exception: whatever the user's code raises when it is imported.
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
