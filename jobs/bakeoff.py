"""A bake-off on a cluster: ``ray job submit ... -- python jobs/bakeoff.py --config FILE``."""

import sys

from zelo_ray.cli import main

sys.exit(main(["bakeoff", *sys.argv[1:]]))
