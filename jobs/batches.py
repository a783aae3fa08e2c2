"""List or cancel batches with a cluster's keys: ``ray job submit -- python jobs/batches.py``."""

import sys

if not sys.flags.safe_path:
    sys.path.pop(0)  # this folder: no file beside this one stands in for a library

from zelo_ray.cli import main

sys.exit(main(["batches", *sys.argv[1:]]))
