"""Compare protocols on a cluster: ``ray job submit ... -- python jobs/compare_protocols.py``."""

import sys

from zelo_ray.cli import main

sys.exit(main(["compare-protocols", *sys.argv[1:]]))
