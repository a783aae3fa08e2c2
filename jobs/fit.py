"""Fit many comparisons on a cluster: ``ray job submit ... -- python jobs/fit.py FILE ...``."""

import sys

from zelo_ray.cli import main

sys.exit(main(["fit", *sys.argv[1:]]))
