"""Print all figures of docs/evidence.md, one benchmark after another.

    python -m benchmarks evidence [NAME ...]    # all, or some of them; all take some two hours

Each runs in a process of its own, against recorded judgments, simulations or servers on loopback.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

EVIDENCE: dict[str, tuple[str, ...]] = {
    "worth": (),
    "consensus": (),
    "tune": (),
    "people": ("--trials", "8"),
    "coverage": ("--scores",),
    "shares": (),
    "sizing": (),
    "probes": (),
    "gate": (),
    "cheap_votes": (),
    "caches": (),
    "kills": ("--only", "books"),
    "caps": (),
    "online": (),
    "stopwatch": (),
    "start": ("HEAD~1",),
}
"""Arguments by benchmark, in the order of the page."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", choices=["evidence"])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(EVIDENCE)}")
    given = parser.parse_args()
    if unknown := set(given.names) - set(EVIDENCE):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    failed = []
    for name in given.names or EVIDENCE:
        words = [f"benchmarks.{name}", *EVIDENCE[name]]
        print(f"\n## python -m {' '.join(words)}\n", flush=True)
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=Path(__file__).parents[1], check=False
        )
        print(f"\n({time.monotonic() - began:.0f} s)", flush=True)
        if done.returncode:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
