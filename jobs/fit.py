"""Fit many comparisons on a cluster: ``ray job submit ... -- python jobs/fit.py FILE ...``."""

import sys

if (here := __file__.rpartition("/")[0]) in sys.path:
    sys.path.remove(here)  # no file beside this one stands in for a library

from zelo_ray.cli import main

sys.exit(main(["fit", *sys.argv[1:]]))
