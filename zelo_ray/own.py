"""What users bring themselves: ``my_module:NAME``, or ``path/to/file.py:NAME``."""

import sys
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any


def is_own(name: str) -> bool:
    """Whether a name points at something of the user's, and is none of ours."""
    where, _, what = name.rpartition(":")
    return bool(where and what) and (where.endswith(".py") or "." in where or where.isidentifier())


def found_again(name: str) -> str:
    """The same name, for who looks for it from another directory: the file's whole path."""
    where, _, what = name.rpartition(":")
    return f"{Path(where).expanduser().resolve()}:{what}" if where.endswith(".py") else name


@cache
def load_own(name: str) -> Any:
    """The object that a name points at; the same one at every call.

    Modules are found on Python's path and in the working directory.

    Raises:
        Exception: whatever the import of it raises, which runs the user's own code.
    """
    where, _, what = name.rpartition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # last: a file named queue.py must not stand in for the library's
    found = _run(Path(where).expanduser()) if where.endswith(".py") else import_module(where)
    for part in what.split("."):
        found = getattr(found, part)
    return found


def _run(path: Path) -> Any:
    """A file as a module of its own."""
    spec = spec_from_file_location(f"own_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    found = module_from_spec(spec)
    sys.modules[spec.name] = found  # where dataclasses and pickle look for it
    spec.loader.exec_module(found)
    return found
