"""Search the user's folders last, so that no file beside data is imported instead of a library.

Python searches the folder of the program and the working directory first, and beside data there
may be anything, such as a ``numpy.py``. This module imports only what Python has loaded already.
"""

import os
import sys

TYPE_CHECKING = False  # `typing` itself could be the user's file
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_PATHS = next(finder for finder in sys.meta_path if getattr(finder, "__name__", "") == "PathFinder")
_folders = list[str]()
_resolved = dict[str, str]()  # a place of the path, without links


class _LibrariesFirst:
    """Finds top-level modules outside the user's folders, before Python looks there, too.

    To put these last on the path is not enough: a file there would come before any package without
    an ``__init__.py``, such as ``google``.
    """

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """Find a module; leave those inside a package to other finders."""
        if path is not None:
            return None
        for place in sys.path:
            if place not in _resolved:  # which takes a third of all imports, done each time
                _resolved[place] = os.path.realpath(place)
        libraries = [place for place in sys.path if _resolved[place] not in _folders]
        return _PATHS.find_spec(name, libraries, target)


def add_user_folders(folders: "Iterable[str]") -> None:
    """Search these folders for the user's own modules, too, after all libraries."""
    for place in map(os.path.realpath, folders):
        if place not in _folders:
            _folders.append(place)
            sys.path.append(place)


def user_folders() -> list[str]:
    """Return the folders that are searched for the user's own modules."""
    return list(_folders)


_script = os.path.dirname(os.path.realpath((sys.argv or [""])[0]))  # noqa: PTH120
_own = {os.path.realpath(""), _script}
_found = [place for place in sys.path if os.path.realpath(place) in _own]
# The script that starts a notebook is installed itself.
_found = [place for place in _found if not place.endswith(("site-packages", "dist-packages"))]
sys.path[:] = [place for place in sys.path if place not in _found]
add_user_folders(_found)
sys.meta_path.insert(sys.meta_path.index(_PATHS), _LibrariesFirst())
