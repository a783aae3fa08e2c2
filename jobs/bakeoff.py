"""A bake-off on a cluster: ``ray job submit ... -- python jobs/bakeoff.py --config FILE``."""

import sys

if not sys.flags.safe_path:
    sys.path.pop(0)  # this folder: no file beside this one stands in for a library

from zelo_ray.cli import main

sys.exit(main(["bakeoff", *sys.argv[1:]]))
