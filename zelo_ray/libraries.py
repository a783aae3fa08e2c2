"""Search the user's folders last, so that no file beside data is imported instead of a library.

Python searches the folder of the program and the working directory first, and beside data there
may be anything, such as a ``numpy.py``. This module imports only what Python has loaded already.
"""

import os
import sys

TYPE_CHECKING = False  # `typing` itself could be the user's file
if TYPE_CHECKING:
    from collections.abc import Iterable

_folders = list[str]()


def add_user_folders(folders: "Iterable[str]") -> None:
    """Search these folders for the user's own modules, too, after all libraries."""
    for place in map(os.path.realpath, folders):
        if place not in _folders:
            _folders.append(place)
            sys.path.append(place)


def user_folders() -> list[str]:
    """Return the folders that are searched for the user's own modules."""
    return list(_folders)


_own = {os.path.realpath(""), os.path.dirname(os.path.realpath((sys.argv or [""])[0]))}  # noqa: PTH120 - pathlib could be the user's file
_found = [place for place in sys.path if os.path.realpath(place) in _own]
# The script that starts a notebook is installed itself.
_found = [place for place in _found if not place.endswith(("site-packages", "dist-packages"))]
sys.path[:] = [place for place in sys.path if place not in _found]
add_user_folders(_found)
