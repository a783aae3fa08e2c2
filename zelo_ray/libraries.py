"""Import libraries from where they are installed, never from a user's file of the same name.

Python searches the folder of the program and the working directory first, and beside data there
may be anything, such as a ``numpy.py``. So these folders are searched last, and not at all for
imports by a library or by this package. This module imports only what Python has loaded already.
"""

import os
import sys

TYPE_CHECKING = False  # `typing` itself could be the user's file
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType

_PACKAGE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - nor is pathlib there yet
_STANDARD = os.path.dirname(os.path.realpath(os.__file__))  # noqa: PTH120
_INSTALLED = ("site-packages", "dist-packages")
_LOADERS = {
    "zelo_ray.plugins",
    "zelo_ray.rerankers.custom",
    "ray._private.function_manager",
    "ray._private.serialization",
    "ray.cloudpickle.cloudpickle",
}
"""Modules that import or unpickle what users name, though they are libraries."""
_PATHS = next(finder for finder in sys.meta_path if getattr(finder, "__name__", "") == "PathFinder")


class _LibrariesFirst:
    """Finds top-level modules where Python does, but in the user's folders last.

    To put those last on the path is not enough: a file there would come before any package without
    an ``__init__.py``, and stand in for a library that is not installed.
    """

    def __init__(self) -> None:
        self.folders = list[str]()

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """Find a module; leave those inside a package to other finders."""
        if path is not None:
            return None
        libraries = [place for place in sys.path if _real(place) not in self.folders]
        own_on_path = [place for place in sys.path if _real(place) in self.folders]
        spec = _PATHS.find_spec(name, libraries, target)
        if spec is None and (own_spec := _PATHS.find_spec(name, self.folders, target)):
            importer = sys._getframe(1)
            while importer.f_back and _name(importer).startswith("importlib"):
                importer = importer.f_back
            if not _is_library(importer):
                return own_spec
            # Otherwise the importer is the user's own code, which may import the user's modules.
            if _is_ours(importer) and _PATHS.find_spec(name, own_on_path, target):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return spec


_first = _LibrariesFirst()


def add_user_folders(folders: "Iterable[str]") -> None:
    """Search these folders for the user's own modules, too, after all libraries."""
    _first.folders += [place for place in map(_real, folders) if place not in _first.folders]


def user_folders() -> list[str]:
    """Return the folders that are searched for the user's own modules."""
    return list(_first.folders)


def _real(place: str) -> str:
    try:
        return os.path.realpath(place)
    except OSError:  # the working directory is gone
        return place


def _name(frame: "FrameType") -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_library(frame: "FrameType") -> bool:
    file = frame.f_code.co_filename
    inside = file.startswith((_PACKAGE, _STANDARD, "<frozen")) or any(
        f"{os.sep}{folder}{os.sep}" in file for folder in _INSTALLED
    )
    return inside and _name(frame) not in _LOADERS


def _is_ours(frame: "FrameType | None") -> bool:
    """Return whether an import was made by this package."""
    while frame and _name(frame).partition(".")[0] != "zelo_ray":
        frame = frame.f_back
    return frame is not None


_on_path = {_real(place) for place in sys.path}
_script = os.path.dirname(_real((sys.argv or [""])[0]))  # noqa: PTH120
# The script that starts a notebook is installed itself.
_lies_with_libraries = _script.endswith(_INSTALLED)
_own = ("", "" if _lies_with_libraries else _script)
add_user_folders(place for place in _own if _real(place) in _on_path)
sys.path.sort(key=lambda place: _real(place) in _first.folders)
sys.meta_path.insert(sys.meta_path.index(_PATHS), _first)
