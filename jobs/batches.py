"""List or cancel batches with a cluster's keys: ``ray job submit -- python jobs/batches.py``."""

import sys

if (here := __file__.rpartition("/")[0]) in sys.path:
    sys.path.remove(here)  # no file beside this one stands in for a library

from zelo_ray.cli import main

sys.exit(main(["batches", *sys.argv[1:]]))
