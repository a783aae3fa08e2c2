"""List or cancel batches with a cluster's keys: ``ray job submit -- python jobs/batches.py``."""

import sys

from zelo_ray.cli import main

sys.exit(main(["batches", *sys.argv[1:]]))
