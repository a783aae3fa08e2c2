"""Measure labels where they lie: ``ray job submit ... -- python jobs/agree.py URL ...``."""

import sys

if (here := __file__.rpartition("/")[0]) in sys.path:
    sys.path.remove(here)  # no file beside this one stands in for a library

from zelo_ray.cli import main

sys.exit(main(["agree", *sys.argv[1:]]))
