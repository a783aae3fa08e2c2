"""Load the user's own objects: ``my_module:NAME``, or ``path/to/file.py:NAME``."""

import sys
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, TypeVar

from zelo_ray.errors import in_a_line
from zelo_ray.libraries import add_folders, own_folders

T = TypeVar("T")


def is_own(name: str) -> bool:
    """Return whether a name points at something of the user's own."""
    where, _, what = name.rpartition(":")
    return bool(where and what) and (where.endswith(".py") or "." in where or where.isidentifier())


def found_again(name: str) -> str:
    """Return the name with its file's whole path, so that it works from any directory."""
    where, _, what = name.rpartition(":")
    return f"{Path(where).expanduser().resolve()}:{what}" if where.endswith(".py") else name


def find_own(name: str, kind: type[T], error: type[Exception], unknown: str = "") -> T:
    """Return the object of some kind that a name points at.

    Args:
        name: where it is.
        kind: what it must be.
        error: what is raised if it is not.
        unknown: what is said where there is no such module, if the name may be a slip.

    Raises:
        error: it cannot be imported, or is of another kind; the message is one line.
    """
    where, _, what = name.rpartition(":")
    top = where.partition(".")[0]
    try:
        target = load_own(name)
    except (Exception, SystemExit) as wrong:  # noqa: BLE001 - it runs the user's own code
        if unknown and isinstance(wrong, ModuleNotFoundError) and wrong.name == top:
            raise error(unknown) from None
        if isinstance(wrong, AttributeError) and wrong.name == what:
            held = getattr(wrong.obj, "__dict__", {}).items()
            names = [key for key, value in held if isinstance(value, kind)]
            has = f"; it has {', '.join(names)}" if names else ""
            raise error(f"{where} has no {what}{has}") from None
        raise error(f"{name} cannot be imported: {in_a_line(wrong)}") from None
    if not isinstance(target, kind):
        raise error(f"{name} is no {kind.__name__}, but {type(target).__name__}")
    return target


def load_own(name: str) -> Any:
    """Return the object that a name points at: always the same one, until its file changes.

    Modules are found on Python's path and in the working directory.

    Raises:
        Exception: whatever the import of it raises, which runs the user's own code.
    """
    where, _, what = name.rpartition(":")
    add_folders([str(Path.cwd())])
    target: Any = import_module(where) if not where.endswith(".py") else None
    if target is None:
        path = Path(where).expanduser()
        target = _run(path, path.stat().st_mtime_ns)
    for part in what.split("."):
        target = getattr(target, part)
    return target


class OwnFolders:
    """The folders of the user's own modules, which another process looks in as well.

    To unpickle this is to add them, so that what is unpickled after it finds its modules.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return add_folders, ([str(Path.cwd()), *own_folders()],)


@cache
def _run(path: Path, changed_at: int) -> Any:  # noqa: ARG001 - a changed file is another one
    """Run a file as a module of its own."""
    spec = spec_from_file_location(f"own_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses and pickle look for it
    spec.loader.exec_module(module)
    return module
