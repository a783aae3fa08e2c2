"""The acceptance table of the lean plan: what must hold, what was measured, met or missed.

    python -m benchmarks.lean [--rows mid25 mid100 ... | all] [--seed N] [--queries N] [--quick]

Differences are paired on the same queries, with their standard errors. The exit status is 1 where
a row is missed.
"""

import argparse
import sys
from time import perf_counter

from benchmarks.lean import errors, graded_judges, growth, recorded, simulated
from benchmarks.lean.lines import Size

ROWS = {
    **simulated.ROWS,
    **recorded.ROWS,
    **graded_judges.ROWS,
    **errors.ROWS,
    **growth.ROWS,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", nargs="+", default=["all"], choices=[*ROWS, "all"], metavar="ROW")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--queries", type=int, help="of each simulated row")
    parser.add_argument("--quick", action="store_true", help="a tenth of the queries")
    flags = parser.parse_args()
    size = Size(flags.seed, 0.1 if flags.quick else 1.0, flags.queries)
    missed = 0
    for name in ROWS if "all" in flags.rows else flags.rows:
        start = perf_counter()
        for line in ROWS[name](name, size):
            print(line, flush=True)
            missed += line.met is False
        print(f"{name:22} {perf_counter() - start:.0f} s\n", flush=True)
    print(f"{missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
