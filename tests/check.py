"""All checks, one after another: lint, format, types, layers, and every test.

    python -m tests.check [WORDS FOR PYTEST]

The words, such as ``tests/test_cli.py``, take the place of ``-m ""``, which asks for all tests.
"""

import subprocess
import sys

CHECKS = (
    ("ruff", "check"),
    ("ruff", "format", "--check"),
    ("mypy",),
    ("lint-imports",),
)


def main() -> int:
    """Stop at the first check that fails; its exit status."""
    tests = (sys.executable, "-m", "pytest", *(sys.argv[1:] or ("-m", "")))
    for command in (*CHECKS, tests):
        print("+", *command, flush=True)
        if status := subprocess.run(command, check=False).returncode:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
