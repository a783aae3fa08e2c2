"""Unpack what others published, from tests/golden/*.tar.xz, for all benchmarks that read it.

    python -m benchmarks.data FOLDER    # unpack it there, to look at it

tests/golden/SOURCES.md says what each collection is. Without FOLDER a benchmark has it for itself.
"""

import atexit
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path

_ARCHIVES = Path(__file__).parents[1] / "tests" / "golden"


def unpack(folder: Path) -> None:
    """Unpack all collections into a folder."""
    for archive in sorted(_ARCHIVES.glob("*.tar.xz")):
        with tarfile.open(archive) as files:
            safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            files.extractall(folder, **safely)  # the filter came with Python 3.11.4


@cache
def published() -> Path:
    """Return a folder of all collections, which ends with this process."""
    folder = tempfile.TemporaryDirectory(prefix="zelo-ray-published-")
    atexit.register(folder.cleanup)
    unpack(Path(folder.name))
    return Path(folder.name)


if __name__ == "__main__":
    unpack(Path(sys.argv[1]))
