"""All checks, one after another: lint, format, types, layers, and every test.

    python -m tests.check [WORDS FOR PYTEST]

The words, such as ``tests/test_cli.py``, take the place of ``-m ""``, which asks for all tests.
"""

import os
import subprocess
import sys
from pathlib import Path

TOOLS = Path(sys.executable).parent  # also where no shell would find them
CHECKS = (
    (TOOLS / "ruff", "check"),
    (TOOLS / "ruff", "format", "--check"),
    (TOOLS / "mypy",),
    (TOOLS / "lint-imports",),
    (sys.executable, "-m", "pytest", *(sys.argv[1:] or ("-m", ""))),
)


def main() -> int:
    """Stop at the first check that fails; its exit status."""
    os.environ.setdefault("ZELO_TEST_KILLS", "2")  # of a run, by tests/test_crash.py
    for command in CHECKS:
        print("+", *command, flush=True)
        if status := subprocess.run(command, check=False).returncode:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
